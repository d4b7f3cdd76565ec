# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The management connection against servers that refuse, disconnect, refer elsewhere or show another's certificate."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from ldaptune.accounts import Directory
from ldaptune.directory.errors import DirectoryRefused, DirectoryUnreachable
from ldaptune.directory.session import Session
from ldaptune.load import wire
from ldaptune.problems import LdaptuneError

NOTICE = bytes.fromhex(
    "3032020100782d0a01020400040e6465636f64696e67206572726f728a16312e332e362e312e342e312e313436362e3230303336"
)
ELSEWHERE = "ldap://elsewhere.test/ou=x"
SECRET = "never-sent-in-clear"


def session(uri, **more):
    return Session(uri, timeout=5, **more)


def referred(*urls):
    return wire.tlv(0xA3, b"".join(wire.octets(url.encode()) for url in urls))


def bound(server):
    """A session that has bound; the rest of the talk is the test's."""
    made = session(server.uri)
    made.bind_simple("cn=admin", SECRET)
    return made


@pytest.mark.parametrize(
    "uri", ["ldap://cn=a:s3cret@h:389", "ldaps://u:s3/cret@h", "ldap://localhost:s3cret@h", "LDAPS://u:s3cret@h:x"]
)
def test_a_password_in_a_uri_is_refused_and_not_repeated(uri):
    with pytest.raises(LdaptuneError) as refused:
        session(uri)
    (told,) = refused.value.problems
    assert told["what"] == "a URI with a name or a password in it" and told["where"] == "tuning_config_uri"
    assert "s3" not in str(refused.value)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda made: made(52, text=b"no TLS here"), id="refused"),
        pytest.param(lambda made: b"\x16\x03\x03\x00\x05hello", id="a TLS record"),
        pytest.param(lambda made: b"", id="nothing"),
        pytest.param(lambda made: made() + b"\x30\x05clear", id="clear text behind it"),
        pytest.param(lambda made: made() + made(), id="an answer behind it"),
        pytest.param(lambda made: NOTICE, id="a notice of disconnection"),
        pytest.param(lambda made: made(), id="no handshake"),
    ],
)
def test_starttls_that_fails_ends_before_any_password(fake_server, answers, answer):
    seen = []

    def script(client):
        request = client.read()
        client.send(
            answer(lambda code=0, text=b"": answers.result(request.id, code, wire.EXTENDED_RESPONSE, text=text))
        )
        client.sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            seen.append(client.sock.recv(65536))

    server = fake_server(script)
    with pytest.raises(LdaptuneError) as caught:
        session(server.uri, starttls=True).bind_simple("cn=admin", SECRET)
    assert [request.tag for request in server.requests] == [wire.EXTENDED_REQUEST]
    assert SECRET.encode() not in b"".join(seen)
    assert SECRET not in str(caught.value)


