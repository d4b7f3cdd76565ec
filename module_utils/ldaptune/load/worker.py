# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One process of the probe: takes orders from its parent line by line, runs phases, gives its tallies back."""

from __future__ import annotations

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
from .connect import ConnectFailed, Security, login, open_connection
from .heartbeat import Heartbeat
from .loop import Loop, clock
from .shots import FEWEST, Shot
from .tally import SECOND, count
from .uri import Target
from .workload import Workload


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
        self.shots: List[Shot] = []
        self.loop = Loop(job.workload.kind, job.timeout, self._stopped)
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
            while self.loop.alive < self.job.connections:
                self._connect()
        except ConnectFailed as failed:
            return {"connected": self.loop.alive, "failed": [failed.name, failed.text]}
        return {"connected": self.loop.alive}

    def _connect(self) -> None:
        job = self.job
        sock = open_connection(job.target, job.addresses, job.security, job.timeout)
        count(self.totals, "connections")
        if job.security.starttls:
            count(self.totals, "extended")
        if job.workload.login:
            count(self.totals, "bind")
            try:
                login(sock, job.workload.login, job.timeout)
            except ConnectFailed:
                sock.close()
                raise
        self.loop.add(sock)

    def _draw(self, spec: Dict[str, Any]) -> Callable[[], Shot]:
        job, armoury = self.job, self.loop.armoury
        items = job.workload.items
        if armoury.renew():
            self.shots = []
        if spec["mode"] == "sample":
            many = spec["many"] if job.number == 0 else 0
            chosen = [items[number * len(items) // many] for number in range(many)][: len(items)]
            return iter(armoury.shots(chosen)).__next__
        if spec["mode"] == "pass":
            return map(armoury.shot, items[job.number :: job.processes]).__next__
        self.shots = self.shots or armoury.shots(items, FEWEST)
        seed = "%s/%s/%d" % (job.seed, spec["name"], job.number)
        return patterns.drawer(self.shots, seed, job.workload.sequential, job.number, job.processes)

    def _phase(self, spec: Dict[str, Any], start: int) -> Dict[str, Any]:
        loop, draw = self.loop, self._draw(spec)
        again = self._connect_all()
        time.sleep(max(0, start - clock()) / SECOND)
        start = clock()
        tally = loop.begin(start)
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
        if spec["mode"] == "open":
            share = self.job.processes
            open_loop.run(loop, draw, start, end, rate=spec["rate"] / share, offset=self.job.number / share)
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
            tally.planned = len(self.job.workload.items[self.job.number :: self.job.processes])
        count(self.totals, self.job.workload.kind, tally.successes + tally.errors - tally.unsent)
        return tally.state()


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
