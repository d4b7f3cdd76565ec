# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""BER and LDAP messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldaptune.load import wire


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "020100"),
        (1, "020101"),
        (127, "02017f"),
        (128, "02020080"),
        (255, "020200ff"),
        (256, "02020100"),
        (32767, "02027fff"),
        (32768, "0203008000"),
        (2147483647, "02047fffffff"),
    ],
)
def test_integers_carry_their_sign_octet(number, encoded):
    assert wire.integer(number).hex() == encoded


def test_message_ids_wrap_and_skip_what_is_in_use():
    ids = wire.MessageIds(2147483645)
    assert [ids.draw((2147483646, 1)) for _ in range(4)] == [2147483645, 2147483647, 2, 3]


def test_forty_thousand_ids_come_back_as_they_were_sent():
    ids = wire.MessageIds()
    for wanted in range(1, 40001):
        sent = wire.envelope(ids.draw(), wire.starttls())
        assert wire.message(wire.cut(sent)[0][0]).id == wanted


def test_three_octet_ids():
    assert wire.three_byte_id(32768) == b"\x00\x80\x00"
    for number in (0, 32767, 8388608):
        with pytest.raises(ValueError, match="three octets"):
            wire.three_byte_id(number)
    for number in (32768, 65536, 8388607):
        made = wire.request(wire.simple_bind(b"cn=x", b"p"))
        assert made.head + wire.three_byte_id(number) + made.tail == wire.envelope(number, made.tail)


@given(st.integers(0, 300), st.integers(0, 300))
def test_requests_fit_ids_whatever_their_length(dn, password):
    bind = wire.simple_bind(b"d" * dn, b"p" * (password + 1))
    made = wire.request(bind)
    assert made.head + wire.three_byte_id(70000) + made.tail == wire.envelope(70000, bind)


def test_bind_as_known_from_rfc_4511():
    bind = wire.envelope(1, wire.simple_bind(b"cn=a", b"pw"))
    assert bind.hex() == "3012020101600d0201030404636e3d6180027077"


def test_search_as_openldap_sends_it():
    made = wire.envelope(
        2, wire.search(b"dc=x", wire.tlv(0xA3, wire.octets(b"uid") + wire.octets(b"u")), [b"1.1"], scope=2)
    )
    wanted = "302b02010263260404" + b"dc=x".hex() + "0a01020a0100020100020100010100"
    wanted += "a308" + "0403" + b"uid".hex() + "0401" + b"u".hex() + "3005" + "0403" + b"1.1".hex()
    assert made.hex() == wanted


def test_no_bind_with_an_empty_password():
    with pytest.raises(ValueError, match="empty password"):
        wire.simple_bind(b"cn=a", b"")


@given(st.lists(st.binary(max_size=200), max_size=8), st.data())
def test_any_cutting_of_a_stream_gives_the_same_messages(bodies, data):
    stream = b"".join(wire.envelope(number + 1, wire.tlv(0x61, body)) for number, body in enumerate(bodies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    found, rest, before = [], b"", 0
    for cut in [*cuts, len(stream)]:
        whole, rest = wire.cut(rest + stream[before:cut])
        found += [wire.message(content) for content in whole]
        before = cut
    assert rest == b""
    assert [(item.id, item.body) for item in found] == [(n + 1, body) for n, body in enumerate(bodies)]


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    try:
        whole, _ = wire.cut(data)
        for content in whole:
            answer = wire.message(content)
            wire.is_notice_of_disconnection(answer)
            wire.result(answer.body)
            wire.entry_dn(answer.body)
    except wire.DecodeError:
        pass


def test_result_with_referrals_and_controls():
    body = wire.integer(10, 0x0A) + wire.octets(b"dc=x") + wire.octets("völlig".encode())
    body += wire.tlv(0xA3, wire.octets(b"ldap://a") + wire.octets(b"ldap://b"))
    content = wire.integer(5) + wire.tlv(0x61, body) + wire.tlv(0xA0, wire.tlv(0x30, wire.octets(b"1.2.3")))
    answer = wire.message(content)
    assert (answer.id, answer.tag) == (5, 0x61)
    assert wire.result(answer.body) == (10, "völlig", ("ldap://a", "ldap://b"))
    assert wire.result(wire.integer(0, 0x0A) + wire.octets(b"") + wire.octets(b"\xe9")).text == "\ufffd"


POLICY = wire.octets(wire.PASSWORD_POLICY_OID)
WARNING = "a0048002012c"  # timeBeforeExpiration 300


@pytest.mark.parametrize(
    ("value", "must"),
    [
        ("3003810102", True),
        ("3009" + WARNING + "810102", True),
        ("3003810100", False),  # passwordExpired is no success
        ("3006" + WARNING, False),
        ("3000", False),
        ("", False),
    ],
)
def test_who_must_change_a_password_is_told_with_and_without_a_warning(value, must):
    control = wire.tlv(0x30, POLICY + (wire.octets(bytes.fromhex(value)) if value else b""))
    other = wire.tlv(0x30, wire.octets(b"1.2.3") + b"\x01\x01\x00" + wire.octets(b"x"))
    bind = wire.tlv(wire.BIND_RESPONSE, wire.integer(0, 0x0A) + wire.octets(b"") * 2)
    (content,), _ = wire.cut(wire.envelope(1, bind, wire.tlv(wire.CONTROLS, other + control)))
    answer = wire.message(content)
    assert wire.must_change(answer.controls) is must
    assert wire.controls(answer.controls)[b"1.2.3"] == b"x"


def test_389_says_so_unasked():
    control = wire.tlv(0x30, wire.octets(wire.PASSWORD_EXPIRED_OID) + wire.octets(b"0"))
    assert wire.must_change(control)


def test_names_of_results():
    assert wire.result_name(49) == "invalidCredentials"
    assert wire.result_name(4096) == "code 4096"
