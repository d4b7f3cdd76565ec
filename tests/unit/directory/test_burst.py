# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few bytes of BER that fill a thread pool."""

from __future__ import annotations

import socket
import threading
from urllib.parse import quote

import pytest
from ldaptune.directory.burst import burst, search_request, take_messages
from ldaptune.problems import LdaptuneError

DONE = bytes.fromhex("300d02020001 65070a010004000400".replace(" ", ""))
LONG_ENTRY = bytes.fromhex("30840000000a 02020001 64840000 0000".replace(" ", ""))


def test_a_request_is_what_ldap3_reads():
    from ldap3.protocol.rfc4511 import LDAPMessage
    from pyasn1.codec.ber import decoder

    message, rest = decoder.decode(search_request(300), asn1Spec=LDAPMessage())
    request = message["protocolOp"]["searchRequest"]
    assert (rest, int(message["messageID"]), bytes(request["baseObject"]), int(request["scope"])) == (b"", 300, b"", 0)
    assert bytes(request["filter"]["present"]) == b"objectClass"
    assert [bytes(name) for name in request["attributes"]] == [b"1.1"]


@pytest.mark.parametrize("cut", range(len(LONG_ENTRY + DONE)))
def test_messages_cut_anywhere_are_put_together(cut):
    stream = LONG_ENTRY + DONE
    tags, rest = take_messages(stream[:cut])
    more, rest = take_messages(rest + stream[cut:])
    assert (tags + more, rest) == ([0x64, 0x65], b"")


@pytest.fixture
def serve(short_dir):
    """Start a server that answers each connection with given bytes, then waits or hangs up; returns its URI."""
    path = str(short_dir / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(8)
    threads = []

    def talk(channel, answer, stay):
        with channel:
            channel.recv(65536)
            channel.sendall(answer)
            if stay:
                channel.recv(65536)

    def start(answer, connections, stay=True):
        def accept():
            for _unused in range(connections):
                threads.append(threading.Thread(target=talk, args=(listener.accept()[0], answer, stay), daemon=True))
                threads[-1].start()

        threads.append(threading.Thread(target=accept, daemon=True))
        threads[-1].start()
        return "ldapi://" + quote(path, safe="")

    yield start
    for thread in threads:
        thread.join(5)
    listener.close()


def test_all_answers_are_waited_for_and_counted(serve):
    assert burst(serve(DONE * 3, 2), 2, 3, 5) == {"search": 6, "unbind": 2}


def test_a_connection_closed_early_is_told(serve):
    with pytest.raises(LdaptuneError, match="1 answers missing"):
        burst(serve(DONE * 2, 1, stay=False), 1, 3, 5)


def test_answers_that_never_come_are_told(serve):
    with pytest.raises(LdaptuneError, match="1 answers are missing"):
        burst(serve(DONE * 2, 1), 1, 3, 0.1)


def test_the_socket_of_a_package_is_found(serve, monkeypatch, short_dir):
    serve(DONE * 3, 1)
    monkeypatch.setattr("ldaptune.directory.ldapi.DEFAULTS", (str(short_dir / "none"), str(short_dir / "s")))
    assert burst("ldapi:///", 1, 3, 5) == {"search": 3, "unbind": 1}
