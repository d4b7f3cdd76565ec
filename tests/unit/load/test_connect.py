# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""URIs, sockets, TLS: everything before the first operation."""

from __future__ import annotations

import contextlib
import os
import socket

import pytest
from ldaptune.load import connect, uri, wire
from ldaptune.problems import LdaptuneError


def reach(address, security=None, timeout=5.0):
    target = uri.parse(address)
    return connect.open_connection(target, uri.resolve(target), security or connect.Security(None, False), timeout)


def test_uris():
    assert uri.parse("ldap://ldap.example.com")[1:4] == ("ldap", "ldap.example.com", 389)
    assert uri.parse("LDAPS://h:1636/")[1:4] == ("ldaps", "h", 1636)
    assert uri.parse("ldaps://[::1]:1636")[1:4] == ("ldaps", "::1", 1636)
    assert uri.parse("ldap://[0:0:0:0:0:0:0:1]")[1:4] == ("ldap", "0:0:0:0:0:0:0:1", 389)
    assert uri.parse("ldapi://%2ftmp%2Fa%20b%2Fldapi").path == b"/tmp/a b/ldapi"
    assert uri.parse("ldapi://%2Ftmp%2Fa%2520b/").path == b"/tmp/a%20b"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ldap.example.com", "not an LDAP URI"),
        ("http://x", "not an LDAP URI"),
        ("ldap://::1:389", "without brackets"),
        ("ldap://[::1:389", "brackets"),
        ("ldap://[host]:389", "brackets"),
        ("ldap://h:0", "not a port"),
        ("ldap://h:99999", "not a port"),
        ("ldap://h:\u0663", "not a port"),
        ("ldap://h/dc=x", "more than a server"),
        ("ldapi://tmp%2Fx", "not absolute"),
    ],
)
def test_uris_that_cannot_be_meant(address, said):
    with pytest.raises(LdaptuneError, match=said):
        uri.parse(address)


@pytest.mark.parametrize(
    "address", ["ldap://cn=a:s3cret@h:389", "ldaps://u:s3cret@h", "http://u:s3cret@h", "u:s3cret@h"]
)
def test_a_password_in_a_uri_is_refused_and_not_repeated(address):
    with pytest.raises(LdaptuneError, match="a name or a password in it") as refused:
        uri.parse(address)
    assert "s3cret" not in str(refused.value)


def test_ldapi_by_default_is_a_socket_of_a_package(monkeypatch, tmp_path):
    monkeypatch.setattr(uri, "LDAPI_DEFAULTS", (str(tmp_path / "none"), str(tmp_path)))
    assert uri.parse("ldapi:///").path == os.fsencode(tmp_path)
    monkeypatch.setattr(uri, "LDAPI_DEFAULTS", (str(tmp_path / "none"),))
    with pytest.raises(LdaptuneError, match="no ldapi socket"):
        uri.parse("ldapi:///")


def test_three_things_wrong_with_ldapi_are_three_messages(short_dir, monkeypatch):
    with pytest.raises(LdaptuneError, match="120 bytes.*at most 107"):
        uri.parse("ldapi://" + ("/" + "x" * 119).replace("/", "%2F"))
    path = str(short_dir / "s")
    address = "ldapi://" + path.replace("/", "%2F")
    with pytest.raises(connect.ConnectFailed, match="no such socket") as caught:
        reach(address)
    assert caught.value.name == "connect_no_socket"
    monkeypatch.setattr(socket.socket, "connect", lambda *_: (_ for _ in ()).throw(PermissionError(13, "denied")))
    with pytest.raises(connect.ConnectFailed, match="permission denied") as caught:
        reach(address)
    assert caught.value.name == "connect_permission"


def test_local_is_loopback_and_sockets():
    assert uri.is_local(uri.resolve(uri.parse("ldap://127.0.0.1")))
    assert uri.is_local(uri.resolve(uri.parse("ldap://[::1]")))
    assert uri.is_local(uri.resolve(uri.parse("ldapi://%2Fx")))
    assert not uri.is_local([(socket.AF_INET, ("127.0.0.1", 1)), (socket.AF_INET, ("192.0.2.1", 1))])
    with pytest.raises(LdaptuneError, match="does not resolve"):
        uri.resolve(uri.parse("ldap://" + "x" * 70))


