# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One process of the probe: takes orders from its parent line by line, runs phases, gives its tallies back."""

from __future__ import annotations

import collections
import contextlib
import gc
import json
import os
import select
import signal
import socket
import time
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Tuple

from . import limits, open_loop, patterns
from .channel import Channel
from .clients import CHANNELS, kept
from .connect import ConnectFailed, Security, login, open_connection
from .connecting import Connecting
from .heartbeat import Heartbeat
from .loop import Loop, clock
from .shots import FEWEST, Shot
from .stepped import Client, SteppedLoop
from .tally import SECOND, Tally, count
from .uri import Target
from .workload import Item, Workload


class Job(NamedTuple):
    """What a worker process works on; inherited by fork, so passwords never leave the memory."""

    target: Target
    addresses: List[Tuple[int, Any]]
    security: Security
    workload: Workload
    connections: int
    number: int
    processes: int
    seed: str
    timeout: float
    live: bool


class Worker:
    """The child's side of the order line."""

    def __init__(self, job: Job, line: socket.socket) -> None:
        self.job = job
        self.line = line
        self.totals: Dict[str, int] = {}
        self.stop = False
        self.shots: List[List[Shot]] = []
        self.mixer: patterns.Mixer | None = None
        self.stepped = make_loop(job.workload, job, self._stopped)
        self.loop: Loop = self.stepped or Loop(job.workload.kinds, job.timeout, self._stopped)
        if job.live:
            self.loop.progress = lambda row: self._say({"row": row})

    def _say(self, data: Dict[str, Any]) -> None:
        self.line.sendall(json.dumps(data).encode() + b"\n")

    def _stopped(self) -> bool:
        """Tell whether the parent said stop, or is gone; both come as something readable on the order line."""
        if not self.stop:
            self.stop = bool(select_readable(self.line))
        return self.stop

    def run(self) -> None:
        """Connect, then do what the parent says until it says leave or is gone."""
        orders = self.line.makefile("rb")
        while True:
            line = orders.readline()
            order: Dict[str, Any] = json.loads(line) if line else {"leave": True}
            if "connect" in order:
                self._say(self._connect_all())
            elif "phase" in order:
                self._say({"tally": self._phase(order["phase"], order["start"])})
            elif "leave" in order:
                break
        count(self.totals, "unbind", self.loop.leave())
        self._say({"totals": self.totals})

    def _connect_all(self) -> Dict[str, Any]:
        """Open what is missing of this process's connections; tell how many there are, and the first failure."""
        try:
            for _ in range(self.job.connections - self.loop.alive):
                self._connect()
        except ConnectFailed as failed:
            return {"connected": self.loop.alive, "failed": [failed.name, failed.text]}
        return {"connected": self.loop.alive}

    def _connect(self) -> None:
        """Open what one client needs, the first connection with the login where there is one."""
        needed = CHANNELS[self.stepped.stepping.clients] if self.stepped else 1
        self.loop.add(*[self._open(number == 0) for number in range(needed)])

    def _open(self, with_login: bool) -> socket.socket:
        job = self.job
        sock = open_connection(job.target, job.addresses, job.security, job.timeout)
        count(self.totals, "connections")
        if job.security.starttls:
            count(self.totals, "extended")
        if job.workload.login and with_login:
            count(self.totals, "bind")
            try:
                login(sock, job.workload.login, job.timeout)
            except ConnectFailed:
                sock.close()
                raise
        return sock

    def _draw(self, spec: Dict[str, Any]) -> Callable[[], Any]:
        """Return what gives the next operation: a shot for the fast loop, an item for the stepped one."""
        job, armoury = self.job, self.loop.armoury
        pools = job.workload.pools
        self.mixer = None
        if armoury.renew():
            self.shots = []
        if spec["mode"] == "sample":
            many = spec["many"] if job.number == 0 else 0
            first = pools[0].items
            chosen = [first[number * len(first) // many] for number in range(many)][: len(first)]
            return iter(chosen if self.stepped else armoury.shots(chosen)).__next__
        if spec["mode"] == "pass":
            return iter(self._share()).__next__ if self.stepped else map(armoury.shot, self._share()).__next__
        if not self.stepped:
            self.shots = self.shots or [armoury.shots(pool.items, FEWEST) for pool in pools]
        drawn: List[Any] = [pool.items for pool in pools] if self.stepped else self.shots
        seed = "%s/%s/%d" % (job.seed, spec["name"], job.number)
        if len(pools) == 1:
            return patterns.drawer(drawn[0], seed, pools[0].sequential, job.number, job.processes)
        drawers = [
            patterns.drawer(things, "%s/%d" % (seed, place), pool.sequential, job.number, job.processes)
            for place, (pool, things) in enumerate(zip(pools, drawn))
        ]
        self.mixer = patterns.Mixer(drawers, [pool.weight for pool in pools], seed)
        return self.mixer.draw

    def _share(self) -> List[Item]:
        """Return this process's part of what goes out once in a pass."""
        return self.job.workload.regular[self.job.number :: self.job.processes]

    def _count_sent(self, tally: Tally, mode: str) -> None:
        """Add what was sent to the totals: each operation that was drawn, but for those the socket did not take."""
        pools = self.job.workload.pools
        if self.stepped:
            sent = list(tally.sent.items())
        elif self.mixer:
            sent = [(pool.items[0].kind, drawn) for pool, drawn in zip(pools, self.mixer.drawn)]
        elif mode == "pass":
            gone = self._share()[: tally.successes + tally.errors]
            sent = list(collections.Counter(item.kind for item in gone).items())
        else:
            sent = [(pools[0].items[0].kind, tally.successes + tally.errors)]
        for kind, times in sent:
            count(self.totals, kind, times)
        for kind, times in tally.unsent_of.items():
            count(self.totals, kind, -times)

    def _phase(self, spec: Dict[str, Any], start: int) -> Dict[str, Any]:
        loop, draw = self.loop, self._draw(spec)
        again = self._connect_all()
        time.sleep(max(0, start - clock()) / SECOND)
        late, start = clock() - start, clock()
        tally = loop.begin(start)
        tally.started_late_ns = max(0, late)
        if "failed" in again:
            name, text = again["failed"]
            count(tally.failures, name)
            tally.remark(name, text)
            tally.connections_lost += self.job.connections - again["connected"]
        tally.connections = again["connected"]
        tally.naming = spec["mode"] == "sample"
        gc.disable()
        heartbeat = Heartbeat()
        heartbeat.start()
        cpu, queued, throttled = time.process_time(), limits.queued_seconds(), limits.throttled_seconds()
        end = start + int(spec["seconds"] * SECOND)
        share = self.job.processes
        rate, offset = (spec["rate"] / share, self.job.number / share) if spec["mode"] == "open" else (0.0, 0.0)
        if self.stepped:
            self.stepped.whole = spec["mode"] == "pass"
            self.stepped.run(draw, start, end, rate=rate, offset=offset)
        elif rate:
            open_loop.run(loop, draw, start, end, rate=rate, offset=offset)
        else:
            loop.closed(draw, end)
        tally.elapsed_ns = clock() - start
        tally.cpu_seconds = time.process_time() - cpu
        queued_now = limits.queued_seconds()
        tally.queued_seconds = None if queued is None or queued_now is None else queued_now - queued
        tally.throttled_seconds = limits.throttled_seconds() - throttled
        tally.stood_seconds = heartbeat.stop()
        loop.end(start, end)
        gc.enable()
        if spec["mode"] == "pass":
            tally.planned = len(self._share())
        self._count_sent(tally, spec["mode"])
        return tally.state()


def make_loop(workload: Workload, job: Job, stopped: Callable[[], bool]) -> SteppedLoop | None:
    """Return the loop of a workload whose clients do more than one thing after the other, None for all others."""
    if workload.stepping is None:
        return None

    def make(loop: SteppedLoop, channels: List[Channel]) -> List[Client]:
        if channels:
            return kept(loop, channels)
        return [Connecting(loop, job.target, job.addresses, job.security)]

    return SteppedLoop(workload.stepping, job.timeout, stopped, make)


def select_readable(line: socket.socket) -> bool:
    """Tell whether something can be read now."""
    poller = select.poll()
    poller.register(line, select.POLLIN)
    return bool(poller.poll(0))


def child(job: Job, line: socket.socket, deadline: int) -> NoReturn:
    """Be the worker process: never returns; ends by itself at the deadline (seconds from now) whatever happens."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(deadline)
        Worker(job, line).run()
        code = 0
    except BrokenPipeError:
        code = 2  # the parent is gone
    except Exception as error:  # noqa: BLE001 - the parent must hear of any end
        place = error.__traceback__
        while place and place.tb_next:
            place = place.tb_next
        where = (
            "line %d of %s" % (place.tb_lineno, os.path.basename(place.tb_frame.f_code.co_filename)) if place else ""
        )
        with contextlib.suppress(OSError):
            line.sendall(json.dumps({"crash": "%s at %s" % (type(error).__name__, where)}).encode() + b"\n")
    finally:
        with contextlib.suppress(OSError):
            line.close()
        os._exit(code)
