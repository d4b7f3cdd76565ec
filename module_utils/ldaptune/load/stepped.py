# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event loop of clients that do more than one operation after the other on a kept connection.

Clients are small state machines (clients.py, connecting.py). The loop hands them events, tells each when to begin, and
keeps the same books as the fast loop, of which it is a kind.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import select
import socket
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Tuple

from .answers import Lost
from .channel import Channel, Waiting
from .loop import WAIT_SECONDS, Loop, clock
from .open_loop import QUEUE_NS
from .pacing import Timer
from .tally import CHUNK, SECOND, count
from .workload import Item, Stepping

#: A client that could not even connect waits so long before the next try.
BACKOFF_NS = 10000000

Take = Callable[[], Item]


def _nothing(client: Any, now: int) -> None:
    """Between phases nobody begins anything."""


class Client:
    """One simulated client; `channels` are its kept connections."""

    def __init__(self, loop: SteppedLoop, channels: List[Channel]) -> None:
        self.loop = loop
        self.channels = channels
        self.busy = False
        self.alive = True
        self.started = 0
        self.planned = 0
        self.waiting: Waiting | None = None

    def begin(self, item: Item, planned: int, now: int) -> None:
        """Start an operation; `planned` is 0 where it has no planned time."""
        self.busy, self.planned, self.started = True, planned, now
        self.act(item, now)

    def act(self, item: Item, now: int) -> None:
        """Do the first step."""
        raise NotImplementedError

    def answered(self, waiting: Waiting, now: int) -> None:
        """Go on after an operation has ended on one of the channels."""
        raise NotImplementedError

    def ask(self, channel: Channel, item: Item, tail: bytes, now: int) -> None:
        """Send an operation; where that fails, the client is no more."""
        try:
            self.waiting = channel.ask(item, tail, now)
        except Lost as lost:
            self.loop.lost(channel, lost.name)
            return
        self.waiting.client = self
        count(self.loop.tally.sent, item.kind)

    def time_out(self, now: int) -> None:
        """End an operation that took too long; a channel with more late answers than clients is given up."""
        for channel in self.channels:
            mine = self.waiting is not None and channel.forget(self.waiting)
            if mine and len(channel.late) > self.loop.stepping.window:
                self.loop.lost(channel, "op_timeout")
                return
        self.loop.tally.fail("op_timeout")
        self.loop.ended(self, False, now)


    def leave(self) -> None:
        """Drop what is not a kept connection; those the loop closes."""


class SteppedLoop(Loop):
    """All clients of one process; `make` returns the clients of new channels, `dial` those that connect themselves."""

    def __init__(
        self,
        stepping: Stepping,
        timeout: float,
        stopped: Callable[[], bool],
        make: Callable[[SteppedLoop, List[Channel]], List[Client]],
    ) -> None:
        super().__init__([], timeout, stopped)
        self.stepping = stepping
        self.make = make
        self.units: List[List[Client]] = []
        self.handlers: Dict[int, Callable[[int, int], None]] = {}
        #: Whether an operation of several parts is to be done to its end (a pass over everything).
        self.whole = False
        self._free: Callable[[Client, int], None] = _nothing
        self._rest: Callable[[Client, int], None] = _nothing

    @property
    def clients(self) -> List[Client]:
        """All clients, those without a connection too."""
        return [client for unit in self.units for client in unit]

    @property
    def alive(self) -> int:
        return sum(1 for unit in self.units if unit[0].alive)

    def add(self, *socks: socket.socket) -> None:
        """Take over the connections of one more client (or of those that share one)."""
        channels = [Channel(sock, self.epoll) for sock in socks]
        for channel in channels:
            self.watch(channel.fd, select.EPOLLIN, self._channel_event(channel))
        self.connections.extend(channels)
        self.units = [unit for unit in self.units if unit[0].alive]
        self.units.append(self.make(self, channels))

    def watch(self, fd: int, events: int, handler: Callable[[int, int], None]) -> None:
        """Call handler(mask, now) at each of these events of a descriptor."""
        self.epoll.register(fd, events)
        self.handlers[fd] = handler

    def unwatch(self, fd: int) -> None:
        """No longer."""
        if self.handlers.pop(fd, None) is not None:
            self.epoll.unregister(fd)

    def ended(self, client: Client, well: bool, now: int) -> None:
        """Count a success, and let the client be used again."""
        client.busy = False
        client.waiting = None
        if well:
            self.tally.fresh.append(now - (client.planned or client.started))
            if client.planned:
                self.tally.fresh_service.append(now - client.started)
        self._free(client, now)

    def rest(self, client: Client, until: int) -> None:
        """Leave a client alone until then (in a running phase)."""
        self._rest(client, until)

    def lost(self, channel: Channel, name: str) -> None:
        """Give a connection up, and the clients that need it."""
        if not channel.alive:
            return
        using = [client for client in self.clients if channel in client.channels and client.alive]
        if not any(client.busy for client in using):
            count(self.tally.failures, name)
        for client in using:
            client.alive = False
            if client.busy:
                self.tally.fail(name)
                client.busy = False
            for other in client.channels:
                if other.alive:
                    other.alive = False
                    self.tally.connections_lost += 1
                    self.unwatch(other.fd)
                    other.sock.close()

    def _channel_event(self, channel: Channel) -> Callable[[int, int], None]:
        def event(mask: int, now: int) -> None:
            try:
                if mask & select.EPOLLOUT:
                    channel.flush()
                ended = channel.read(self.tally)
            except Lost as lost:
                self.lost(channel, lost.name)
                return
            for waiting in ended:
                client: Client = waiting.client
                client.answered(waiting, now)

        return event

    def run(self, draw: Take, start: int, end: int, *, rate: float = 0.0, offset: float = 0.0) -> None:
        """Keep every client busy from `start` to `end` (ns), or begin at planned times, `rate` a second."""
        phase = _Phase(self, draw, start, end, rate=rate, offset=offset)
        self._free, self._rest = phase.free, phase.rest
        timer = Timer(self.epoll)
        try:
            while not phase.over():
                wait = phase.go()
                if 0 < wait < WAIT_SECONDS * SECOND:
                    timer.set(wait)
                self._turn(0.0 if wait == 0 else WAIT_SECONDS, timer.fd)
                if len(self.tally.fresh) >= CHUNK:
                    self.tally.flush()
                if clock() >= self.check_at and self.check(clock(), lambda c, now: None):
                    break
            phase.close()
        finally:
            timer.close()
            self._free = self._rest = _nothing

    def _turn(self, seconds: float, timer: int = -1) -> None:
        """Wait for events and hand them out."""
        before = clock()
        events = self.epoll.poll(seconds, len(self.handlers) + 2)
        now = clock()
        self.tally.waited_ns += now - before
        for fd, mask in events:
            handler = self.handlers.get(fd)
            if handler is not None and fd != timer:
                handler(mask, clock())

    def drain(self) -> None:
        """Wait for what is outstanding, at most the operation timeout; afterwards nothing is."""
        until = clock() + self.timeout_ns + SECOND
        while clock() < until and (any(client.busy for client in self.clients) or self.closing()):
            self._turn(WAIT_SECONDS)
            self._time_out(clock(), lambda c, now: None)
        self.tally.close()

    def closing(self) -> bool:
        """Return whether connections are still being closed."""
        kept = {channel.fd for channel in self.connections if channel.alive}
        return any(fd not in kept for fd in self.handlers)

    def _time_out(self, now: int, free: Any) -> None:
        for client in self.clients:
            if client.busy and now - client.started > self.timeout_ns:
                client.time_out(now)

    def leave(self, wait: float = 2.0) -> int:
        for client in self.clients:
            client.leave()
        for fd in list(self.handlers):
            self.unwatch(fd)
        return super().leave(wait)


