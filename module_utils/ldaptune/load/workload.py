# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent: one encoded request an account, how to know the right answer to it, and in which shares."""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Sequence

from ..problems import LdaptuneError, problem
from . import credentials, filters, names, patterns, wire

#: So many entries as there are.
ANY = -1


class Item(NamedTuple):
    """One account's request: `head + id + tail` goes out.

    kind: bind or search. dn: what a search must find, as an octet string. name: the account. code: the result code
    that is right. entries: how many entries a search must find: this account's (1), none (0), another number, ANY.
    then: what follows on another connection once this one ended well.
    """

    kind: str
    head: bytes
    tail: bytes
    dn: bytes
    name: str
    code: int = 0
    entries: int = 1
    then: Item | None = None


class Pool(NamedTuple):
    """Items of one sort; `weight` is their share among all pools, `regular` tells that they are to succeed."""

    weight: float
    items: List[Item]
    sequential: bool
    regular: bool = True


class Stepping(NamedTuple):
    """How a client goes about it where more is to do than one operation after the other on a kept connection.

    clients: connect (a connection an operation), pair (search on one connection, bind on another), pages, or single.
    window: operations outstanding on a connection. think: seconds between an answer and the next operation.
    """

    clients: str
    window: int = 1
    think: float = 0.0
    page_size: int = 0


class Workload(NamedTuple):
    """All pools; `login` holds the bind that each kept connection begins with, if any."""

    name: str
    pools: List[Pool]
    login: bytes | None
    stepping: Stepping | None = None

    @property
    def kinds(self) -> List[str]:
        """The kinds of operations in it, each once."""
        return list(dict.fromkeys(item.kind for pool in self.pools for item in pool.items[:1]))

    @property
    def regular(self) -> List[Item]:
        """What is to succeed, pool by pool: each goes out once when the server is primed."""
        return [item for pool in self.pools if pool.regular for item in pool.items]

    @property
    def accounts(self) -> int:
        """How many different accounts there are."""
        return max(len(pool.items) for pool in self.pools)


def accounts_of(pattern: str, secrets: credentials.Credentials | None) -> patterns.Accounts:
    """Return the accounts of the pattern, or those of the password file's rows when there is none."""
    if pattern:
        return patterns.expand(pattern)
    if secrets is not None and secrets.rows:
        return patterns.Accounts(list(secrets.rows), False)
    raise LdaptuneError(
        problem("no accounts", "accounts", wanted="a pattern such as uid=user.[0-9999],ou=people,dc=example,dc=com")
    )


class Auth(NamedTuple):
    """How accounts authenticate: simple, plain (SASL) or external; `identity` is the template of PLAIN's identity."""

    mechanism: str = "simple"
    identity: str = "{user}"

    def bind(self, dn: str, password: bytes) -> bytes:
        """Return an account's bind operation."""
        if self.mechanism == "external":
            return wire.sasl_bind(b"EXTERNAL", b"")
        if self.mechanism == "simple":
            return wire.simple_bind(dn.encode("utf-8"), password)
        values = {"user": names.first_rdn(dn)[1], "dn": dn.encode("utf-8")}
        pieces = re.split(r"\{(user|dn)\}", self.identity)
        identity = b"".join(values[piece] if number % 2 else piece.encode() for number, piece in enumerate(pieces))
        return wire.sasl_bind(b"PLAIN", b"\0" + identity + b"\0" + password)


SIMPLE = Auth()


def binds(dns: Sequence[str], passwords: Sequence[bytes], auth: Auth = SIMPLE, code: int = 0) -> List[Item]:
    """Return a bind an account, for which the server is to answer this code."""
    items = []
    heads: Dict[bytes, bytes] = {}  # few different ones: shared, they stay in the CPU's cache
    for dn, password in zip(dns, passwords):
        made = wire.request(auth.bind(dn, password))
        items.append(Item("bind", heads.setdefault(made.head, made.head), made.tail, b"", dn, code))
    return items


def searches(
    dns: Sequence[str], base: str = "", template: str = "", attributes: Sequence[str] = ("1.1",), scope: int = 2
) -> List[Item]:
    """Return a search an account that must give exactly this account's entry.

    Without a template the filter is equality on the first RDN; without a base it is the account's parent, or for a base
    search (scope 0) the account itself.
    """
    items = []
    for dn in dns:
        try:
            kind, value = names.first_rdn(dn)
        except ValueError as error:
            raise LdaptuneError(problem("cannot make the search of an account", "accounts", str(error))) from None
        text = filters.fill(template or "(%s={user})" % kind, value, dn.encode("utf-8"))
        where = base or (dn if scope == 0 else names.parent(dn))
        items.append(_search(where, text, attributes, scope, dn=dn))
    return items


def counted_searches(
    texts: Sequence[str], base: str, attributes: Sequence[str], scope: int, entries: int
) -> List[Item]:
    """Return a search a filter that must give so many entries, whichever they are."""
    return [_search(base, text, attributes, scope, entries=entries) for text in texts]


def _search(base: str, text: str, attributes: Sequence[str], scope: int, *, dn: str = "", entries: int = 1) -> Item:
    try:
        encoded = filters.encode(text)
    except ValueError as error:
        raise LdaptuneError(problem("a filter that is not by RFC 4515", "filter", str(error), text)) from None
    listed = [name.encode("utf-8") for name in attributes]
    made = wire.request(wire.search(base.encode("utf-8"), encoded, listed, scope))
    found = wire.octets(dn.encode("utf-8")) if dn else b""
    return Item("search", made.head, made.tail, found, dn or text, entries=entries)
