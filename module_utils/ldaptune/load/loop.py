# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event loop of one process: one epoll, kept connections, one operation outstanding on each.

The common case, an answer that is byte for byte the expected one, is handled in the loops themselves; everything else
goes through `Connection.answers`. Nothing is allocated an operation but the bytes sent and received.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import struct
import time
from typing import Any, Callable, Dict, List, Set, Tuple

from . import wire
from .connection import READ, WOULD_BLOCK, Connection, Lost
from .tally import CHUNK, SECOND, Tally, count
from .workload import Item

CHECK_NS = 50000000
SLIVER_NS = 10000000
WAIT_SECONDS = 0.05
FIRST_ID = 65536
MANY_IDS = 4096
SUCCESS_TAIL = b"\x0a\x01\x00\x04\x00\x04\x00"
LAG_EVERY = 32
# The kernel's time of arrival, of which a sample is compared with the time of reading; the socket module has no name.
SO_TIMESTAMPNS = 35

clock = time.perf_counter_ns
Draw = Callable[[], Item]


class Loop:
    """All connections of one process; phases are run one after the other on it."""

    def __init__(self, kind: str, timeout: float, stopped: Callable[[], bool]) -> None:
        self.kind = kind
        self.timeout_ns = int(timeout * SECOND)
        self.stopped = stopped
        self.connections: List[Connection] = []
        self.table: Dict[int, Connection] = {}
        self.epoll = select.epoll()
        self.retired: Set[bytes] = set()
        self.is_bind = kind == "bind"
        tag = b"\x61" if self.is_bind else b"\x65"
        self.answer = (b"\x30\x0e\x02\x03", tag + b"\x07" + SUCCESS_TAIL)
        self.many_ids = 0
        self.next_id: Callable[[], Tuple[bytes, bytes]] = self._ids()
        self.tally = Tally()
        self.progress: Callable[[Dict[str, Any]], None] | None = None
        self.learned: Tuple[bytes, bytes] | None = None
        self.check_at = 0
        self.second_at = 0

    def _ids(self) -> Callable[[], Tuple[bytes, bytes]]:
        """Return a source of (message id, expected answer): the same ids over and over, so both are made once.

        RFC 4511 allows an id again once its final answer came; ids still awaited are in `retired`.
        """
        before, behind = self.answer
        self.many_ids = max(MANY_IDS, 4 * len(self.connections))
        numbers = [wire.three_byte_id(number) for number in range(FIRST_ID, FIRST_ID + self.many_ids)]
        return itertools.cycle([(octets, before + octets + behind) for octets in numbers]).__next__

    def add(self, sock: socket.socket) -> None:
        """Take over a connected, non-blocking socket."""
        connection = Connection(sock)
        self.connections.append(connection)
        self.table[connection.fd] = connection
        self.epoll.register(connection.fd, select.EPOLLIN)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    @property
    def alive(self) -> int:
        """Connections in use."""
        return sum(1 for connection in self.connections if connection.alive)

    def begin(self, start: int) -> Tally:
        """Start counting anew."""
        self.tally = Tally()
        if self.learned or self.many_ids < 4 * len(self.connections):
            self.answer = self.learned or self.answer
            self.learned = None
            self.next_id = self._ids()
        self.check_at = start + CHECK_NS
        self.second_at = start + SECOND
        return self.tally

    def end(self, start: int, end: int) -> None:
        """Keep the last, partial second (unless it is a sliver) and what was done in time; then wait for the rest."""
        tally = self.tally
        if not tally.seconds or start + len(tally.seconds) * SECOND < min(end, clock()) - SLIVER_NS:
            tally.roll()
        tally.in_time = tally.successes
        self.drain()

    def closed(self, draw: Draw, end: int) -> None:  # noqa: PLR0912, PLR0915 - one flat loop: calls cost
        """Keep every connection busy until `end` (ns of perf_counter) or until `draw` is exhausted."""
        tally, table, poll, next_id, retired = self.tally, self.table, self.epoll.poll, self.next_id, self.retired
        is_bind, slow, fresh, append = self.is_bind, self._slow, tally.fresh, tally.fresh.append
        many = len(self.connections) + 1
        size = 256 if is_bind else READ
        lag_due, waited = LAG_EVERY, 0

        def again(c: Connection, at: int) -> None:
            self.send_next(c, draw, at)

        now = clock()
        for c in self.connections:
            if c.alive and not c.busy:
                self.send_next(c, draw, now)
        while now < end:
            before = clock()
            events = poll(WAIT_SECONDS, many)
            now = returned = clock()
            waited += now - before
            lag_due -= len(events)
            sampled = self._kernel_lag(events) if lag_due < 0 else -1
            for fd, _ in events:
                c = table[fd]
                try:
                    data = c.recv(size)
                except WOULD_BLOCK:
                    self._flush(c)
                    continue
                except OSError:
                    self._lost(c, "reset")
                    continue
                now = clock()
                if data == c.want if is_bind else c.holds_entry(data):
                    append(now - c.sent)
                elif not slow(c, data, now):
                    continue
                # The rest of this block is send_next, spelled out: it is half of what an operation costs here.
                try:
                    c.item = item = draw()
                except StopIteration:
                    self._idle(c)
                    self.check_at = 0  # it may have been the last
                    continue
                c.id, c.want = next_id()
                if retired:
                    while c.id in retired:
                        c.id, c.want = next_id()
                c.sent = now
                data = item[0] + c.id + item[1]
                try:
                    done = c.send(data)
                except OSError as error:
                    self._not_sent(c, data, error)
                    continue
                if done != len(data):
                    self._keep(c, data[done:])
            if sampled >= 0:
                lag_due = LAG_EVERY
                tally.fresh_lag.append(sampled + (now - returned) // 2)
            if len(fresh) >= CHUNK:
                tally.flush()
            if now >= self.check_at and (self.check(now, again) or not any(c.busy for c in self.connections)):
                break
        tally.waited_ns += waited

    def send_next(self, c: Connection, draw: Draw, now: int) -> None:
        """Send the next operation on an idle connection."""
        try:
            item = draw()
        except StopIteration:
            self._idle(c)
            return
        octets, want = self.next_id()
        while octets in self.retired:
            octets, want = self.next_id()
        c.item, c.id, c.want, c.sent, c.planned, c.busy = item, octets, want, now, 0, True
        data = item.head + octets + item.tail
        try:
            done = c.send(data)
        except OSError as error:
            self._not_sent(c, data, error)
            return
        if done != len(data):
            self._keep(c, data[done:])

    def drain(self) -> None:
        """Wait for what is outstanding, at most the operation timeout; afterwards nothing is."""
        while any(c.busy for c in self.connections):
            for fd, _ in self.epoll.poll(WAIT_SECONDS, len(self.connections) + 1):
                c = self.table[fd]
                try:
                    data = c.recv(READ)
                except WOULD_BLOCK:
                    self._flush(c)
                    continue
                except OSError:
                    self._lost(c, "reset")
                    continue
                if self._slow(c, data, clock()):
                    self._idle(c)
            self._time_out(clock(), lambda c, at: self._idle(c))
        self.tally.close()

    def leave(self, wait: float = 2.0) -> int:
        """Unbind and close all connections, waiting until the server has closed too; return the unbinds sent."""
        unbinds = 0
        open_ones: List[Connection] = []
        for c in self.connections:
            if c.alive:
                with contextlib.suppress(OSError):
                    c.send(wire.envelope(1, wire.unbind()))
                    unbinds += 1
                    open_ones.append(c)
        deadline = time.monotonic() + wait
        for c in open_ones:
            with contextlib.suppress(OSError):
                c.sock.settimeout(max(0.001, deadline - time.monotonic()))
                while c.recv(READ):
                    pass
        for c in self.connections:
            c.sock.close()
        self.connections.clear()
        self.epoll.close()
        return unbinds

    # What the loops do not do every time

    def _idle(self, c: Connection) -> None:
        c.busy = False
        c.want = b"-"

    def _slow(self, c: Connection, data: bytes, now: int) -> bool:
        """Read an answer in full; return whether the connection is free for the next operation."""
        try:
            if not data:
                raise Lost("eof" if c.busy else "eof_idle")
            data = c.read_on(data)
            whole = not c.rest
            ended = c.answers(data, self.tally, self.retired, self.kind)
        except Lost as lost:
            self._lost(c, lost.name)
            return False
        if not ended:
            return False
        if c.entries < 0:
            if self.is_bind and whole and not c.rest:
                self._learn(data, c.id)
            self.tally.fresh.append(now - (c.planned or c.sent))
            if c.planned:
                self.tally.fresh_service.append(now - c.sent)
        c.entries = c.wrong = c.references = 0
        return True

    def _learn(self, data: bytes, octets: bytes) -> None:
        """Note how this server writes a success, to know it at a glance from the next phase on."""
        before, found, behind = data.partition(octets)
        if found and octets not in behind and len(wire.cut(data)[0]) == 1:
            self.learned = (before, behind)

    def _lost(self, c: Connection, name: str) -> None:
        """Give a connection up: what was outstanding on it failed, answers still due will not come."""
        if not c.alive:
            return
        if c.busy:
            self.tally.fail(name)
        else:
            count(self.tally.failures, name)
        self.retired -= c.late
        c.alive = c.busy = False
        self.tally.connections_lost += 1
        self.epoll.unregister(c.fd)
        self.table.pop(c.fd, None)
        c.sock.close()

    def _not_sent(self, c: Connection, data: bytes, error: OSError) -> None:
        if isinstance(error, WOULD_BLOCK):
            self._keep(c, data)
        else:
            self.tally.unsent += 1
            self._lost(c, "reset")

    def _keep(self, c: Connection, data: bytes) -> None:
        """Keep what the socket did not take until it takes more."""
        c.unsent = data
        self.epoll.modify(c.fd, select.EPOLLIN | select.EPOLLOUT)

    def _flush(self, c: Connection) -> None:
        if not c.unsent:
            return
        try:
            done = c.send(c.unsent)
        except WOULD_BLOCK:
            return
        except OSError:
            self._lost(c, "reset")
            return
        c.unsent = c.unsent[done:]
        if not c.unsent:
            self.epoll.modify(c.fd, select.EPOLLIN)

    def _time_out(self, now: int, free: Callable[[Connection, int], None]) -> None:
        """End operations that took too long; `free` says what becomes of their connections.

        The answer may still come and must not be taken for another's. A connection with two such answers is given up.
        """
        for c in self.connections:
            if c.busy and now - c.sent > self.timeout_ns:
                if c.late or c.unsent:
                    self._lost(c, "op_timeout")
                    continue
                self.tally.fail("op_timeout")
                c.late.add(c.id)
                self.retired.add(c.id)
                c.entries = c.wrong = c.references = 0
                free(c, now)

    def check(self, now: int, free: Callable[[Connection, int], None]) -> bool:
        """Do what is due now and then; return whether the phase ends early."""
        self._time_out(now, free)
        while now >= self.second_at:
            self.second_at += SECOND
            row = self.tally.roll()
            if self.progress:
                self.progress(row)
        self.check_at = min(now + CHECK_NS, self.second_at)
        if not self.alive or self.stopped():
            self.tally.cut_short = True
            return True
        return False

    def _kernel_lag(self, events: List[Tuple[int, int]]) -> int:
        """Return how long (ns) the answer in the middle of these events lay in the kernel; 0 where it does not say."""
        if not events:
            return -1
        c = self.table[events[len(events) // 2][0]]
        try:
            _, extra, _, _ = socket.socket.recvmsg(c.sock, 1, 64, socket.MSG_PEEK)
        except OSError:
            return -1
        wall = time.time_ns()
        for level, kind, value in extra:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(value) >= 16:
                seconds: int
                nanoseconds: int
                seconds, nanoseconds = struct.unpack("@ll", value[:16])
                # clipped, since the wall clock may be set in between
                return max(0, min(wall - seconds * SECOND - nanoseconds, clock() - c.sent))
        return 0
