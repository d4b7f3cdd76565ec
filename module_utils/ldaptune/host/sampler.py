# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings of a host and of one slapd on it, and the figures between two of them.

Everything comes from a handful of files that are kept open, so that a reading costs little while a leg is measured.
"""

from __future__ import annotations

import os
import time
from typing import Any, Collection, Dict, List, Mapping, Sequence, Tuple

from . import procfs
from .looks import STATES, Looker, read
from .process import PROC, rss_bytes
from .threads import task_ids

Reading = Dict[str, Any]
Figures = Dict[str, Any]

_KEPT = ("stat", "meminfo", "diskstats")


def network_cards(root: str = "/sys/class/net") -> Dict[str, Dict[str, Any]]:
    """Return for each network card its interrupts, as sysfs names them, and the names its driver may go by."""
    found: Dict[str, Dict[str, Any]] = {}
    for card in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        device = os.path.realpath("%s/%s/device" % (root, card))
        if not os.path.isdir(device):
            continue
        irqs: List[int] = []
        # A virtio card is the child of the PCI device that has the interrupts.
        for place in (device, os.path.dirname(device)):
            if os.path.isdir(place + "/msi_irqs"):
                irqs = sorted(int(name) for name in os.listdir(place + "/msi_irqs"))
                break
        found[card] = {"irqs": irqs, "names": [card, os.path.basename(device)]}
    return found


def disk_of(path: str) -> str:
    """Return "major:minor" of the block device a path lies on; "" where the file system has none of its own."""
    try:
        device = os.stat(path).st_dev
    except OSError:
        return ""
    return "%d:%d" % (os.major(device), os.minor(device)) if os.major(device) else ""


class HostReader:
    """Reads the host and the threads of one slapd. `listeners` and `main` are thread ids; all others are workers."""

    def __init__(self, pid: int, main: int, listeners: Sequence[int], cards: Mapping[str, Mapping[str, Any]]) -> None:
        self.pid = pid
        self.others = {main, *listeners}
        self.listeners = sorted(listeners)
        self._handles = {name: os.open("%s/%s" % (PROC, name), os.O_RDONLY) for name in _KEPT}
        self._looker = Looker(pid)
        self._workers: List[int] = []
        self._looks = dict.fromkeys(STATES, 0)
        cpus, table = self.interrupts()
        self.queues = procfs.network_queues(table, cards)
        self._first = {number: table[number] for number in self.queues}

    def _text(self, name: str) -> str:
        handle = self._handles[name]
        os.lseek(handle, 0, os.SEEK_SET)
        parts: List[bytes] = []
        while True:
            part = os.read(handle, 1 << 16)
            if not part:
                return b"".join(parts).decode("ascii", "replace")
            parts.append(part)

    @staticmethod
    def interrupts() -> Tuple[List[int], Dict[int, procfs.Interrupt]]:
        """Return /proc/interrupts; long on a large machine, so it is read at the two ends only."""
        return procfs.interrupts(read(PROC + "/interrupts"))

    def look(self) -> None:
        """See what the workers are doing now; the next reading has the sum of all looks since the one before."""
        try:
            found = self._looker.look(self._workers)
        except OSError:
            return
        for state, count in found.items():
            self._looks[state] += count

    def read(self) -> Reading:
        """Return a reading: counters since boot, and what is true at this moment."""
        stat = self._text("stat")
        reading: Reading = {
            "clock": time.monotonic(),
            "cpus": procfs.cpu_times(stat),
            "irqs": procfs.interrupt_totals(stat, sorted(self.queues)),
            "ctxt": procfs.stat_number(stat, "ctxt"),
            # The sampler itself is running while it reads.
            "running": max(0, procfs.stat_number(stat, "procs_running") - 1),
            "blocked": procfs.stat_number(stat, "procs_blocked"),
            "memory": procfs.memory(self._text("meminfo")),
            "disks": procfs.disks(self._text("diskstats")),
            "threads": self._threads(),
        }
        self.look()
        reading["looks"], self._looks = self._looks, dict.fromkeys(STATES, 0)
        return reading

    def _threads(self) -> Dict[int, procfs.Thread] | None:
        try:
            tids = task_ids(self.pid)
            memory = rss_bytes(self.pid)
        except (OSError, ValueError):
            self._workers = []
            return None
        self._workers = [tid for tid in tids if tid not in self.others]
        self.rss = memory
        found = {}
        for tid in tids:
            try:
                found[tid] = procfs.thread(read("%s/%d/task/%d/stat" % (PROC, self.pid, tid)))
            except OSError:
                continue
        # One that has ended and that nobody has waited for is still listed.
        gone = self.pid not in found or found[self.pid].state in "ZX"
        return None if gone else found

    def figures(self, before: Reading, after: Reading) -> Figures:
        """Return the figures of the stretch between two readings; rates are per second, shares per cent of one CPU."""
        seconds = after["clock"] - before["clock"]
        return {
            "seconds": round(seconds, 3),
            "cpus": cpu_shares(before["cpus"], after["cpus"]),
            "slapd": slapd_shares(before, after, self.listeners, self.others),
            "interrupts": {
                "%s %s" % self.queues[number]: round((count - before["irqs"].get(number, count)) / seconds, 1)
                for number, count in after["irqs"].items()
            },
            "memory": {**after["memory"], "slapd_rss_bytes": self.rss if after["threads"] else None},
            "run_queue": after["running"],
            "blocked": after["blocked"],
            "context_switches": round((after["ctxt"] - before["ctxt"]) / seconds),
            "disks": disk_shares(before["disks"], after["disks"], seconds),
        }

    def queue_cpus(self) -> List[Dict[str, Any]]:
        """Return for each queue of a network card how many interrupts came since the start, and on which CPUs."""
        cpus, table = self.interrupts()
        found = []
        for number, (card, label) in sorted(self.queues.items()):
            first, now = self._first[number].counts, table.get(number, self._first[number]).counts
            counts = {str(cpu): now[at] - first[at] for at, cpu in enumerate(cpus) if at < len(first)}
            counts = {cpu: count for cpu, count in counts.items() if count > 0}
            found.append({"card": card, "queue": label, "interrupt": number, "cpus": counts})
        return found

    def facts(self) -> Dict[str, Any]:
        """Return whether states of threads can be told on this machine, and how many sends to the log were seen."""
        return {"states_known": self._looker.known, "log_sends": self._looker.sends}

    def close(self) -> None:
        """Close the files."""
        for handle in self._handles.values():
            os.close(handle)
        self._handles = {}


def cpu_shares(before: Mapping[int, Sequence[int]], after: Mapping[int, Sequence[int]]) -> List[Dict[str, Any]]:
    """Return what each CPU did, in per cent of its time; niced time is user's, and what was stolen is not busy."""
    found = []
    for cpu, ticks in sorted(after.items()):
        parts = [max(0, now - then) for now, then in zip(ticks, before.get(cpu, ticks))]
        total = sum(parts)
        if not total:
            continue
        share = {name: 100.0 * part / total for name, part in zip(procfs.CPU_PARTS, parts)}
        share["user"] += share.pop("nice")
        idle = share.pop("idle")
        busy = 100.0 - idle - share["iowait"] - share["steal"]
        found.append({"cpu": cpu, "busy": round(busy, 1), **{name: round(value, 1) for name, value in share.items()}})
    return found


