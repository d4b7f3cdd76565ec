# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPUs that slapd as a whole may use: the cpuset of its unit."""

from __future__ import annotations

import glob
import os
import re
import time
from typing import Any, Dict, List

from ..host import dropin, files, threads, unit
from ..host.facts import parse_cpu_list
from ..problems import Problem, problem
from ..profile.cpuset import ranges
from . import companion
from .base import Observation
from .context import Context
from .host_lever import place
from .unit_lever import UnitLever, unit_of

_CGROUP = "/sys/fs/cgroup"
_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)
# systemd applies it in its own time after a reload.
_SETTLE_SECONDS = 5.0
_SETTLE_STEP = 0.02


class ServiceCpus(UnitLever):
    """AllowedCPUs of the unit: live, by a reload of systemd."""

    keys = ["AllowedCPUs"]

    def lines(self, ctx: Context, wanted: Any) -> Dict[str, str]:
        return {"AllowedCPUs": ranges(wanted)}

    def meaning(self, found: Dict[str, str]) -> List[int] | None:
        try:
            return parse_cpu_list(found.get("AllowedCPUs", "").replace(" ", ",")) or None
        except ValueError:
            return None

    def impossible(self, ctx: Context) -> str:
        if "cpuset" in _read(place(ctx, _CGROUP + "/cgroup.controllers")).split():
            return ""
        return "cgroup v2 has no cpuset controller here (it belongs to v1, or the kernel has none)"

    def in_force(self, ctx: Context) -> List[int] | None:
        """Return the cpuset, None where a thread is on a CPU outside of it: then it is not in force."""
        cpus = self._cpuset(ctx, _group(ctx))
        masks = [
            parse_cpu_list(found)
            for path in glob.glob(place(ctx, "/proc/%d/task/*/status" % ctx.slapd.pid))
            for found in _ALLOWED.findall(_read(path))
        ]
        return cpus if masks and all(set(mask).issubset(cpus) for mask in masks) else None

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        online = list(ctx.host["online_cpus"])
        found = super().check(ctx, seen, wanted)
        ceiling = [cpu for cpu in self._cpuset(ctx, os.path.dirname(_group(ctx))) if cpu in online]
        if not wanted or not set(wanted).issubset(ceiling):
            found.append(
                problem(
                    "these CPUs are not all for slapd's unit to use",
                    where=self.key,
                    found="CPUs %s online, %s for what contains the unit" % (ranges(online), ranges(ceiling)),
                    wanted=ranges(wanted) or "at least one",
                    do="The cpuset of its slice (or of the container) sets the ceiling.",
                )
            )
        return found + self._affinity(ctx, wanted)

    def remarks(self, ctx: Context, seen: Observation, wanted: Any) -> List[str]:
        nodes = {
            os.path.basename(os.path.dirname(path)): parse_cpu_list(_read(path))
            for path in glob.glob(place(ctx, "/sys/devices/system/node/node*/cpulist"))
        }
        crossed = sorted(name for name, cpus in nodes.items() if set(cpus) & set(wanted))
        return ["these CPUs lie on several NUMA nodes: %s" % ", ".join(crossed)] if len(crossed) > 1 else []

    def _affinity(self, ctx: Context, wanted: List[int]) -> List[Problem]:
        """Name the mask that the unit starts its process with: it stays, whatever the cpuset allows."""
        last = [item for item in dropin.settings(ctx.root, unit_of(ctx)) if item.key == "CPUAffinity"][-1:]
        return [
            problem(
                "the unit pins slapd by CPUAffinity as well",
                where=item.path,
                found="CPUAffinity=" + item.value,
                wanted=ranges(wanted),
                do="Take the line out of that file, or put %s into tuning_exclude." % self.key,
            )
            for item in last
            if item.value
        ]

    @staticmethod
    def _cpuset(ctx: Context, group: str) -> List[int]:
        """Return the CPUs of a cgroup; one without a cpuset of its own has that of what contains it."""
        while True:
            found = parse_cpu_list(_read(place(ctx, _CGROUP + group.rstrip("/") + "/cpuset.cpus.effective")))
            if found or group in ("", "/"):
                return found
            group = os.path.dirname(group)

    def observe(self, ctx: Context) -> Observation:
        seen = super().observe(ctx)
        if seen["supported"]:
            seen["record"]["cpus"] = seen["effective"] or self._cpuset(ctx, _group(ctx))
        return seen

    def write(self, ctx: Context, wanted: Any) -> None:
        pinned = self._pinned(ctx)
        super().write(ctx, wanted)
        self._settled(ctx, list(wanted))
        _pin_again(ctx, pinned, wanted)

    def restore(self, ctx: Context, record: Any) -> List[str]:
        pinned = self._pinned(ctx)
        if self.meaning(dict(dropin.assignments(files.text_of(record["file"]) or ""))) is None:
            # Where another unit of the slice has a cpuset, taking the line away leaves the last one in force.
            super().write(ctx, record["cpus"])
            self._settled(ctx, record["cpus"])
        super().restore(ctx, record)
        self._settled(ctx, record["cpus"])
        _pin_again(ctx, pinned, record["cpus"])
        return []

    def _pinned(self, ctx: Context) -> Dict[int, List[int]]:
        """Return the masks of threads that are not just the cpuset: kernels before 6.2 forget them when it changes."""
        cpuset = self._cpuset(ctx, _group(ctx))
        found = threads.masks(
            int(name) for name in _names(place(ctx, "/proc/%d/task" % ctx.slapd.pid)) if name.isdigit()
        )
        return {tid: mask for tid, mask in found.items() if mask != cpuset}

    def _settled(self, ctx: Context, cpus: List[int]) -> None:
        """Wait until systemd has applied it; who reads it back finds it if it has not."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while self.in_force(ctx) != cpus and time.monotonic() < deadline:
            time.sleep(_SETTLE_STEP)


def _pin_again(ctx: Context, pinned: Dict[int, List[int]], cpus: List[int]) -> None:
    for tid, mask in pinned.items():
        left = [cpu for cpu in mask if cpu in cpus]
        if left:
            threads.pin([tid], left)
    # A mask that was the whole cpuset is not to be told from none: what is kept of ours is pinned anew.
    companion.again(ctx, cpus)


def _names(path: str) -> List[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _group(ctx: Context) -> str:
    return unit.control_groups(ctx.slapd.pid, place(ctx, "/proc")).get("", "/")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
