# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server that answers at once: what it answers, when it closes, that it always ends."""

from __future__ import annotations

import os
import signal
import socket
import time

import pytest
from ldaptune.load import connect, filters, wire
from ldaptune.load.null_responder import Leave, NullResponder, Stream

BIND = wire.simple_bind(b"uid=u1,dc=x", b"secret")


def search(text, base=b"dc=x", scope=2):
    return wire.search(base, filters.encode(text), [b"1.1"], scope)


def messages(data):
    whole, rest = wire.cut(data)
    assert rest == b""
    return [wire.message(content) for content in whole]


def ask(operation, known=(), number=70000):
    return messages(Stream(dict(known)).answers(wire.envelope(number, operation)))


@pytest.mark.parametrize("number", [1, 127, 128, 65536, 1114111, 2147483647])
def test_a_bind(number):
    (found,) = ask(BIND, number=number)
    assert (found.id, found.tag, wire.result(found.body).code) == (number, wire.BIND_RESPONSE, 0)


@pytest.mark.parametrize(
    ("operation", "dn"),
    [
        (search("(uid=u1)"), b"uid=u1,dc=x"),
        (search("(uid=u1)", b""), b"uid=u1"),
        (search("(objectClass=*)", b"cn=a,dc=x", 0), b"cn=a,dc=x"),
        (search("(uid=u1)", b"cn=a,dc=x", 0), b"cn=a,dc=x"),
        (search("(&(uid=u1)(cn=a))"), b"dc=x"),
    ],
)
def test_a_search_finds_the_entry_it_asks_for(operation, dn):
    entry, done = ask(operation)
    assert (entry.tag, wire.entry_dn(entry.body)) == (wire.SEARCH_ENTRY, dn)
    assert (done.tag, wire.result(done.body).code) == (wire.SEARCH_DONE, 0)
    assert entry.id == done.id == 70000


def test_a_search_that_is_known_finds_what_is_said():
    operation = search("(&(uid=u1)(cn=a))")
    entry, _ = ask(operation, [(operation, wire.octets(b"uid=u1,ou=deep,dc=x"))])
    assert wire.entry_dn(entry.body) == b"uid=u1,ou=deep,dc=x"


def test_starttls_is_refused_and_what_it_does_not_do_too():
    (found,) = ask(wire.starttls())
    assert (found.tag, wire.result(found.body).code) == (wire.EXTENDED_RESPONSE, 52)
    (found,) = ask(wire.tlv(0x68, b""))
    assert (found.tag, wire.result(found.body).code) == (0x69, 52)
    assert ask(wire.tlv(0x50, b"\x01")) == []


def test_requests_in_pieces_and_several_at_once():
    stream = Stream({})
    data = wire.envelope(70000, BIND) + wire.envelope(70001, search("(uid=u2)")) + wire.envelope(70002, BIND)
    out = b"".join(stream.answers(data[place : place + 1]) for place in range(len(data)))
    assert [found.id for found in messages(out)] == [70000, 70001, 70001, 70002]
    assert out == Stream({}).answers(data)


GARBAGE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x30\x80\x02\x01",  # an indefinite length
    b"\x30\x84\x7f\xff\xff\xff",  # a length beyond all
    b"\x30\x03\x04\x01\x00",  # no message id
    b"\x30\x05\x02\x03\x01\x00\x00",  # no operation
    b"\x30\x07\x02\x01\x01\x63\x02\x04\x00",  # a search that ends too early
    wire.envelope(7, wire.unbind()),
    b"\x30\x00",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_and_goodbye_end_the_connection(garbage):
    stream = Stream({})
    assert messages(stream.answers(wire.envelope(70000, BIND)))
    with pytest.raises(Leave):
        stream.answers(garbage)


def test_what_came_whole_before_a_goodbye_is_answered():
    with pytest.raises(Leave) as caught:
        Stream({}).answers(wire.envelope(70000, BIND) + wire.envelope(70001, wire.unbind()))
    assert [found.id for found in messages(caught.value.args[0])] == [70000]


# In its own process


def reach(stub):
    sock = connect.open_connection(stub.target, stub.addresses, connect.Security(None, False), 5)
    sock.settimeout(10)
    return sock


def read(sock, many):
    data = b""
    while len(wire.cut(data)[0]) < many:
        piece = sock.recv(65536)
        assert piece, "closed too early"
        data += piece
    return messages(data)


def gone(pid):
    """Wait until a process that is no child of ours has ended."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            with open("/proc/%d/stat" % pid) as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("unix", [False, True])
@pytest.mark.parametrize("processes", [1, 3])
def test_over_a_socket(unix, processes):
    with NullResponder(60, unix=unix, processes=processes, connections=6) as stub:
        socks = [reach(stub) for _ in range(6)]
        for sock in socks:
            sock.sendall(wire.envelope(1, BIND) + wire.envelope(2, search("(uid=u1)"))[:9])
        for sock in socks:
            assert [found.id for found in read(sock, 1)] == [1]
            sock.sendall(wire.envelope(2, search("(uid=u1)"))[9:])
            assert [found.id for found in read(sock, 2)] == [2, 2]
        # each process has its share of the clients, or one of them would be the limit
        assert len({len(os.listdir("/proc/%d/fd" % pid)) for pid in stub.pids}) == 1
        socks[0].sendall(wire.envelope(3, wire.unbind()))
        assert socks[0].recv(1) == b""
        socks[1].sendall(b"garbage")
        assert socks[1].recv(1) == b""
        socks[2].sendall(wire.envelope(4, BIND))
        assert [found.id for found in read(socks[2], 1)] == [4]
        again = reach(stub)  # the places of those who left are free
        again.sendall(wire.envelope(5, BIND))
        assert [found.id for found in read(again, 1)] == [5]
        assert len(stub.cpu_seconds()) == processes
        pids, path = list(stub.pids), stub.target.path
        for sock in [*socks, again]:
            sock.close()
    assert all(not os.path.exists("/proc/%d" % pid) for pid in pids)
    assert not path or not os.path.exists(os.path.dirname(path))


def test_answers_that_are_not_read_are_kept_and_nobody_else_waits():
    with NullResponder(60) as stub, reach(stub) as greedy, reach(stub) as other:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.settimeout(0.5)
        one = wire.envelope(70000, BIND)
        sent = 0
        try:
            for _ in range(20000):
                greedy.sendall(one * 50)
                sent += 50
        except OSError:
            pass  # it takes no more, or has given this client up
        other.sendall(one)
        assert [found.id for found in read(other, 1)] == [70000]


def test_it_ends_at_its_deadline():
    stub = NullResponder(1)
    _, status = os.waitpid(stub.pids[0], 0)
    assert os.WTERMSIG(status) == signal.SIGALRM
    stub.close()


def test_it_ends_with_the_process_that_started_it():
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        stub = NullResponder(120)
        os.write(theirs, b"%d" % stub.pids[0])
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    stubs = int(os.read(ours, 100))
    os.close(ours)
    os.close(theirs)
    assert gone(stubs)