class _Phase:
    """When the next operation begins, and who begins it."""

    def __init__(self, loop: SteppedLoop, draw: Take, start: int, end: int, *, rate: float, offset: float) -> None:
        self.loop, self.draw, self.start, self.end = loop, draw, start, end
        self.think = int(loop.stepping.think * SECOND)
        self.step = SECOND / rate if rate else 0.0
        self.offset = offset
        self.total = max(0, math.ceil((end - start) / self.step - offset - 1e-6)) if rate else 0
        self.number = 0
        self.dropped = 0
        self.exhausted = False
        self.ready: Deque[Client] = deque()
        self.resting: List[Tuple[int, int, Client]] = []
        self.order = itertools.count()
        clients = [client for client in loop.clients if client.alive and not client.busy]
        for place, client in enumerate(clients):
            # Spread over one time of thinking: they would all begin at once otherwise.
            self.rest(client, start + self.think * place // len(clients)) if self.think else self.ready.append(client)

    def rest(self, client: Client, until: int) -> None:
        """Leave a client alone until then."""
        heapq.heappush(self.resting, (until, next(self.order), client))

    def free(self, client: Client, now: int) -> None:
        """Take back a client whose operation has ended."""
        if self.think:
            self.rest(client, now + self.think)
        else:
            self.ready.append(client)

    def over(self) -> bool:
        """Return whether nothing is to begin any more."""
        if self.exhausted:
            return not any(client.busy for client in self.loop.clients)
        now = clock()
        return now >= self.end and self.number >= self.total if self.step else now >= self.end

    def go(self) -> int:
        """Let begin what may; return the ns until the next may, -1 where only an answer can bring it about."""
        now = clock()
        while self.resting and self.resting[0][0] <= now:
            self.ready.append(heapq.heappop(self.resting)[2])
        next_rest = self.resting[0][0] - now if self.resting else -1
        if self.exhausted:
            return next_rest
        return self._planned(now, next_rest) if self.step else self._at_once(now, next_rest)

    def _at_once(self, now: int, next_rest: int) -> int:
        for _ in range(len(self.ready)):
            if now >= self.end or not self._may_begin() or not self._begin(0, now):
                break
            now = clock()
        return 0 if self.ready and not self.exhausted else next_rest

    def _planned(self, now: int, next_rest: int) -> int:
        tally = self.loop.tally
        while self.number < self.total:
            due = self.start + int((self.number + self.offset) * self.step)
            if now - due > QUEUE_NS:
                self.number += 1
                self.dropped += 1
                continue
            if due > now:
                return due - now if next_rest < 0 or not self.ready else min(due - now, next_rest)
            if not self._may_begin():
                return next_rest
            tally.fresh_lag.append(now - due)
            if not self._begin(due, now):
                return next_rest
            self.number += 1
            now = clock()
        return next_rest

    def _may_begin(self) -> bool:
        """Return whether a client is there to begin; those that lost their connection are passed over."""
        while self.ready and not self.ready[0].alive:
            self.ready.popleft()
        return bool(self.ready)

    def _begin(self, planned: int, now: int) -> bool:
        client = self.ready.popleft()
        try:
            item = self.draw()
        except StopIteration:
            self.exhausted = True
            return False
        client.begin(item, planned, now)
        return True

    def close(self) -> None:
        """Keep the numbers of a fixed rate."""
        if self.step:
            self.loop.tally.planned = self.total
            self.loop.tally.dropped += self.dropped + self.total - self.number


def quietly_close(sock: socket.socket) -> None:
    """Close a socket that may be broken."""
    with contextlib.suppress(OSError):
        sock.close()
