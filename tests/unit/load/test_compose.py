# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is asked for to what is sent."""

from __future__ import annotations

import pytest
from ldaptune.load import wire
from ldaptune.load.prepare import Settings, prepare
from ldaptune.problems import LdaptuneError

BASE = {
    "uri": "ldap://127.0.0.1:1",
    "accounts": "uid=u.[0-3],ou=p,dc=x",
    "password": b"pw",
    "phases": [{"name": "goal", "mode": "closed", "seconds": 1, "rate": 0}],
}


def made(**more):
    return prepare(Settings(**{**BASE, **more})).workload


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"workload": "binds"}, "no such workload"),
        ({"auth": "gssapi"}, "no such auth"),
        ({"scope": "tree", "workload": "search"}, "no such scope"),
        ({"workload": "mixed"}, "a mix needs a share of each"),
        ({"workload": "mixed", "mix": {"bind": 1}}, "a mix needs a share of each"),
        ({"workload": "mixed", "mix": {"bind": 1, "search": 0}}, "a mix needs a share of each"),
        ({"workload": "mixed", "mix": {"bind": 1, "search": "half"}}, "a share that is no number"),
        ({"mix": {"bind": 1, "search": 1}}, "only the workload mixed has shares"),
        ({"fail": {"wrong": 5}}, "no such failure"),
        ({"fail": {"no_entry": 5}}, "no_entry is a failure of a search"),
        ({"fail": {"wrong_password": 5}, "workload": "search"}, "wrong_password is a failure of a bind"),
        ({"fail": {"wrong_password": 0}}, "a share out of range"),
        ({"fail": {"wrong_password": 60, "unknown_user": 40}}, "nothing would be left to succeed"),
        ({"auth": "external", "workload": "search"}, "external goes with bind and connect_bind alone"),
        ({"password": None}, "binds need a password"),
        ({"accounts": "", "workload": "search", "entries": 3, "filter": "(cn=[0-3])"}, "nobody to bind as"),
        ({"workload": "search", "filter": "uid={user}"}, "a filter that is not by RFC 4515"),
        ({"workload": "search", "accounts": "nobody"}, "cannot make the search of an account"),
    ],
)
def test_what_is_refused_before_anything_is_sent(more, words):
    with pytest.raises(LdaptuneError, match=words):
        made(**more)


def test_the_shares_of_a_mix_leave_room_for_the_failures():
    pools = made(workload="mixed", mix={"bind": 3, "search": 1}, fail={"no_entry": 20}).pools
    assert [(pool.weight, pool.items[0].kind, pool.regular) for pool in pools] == [
        (60, "bind", True),
        (20, "search", True),
        (20, "search", False),
    ]
    assert [item.entries for item in pools[2].items] == [0] * 4


def test_failures_are_sent_as_asked():
    bad, unknown = made(fail={"wrong_password": 1, "unknown_user": 1}).pools[1:]
    assert bad.items[1].tail == wire.simple_bind(b"uid=u.1,ou=p,dc=x", b"pw.absent")
    assert unknown.items[1].tail == wire.simple_bind(b"uid=u.1.absent,ou=p,dc=x", b"pw")
    assert {item.code for item in bad.items + unknown.items} == {49}
    assert not made(fail={"wrong_password": 1}).pools[1].regular


def test_plain_names_who_it_is():
    (item, *_) = made(auth="plain").pools[0].items
    assert item.tail == wire.sasl_bind(b"PLAIN", b"\0u.0\0pw")
    (item, *_) = made(auth="plain", auth_id="dn:{dn}").pools[0].items
    assert item.tail == wire.sasl_bind(b"PLAIN", b"\0dn:uid=u.0,ou=p,dc=x\0pw")
    # RFC 4511, 4.2: version 3, an empty name, [3] with mechanism and credentials.
    assert wire.sasl_bind(b"EXTERNAL", b"") == bytes.fromhex("6013020103" "0400" "a30c") + b"\x04\x08EXTERNAL\x04\0"


def test_external_needs_nothing_else():
    workload = made(auth="external", accounts="", password=None)
    assert len(workload.pools[0].items) == 1


def test_a_base_search_looks_at_the_account():
    (item, *_) = made(workload="search", scope="base", filter="(objectClass=*)").pools[0].items
    assert item.tail == wire.search(b"uid=u.0,ou=p,dc=x", b"\x87\x0bobjectClass", [b"1.1"], 0)


def test_a_filter_of_its_own_has_a_pattern():
    pools = made(workload="search", filter="(cn=[5:7])", entries=2, base="dc=x", bind_dn="cn=a").pools
    assert [item.name for item in pools[0].items] == ["(cn=5)", "(cn=6)", "(cn=7)"]
    assert pools[0].sequential
    assert {(item.entries, item.dn) for item in pools[0].items} == {(2, b"")}


def test_any_entries_of_an_account_s_search():
    (item, *_) = made(workload="search", filter="(manager={dn})", entries=5).pools[0].items
    assert (item.entries, item.dn, item.name) == (5, b"", "uid=u.0,ou=p,dc=x")
    (item, *_) = made(workload="search", entries=1).pools[0].items
    assert (item.entries, item.dn) == (1, b"")
