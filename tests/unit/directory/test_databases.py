# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The database that a suffix means, never the first one that comes."""

from __future__ import annotations

import pytest
from ldaptune.directory.databases import choose, parse
from ldaptune.problems import LdaptuneError


def entry(number, backend, *suffixes, **extra):
    dn = "olcDatabase={%d}%s,cn=config" % (number, backend)
    return dn, {"olcDatabase": ["{%d}%s" % (number, backend)], "olcSuffix": list(suffixes), **extra}


SERVER = [
    entry(-1, "frontend"),
    entry(0, "config"),
    entry(1, "mdb", "cn=Audit Log"),
    entry(2, "mdb", "DC=Beta, DC=Test", olcDbDirectory=["/var/lib/ldap"]),
    ("olcOverlay={0}accesslog,olcDatabase={2}mdb,cn=config", {"olcAccessLogDB": ["cn=audit log"]}),
    entry(3, "mdb", "ou=x,dc=beta,dc=test"),
    entry(4, "monitor"),
    entry(5, "null", "dc=null"),
]


def test_chosen_by_normalised_suffix():
    found = choose(parse(SERVER), "dc=beta,dc=test")
    assert (found["number"], found["directory"], found["suffixes"]) == (2, "/var/lib/ldap", ["dc=beta,dc=test"])
    assert choose(parse(SERVER), "OU=X , dc=beta,dc=test")["number"] == 3


def test_without_a_suffix_two_candidates_stop():
    with pytest.raises(LdaptuneError, match="several databases match"):
        choose(parse(SERVER), "")


def test_the_access_log_is_not_a_candidate():
    without_second = [item for item in SERVER if "{3}" not in item[0]]
    assert choose(parse(without_second), "")["number"] == 2


@pytest.mark.parametrize("suffix", ["dc=test", "cn=config", "cn=monitor", "dc=null", "dc=nix"])
def test_no_match_names_what_is_there(suffix):
    with pytest.raises(LdaptuneError, match="no database has this suffix") as caught:
        choose(parse(SERVER), suffix)
    assert "{2}mdb dc=beta,dc=test" in str(caught.value)


def test_two_databases_of_one_suffix_stop():
    twice = [*SERVER, entry(6, "mdb", "dc=beta,dc=test")]
    with pytest.raises(LdaptuneError, match="several databases match"):
        choose(parse(twice), "dc=beta,dc=test")


def test_nothing_to_see_is_said():
    with pytest.raises(LdaptuneError, match="no olcDatabase entry that this identity may see"):
        choose(parse([]), "")
