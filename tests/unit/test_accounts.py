# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe's accounts as names, entries and LDIF."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode

import pytest
from ldaptune import accounts
from ldaptune.problems import LdaptuneError
from ldaptune.ssha import ssha, verifies

PARENT = "ou=ldaptune-probe,dc=example,dc=com"


def test_ssha_is_sha1_of_password_and_salt_followed_by_the_salt():
    raw = b64decode(ssha(b"secret", b"saltsalt")[len("{SSHA}") :])
    assert raw == hashlib.sha1(b"secretsaltsalt").digest() + b"saltsalt"


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (ssha(b"secret", b"1234"), True),
        (ssha(b"secret", b"12345678").replace("{SSHA}", "{ssha}"), True),
        (ssha(b"other", b"1234"), False),
        ("{CRYPT}x", None),
        ("{SSHA}not base64", None),
        ("secret", None),
    ],
)
def test_a_stored_value_is_verified_or_not_known(value, answer):
    assert verifies(b"secret", value) is answer


def test_a_pattern_gives_container_and_accounts():
    wanted = accounts.layout("uid=probe.[08-11],%s" % PARENT)
    assert wanted.container == PARENT
    assert wanted.accounts == ["uid=probe.%02d,%s" % (number, PARENT) for number in range(8, 12)]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("uid=user.[0-9],ou=people,dc=example,dc=com", "outside a subtree of their own"),
        ("uid=user.[0-9],cn=ldaptune-probe,dc=example,dc=com", "outside a subtree of their own"),
        ("uid=a,ou=ldaptune-probe[0-1],dc=example,dc=com", "several subtrees"),
        ("mail=a[0-1],%s" % PARENT, "another attribute"),
        ("uid=a[0-1]+cn=b,%s" % PARENT, "not a DN below another"),
        ("uid=a", "not a DN below another"),
        ("uid=a[1-0],%s" % PARENT, "ends before it begins"),
    ],
)
def test_other_patterns_are_refused(pattern, said):
    with pytest.raises(LdaptuneError, match=said):
        accounts.layout(pattern)


def test_the_rdn_s_value_is_unescaped():
    assert accounts.split_dn("uid=a\\2cb\\+c , %s" % PARENT) == ("uid", "a,b+c", PARENT)


def test_ldif_is_masked_and_encodes_what_is_not_plain():
    entry = accounts.account_entry("cn=J\u00f6 ,%s" % PARENT, ssha(b"secret", b"1234"))
    text = accounts.ldif_add("cn=J\u00f6,%s" % PARENT, entry)
    assert text.startswith("dn:: ")
    assert "userPassword: {SSHA}********" in text
    assert not re.search(r"\{SSHA\}[A-Za-z0-9]", text)
    assert "cn:: " in text
    assert "objectClass: inetOrgPerson" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"uri": "ldap://192.0.2.1", "bind_dn": "cn=admin"}, "in clear"),
        ({"uri": "ldap://127.0.0.1", "bind_dn": ""}, "no name to bind by"),
    ],
)
def test_the_administrator_s_password_is_protected(options, said):
    rest = {"bind_password_file": "", "ca_file": "", "starttls": False, "allow_cleartext": False, "timeout": 1}
    with pytest.raises(LdaptuneError, match=said):
        accounts.connect({**rest, **options})
