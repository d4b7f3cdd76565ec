# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The password file: one password for all accounts, or rows of DN, tab, password.

Every row is checked before anything is sent: an empty password with a DN is an anonymous bind that many servers
answer with success, so it would be counted as a login. No message here holds a password.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple

from ..problems import LdaptuneError, Problem, problem
from .names import normal_dn

SHOWN = 10


class Credentials(NamedTuple):
    """Either one password for all (`common`) or a password a DN (`rows`, in file order)."""

    common: bytes | None
    rows: Dict[str, bytes]


def parse(data: bytes, where: str) -> Credentials:
    """Read the content of a password file; raises LdaptuneError with each bad row named."""
    lines = data.split(b"\n")
    if lines and not lines[-1].rstrip(b"\r"):
        lines.pop()
    lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
    if not lines:
        raise LdaptuneError(_empty(where, 1))
    dn, tab, _ = lines[0].partition(b"\t")
    if tab and b"=" in dn:
        return Credentials(None, _rows(lines, where))
    if len(lines) > 1:
        raise LdaptuneError(
            problem(
                "several lines, but no DN in the first",
                where,
                "%d lines" % len(lines),
                "one line with the password of all accounts, or rows of DN, tab, password",
            )
        )
    if not lines[0]:
        raise LdaptuneError(_empty(where, 1))
    return Credentials(lines[0], {})


def read(path: str) -> Credentials:
    """Read a password file."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise LdaptuneError(problem("cannot read the password file", path, error.strerror or str(error))) from None
    return parse(data, path)


def passwords(credentials: Credentials, dns: List[str], where: str) -> List[bytes]:
    """Return the password of each DN in order; raises LdaptuneError naming DNs that have no row."""
    if credentials.common is not None:
        return [credentials.common] * len(dns)
    by_name = {normal_dn(dn): password for dn, password in credentials.rows.items()}
    found = [by_name.get(normal_dn(dn)) for dn in dns]
    missing = [dn for dn, password in zip(dns, found) if password is None]
    if missing:
        raise LdaptuneError(
            problem(
                "%d accounts have no row in the password file" % len(missing),
                where,
                "no row for " + ", ".join(missing[:SHOWN]),
                "one row an account",
            )
        )
    return [password for password in found if password is not None]


def _rows(lines: List[bytes], where: str) -> Dict[str, bytes]:
    rows: Dict[str, bytes] = {}
    problems: List[Problem] = []
    for number, line in enumerate(lines, 1):
        dn, tab, password = line.partition(b"\t")
        if not tab or b"=" not in dn:
            problems.append(problem("row %d is not DN, tab, password" % number, where))
        elif not password:
            problems.append(_empty(where, number))
        else:
            try:
                rows[dn.decode("utf-8")] = password
            except UnicodeDecodeError:
                problems.append(problem("the DN in row %d is not UTF-8" % number, where))
    if problems:
        raise LdaptuneError(problems[:SHOWN])
    return rows


def _empty(where: str, number: int) -> Problem:
    return problem(
        "an empty password in row %d" % number,
        where,
        wanted="a password in every row",
        do="a DN with an empty password is an anonymous bind, not a login; nothing was sent",
    )
