# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPUs slapd's threads run on.

slapd creates workers late, and a new one inherits the mask of the thread that made it, mostly a listener. So the pool
is filled while the listeners have the workers' mask, and the listeners get their own last.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from ..host import threads
from ..host.facts import allowed_cpus
from ..problems import LdaptuneError, Problem, problem
from . import companion, pool
from .base import Observation, observation, unsupported
from .context import Context
from .host_lever import HostLever

MaskOf = Callable[[int], List[int]]


def _common(masks: Dict[int, List[int]]) -> List[int] | None:
    """Return the one mask that all threads have, or None where they differ."""
    distinct = {tuple(mask) for mask in masks.values()}
    return list(distinct.pop()) if len(distinct) == 1 else None


def _arrange(ctx: Context, base: List[int], listener_mask: MaskOf, worker_mask: MaskOf) -> None:
    """Fill the pool with threads made on `base`, then give every thread its own mask and verify each one."""
    pid = ctx.slapd.pid
    before = threads.classify(pid)
    found = threads.masks(before.listeners)
    try:
        threads.pin(before.listeners, base)
        pool.fill(ctx)
        parts = threads.classify(pid)
        wanted = {tid: sorted(worker_mask(tid)) for tid in [parts.main, *parts.workers]}
        wanted.update({tid: sorted(listener_mask(tid)) for tid in parts.listeners})
        for tid, cpus in wanted.items():
            threads.pin([tid], cpus)
    except BaseException:
        for tid, cpus in found.items():
            threads.pin([tid], cpus)
        raise
    now = threads.masks(threads.task_ids(pid))
    wrong = {tid: cpus for tid, cpus in now.items() if cpus != wanted.get(tid)}
    if wrong:
        raise LdaptuneError(
            problem(
                "threads of slapd are not on the CPUs they were given",
                where="pid %d" % pid,
                found="; ".join("thread %d on %s" % item for item in sorted(wrong.items())),
                wanted="; ".join("thread %d on %s" % (tid, wanted.get(tid, "none")) for tid in sorted(wrong)),
            )
        )


class CpuLever(HostLever):
    """What both kinds of threads share. The kernel forgets masks when slapd restarts; the companion pins again.

    Its record is {"pid", "start", "main", "listeners": {thread: CPUs}, "workers": {thread: CPUs}, "companion": null
    where this host can have none, else {"cpus": what it brings back or null, "there": whether it lies on the host}}.
    """

    def impossible(self, ctx: Context) -> str:
        """Return why threads cannot be pinned here, or ""."""
        if pool.full(ctx) is None:
            return "cn=monitor does not show the thread pool, so nobody could tell when it is full"
        if not pool.way_in(ctx):
            return "slapd has neither an ldapi nor an ldap URI by which its thread pool could be filled"
        return ""

    def observe(self, ctx: Context) -> Observation:
        reason = self.impossible(ctx)
        if reason:
            return unsupported(reason)
        try:
            parts = threads.classify(ctx.slapd.pid)
        except LdaptuneError as error:
            return unsupported(str(error))
        listeners, workers = threads.masks(parts.listeners), threads.masks(parts.workers)
        main = threads.mask(parts.main) or []
        record = {
            "pid": ctx.slapd.pid,
            "start": ctx.slapd.start,
            "main": main,
            "listeners": {str(tid): cpus for tid, cpus in listeners.items()},
            "workers": {str(tid): cpus for tid, cpus in workers.items()},
            "companion": None,
        }
        if not companion.impossible(ctx):
            record["companion"] = {"cpus": companion.kept(ctx, self.key), "there": companion.traces(ctx)}
        configured = _kept(record)
        return observation(record, configured, self.in_force(ctx, listeners, {parts.main: main, **workers}), "/proc")

    def in_force(
        self, ctx: Context, listeners: Dict[int, List[int]], workers: Dict[int, List[int]]
    ) -> List[int] | None:
        """Return the CPUs that all threads of this kind have, None where they differ or would soon."""
        raise NotImplementedError

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        online = set(ctx.host["online_cpus"])
        # What the same plan gives to the process comes first.
        service = ctx.wanted.get("cpu.service") or allowed_cpus(ctx.slapd.pid)
        allowed = [cpu for cpu in service if cpu in online]
        found = []
        other = companion.other_unit(ctx)
        if other:
            found.append(
                problem(
                    "the threads of another slapd on this host are pinned by us",
                    where=companion.NAME,
                    found=other,
                    wanted="one slapd a host whose threads are pinned",
                    do="Put %s into tuning_exclude here, or bring the other one home." % self.key,
                )
            )
        if wanted and set(wanted).issubset(allowed):
            return found
        return found + [
            problem(
                "these CPUs are not all for slapd to use",
                where=self.key,
                found="CPUs %s allowed" % ",".join(str(cpu) for cpu in allowed),
                wanted=",".join(str(cpu) for cpu in wanted) or "at least one",
                do="Its cpuset (container, unit, slice) sets the ceiling.",
            )
        ]

    def same(self, seen: Observation, wanted: Any) -> bool:
        kept = seen["record"].get("companion") is None or seen["configured"] == sorted(wanted)
        return bool(kept and seen["effective"] == sorted(wanted))

    def is_home(self, seen: Observation, record: Any) -> bool:
        # Threads come and go; the masks are what counts, and what brings them back.
        now, then = seen["record"].get("companion"), record.get("companion")
        if now is None:
            return True
        return bool(now["cpus"] == _kept(record) and now["there"] <= bool(then and then["there"]))

    def write(self, ctx: Context, wanted: Any) -> None:
        self._both(ctx, lambda: self.pin(ctx, list(wanted)), list(wanted))

    def restore(self, ctx: Context, record: Any) -> List[str]:
        self._both(ctx, lambda: self.unpin(ctx, record), _kept(record))
        return []

    def _both(self, ctx: Context, place: Callable[[], None], kept: List[int] | None) -> None:
        with companion.held(ctx):
            place()
            if companion.impossible(ctx):
                return
            companion.keep(ctx, self.key, kept)
        companion.settle(ctx)

    def pin(self, ctx: Context, cpus: List[int]) -> None:
        """Give every thread of this kind these CPUs."""
        raise NotImplementedError

    def unpin(self, ctx: Context, record: Any) -> None:
        """Give every thread of this kind what the record says."""
        raise NotImplementedError


