# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Account patterns, password files, DNs, filters: what is sent for whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldaptune.load import credentials, filters, names, patterns, wire, workload
from ldaptune.load.shots import Armoury, message_id
from ldaptune.load.workload import Item
from ldaptune.problems import LdaptuneError


def test_ranges():
    found = patterns.expand("uid=user.[0-3],ou=people")
    assert found == (["uid=user.%d,ou=people" % n for n in range(4)], False)
    found = patterns.expand("uid=u[08:11],ou=o")
    assert found == (["uid=u08,ou=o", "uid=u09,ou=o", "uid=u10,ou=o", "uid=u11,ou=o"], True)
    assert patterns.expand("cn=one,dc=x") == (["cn=one,dc=x"], False)
    assert len(patterns.expand("uid=u[0-9],ou=g[1-3]").dns) == 30


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("uid=u[0-9", "bracket"),
        ("uid=u[a-z],dc=x", "bracket"),
        ("uid=u[9-0],dc=x", "ends before"),
        ("uid=u[0-9],ou=o[0:9]", "random and ordered"),
        ("uid=u[0-9999999],dc=x", "too many"),
    ],
)
def test_patterns_that_are_none(pattern, said):
    with pytest.raises(LdaptuneError, match=said):
        patterns.expand(pattern)


def test_the_same_seed_draws_the_same_accounts():
    items = list(range(1000))
    first, second, other = (patterns.drawer(items, seed, False) for seed in ("7/goal/0", "7/goal/0", "8/goal/0"))
    drawn = [first() for _ in range(5000)]
    assert drawn == [second() for _ in range(5000)]
    assert drawn != [other() for _ in range(5000)]
    assert set(drawn) <= set(items)
    assert len(set(drawn)) > 950


def test_in_order_and_shared_among_processes():
    items = list("abcdefg")
    draw = patterns.drawer(items, "", True)
    assert "".join(draw() for _ in range(9)) == "abcdefgab"
    shared = [patterns.drawer(items, "", True, number, 2) for number in range(2)]
    assert "".join(draw() for _ in range(5) for draw in shared) == "abcdefgbad"


def test_one_password_for_all():
    for data in (b"geheim", b"geheim\n", b"geheim\r\n"):
        assert credentials.parse(data, "f") == (b"geheim", {})
    assert credentials.parse(b" with\ttab ", "f").common == b" with\ttab "


def test_rows():
    found = credentials.parse("uid=a,dc=x\tp1\nuid=jürgen,dc=x\tp\t2\r\n".encode(), "f")
    assert found.rows == {"uid=a,dc=x": b"p1", "uid=jürgen,dc=x": b"p\t2"}
    assert credentials.passwords(found, ["UID=A, dc=x"], "f") == [b"p1"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "row 1"),
        (b"\n", "row 1"),
        (b"\r\n", "row 1"),
        (b"uid=a,dc=x\tp\nuid=b,dc=x\t\n", "row 2"),
        (b"uid=a,dc=x\tsecret1\nuid=b,dc=x secret2\n", "row 2"),
        (b"uid=a,dc=x\tp\nuid=\xe9,dc=x\tsecret2\n", "row 2 is not UTF-8"),
        (b"secret1\nsecret2\n", "several lines"),
    ],
)
def test_password_files_that_are_refused_name_the_row_and_no_password(data, said):
    with pytest.raises(LdaptuneError, match=said) as caught:
        credentials.parse(data, "f")
    assert "secret" not in str(caught.value)


def test_accounts_without_a_row_are_named():
    with pytest.raises(LdaptuneError, match="2 accounts.*uid=b,dc=x, uid=c,dc=x"):
        credentials.passwords(credentials.parse(b"uid=a,dc=x\tp", "f"), ["uid=a,dc=x", "uid=b,dc=x", "uid=c,dc=x"], "f")
    with pytest.raises(LdaptuneError, match="cannot read"):
        credentials.read("/nonexistent/file")


def test_first_rdn():
    assert names.first_rdn(r"cn=a\,b,dc=x") == ("cn", b"a,b")
    assert names.first_rdn(r"cn=Lu\C4\8Di\C4\87 ,dc=x") == ("cn", "Lučić".encode())
    assert names.first_rdn("uid = u+cn=x,dc=x") == ("uid", b"u")
    assert names.parent(r"cn=a\,b, dc=x") == "dc=x"
    with pytest.raises(ValueError, match="attribute type"):
        names.first_rdn("nothing")


def test_dns_are_compared_not_spelled():
    assert names.normal_dn("UID = U1 , DC=X") == names.normal_dn("uid=u1,dc=x")
    assert names.normal_dn(r"cn=\c3\a4,dc=x") == names.normal_dn("cn=Ä,dc=x")
    assert names.normal_dn(r"cn=a\,b,dc=x") != names.normal_dn("cn=a,cn=b,dc=x")
    assert names.normal_dn("cn=a+uid=b,dc=x") == names.normal_dn("uid=b+cn=a,dc=x")


