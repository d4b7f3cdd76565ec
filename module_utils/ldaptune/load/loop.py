# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event loop of one process: one epoll, kept connections, one operation outstanding on each.

The common case, an answer that is byte for byte the expected one, is handled in the loops themselves; everything else
goes through `Connection.answers`. The process sleeps between most operations, so the CPU's caches are cold each time:
what counts is how few instructions and objects an operation touches.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from typing import Any, Callable, Dict, List, Sequence, Set, Tuple

from . import wire
from .answers import Lost
from .connection import IDLE, READ, WOULD_BLOCK, Connection
from .shots import Armoury, Shot, message_id
from .tally import CHUNK, SECOND, Tally, count

CHECK_NS = 50000000
SLIVER_NS = 10000000
WAIT_SECONDS = 0.05
LAG_EVERY = 32
# The kernel's time of arrival, of which a sample is compared with the time of reading; the socket module has no name.
SO_TIMESTAMPNS = 35

clock = time.perf_counter_ns
Draw = Callable[[], Shot]


class Loop:
    """All connections of one process; phases are run one after the other on it."""

    def __init__(self, kinds: Sequence[str], timeout: float, stopped: Callable[[], bool]) -> None:
        self.timeout_ns = int(timeout * SECOND)
        self.stopped = stopped
        self.connections: List[Any] = []
        self.table: Dict[int, Connection] = {}
        self.epoll = select.epoll()
        self.retired: Set[bytes] = set()
        self.only_binds = list(kinds) == ["bind"]
        self.armoury = Armoury()
        self.tally = Tally()
        self.progress: Callable[[Dict[str, Any]], None] | None = None
        self.check_at = 0
        self.second_at = 0

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
        tally, table, poll, retired = self.tally, self.table, self.epoll.poll, self.retired
        slow, fresh, append = self._slow, tally.fresh, tally.fresh.append
        many, read, size = len(self.connections) + 1, self.reader(), self.reading
        mark, sampled, waited, returned = LAG_EVERY, -1, 0, 0

        def again(c: Connection, at: int) -> None:
            self.send_next(c, draw, at)

        now = clock()
        for c in self.connections:
            if c.alive and not c.busy:
                self.send_next(c, draw, now)
        check_at = self.check_at
        while now < end:
            before = clock()
            events = poll(WAIT_SECONDS, many)
            now = clock()
            waited += now - before
            # by answers, not by awakenings: after a standstill many come at once, and they are the ones that lay unread
            if len(fresh) + len(events) >= mark:
                sampled, returned = self._kernel_lag(events), now
            for fd, _ in events:
                c = table[fd]
                try:
                    data = read(fd, size)
                except WOULD_BLOCK:
                    self._flush(c)
                    continue
                except OSError:
                    self._lost(c, "reset")
                    continue
                now = clock()
                if data == c.shot[1] or (c.shot[1] is None and c.holds_entry(data)):
                    append(now - c.sent)
                elif not slow(c, data, now):
                    continue
                # The rest of this block is send_next, spelled out: it is half of what an operation costs here.
                try:
                    shot = draw()
                except StopIteration:
                    self._idle(c)
                    check_at = 0  # it may have been the last
                    continue
                if retired and message_id(shot[0]) in retired:
                    shot = self.armoury.shot(shot[3], retired)
                c.shot = shot
                c.sent = now
                data = shot[0]
                try:
                    done = c.send(data)
                except OSError as error:
                    self._not_sent(c, data, error)
                    continue
                if done != len(data):
                    self._keep(c, data[done:])
            if returned:
                if sampled >= 0:
                    tally.fresh_lag.append(sampled + (now - returned) // 2)
                returned = 0
                if len(fresh) >= CHUNK:
                    tally.flush()
                mark = len(fresh) + LAG_EVERY
            if now >= check_at:
                if self.check(now, again) or not any(c.busy for c in self.connections):
                    break
                check_at = self.check_at
                mark = min(mark, len(fresh) + LAG_EVERY)  # a second's end empties `fresh`
        tally.waited_ns += waited

    def send_next(self, c: Connection, draw: Draw, now: int) -> None:
        """Send the next operation on an idle connection."""
        try:
            shot = draw()
        except StopIteration:
            self._idle(c)
            return
        if self.retired and message_id(shot[0]) in self.retired:
            shot = self.armoury.shot(shot[3], self.retired)
        c.shot, c.sent, c.planned, c.busy = shot, now, 0, True
        data = shot[0]
        try:
            done = c.send(data)
        except OSError as error:
            self._not_sent(c, data, error)
            return
        if done != len(data):
            self._keep(c, data[done:])

    def reader(self) -> Callable[[int, int], bytes]:
        """Return a function (descriptor, octets) that reads a connection; a plain one by the call that costs least."""
        if not any(c.tls for c in self.connections):
            return os.read
        table = self.table
        return lambda fd, size: table[fd].recv(size)

    @property
    def reading(self) -> int:
        """How many octets to read first."""
        return self.armoury.reading if self.only_binds else READ

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
        open_ones: List[Any] = []
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
        c.shot = IDLE

    def _slow(self, c: Connection, data: bytes, now: int) -> bool:
        """Read an answer in full; return whether the connection is free for the next operation."""
        try:
            if not data:
                raise Lost("eof" if c.busy else "eof_idle")
            data = c.read_on(data, self.reading)
            whole = not c.rest
            ended = c.answers(data, self.tally, self.retired)
        except Lost as lost:
            self._lost(c, lost.name)
            return False
        if not ended:
            return False
        if c.entries < 0:
            item = c.shot[3]
            if item.kind == "bind" and not item.code and whole and not c.rest:
                self.armoury.learn("bind", data, message_id(c.shot[0]))
            self.tally.fresh.append(now - (c.planned or c.sent))
            if c.planned:
                self.tally.fresh_service.append(now - c.sent)
        c.entries = c.wrong = c.references = 0
        return True

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
            count(self.tally.unsent_of, c.shot[3].kind)
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
                late = message_id(c.shot[0])
                c.late.add(late)
                self.retired.add(late)
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