def _kept(record: Any) -> List[int] | None:
    """Return the CPUs that a start of slapd brought back when a record was made; those of earlier versions had none."""
    found = record.get("companion")
    return None if found is None else found["cpus"]


def _as_found(ctx: Context, record: Any, part: str, otherwise: List[int]) -> MaskOf:
    """Return the mask each thread of a part had; after a restart, what all of them had, or else the process's."""
    found = {int(tid): list(cpus) for tid, cpus in record[part].items()}
    same_process = (record["pid"], record["start"]) == (ctx.slapd.pid, ctx.slapd.start)
    rest = otherwise if part == "workers" else _common(found) or otherwise
    return lambda tid: found.get(tid, rest) if same_process else rest


class ListenerCpus(CpuLever):
    """The CPUs of the listener threads; workers keep what they have, new ones get the process's."""

    def in_force(
        self, ctx: Context, listeners: Dict[int, List[int]], workers: Dict[int, List[int]]
    ) -> List[int] | None:
        return _common(listeners)

    def pin(self, ctx: Context, cpus: List[int]) -> None:
        self._place(ctx, lambda tid: cpus)

    def unpin(self, ctx: Context, record: Any) -> None:
        self._place(ctx, _as_found(ctx, record, "listeners", list(record["main"])))

    @staticmethod
    def _place(ctx: Context, listener_mask: MaskOf) -> None:
        main = threads.mask(ctx.slapd.pid) or []
        _arrange(ctx, main, listener_mask, lambda tid: threads.mask(tid) or main)


class WorkerCpus(CpuLever):
    """The CPUs of all threads but the listeners, the idle main thread among them."""

    def in_force(
        self, ctx: Context, listeners: Dict[int, List[int]], workers: Dict[int, List[int]]
    ) -> List[int] | None:
        cpus = _common(workers)
        # While the pool is not full, the next worker inherits a listener's mask.
        settled = cpus == _common(listeners) or pool.full(ctx)
        return cpus if settled else None

    def pin(self, ctx: Context, cpus: List[int]) -> None:
        self._place(ctx, cpus, lambda tid: cpus)

    def unpin(self, ctx: Context, record: Any) -> None:
        main = list(record["main"])
        self._place(ctx, main, _as_found(ctx, record, "workers", main))

    @staticmethod
    def _place(ctx: Context, base: List[int], worker_mask: MaskOf) -> None:
        listeners = threads.masks(threads.classify(ctx.slapd.pid).listeners)
        _arrange(ctx, base, lambda tid: listeners.get(tid, base), worker_mask)