@pytest.mark.parametrize(
    ("user", "escaped"),
    [
        (b"a*b", r"a\2ab"),
        (b"(x)", r"\28x\29"),
        (b"a\\b", r"a\5cb"),
        (b"d'or", r"d\27or"),
        ("jürgen".encode(), r"j\c3\bcrgen"),
        (b"a\0b", r"a\00b"),
        (b"\xa0", r"\a0"),
    ],
)
def test_values_are_escaped_byte_by_byte(user, escaped):
    assert filters.escape(user) == escaped
    encoded = filters.encode(filters.fill("(uid={user})", user, b""))
    assert encoded == wire.tlv(filters.EQUALITY, wire.octets(b"uid") + wire.octets(user))


@given(st.binary(max_size=40))
def test_no_value_widens_a_search(value):
    encoded = filters.encode(filters.fill("(&(objectClass=person)(uid={user}))", value, b""))
    person = wire.tlv(filters.EQUALITY, wire.octets(b"objectClass") + wire.octets(b"person"))
    assert encoded == wire.tlv(
        filters.AND, person + wire.tlv(filters.EQUALITY, wire.octets(b"uid") + wire.octets(value))
    )


def test_filters():
    def of(kind, name, value):
        return wire.tlv(kind, wire.octets(name) + wire.octets(value))

    assert filters.encode("(cn=*)") == wire.tlv(filters.PRESENT, b"cn")
    assert filters.encode("(!(cn=a))") == wire.tlv(filters.NOT, of(filters.EQUALITY, b"cn", b"a"))
    assert filters.encode("(|(a>=1)(b<=2)(c~=3))") == wire.tlv(
        filters.OR, of(filters.GREATER, b"a", b"1") + of(filters.LESS, b"b", b"2") + of(filters.APPROX, b"c", b"3")
    )
    parts = wire.tlv(0x80, b"a") + wire.tlv(0x81, b"b*") + wire.tlv(0x82, b"c")
    assert filters.encode(r"(cn=a*b\2a*c)") == wire.tlv(filters.SUBSTRINGS, wire.octets(b"cn") + wire.tlv(0x30, parts))


@pytest.mark.parametrize(
    "text", ["", "cn=a", "(cn=a", "(cn=a))", "(cn)", r"(cn=\zz)", "(cn=a**b)", "(!(a=b)(c=d))", "(&(a=b)"]
)
def test_filters_that_are_none(text):
    with pytest.raises(filters.FilterError):
        filters.encode(text)


def test_a_filter_that_is_none_is_refused_before_anything_is_sent():
    with pytest.raises(LdaptuneError, match="a filter that is not by RFC 4515"):
        workload.searches(["uid=a,dc=x"], template="uid={user}")


def test_the_search_of_an_account():
    (made,) = workload.searches(["uid=a\\2a,ou=p,dc=x"], attributes=["cn"])
    equality = wire.tlv(filters.EQUALITY, wire.octets(b"uid") + wire.octets(b"a*"))
    assert made.tail == wire.search(b"ou=p,dc=x", equality, [b"cn"])
    assert made.dn == wire.octets(b"uid=a\\2a,ou=p,dc=x")


def test_accounts_may_come_from_the_rows():
    secrets = credentials.parse(b"uid=a,dc=x\tp\nuid=b,dc=x\tq", "f")
    accounts = workload.accounts_of("", secrets)
    assert accounts.dns == ["uid=a,dc=x", "uid=b,dc=x"]
    made = workload.binds(accounts.dns, credentials.passwords(secrets, accounts.dns, "f"))
    assert [item.tail for item in made] == [
        wire.simple_bind(b"uid=a,dc=x", b"p"),
        wire.simple_bind(b"uid=b,dc=x", b"q"),
    ]
    with pytest.raises(LdaptuneError, match="no accounts"):
        workload.accounts_of("", credentials.parse(b"p", "f"))


def test_few_accounts_get_many_message_ids():
    """So that an answer that comes twice is not taken for the next operation's."""
    armoury = Armoury()
    items = [Item("bind", b"0\x0c\x02\x03", b"tail", b"", name) for name in "ab"]
    made = armoury.shots(items, 256)
    assert len({message_id(request) for request, *_ in made}) == len(made) == 256
    assert [item.name for *_, item in made[:4]] == ["a", "b", "a", "b"]
    first, again = made[0][0], armoury.shot(items[0], {message_id(request) for request, *_ in made})[0]
    assert message_id(again) not in {message_id(request) for request, *_ in made}
    assert first.replace(message_id(first), message_id(again)) == again
