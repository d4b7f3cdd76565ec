# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Was the generator the limit? What is read from the system, and the judgement on it (see docs/authrate.md)."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Tuple

BUSY_CORE = 0.85  # a process is one thread: above this share of a core it is the bottleneck
STALLED = 0.15  # share of time in the middle of work, but neither on a CPU nor waiting for one
STOOD = 0.03  # share of time that it demonstrably stood still; healthy runs show none
UNREAD = 0.3  # the same for time that answers lay unread; waking up takes its time, so this is more
HELD = 0.5  # share of an operation's time that its answer lay unread, or the operation unsent
THROTTLED = 0.1  # share of time without CPU because of a quota
IDLE_ENOUGH = 0.3  # a host with this share idle had CPU to give
IDLE_LITTLE = 0.10  # a generator of its own needs this share idle
STEAL = 0.02


class HostCpu(NamedTuple):
    """CPU time of the whole host since boot, in ticks."""

    total: int
    idle: int
    steal: int


def host_cpu() -> HostCpu | None:
    """Read /proc/stat; None where it says nothing."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(field) for field in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    return HostCpu(sum(fields), fields[3] + fields[4], fields[7]) if len(fields) == 8 and any(fields) else None


def queued_seconds() -> float | None:
    """Return how long this process has waited for a CPU so far; None where the kernel does not count it."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def throttled_seconds() -> float:
    """Return how long a CPU quota (of this process's control group or one above it) has held the group so far."""
    longest = 0.0
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return longest
    for _, controllers, group in groups:
        path = group
        if not controllers:
            root, key, scale = "/sys/fs/cgroup", "throttled_usec", 1e6
        elif "cpu" in controllers.split(","):
            root, key, scale = "/sys/fs/cgroup/" + controllers, "throttled_time", 1e9
        else:
            continue
        while path not in ("/", ""):
            longest = max(longest, _counter(root + path + "/cpu.stat", key) / scale)
            path = os.path.dirname(path)
    return longest


def _counter(path: str, key: str) -> int:
    try:
        with open(path, encoding="ascii") as file:
            return int(dict(line.split() for line in file).get(key, 0))
    except (OSError, ValueError):
        return 0


def time_wait() -> int | None:
    """Return how many TCP connections of this host (of its network namespace) are in TIME_WAIT; None if not told."""
    try:
        with open("/proc/net/sockstat", encoding="ascii") as file:
            words = next(line for line in file if line.startswith("TCP:")).split()
        return int(words[words.index("tw") + 1])
    except (OSError, ValueError, StopIteration, IndexError):
        return None


def judge(result: Dict[str, Any], before: HostCpu | None, after: HostCpu | None, local: bool) -> Tuple[str, str]:
    """Return (server_limited | generator_limited | undetermined, why) for one phase's result."""
    processes: List[Dict[str, Any]] = result["processes"]
    mean = result["latency_ns"]["mean"]
    opened = result["mode"] == "open"
    if not mean or not processes:
        return "undetermined", "no operation succeeded"
    idle, steal = _shares(before, after)
    for number, process in enumerate(processes):
        found = _process(process, mean, opened, idle, steal)
        if found:
            return "generator_limited", "process %d of %d %s" % (number + 1, len(processes), found)
    if not local and idle is not None and (idle < IDLE_LITTLE or steal > STEAL):
        return "generator_limited", "the generator's host was %.0f %% idle, %.0f %% stolen" % (100 * idle, 100 * steal)
    held = max(_share(process["lag_mean_ns"], mean) for process in processes)
    if idle is None and held > HELD:
        return "undetermined", "answers lay unread for %.0f %% of an operation's time, CPU use unknown" % (100 * held)
    busiest = max(_share(process["cpu_seconds"], process["wall_seconds"]) for process in processes)
    where = "; server and generator share this host, so the figure is no capacity" if local else ""
    return "server_limited", "busiest generator process at %.0f %% of a core%s" % (100 * busiest, where)


def _process(process: Dict[str, Any], mean: float, opened: bool, idle: float | None, steal: float) -> str:
    wall = process["wall_seconds"]
    busy = _share(process["cpu_seconds"], wall)
    if busy > BUSY_CORE:
        return "used %.0f %% of a core: use more processes" % (100 * busy)
    stopped = _stopped(process, wall, steal)
    if stopped:
        return stopped
    held = _share(process["lag_mean_ns"], mean)
    if process["queued_seconds"] is not None:
        # It had work to do at least for the time between two waits, and at least for the share of an operation's time
        # that answers lay unread. What of this is neither CPU time, nor waiting for a CPU, nor taken by the hypervisor
        # (which falls on the busy CPUs, so it weighs double here), it was asleep or stopped.
        explained = busy + _share(process["queued_seconds"], wall) + 2 * steal
        working = 1 - _share(process["waited_seconds"], wall) - explained
        unread = 0.0 if opened else held - explained  # in an open phase it is the time that sending was late
        if working > STALLED or unread > UNREAD:
            return "stood still with work to do for %.0f %% of the time" % (100 * min(1.0, max(working, unread)))
    if opened and held > HELD:
        return "sent late: %.0f %% of the latency is its own" % (100 * held)
    if held > HELD and idle is not None and idle > IDLE_ENOUGH:
        return "held operations for %.0f %% of their time while CPUs were %.0f %% idle" % (100 * held, 100 * idle)
    return ""


def _stopped(process: Dict[str, Any], wall: float, steal: float) -> str:
    throttled = _share(process["throttled_seconds"], wall)
    if throttled > THROTTLED:
        return "was held by a CPU quota for %.0f %% of the time" % (100 * throttled)
    stood = _share(process.get("stood_seconds"), wall) - 2 * steal
    return "was stopped for %.0f %% of the time or more" % (100 * stood) if stood > STOOD else ""


def idle_share(before: HostCpu | None, after: HostCpu | None) -> float | None:
    """Return the share of the host's CPU time that was idle between two readings; None where it is not known."""
    return _shares(before, after)[0]


def _shares(before: HostCpu | None, after: HostCpu | None) -> Tuple[float | None, float]:
    if before is None or after is None or after.total <= before.total:
        return None, 0.0
    total = after.total - before.total
    return (after.idle - before.idle) / total, (after.steal - before.steal) / total


def _share(part: float | None, whole: float) -> float:
    return part / whole if part and whole else 0.0
