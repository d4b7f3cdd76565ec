# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One sampling of a host and its slapd: readings at an interval, by whoever calls; sampling.py runs it beside a leg."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from .directory.openldap import OpenLdap, connect
from .host import threads
from .host.facts import allowed_cpus
from .host.process import Slapd
from .host.sampler import HostReader, disk_of, network_cards
from .problems import LdaptuneError
from .snapshot import now_text

SCHEMA = 1
# A server that does not answer in so many seconds is not asked again: the host's own figures are then all there is.
MONITOR_SECONDS = 2
# Connections and waiters change slowly and cost two searches, so they are read at the second reading and every third
# one behind it; in between they are not told.
CLIENTS_EVERY = 3

CLIENTS = ("connections", "read_waiters", "write_waiters")

Raw = Dict[str, Any]


class Subject:
    """What is sampled: a slapd, how to reach its cn=monitor, and what of it does not change meanwhile."""

    def __init__(self, slapd: Slapd, server: Mapping[str, Any], database: Mapping[str, Any]) -> None:
        self.slapd = slapd
        self.server = dict(server, timeout=MONITOR_SECONDS)
        self.database = dict(database)
        self.notes: List[str] = []
        self.main = slapd.pid
        self.listeners: List[int] = []
        try:
            parts = threads.classify(slapd.pid)
            self.main, self.listeners = parts.main, parts.listeners
            running = threads.masks(parts.workers or [parts.main])
            self.cpus = sorted({cpu for mask in running.values() for cpu in mask})
        except (LdaptuneError, OSError) as error:
            self.notes.append("listeners are not told from workers: %s" % error)
            self.cpus = allowed_cpus(slapd.pid)

    def facts(self) -> Dict[str, Any]:
        """Return what a reader needs beside the readings."""
        return {
            "pid": self.slapd.pid,
            "worker_cpus": self.cpus,
            "listeners_known": bool(self.listeners),
            "database_disk": disk_of(str(self.database.get("directory") or "")),
        }


class Sampler:
    """Takes readings; `begin` once, then `take` at each interval, then `end`."""

    def __init__(self, subject: Subject, interval: float) -> None:
        self.subject = subject
        self.interval = interval
        self.notes = list(subject.notes)
        self.records: List[Dict[str, Any]] = []
        self.reader: HostReader | None = None
        self.directory: OpenLdap | None = None
        self._sent: Dict[str, int] = {}
        self._sent_before: Dict[str, int] = {}
        self._last: Tuple[Dict[str, Any], Dict[str, Any]] | None = None
        self._readings = 0
        self._started = ""
        self._cpu = self._clock = 0.0

    def prepare(self) -> None:
        """Open everything and read it once, so that nothing has to be loaded later."""
        subject = self.subject
        self.reader = HostReader(subject.slapd.pid, subject.main, subject.listeners, network_cards())
        self.reader.figures(self.reader.read(), self.reader.read())
        with self._asking():
            self.directory = connect(subject.server)
            # The same dict that the connection counts in: it outlives the connection.
            self._sent = self.directory.own_operations
            if not self.directory.pulse():
                self.notes.append("cn=monitor shows nothing to this identity")

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Give up on cn=monitor where it does not answer; a note says so."""
        try:
            yield
        except LdaptuneError as error:
            self.notes.append("cn=monitor is not read: %s" % error)
            self.directory = None

    def own(self) -> Dict[str, int]:
        """Return what this sampler has sent since `begin`, by kind."""
        return {kind: count - self._sent_before.get(kind, 0) for kind, count in sorted(self._sent.items())}

    def begin(self) -> None:
        """Take the first reading: what was sent before is no part of the leg."""
        self._sent_before = dict(self._sent)
        self._started = now_text()
        self._cpu, self._clock = time.process_time(), time.monotonic()
        self._last = self._reading()

    def _reading(self) -> Tuple[Dict[str, Any], Dict[str, Any]]:
        assert self.reader is not None
        host = self.reader.read()
        pulse: Dict[str, Any] = {}
        if self.directory is not None:
            with self._asking():
                found = self.directory.pulse()
                clock, fresh = time.monotonic(), self._readings % CLIENTS_EVERY == 1
                clients = self.directory.clients() if found and fresh else {}
                pulse = {**found, "clock": clock, "clients": clients} if found else {}
        self._readings += 1
        return host, pulse

    def since_last(self) -> float:
        """Return the seconds since the last reading."""
        return time.monotonic() - self._last[0]["clock"] if self._last else 0.0

    def look(self) -> None:
        """Look at the workers between two readings."""
        assert self.reader is not None
        self.reader.look()

    def take(self) -> None:
        """Take a reading and keep the figures since the one before."""
        assert self.reader is not None and self._last is not None
        now = self._reading()
        record = self.reader.figures(self._last[0], now[0])
        record["at"] = round(now[0]["clock"] - self._clock, 3)
        record["monitor"] = pulse_figures(self._last[1], now[1])
        self.records.append(record)
        self._last = now

    def end(self, why: str) -> Raw:
        """Return all that was seen; the connection is closed, the last of its operations counted."""
        assert self.reader is not None
        database: Dict[str, Any] = {}
        if self.directory is not None and self.subject.database:
            with self._asking():
                database = self.directory.database_figures(self.subject.database)
        cpu, clock = time.process_time() - self._cpu, time.monotonic() - self._clock
        if self.directory is not None:
            self.directory.close()
        queues = self.reader.queue_cpus()
        self.reader.close()
        return {
            "schema": SCHEMA,
            "started": self._started,
            "seconds": round(clock, 3),
            "interval": self.interval,
            "ended": why,
            "facts": {**self.subject.facts(), **self.reader.facts()},
            "records": self.records,
            "queues": queues,
            "database": database,
            "own": self.own(),
            "own_cpu_seconds": round(cpu, 4),
            "notes": self.notes,
        }


def pulse_figures(before: Mapping[str, Any], after: Mapping[str, Any]) -> Dict[str, Any] | None:
    """Return what clients did between two pulses, ours taken off, and what is true at the second."""
    if not before or not after:
        return None
    seconds = after["clock"] - before["clock"]
    counted = {}
    for kind, count in after["operations"].items():
        if kind == "total":
            continue
        ours = after["own"].get(kind, 0) - before["own"].get(kind, 0)
        counted[kind] = count - before["operations"].get(kind, 0) - ours
    pool = dict(after["threads"])
    if pool.get("active"):
        # The thread that serves this reading.
        pool["active"] -= 1
    return {
        "seconds": round(seconds, 3),
        "operations": {kind: count for kind, count in counted.items() if count},
        "operations_total": sum(counted.values()),
        "threads": pool,
        **dict.fromkeys(CLIENTS, None),
        **after["clients"],
    }
