# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fixed rate: operations have planned times, whatever the server does; latency counts from the planned time.

An operation whose time has come waits for a free connection. What has waited longer than QUEUE_NS is dropped and
counted, so the queue is bounded and the phase ends in time.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Deque

from .connection import WOULD_BLOCK, Connection
from .loop import WAIT_SECONDS, Draw, Loop, clock
from .pacing import Timer
from .tally import CHUNK, SECOND

QUEUE_NS = SECOND
# Closer than this the time is waited out by polling: setting a timer would take as long.
NEAR_NS = 8000


def run(  # noqa: PLR0912, PLR0915 - one flat loop: calls cost
    loop: Loop, draw: Draw, start: int, end: int, *, rate: float, offset: float
) -> None:
    """Send at `rate` a second from `start` to `end` (ns of perf_counter); `offset` (0 to 1) shifts this process."""
    tally, table, poll, slow = loop.tally, loop.table, loop.epoll.poll, loop._slow
    fresh, fresh_service = tally.fresh, tally.fresh_service
    step = SECOND / rate
    tally.planned = total = max(0, math.ceil((end - start) / step - offset - 1e-6))
    free: Deque[Connection] = deque(c for c in loop.connections if c.alive and not c.busy)
    timer = Timer(loop.epoll)
    many, read, size = len(loop.connections) + 2, loop.reader(), loop.reading
    number = 0
    armed = -1  # for which operation the timer is set
    freed = start  # when the last connection came free that a due operation had waited for
    waited = 0

    def release(c: Connection, at: int) -> None:
        loop._idle(c)
        free.append(c)

    try:
        now = clock()
        while now < end or number < total:
            due = start + int((number + offset) * step)
            if number < total and now - due > QUEUE_NS:
                behind = min(total - number, int((now - QUEUE_NS - due) / step) + 1)
                number += behind
                tally.dropped += behind
                continue
            if number < total and due <= now and free:
                c = free.popleft()
                if not c.alive:
                    continue
                tally.fresh_lag.append(max(0, now - max(due, freed)))
                loop.send_next(c, draw, now)
                c.planned = due
                number += 1
                now = clock()
                continue
            if number >= total and now >= end:
                break
            near = number < total and free and due - now < NEAR_NS
            if number < total and free and not near and armed != number:
                timer.set(due - now)
                armed = number
            before = clock()
            wait = WAIT_SECONDS if number < total else min(WAIT_SECONDS, (end - now) / SECOND)
            events = poll(0 if near else wait, many)
            now = clock()
            waited += now - before
            starved = number < total and not free and due <= now
            for fd, _ in events:
                if fd == timer.fd:
                    armed = -1
                    continue
                c = table[fd]
                try:
                    data = read(fd, size)
                except WOULD_BLOCK:
                    loop._flush(c)
                    continue
                except OSError:
                    loop._lost(c, "reset")
                    continue
                now = clock()
                if data == c.shot[1] or (c.shot[1] is None and c.holds_entry(data)):
                    fresh.append(now - c.planned)
                    fresh_service.append(now - c.sent)
                elif not slow(c, data, now):
                    continue
                release(c, now)
                if starved:
                    freed = now
            if len(fresh) >= CHUNK:
                tally.flush()
            if now >= loop.check_at and loop.check(now, release):
                break
        tally.dropped += total - number
        tally.waited_ns += waited
    finally:
        timer.close()
