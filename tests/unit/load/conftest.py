# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A loop of the probe to set against a server made of a script."""

from __future__ import annotations

import itertools

import pytest
from ldaptune.load import connect, uri, wire
from ldaptune.load.loop import Loop, clock
from ldaptune.load.workload import Item

SECOND = 1000000000


def bind_item(number=0):
    made = wire.request(wire.simple_bind(b"uid=u%d,dc=x" % number, b"secret"))
    return Item("bind", made.head, made.tail, b"", "uid=u%d,dc=x" % number)


def search_item(number=0):
    dn = b"uid=u%d,dc=x" % number
    made = wire.request(wire.search(b"dc=x", wire.tlv(0xA3, wire.octets(b"uid") + wire.octets(b"u%d" % number)), []))
    return Item("search", made.head, made.tail, wire.octets(dn), dn.decode())


class Driven:
    """What came of a number of operations: the tally, and the loop for more."""

    def __init__(self, server, kind="bind", connections=1, timeout=2.0):
        self.loop = Loop([kind], timeout, lambda: False)
        target = uri.parse(server.uri)
        for _ in range(connections):
            sock = connect.open_connection(target, uri.resolve(target), connect.Security(None, False), 5)
            self.loop.add(sock)
        self.make = bind_item if kind == "bind" else search_item

    def go(self, many, seconds=20.0):
        """Send `many` operations in a closed loop, no longer than `seconds`."""
        start = clock()
        self.loop.armoury.renew()
        tally = self.loop.begin(start)
        self.loop.closed(self.draw(range(many)), start + int(seconds * SECOND))
        self.loop.end(start, clock())
        return tally

    def endless(self):
        return self.draw(itertools.count())

    def draw(self, numbers):
        return map(self.loop.armoury.shot, map(self.make, numbers)).__next__


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
