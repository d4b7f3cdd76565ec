# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Schemes of stored passwords: named with their cost, and never the hash."""

from __future__ import annotations

import json

import pytest
from ldaptune.directory import passwords

SECRET = "c2VjcmV0c2VjcmV0"


@pytest.mark.parametrize(
    ("value", "wanted", "slow"),
    [
        ("{SSHA}" + SECRET, "SSHA", False),
        ("{ssha}" + SECRET, "SSHA", False),
        ("{SSHA512}" + SECRET, "SSHA512", False),
        ("{MD5}" + SECRET, "MD5", False),
        ("{SASL}me@EXAMPLE.COM", "SASL", False),
        ("{PBKDF2}10000$%s$%s" % (SECRET, SECRET), "PBKDF2 rounds=10000", True),
        ("{PBKDF2-SHA512}60000$%s$%s" % (SECRET, SECRET), "PBKDF2-SHA512 rounds=60000", True),
        ("{PBKDF2-SHA256}" + SECRET, "PBKDF2-SHA256", True),
        (
            "{ARGON2}$argon2id$v=19$m=7168,t=5,p=1$%s$%s" % (SECRET, SECRET),
            "ARGON2 argon2id m=7168,t=5,p=1",
            True,
        ),
        ("{ARGON2}" + SECRET, "ARGON2", True),
        ("{CRYPT}$6$rounds=50000$%s$%s" % (SECRET, SECRET), "CRYPT sha512 rounds=50000", True),
        ("{CRYPT}$5$%s$%s" % (SECRET, SECRET), "CRYPT sha256 rounds=5000", True),
        ("{CRYPT}$2y$12$" + SECRET, "CRYPT bcrypt cost=12", True),
        ("{CRYPT}$y$j9T$%s$%s" % (SECRET, SECRET), "CRYPT yescrypt", True),
        ("{CRYPT}$1$%s$%s" % (SECRET, SECRET), "CRYPT md5", False),
        ("{CRYPT}ab0123456789.", "CRYPT des", False),
        ("{CRYPT}" + SECRET + SECRET, "CRYPT", False),
        ("{BCRYPT}$2b$08$" + SECRET, "BCRYPT cost=8", True),
        (SECRET, "CLEARTEXT", False),
        ("", "CLEARTEXT", False),
        # No scheme: whatever stands in the braces may be the password.
        ("{not a scheme}" + SECRET, "CLEARTEXT", False),
        ({"base64": SECRET}, "CLEARTEXT", False),
    ],
)
def test_a_value_is_named_by_scheme_and_cost(value, wanted, slow):
    name = passwords.scheme_of(value)
    assert name == wanted and passwords.is_slow(name) is slow
    assert SECRET not in name


def test_schemes_are_counted():
    entries = [["{SSHA}" + SECRET], [], ["{PBKDF2}10000$a$b", "{SSHA}" + SECRET], ["{PBKDF2}10000$c$d"]]
    found = passwords.count_schemes(entries)
    assert found == {
        "sampled": 4,
        "with_password": 3,
        "schemes": {"PBKDF2 rounds=10000": 2, "SSHA": 2},
        "slow_percent": 50.0,
    }
    assert SECRET not in json.dumps(found)
    assert passwords.count_schemes([[], []])["slow_percent"] is None


def test_passwords_among_attributes():
    assert passwords.of({"cn": ["x"], "UserPassword": ["a", "b"]}) == ["a", "b"]
    assert passwords.of({"cn": ["x"]}) == []