def test_clear_text_behind_the_answer_to_starttls_is_an_error(fake_server, answers, certificates):
    """Whoever sits in between may put answers there that are taken for protected ones."""
    import ssl

    authority, certificate = certificates("x", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def script(client):
        request = client.read()
        client.send(answers.result(request.id, tag=wire.EXTENDED_RESPONSE) + answers.result(request.id + 1))
        with contextlib.suppress(OSError):
            client.sock = context.wrap_socket(client.sock, server_side=True)
            for asked in client.requests():
                client.send(answers.result(asked.id))

    server = fake_server(script)
    with pytest.raises(DirectoryUnreachable, match="clear text"):
        session(server.uri, starttls=True, ca_file=authority).bind_simple("cn=admin", SECRET)
    assert [request.tag for request in server.requests] == [wire.EXTENDED_REQUEST]


NAMES = [
    ("::1", ("::1",), "x", True),
    ("0:0:0:0:0:0:0:1", ("::1",), "x", True),
    ("::1", ("127.0.0.1",), "x", False),
    ("::1", ("localhost",), "x", False),
    ("::1", (), "::1", False),
    ("127.0.0.1", ("127.0.0.1",), "x", True),
    ("127.0.0.1", (), "127.0.0.1", False),
    ("localhost", ("localhost",), "x", True),
    ("localhost", (), "localhost", False),
    ("localhost", ("127.0.0.1",), "x", False),
]


@pytest.mark.parametrize("starttls", [False, True])
@pytest.mark.parametrize(("host", "names", "common_name", "accepted"), NAMES)
def test_names_in_certificates(fake_server, certificates, tls_script, host, names, common_name, accepted, starttls):
    authority, certificate = certificates(common_name, *names)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = fake_server(tls_script(certificate, starttls), family=family)
    except OSError:
        pytest.skip("no IPv6 here")
    shown = "[%s]" % host if ":" in host else host
    uri = "%s://%s:%d" % ("ldap" if starttls else "ldaps", shown, server.port)
    made = session(uri, ca_file=authority, starttls=starttls)
    if accepted:
        made.bind_simple("cn=admin", SECRET)
        made.close()
        return
    with pytest.raises(DirectoryUnreachable, match="certificate"):
        made.bind_simple("cn=admin", SECRET)
    assert all(request.tag == wire.EXTENDED_REQUEST for request in server.requests)


def test_a_notice_of_disconnection_is_no_crash(fake_server, answers):
    def script(client):
        client.send(answers.result(client.read().id))
        client.read()
        client.send(NOTICE)
        client.read()

    with pytest.raises(DirectoryUnreachable, match="terminated by server"):
        bound(fake_server(script)).search("dc=x", "(objectClass=*)", ("1.1",), "base")


def test_an_answer_that_is_no_ldap_is_no_crash(fake_server):
    def script(client):
        client.read()
        client.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        client.sock.shutdown(socket.SHUT_WR)
        client.read()

    with pytest.raises(DirectoryUnreachable, match="during bind"):
        bound(fake_server(script))


def test_references_are_no_entries_and_not_followed(fake_server, answers):
    def script(client):
        for request in client.requests():
            if request.tag == wire.SEARCH_REQUEST:
                reference = wire.envelope(request.id, wire.tlv(wire.SEARCH_REFERENCE, wire.octets(ELSEWHERE.encode())))
                client.send(reference + answers.result(request.id, tag=wire.SEARCH_DONE))
            else:
                client.send(answers.result(request.id))

    made = bound(fake_server(script))
    assert made.search("dc=x", "(uid=nobody)", ("1.1",), "sub") == []
    made.close()


@pytest.mark.parametrize("kind", ["search", "modify", "add"])
def test_a_referral_shows_where_to(fake_server, answers, kind):
    tags = {"search": 0x65, "modify": 0x67, "add": 0x69}

    def script(client):
        for number, request in enumerate(client.requests()):
            if not number:
                client.send(answers.result(request.id))
                continue
            client.send(answers.result(request.id, 10, tags[kind], more=referred(ELSEWHERE, "ldap://other.test")))

    directory = Directory(fake_server(script).uri, 5)
    with pytest.raises(DirectoryRefused) as caught:
        directory.bind_simple("cn=admin", SECRET)
        if kind == "search":
            directory.search("dc=x", "(objectClass=*)", ("1.1",), "base")
        if kind == "modify":
            directory.modify("dc=x", [("replace", "description", ["x"])])
        directory.add("dc=x", {"objectClass": ["top"]})
    assert (caught.value.code, caught.value.name) == (10, "referral")
    assert ELSEWHERE in str(caught.value)
    assert "ldap://other.test" in str(caught.value)


@pytest.fixture
def socket_at(answers):
    """Serve binds at a Unix socket: socket_at(path)."""
    listeners = []

    def make(path):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(4)
        listeners.append(listener)

        def serve():
            with contextlib.suppress(OSError):
                channel, _peer = listener.accept()
                with channel:
                    asked = wire.message(wire.cut(channel.recv(4096))[0][0])
                    channel.sendall(answers.result(asked.id))
                    channel.recv(4096)

        threading.Thread(target=serve, daemon=True).start()

    yield make
    for listener in listeners:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize("name", ["a b", "a%20b", "LDAPI.Socket", "x:389", "a?b"])
def test_an_ldapi_path_is_unescaped_once(short_dir, socket_at, name):
    path = str(short_dir / name)
    socket_at(path)
    made = session("ldapi://" + quote(path, safe=""))
    made.bind_simple("cn=admin", SECRET)
    made.close()


CONNECT_AS_NOBODY = """
import os, sys
sys.path.insert(0, sys.argv[1])
from ldaptune.directory.session import Session
from ldaptune.problems import LdaptuneError
import ldap3
os.setuid(65534)
try:
    Session(sys.argv[2], timeout=5).bind_external()
except LdaptuneError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can become nobody")
def test_a_socket_without_permission_is_not_called_missing(short_dir, socket_at, checkout):
    path = short_dir / "s"
    socket_at(str(path))
    Path(path).chmod(0o600)
    command = [
        sys.executable,
        "-c",
        CONNECT_AS_NOBODY,
        str(checkout / "module_utils"),
        "ldapi://" + quote(str(path), safe=""),
    ]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "ermission denied" in told
    assert "no such socket" not in told
