# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server made of a script, and a loop of the probe to set against it."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading

import pytest
from ldaptune.load import connect, uri, wire
from ldaptune.load.loop import Loop, clock
from ldaptune.load.workload import Item

SECOND = 1000000000


class Client:
    """One connection as the fake server sees it."""

    def __init__(self, sock, server):
        self.sock = sock
        self.server = server
        self.rest = b""
        self.waiting = []

    def read(self):
        """Return the next request, or None at the end of the stream."""
        while not self.waiting:
            try:
                data = self.sock.recv(65536)
            except OSError:
                return None
            if not data:
                return None
            try:
                whole, self.rest = wire.cut(self.rest + data)
            except wire.DecodeError:
                return None
            self.waiting = [wire.message(content) for content in whole]
            self.server.requests.extend(self.waiting)
        return self.waiting.pop(0)

    def send(self, data):
        with contextlib.suppress(OSError):
            self.sock.sendall(data)

    def requests(self):
        """Yield binds and searches until the client leaves."""
        while True:
            request = self.read()
            if request is None or request.tag == wire.UNBIND_REQUEST:
                return
            yield request

    def reset(self):
        """Close so that the other side gets a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.sock.close()


class FakeServer:
    """Listens on loopback and runs `script(client)` for each connection in a thread."""

    def __init__(self, script, family=socket.AF_INET):
        self.script = script
        self.requests = []
        self.listener = socket.socket(family)
        self.listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self.listener.listen(64)
        self.threads = []
        self.socks = []
        self.port = self.listener.getsockname()[1]
        self.uri = ("ldap://[::1]:%d" if family == socket.AF_INET6 else "ldap://127.0.0.1:%d") % self.port
        self._start(self._accept)

    def _start(self, act, *arguments):
        thread = threading.Thread(target=act, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.socks.append(sock)
            self._start(self._serve, sock)

    def _serve(self, sock):
        try:
            self.script(Client(sock, self))
        finally:
            with contextlib.suppress(OSError):
                sock.close()

    def stop(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for sock in self.socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(5)


def result(message_id, code=0, tag=wire.BIND_RESPONSE, text=b"", more=b""):
    """An answer with a result."""
    body = wire.integer(code, 0x0A) + wire.octets(b"") + wire.octets(text) + more
    return wire.envelope(message_id, wire.tlv(tag, body))


def entry(message_id, dn, attributes=b""):
    """A search entry."""
    return wire.envelope(message_id, wire.tlv(wire.SEARCH_ENTRY, wire.octets(dn) + wire.tlv(0x30, attributes)))


@pytest.fixture
def answers():
    """The makers of answers: answers.result(...), answers.entry(...)."""

    class Makers:
        pass

    Makers.result = staticmethod(result)
    Makers.entry = staticmethod(entry)
    return Makers


@pytest.fixture
def fake_server():
    """Make fake servers: fake_server(script)."""
    made = []

    def make(script, **more):
        made.append(FakeServer(script, **more))
        return made[-1]

    yield make
    for server in made:
        server.stop()


def bind_item(number=0):
    made = wire.request(wire.simple_bind(b"uid=u%d,dc=x" % number, b"secret"))
    return Item(made.head, made.tail, b"", "uid=u%d,dc=x" % number)


def search_item(number=0):
    dn = b"uid=u%d,dc=x" % number
    made = wire.request(wire.search(b"dc=x", wire.tlv(0xA3, wire.octets(b"uid") + wire.octets(b"u%d" % number)), []))
    return Item(made.head, made.tail, wire.octets(dn), dn.decode())


class Driven:
    """What came of a number of operations: the tally, and the loop for more."""

    def __init__(self, server, kind="bind", connections=1, timeout=2.0):
        self.loop = Loop(kind, timeout, lambda: False)
        target = uri.parse(server.uri)
        for _ in range(connections):
            sock = connect.open_connection(target, uri.resolve(target), connect.Security(None, False), 5)
            self.loop.add(sock)
        self.make = bind_item if kind == "bind" else search_item

    def go(self, many, seconds=20.0):
        """Send `many` operations in a closed loop, no longer than `seconds`."""
        start = clock()
        tally = self.loop.begin(start)
        self.loop.closed(map(self.make, range(many)).__next__, start + int(seconds * SECOND))
        self.loop.end(start, clock())
        return tally

    def endless(self):
        return map(self.make, itertools.count()).__next__


@pytest.fixture
def drive():
    """Set a loop against a server: drive(server, kind=..., connections=..., timeout=...).go(many)."""
    made = []

    def make(*arguments, **more):
        made.append(Driven(*arguments, **more))
        return made[-1]

    yield make
    for driven in made:
        driven.loop.leave(0.2)
