# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The threads of a slapd: which are listeners, and on which CPUs each may run.

Threads have no names of their own; a listener is the one that waits in epoll. A busy thread shows another call, so
each is looked at several times, and the result is checked against the process's eventpoll descriptors: one a listener.
"""

from __future__ import annotations

import os
import platform
import time
from typing import Dict, Iterable, List, NamedTuple, Sequence

from ..problems import LdaptuneError, problem
from .process import PROC, open_files

_LOOK_SECONDS = 3.0
_LOOK_STEP = 0.01
_EPOLL = {"x86_64": (232, 281, 441), "ppc64le": (238, 303, 441), "s390x": (250, 312, 441)}
_EPOLL_GENERIC = (22, 441)


class Threads(NamedTuple):
    """The threads of a process by their part: main waits only, listeners wait in epoll, workers are the rest."""

    main: int
    listeners: List[int]
    workers: List[int]


def task_ids(pid: int) -> List[int]:
    """Return the ids of all threads of a process, in order."""
    return sorted(int(name) for name in os.listdir("%s/%d/task" % (PROC, pid)))


def eventpolls(pid: int) -> List[int]:
    """Return the eventpoll descriptors of a process: one a listener."""
    return sorted(fd for fd, target in open_files(pid).items() if target == "anon_inode:[eventpoll]")


def _waits_in_epoll(pid: int, tid: int, calls: Sequence[int]) -> int | None:
    """Return the eventpoll descriptor a thread waits on at this moment, or None."""
    with open("%s/%d/task/%d/syscall" % (PROC, pid, tid), encoding="ascii") as stream:
        words = stream.read().split()
    if len(words) < 2 or not words[0].isdigit() or int(words[0]) not in calls:
        return None
    return int(words[1], 16)


def classify(pid: int, seconds: float = _LOOK_SECONDS) -> Threads:
    """Return the threads by their part; raises LdaptuneError where that cannot be told for certain."""
    calls = _EPOLL.get(platform.machine(), _EPOLL_GENERIC)
    deadline = time.monotonic() + seconds
    seen: Dict[int, int] = {}
    while True:
        wanted = set(eventpolls(pid))
        _look(pid, calls, seen)
        if wanted and set(seen.values()) == wanted and len(seen) == len(wanted):
            break
        if time.monotonic() > deadline:
            raise LdaptuneError(
                problem(
                    "the listener threads cannot be told from the workers",
                    where="slapd, pid %d" % pid,
                    found="%d threads in epoll, %d eventpoll descriptors" % (len(seen), len(wanted)),
                    wanted="one thread for each descriptor",
                    do="A module of slapd that waits in epoll itself makes this impossible.",
                )
            )
        time.sleep(_LOOK_STEP)
    others = [tid for tid in task_ids(pid) if tid not in seen and tid != pid]
    return Threads(pid, sorted(seen), others)


def _look(pid: int, calls: Sequence[int], seen: Dict[int, int]) -> None:
    """Add every thread now waiting in epoll to `seen`, and take out those that have ended."""
    tids = task_ids(pid)
    for tid in list(seen):
        if tid not in tids:
            del seen[tid]
    for tid in tids:
        try:
            descriptor = _waits_in_epoll(pid, tid, calls)
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            raise LdaptuneError(
                problem(
                    "the threads of slapd cannot be looked at",
                    where="slapd, pid %d" % pid,
                    do="This needs root or CAP_SYS_PTRACE.",
                )
            ) from None
        if descriptor is not None:
            seen[tid] = descriptor


def mask(tid: int) -> List[int] | None:
    """Return the CPUs a thread may run on, or None where it has ended."""
    try:
        return sorted(os.sched_getaffinity(tid))
    except ProcessLookupError:
        return None


def masks(tids: Iterable[int]) -> Dict[int, List[int]]:
    """Return the CPUs of each thread that still exists."""
    found = {tid: mask(tid) for tid in tids}
    return {tid: cpus for tid, cpus in found.items() if cpus is not None}


def pin(tids: Iterable[int], cpus: Sequence[int]) -> List[int]:
    """Set the CPUs of threads; returns those that have ended meanwhile. A refusal names thread and CPUs."""
    gone = []
    for tid in tids:
        try:
            os.sched_setaffinity(tid, cpus)
        except ProcessLookupError:
            gone.append(tid)
        except OSError as error:
            raise LdaptuneError(
                problem(
                    "the kernel refused to pin a thread",
                    where="thread %d of slapd" % tid,
                    found=os.strerror(error.errno or 0),
                    wanted="CPUs %s" % ",".join(str(cpu) for cpu in cpus),
                    do="Its cpuset allows none of these CPUs.",
                )
            ) from None
    return gone
