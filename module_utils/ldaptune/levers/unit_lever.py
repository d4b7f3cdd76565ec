# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Levers of the unit that runs slapd: one drop-in of our own each."""

from __future__ import annotations

from typing import Any, Dict, List

from ..host import dropin, files, unit
from ..problems import Problem, problem
from .base import Observation, observation, unsupported
from .context import Context
from .host_lever import HostLever, place

_HEAD = "# Written by ldaptune; rollback.yml takes it away.\n[Service]\n"


def unit_of(ctx: Context) -> str:
    """Return the unit that runs this slapd, as tuning_service names it."""
    return unit.unit_name(str(ctx.server.get("service") or "slapd"))


def no_unit(ctx: Context) -> str:
    """Return why nothing can be set for slapd's unit here, or ""."""
    if not unit.here(ctx.root):
        return "systemd does not run this host (no %s), so no unit can carry it" % unit.SYSTEMD
    name = unit_of(ctx)
    if not unit.runs(name, ctx.slapd.pid, place(ctx, "/proc")):
        return "slapd (pid %d) does not run in %s: set tuning_service to its unit" % (ctx.slapd.pid, name)
    return ""


def of_process(ctx: Context, name: str) -> str:
    """Return a file of slapd's /proc; "" where it cannot be read."""
    try:
        with open(place(ctx, "/proc/%d/%s" % (ctx.slapd.pid, name)), encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


class UnitLever(HostLever):
    """A setting of slapd's unit. Record: {"file": what was at the drop-in's place}.

    A subclass says what to write (`lines`), what a file's assignments mean (`meaning`) and what is in force
    (`in_force`, read from the process or the kernel).
    """

    #: The assignments that make up the setting; another file that makes one of them after ours wins.
    keys: List[str] = []

    def lines(self, ctx: Context, wanted: Any) -> Dict[str, str]:
        """Return the assignments that make a value."""
        raise NotImplementedError

    def meaning(self, found: Dict[str, str]) -> Any:
        """Return the value that assignments mean, None for none."""
        raise NotImplementedError

    def in_force(self, ctx: Context) -> Any:
        """Return the value in force, None where there is none of the unit's own."""
        raise NotImplementedError

    def file(self, ctx: Context) -> str:
        """Return where our drop-in lies."""
        return place(ctx, dropin.path_of(unit_of(ctx), self.key))

    def observe(self, ctx: Context) -> Observation:
        reason = no_unit(ctx) or self.impossible(ctx)
        if reason:
            return unsupported(reason)
        kept = dropin.record(self.file(ctx))
        configured = self.meaning(dict(dropin.assignments(files.text_of(kept) or "")))
        return observation({"file": kept}, configured, self.in_force(ctx), self.spec.effective)

    def impossible(self, ctx: Context) -> str:
        """Return what else of this host stands against it, or ""."""
        return ""

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        said = dropin.settings(ctx.root, unit_of(ctx))
        ours = self.file(ctx)
        lines = self.lines(ctx, wanted)
        over = [item for item in (dropin.later(said, ours, key) for key in self.keys) if item]
        return [
            problem(
                "another drop-in would win over ours",
                where=item.path,
                found="%s=%s" % (item.key, item.value),
                wanted="%s=%s" % (item.key, lines.get(item.key, "")),
                do="Take the line out of that file, or put %s into tuning_exclude." % self.key,
            )
            for item in over
            if self.meaning({**lines, item.key: item.value}) != self.meaning(lines)
        ]

    def write(self, ctx: Context, wanted: Any) -> None:
        self._put(ctx, self.lines(ctx, wanted))
        self._take_effect(ctx)

    def restore(self, ctx: Context, record: Any) -> List[str]:
        files.put_back(record["file"])
        self._take_effect(ctx)
        return []

    def lasts(self, ctx: Context) -> bool:
        # Without a drop-in of ours it is what the unit starts with anyway.
        seen = self.observe(ctx)
        return seen["configured"] is None or bool(self.spec.type.equal(seen["configured"], seen["effective"]))

    def is_home(self, seen: Observation, record: Any) -> bool:
        # The directory may hold another lever's file by now.
        return files.same(seen["record"]["file"], record["file"])

    def _put(self, ctx: Context, lines: Dict[str, str]) -> None:
        if lines:
            files.install(self.file(ctx), _HEAD + "".join("%s=%s\n" % item for item in lines.items()))
        else:
            dropin.remove(self.file(ctx))

    def _take_effect(self, ctx: Context) -> None:
        unit.reload()
        if self.spec.cost == "restart":
            ctx.restart()


