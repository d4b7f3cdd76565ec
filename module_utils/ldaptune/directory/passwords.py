# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How stored passwords are hashed: scheme and rounds, never the hash; pure functions over userPassword values.

A rate of binds says nothing without this: to verify {SSHA} takes a microsecond, {ARGON2} up to a tenth of a second.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping

# Schemes whose purpose is to cost time; so a bind is mostly their work.
SLOW = ("PBKDF2", "ARGON2", "BCRYPT", "CRYPT sha256", "CRYPT sha512", "CRYPT bcrypt", "CRYPT yescrypt", "CRYPT scrypt")

_SCHEME = re.compile(r"^\{([A-Za-z0-9._/+-]{1,32})\}")
_CRYPT = {"1": "md5", "5": "sha256", "6": "sha512", "y": "yescrypt", "gy": "yescrypt", "7": "scrypt"}
# What crypt(3) takes where nothing is written.
_CRYPT_ROUNDS = {"sha256": "5000", "sha512": "5000"}


def of(attributes: Mapping[str, List[Any]]) -> List[Any]:
    """Return the passwords among an entry's attributes."""
    return next((values for name, values in attributes.items() if name.lower() == "userpassword"), [])


def scheme_of(value: Any) -> str:
    """Return scheme and cost of one stored value, such as "PBKDF2-SHA256 rounds=10000" or "CLEARTEXT"."""
    text = value if isinstance(value, str) else ""
    match = _SCHEME.match(text)
    if not match:
        # Bytes that are no text are a value in clear as well: every scheme begins with a brace.
        return "CLEARTEXT"
    name, rest = match.group(1).upper(), text[match.end() :]
    if name == "CRYPT":
        return _crypt(rest)
    if name.startswith("PBKDF2"):
        return _with(name, re.match(r"^(\d{1,9})\$", rest))
    if name.startswith("ARGON2"):
        found = re.search(r"\$(argon2\w{1,2})\$(?:v=\d+\$)?(m=\d+,t=\d+,p=\d+)\$", rest)
        return "%s %s %s" % (name, found.group(1), found.group(2)) if found else name
    if name == "BCRYPT":
        return _with(name, re.match(r"^\$2[abxy]?\$(\d\d)\$", rest), "cost")
    return name


def _with(name: str, found: re.Match[str] | None, word: str = "rounds") -> str:
    return "%s %s=%s" % (name, word, int(found.group(1))) if found else name


def _crypt(rest: str) -> str:
    match = re.match(r"^\$(2[abxy]?|1|5|6|y|gy|7)\$", rest)
    if not match:
        return "CRYPT des" if re.match(r"^[./0-9A-Za-z]{13}$", rest) else "CRYPT"
    mark, left = match.group(1), rest[match.end() :]
    if mark.startswith("2"):
        return _with("CRYPT bcrypt", re.match(r"^(\d\d)\$", left), "cost")
    name = _CRYPT[mark]
    rounds = re.match(r"^rounds=(\d{1,9})\$", left)
    if rounds or name not in _CRYPT_ROUNDS:
        return _with("CRYPT %s" % name, rounds)
    return "CRYPT %s rounds=%s" % (name, _CRYPT_ROUNDS[name])


def is_slow(scheme: str) -> bool:
    """Return whether a scheme, as `scheme_of` names it, is meant to cost time."""
    return scheme.startswith(SLOW)


def count_schemes(entries: Iterable[List[Any]]) -> Dict[str, Any]:
    """Return {"sampled", "with_password", "schemes": {scheme: values}, "slow_percent"} of entries' userPassword values.

    "slow_percent" is null where no password was seen.
    """
    sampled = seen = 0
    schemes: Dict[str, int] = {}
    for values in entries:
        sampled += 1
        seen += bool(values)
        for value in values:
            name = scheme_of(value)
            schemes[name] = schemes.get(name, 0) + 1
    total = sum(schemes.values())
    slow = sum(count for name, count in schemes.items() if is_slow(name))
    return {
        "sampled": sampled,
        "with_password": seen,
        "schemes": dict(sorted(schemes.items())),
        "slow_percent": round(100.0 * slow / total, 1) if total else None,
    }