def test_nobody_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(connect.ConnectFailed) as caught:
            reach("ldap://127.0.0.1:%d" % taken.getsockname()[1])
    assert caught.value.name == "connect_refused"


# StartTLS


def extended(code=0, text=b"", message_id=1):
    body = wire.integer(code, 0x0A) + wire.octets(b"") + wire.octets(text)
    return wire.envelope(message_id, wire.tlv(wire.EXTENDED_RESPONSE, body))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (extended(52, b"no TLS here"), "StartTLS refused: unavailable: no TLS here"),
        (extended(2, b"unsupported"), "StartTLS refused: protocolError"),
        (b"\x16\x03\x03\x00\x05hello", "no LDAP message"),
        (b"", "closed the connection"),
        (extended(message_id=7), "is none"),
        (extended() + b"\x30\x05clear", "clear text follow"),
        (extended() + extended(), "clear text follow"),
        (extended()[:-2], "closed the connection"),
        (extended(), "TLS handshake failed"),
    ],
)
def test_starttls_that_fails_ends_before_any_bind(fake_server, answer, said):
    def script(client):
        client.read()
        client.send(answer)
        client.sock.shutdown(socket.SHUT_WR)
        client.read()

    server = fake_server(script)
    security = connect.Security(connect.context("", True), True)
    with pytest.raises(connect.ConnectFailed, match=said):
        reach(server.uri, security)
    assert [request.tag for request in server.requests] == [wire.EXTENDED_REQUEST]


def test_starttls_without_an_answer_ends_in_time(fake_server):
    server = fake_server(lambda client: [None for _ in iter(client.read, None)])
    with pytest.raises(connect.ConnectFailed) as caught:
        reach(server.uri, connect.Security(connect.context("", True), True), timeout=0.2)
    assert caught.value.name == "connect_timeout"


# The first bind of a search


def test_login(fake_server, answers):
    codes = [0, 49]

    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id, codes[len(server.requests) - 1], text=b"said"))

    server = fake_server(script)
    bind = wire.simple_bind(b"cn=a", b"p")
    with contextlib.closing(reach(server.uri)) as sock:
        connect.login(sock, bind, 5)
        assert sock.gettimeout() == 0
    with contextlib.closing(reach(server.uri)) as sock, pytest.raises(connect.ConnectFailed) as caught:
        connect.login(sock, bind, 5)
    assert caught.value.name == "invalidCredentials"
    assert "said" in caught.value.text


NOTICE = bytes.fromhex(
    "3032020100782d0a01020400040e6465636f64696e67206572726f728a16312e332e362e312e342e312e313436362e3230303336"
)
# The control of a password that must be changed: the bind succeeds all the same (error 2, no warning).
MUST_CHANGE = wire.tlv(
    0xA0, wire.tlv(0x30, wire.octets(b"1.3.6.1.4.1.42.2.27.8.5.1") + wire.octets(b"\x30\x03\x81\x01\x02"))
)
OK = wire.tlv(wire.BIND_RESPONSE, wire.integer(0, 0x0A) + wire.octets(b"") + wire.octets(b""))


@pytest.mark.parametrize(
    ("answer", "name", "said"),
    [
        (NOTICE, "notice_of_disconnection", "protocolError: decoding error"),
        (wire.envelope(7, OK), "decode", "is none"),
        (wire.envelope(1, wire.tlv(wire.SEARCH_DONE, b"\x0a\x01\x00\x04\x00\x04\x00")), "decode", "is none"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "decode", "no LDAP message"),
        (wire.envelope(1, OK)[:-1], "eof", "closed the connection"),
        (b"", "eof", "closed the connection"),
    ],
)
def test_a_first_bind_without_an_answer_has_its_class(fake_server, answer, name, said):
    def script(client):
        client.read()
        client.send(answer)
        client.sock.shutdown(socket.SHUT_WR)
        client.read()

    sock = reach(fake_server(script).uri)
    with contextlib.closing(sock), pytest.raises(connect.ConnectFailed, match=said) as caught:
        connect.login(sock, wire.simple_bind(b"cn=a", b"p"), 5)
    assert caught.value.name == name


