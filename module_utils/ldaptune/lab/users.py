# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's people: entries with {SSHA} passwords as LDIF text."""

from __future__ import annotations

import os
from typing import Iterator

from ..ssha import SALT_BYTES, ssha


def user_dn(number: int, suffix: str) -> str:
    """Return the DN of lab user `number` (from 0)."""
    return "uid=user.%d,ou=people,%s" % (number, suffix)


def accounts_pattern(users: int, suffix: str) -> str:
    """Return the probe's account pattern that names all `users`."""
    return "uid=user.[0-%d],ou=people,%s" % (max(users - 1, 0), suffix)


def directory_ldif(suffix: str, users: int, password: str) -> Iterator[str]:
    """Yield the LDIF of the lab's tree, entry by entry; every user has the same password under a salt of its own.

    The suffix must begin with `dc=`.
    """
    first = suffix.split(",", maxsplit=1)[0].split("=", 1)[1]
    yield "dn: %s\nobjectClass: dcObject\nobjectClass: organization\ndc: %s\no: %s\n\n" % (suffix, first, first)
    yield "dn: ou=people,%s\nobjectClass: organizationalUnit\nou: people\n\n" % suffix
    secret = password.encode("utf-8")
    salts = os.urandom(SALT_BYTES * users)
    for number in range(users):
        value = ssha(secret, salts[number * SALT_BYTES : (number + 1) * SALT_BYTES])
        yield (
            "dn: %s\nobjectClass: inetOrgPerson\nuid: user.%d\ncn: User %d\nsn: %d\n"
            "mail: user.%d@lab.test\nuserPassword: %s\n\n"
        ) % (user_dn(number, suffix), number, number, number, number, value)