def slapd_shares(
    before: Reading, after: Reading, listeners: Sequence[int], others: Collection[int]
) -> Dict[str, Any] | None:
    """Return CPU shares by the threads' parts, in per cent of one CPU; None where slapd is gone."""
    if after["threads"] is None or before["threads"] is None:
        return None
    ticks = (after["clock"] - before["clock"]) * os.sysconf("SC_CLK_TCK") / 100.0
    shares = {}
    for tid, now in after["threads"].items():
        then = before["threads"].get(tid, procfs.Thread("", 0, 0))
        shares[tid] = ((now.user - then.user) / ticks, (now.system - then.system) / ticks)
    workers = {tid: share for tid, share in shares.items() if tid not in others}
    return {
        "listeners": [{"tid": tid, "percent": round(sum(shares[tid]), 1)} for tid in listeners if tid in shares],
        "workers": {
            "count": len(workers),
            "percent_total": round(sum(sum(share) for share in workers.values()), 1),
            "user_percent": round(sum(share[0] for share in workers.values()), 1),
            "system_percent": round(sum(share[1] for share in workers.values()), 1),
            "busiest_percent": round(max((sum(share) for share in workers.values()), default=0.0), 1),
            "looks": after["looks"],
        },
    }


def disk_shares(
    before: Mapping[str, procfs.Disk], after: Mapping[str, procfs.Disk], seconds: float
) -> Dict[str, Dict[str, Any]]:
    """Return how busy each disk was, in per cent of the time, and what it moved a second; by "major:minor"."""
    found = {}
    for key, now in after.items():
        then = before.get(key, now)
        found[key] = {
            "name": now.name,
            "busy_percent": round(min(100.0, (now.busy_ms - then.busy_ms) / seconds / 10.0), 1),
            "reads": round((now.reads - then.reads) / seconds, 1),
            "read_bytes": round((now.read_bytes - then.read_bytes) / seconds),
            "writes": round((now.writes - then.writes) / seconds, 1),
            "written_bytes": round((now.written_bytes - then.written_bytes) / seconds),
        }
    return found
