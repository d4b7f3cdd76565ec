# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""{SSHA} password values, made where the password is, so that it never travels in clear to be hashed."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

SCHEME = "{SSHA}"
SALT_BYTES = 8
_DIGEST_BYTES = 20


def ssha(password: bytes, salt: bytes) -> str:
    """Return the value of `password` under `salt`: base64 of SHA-1(password + salt) followed by the salt."""
    digest = hashlib.sha1(password + salt).digest()  # noqa: S324 - the scheme that every slapd can verify
    return SCHEME + base64.b64encode(digest + salt).decode("ascii")


def verifies(password: bytes, value: str) -> bool | None:
    """Tell whether an {SSHA} value is one of `password`; None for another scheme or a broken value."""
    if not value.upper().startswith(SCHEME):
        return None
    try:
        raw = base64.b64decode(value[len(SCHEME) :], validate=True)
    except (binascii.Error, ValueError):
        return None
    wanted = ssha(password, raw[_DIGEST_BYTES:])[len(SCHEME) :]
    return hmac.compare_digest(base64.b64decode(wanted), raw)
