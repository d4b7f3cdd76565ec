# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent: one encoded request an account, and how to know the right answer to it."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence

from ..problems import LdaptuneError, problem
from . import credentials, filters, names, patterns, wire


class Item(NamedTuple):
    """One account's request: `head + id + tail` goes out; `dn` is what a search must find, encoded and as text."""

    head: bytes
    tail: bytes
    dn: bytes
    name: str


class Workload(NamedTuple):
    """All items in order; `login` holds the bind that each connection of a search workload begins with, if any."""

    kind: str
    items: List[Item]
    sequential: bool
    login: bytes | None


def accounts_of(pattern: str, secrets: credentials.Credentials | None) -> patterns.Accounts:
    """Return the accounts of the pattern, or those of the password file's rows when there is none."""
    if pattern:
        return patterns.expand(pattern)
    if secrets is not None and secrets.rows:
        return patterns.Accounts(list(secrets.rows), False)
    raise LdaptuneError(
        problem("no accounts", "accounts", wanted="a pattern such as uid=user.[0-9999],ou=people,dc=example,dc=com")
    )


def bind(accounts: patterns.Accounts, secrets: credentials.Credentials, where: str) -> Workload:
    """Return the bind workload: a simple bind an account."""
    found = credentials.passwords(secrets, accounts.dns, where)
    items = []
    heads: Dict[bytes, bytes] = {}  # few different ones: shared, they stay in the CPU's cache
    for dn, password in zip(accounts.dns, found):
        made = wire.request(wire.simple_bind(dn.encode("utf-8"), password))
        items.append(Item(heads.setdefault(made.head, made.head), made.tail, b"", dn))
    return Workload("bind", items, accounts.sequential, None)


def search(
    accounts: patterns.Accounts, base: str, template: str, attributes: Sequence[str], login: bytes | None
) -> Workload:
    """Return the search workload: one search an account that must give exactly this account's entry.

    Without a template the filter is equality on the first RDN; without a base it is the account's parent.
    """
    listed = [name.encode("utf-8") for name in attributes]
    items = []
    for dn in accounts.dns:
        try:
            kind, value = names.first_rdn(dn)
            text = filters.fill(template or "(%s={user})" % kind, value, dn.encode("utf-8"))
            encoded = filters.encode(text)
        except ValueError as error:
            raise LdaptuneError(problem("cannot make the search of an account", "filter", str(error))) from None
        made = wire.request(wire.search((base or names.parent(dn)).encode("utf-8"), encoded, listed))
        items.append(Item(made.head, made.tail, wire.octets(dn.encode("utf-8")), dn))
    return Workload("search", items, accounts.sequential, login)