def test_a_silent_server_ends_the_first_bind_in_time(fake_server):
    server = fake_server(lambda client: [None for _ in iter(client.read, None)])
    with contextlib.closing(reach(server.uri)) as sock, pytest.raises(connect.ConnectFailed) as caught:
        connect.login(sock, wire.simple_bind(b"cn=a", b"p"), 0.2)
    assert caught.value.name in ("op_timeout", "connect_timeout")
    assert len(server.requests) == 1


def test_a_bind_with_controls_in_its_answer(fake_server):
    def script(client):
        client.read()
        client.send(wire.tlv(0x30, wire.integer(1) + OK + MUST_CHANGE))
        client.read()

    with contextlib.closing(reach(fake_server(script).uri)) as sock:
        connect.login(sock, wire.simple_bind(b"cn=a", b"p"), 5)


# Names in certificates


NAMES = [
    ("::1", "::1", ("::1",), True),
    ("0:0:0:0:0:0:0:1", "::1", ("::1",), True),
    ("::1", "::1", ("127.0.0.1",), False),
    ("::1", "::1", ("localhost",), False),
    ("::1", "::1", (), False),
    ("127.0.0.1", "x", ("127.0.0.1",), True),
    ("127.0.0.1", "127.0.0.1", (), False),
    ("localhost", "x", ("localhost",), True),
    ("localhost", "localhost", (), False),
    ("localhost", "x", ("127.0.0.1",), False),
]


@pytest.mark.parametrize("starttls", [False, True])
@pytest.mark.parametrize(("host", "common_name", "names", "accepted"), NAMES)
def test_names_in_certificates(fake_server, certificates, tls_script, host, common_name, names, accepted, starttls):
    authority, certificate = certificates(common_name, *names)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = fake_server(tls_script(certificate, starttls), family=family)
    except OSError:
        pytest.skip("no IPv6 here")
    shown = "[%s]" % host if ":" in host else host
    address = "%s://%s:%d" % ("ldap" if starttls else "ldaps", shown, server.port)
    security = connect.Security(connect.context(authority, False), starttls)
    if accepted:
        sock = reach(address, security)
        connect.login(sock, wire.simple_bind(b"cn=a", b"p"), 5)
        sock.close()
    else:
        with pytest.raises(connect.ConnectFailed, match="certificate was not accepted") as caught:
            reach(address, security)
        assert caught.value.name == "tls"
        assert all(request.tag == wire.EXTENDED_REQUEST for request in server.requests)


def test_a_stranger_is_not_trusted_unless_insecure(fake_server, certificates, tls_script):
    _, certificate = certificates("x", "127.0.0.1")
    server = fake_server(tls_script(certificate, False))
    address = "ldaps://127.0.0.1:%d" % server.port
    with pytest.raises(connect.ConnectFailed, match="not accepted"):
        reach(address, connect.Security(connect.context("", False), False))
    reach(address, connect.Security(connect.context("", True), False)).close()
    with pytest.raises(connect.ConnectFailed, match="cannot read the CA file"):
        connect.context("/nonexistent/ca.pem", False)


def test_the_loop_over_tls(fake_server, drive, certificates, tls_script):
    authority, certificate = certificates("x", "127.0.0.1")
    server = fake_server(tls_script(certificate, False))
    driven = drive(server, connections=0)
    security = connect.Security(connect.context(authority, False), False)
    for _ in range(2):
        driven.loop.add(reach("ldaps://127.0.0.1:%d" % server.port, security))
    tally = driven.go(100)
    assert (tally.whole.count, tally.errors, tally.failures) == (100, 0, {})
    assert driven.loop.leave() == 2
    assert sum(request.tag == wire.UNBIND_REQUEST for request in server.requests) == 2
