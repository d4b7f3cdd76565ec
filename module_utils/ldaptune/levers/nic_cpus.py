# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPUs serve a network card: where its interrupts go, and who shares the work of what it received.

Kept by card and queue, never by the number of an interrupt. What is asked of several CPUs is one set for all queues;
as found each queue has its own, or irqbalance moves them: then that is what comes back, and no mask is held against it.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from .. import payload
from ..host import affinity, boot_unit, files, irqbalance, nic_boot, nic_place, nic_queues, unit
from ..host.facts import parse_cpu_list
from ..host.nic_choice import directory_nic
from ..problems import LdaptuneError, Problem, problem
from ..profile.cpuset import CpuSet, ranges
from ..profile.nic_values import AUTO, ONE
from ..profile.value_type import ValueRefused
from .base import Observation, observation, unsupported
from .context import Context
from .host_lever import HostLever, place

IRQBALANCE = "irqbalance"
# What of this package the unit's program needs.
_PROGRAM = ("__init__.py", "atomic.py", "problems.py", "host/__init__.py") + tuple(
    "host/%s.py" % name
    for name in ("affinity", "command", "facts", "files", "irqbalance", "nic_boot", "nic_place", "nic_queues")
)


def _common(cpus: Mapping[str, Sequence[int]]) -> Any:
    """Return the CPUs of all queues where they agree, else {queue: CPUs}."""
    distinct = {tuple(sorted(item)) for item in cpus.values()}
    return list(distinct.pop()) if len(distinct) == 1 else {queue: sorted(item) for queue, item in cpus.items()}


class NicLever(HostLever):
    """What both share. Observations carry "around": what of the host says whether a value is there.

    around: {"cards": {nic: {"cpus": in force, "asked": {queue: CPUs}, "notes", "one": CPU near it}}, "auto", "online",
    "systemd", "unfinished": a write or restore of ours never ended, "placed": by us since boot, "ours": what}.
    Record: {"nic", "boot", "queues": {queue: CPUs asked for}, "unit", "mark", "moved": whether irqbalance moves them,
    "options": its file or null}.
    """

    what = ""

    def card(self, ctx: Context, nic: str) -> Dict[str, Any] | None:
        """Return {"cpus", "asked", "notes"} of an interface; None where it has no queues for this."""
        raise NotImplementedError

    def observe(self, ctx: Context) -> Observation:
        mark = nic_place.read_mark(ctx.root, self.key)
        given = boot_unit.arguments(ctx.root, self.key) if unit.here(ctx.root) else []
        configured = {"nic": given[0], "cpus": parse_cpu_list(given[1])} if len(given) == 2 else None
        around = self._around(ctx, mark, configured)
        ours = (mark or {}).get("nic") or (configured or {}).get("nic") or ""
        asked = ctx.wanted.get(self.key)
        nic = self._nic(around, asked) if asked else ours or around["auto"]
        if asked and nic not in around["cards"]:
            return unsupported(around["why"] if not nic else "%s has no %s to place" % (nic, self.what))
        if not (ours or around["cards"]):
            return unsupported("no network card here has %s" % self.what)
        card = around["cards"].get(nic)
        record = {
            "nic": nic,
            "boot": _boot(ctx),
            "queues": card["asked"] if card else {},
            "unit": boot_unit.record(ctx.root, self.key),
            "mark": mark,
            "moved": card is not None and card["cpus"] == IRQBALANCE,
            "options": self.options(ctx),
        }
        effective = {"nic": nic, "cpus": card["cpus"]} if card else None
        found = observation(record, configured, effective, self.spec.effective)
        return dict(found, around=around, reason="; ".join(card["notes"]) if card else "")

    def _around(self, ctx: Context, mark: Any, configured: Any) -> Dict[str, Any]:
        online = sorted(ctx.host["online_cpus"])
        cards = {}
        for nic in nic_queues.nics(ctx.root):
            card = self.card(ctx, nic)
            if card is not None:
                cards[nic] = dict(card, one=nic_queues.nearest(ctx.root, nic, online))
        auto, why = "", ""
        try:
            auto = directory_nic(ctx)
        except (LdaptuneError, OSError) as error:
            why = str(error)
        systemd = unit.here(ctx.root)
        begun = mark is not None and (not mark["done"] or (systemd and configured is None))
        left = mark is None and configured is None and irqbalance.has_ban(_text(self.options(ctx)))
        return {
            "cards": cards,
            "auto": auto,
            "why": why,
            "online": online,
            "systemd": systemd,
            "unfinished": begun or left,
            "placed": mark is not None,
            "ours": configured or (mark and {"nic": mark["nic"], "cpus": mark["cpus"]}),
        }

    @staticmethod
    def _nic(around: Mapping[str, Any], value: Mapping[str, Any]) -> str:
        return str(around["auto"] if value["nic"] == AUTO else value["nic"])

    def options(self, ctx: Context) -> Any:
        """Return the record of irqbalance's options where this lever writes there, else None."""
        return None

    def resolved(self, around: Mapping[str, Any], value: Mapping[str, Any]) -> Dict[str, Any]:
        """Return a value with the card's name and CPU numbers; raises ValueRefused where this host has not got them."""
        nic, cpus = self._nic(around, value), value["cpus"]
        if cpus == ONE:
            cpus = [around["cards"][nic]["one"]] if nic in around["cards"] else []
        elif isinstance(cpus, str) and cpus != IRQBALANCE:
            cpus = CpuSet().resolve(cpus, around["online"], {})
        return {"nic": nic, "cpus": cpus}

    def _there(self, seen: Observation, value: Mapping[str, Any]) -> Tuple[bool, bool]:
        """Return whether a value is what our unit keeps, and whether it is in force."""
        around = seen["around"]
        try:
            value = self.resolved(around, value)
        except ValueRefused:
            return False, False
        card = around["cards"].get(value["nic"])
        return seen["configured"] == value, card is not None and card["cpus"] == value["cpus"]

    def same(self, seen: Observation, wanted: Any) -> bool:
        kept, there = self._there(seen, wanted)
        return there and (kept or not seen["around"]["systemd"]) and not seen["around"]["unfinished"]

    def holds(self, seen: Observation, value: Any) -> bool:
        around, ours = seen["around"], seen["around"]["ours"]
        # What is half done is ours, whichever way it was going; and what our unit could not place at this boot, the
        # card gone or renamed, is nobody else's doing.
        if around["unfinished"] or (seen["configured"] is not None and not around["placed"]):
            return True
        if ours and ours["nic"] == self._nic(around, value) and value["cpus"] != IRQBALANCE:
            # `one` and `last` were written as the numbers of that day, and the host may have got more CPUs.
            value = ours if isinstance(value["cpus"], str) else value
        kept, there = self._there(seen, value)
        return there and (kept or seen["configured"] is None)

    def lasts(self, ctx: Context) -> bool:
        seen = self.observe(ctx)
        return bool(seen["supported"]) and seen["configured"] is not None and self.same(seen, seen["configured"])

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        around = seen["around"]
        try:
            value = self.resolved(around, wanted)
        except ValueRefused as refused:
            where = "%s on %s" % (self.key, ctx.host.get("name", "this host"))
            return [problem("these CPUs are not all there", where, refused.found, refused.wanted, refused.do)]
        ours = seen["configured"] or {}
        if ours and ours["nic"] != value["nic"]:
            return [
                problem(
                    "another card is set already, and would keep its CPUs",
                    where=self.key,
                    found=self.spec.type.show(ours),
                    wanted=self.spec.type.show(value),
                    do="Run rollback.yml first, then this profile.",
                )
            ]
        return self.obstacles(ctx, value["nic"])

    def obstacles(self, ctx: Context, nic: str) -> List[Problem]:
        """Return what on this host keeps a card's queues from being placed."""
        raise NotImplementedError

    def write(self, ctx: Context, wanted: Any) -> None:
        try:
            value = self.resolved(self._around(ctx, None, None), wanted)
        except ValueRefused as refused:
            raise LdaptuneError(problem("these CPUs are not all there", self.key, refused.found)) from None
        self.put(ctx, value["nic"], value["cpus"])
        if unit.here(ctx.root):
            program = payload.bundle_of(_PROGRAM, nic_boot.__name__.rpartition("ldaptune.")[2])
            given = [value["nic"], ranges(value["cpus"])]
            what = "%s of %s" % (self.what, value["nic"])
            boot_unit.install(ctx.root, self.key, program, given, what=what, after="irqbalance.service")

    def put(self, ctx: Context, nic: str, cpus: Sequence[int]) -> None:
        """Place all queues of a card, with a mark of it."""
        raise NotImplementedError

    def restore(self, ctx: Context, record: Any) -> List[str]:
        root, nic, queues = ctx.root, record["nic"], record["queues"]
        now = self.card(ctx, nic) or {"asked": {}}
        mark = nic_place.read_mark(root, self.key) or {"nic": nic, "cpus": [], "refused": []}
        nic_place.write_mark(root, self.key, dict(mark, done=False))
        gone = sorted(set(queues) - set(now["asked"]))
        remarks = ["%s has no %s any more" % (nic, ", ".join(gone))] if gone else []
        online = set(ctx.host["online_cpus"])
        lost = [queue for queue, cpus in sorted(queues.items()) if cpus and not online.intersection(cpus)]
        if lost:
            remarks.append("the CPUs of %s are not online any more, so all are allowed" % ", ".join(lost))
        self.put_back(ctx, nic, {queue: sorted(online) if queue in lost else cpus for queue, cpus in queues.items()})
        remarks += self.put_options_back(ctx, record)
        boot_unit.put_back(root, self.key, record["unit"])
        if record["mark"] and record["boot"] == _boot(ctx):
            nic_place.write_mark(root, self.key, record["mark"])
        else:
            nic_place.drop_mark(root, self.key)
        return remarks

    def put_back(self, ctx: Context, nic: str, cpus: Mapping[str, Sequence[int]]) -> None:
        """Give each queue its own CPUs again."""
        raise NotImplementedError

    def put_options_back(self, ctx: Context, record: Any) -> List[str]:
        """Take back what irqbalance was told; returns remarks."""
        return []

    def is_home(self, seen: Observation, record: Any) -> bool:
        now, around = seen["record"], seen["around"]
        card = around["cards"].get(record["nic"]) or {"asked": {}, "cpus": None}
        if around["unfinished"] or (record["mark"] is None) != (now["mark"] is None):
            return False
        if any(now["unit"][part] != record["unit"][part] for part in ("unit", "program", "link")):
            return False
        # Where irqbalance moves them, no mask says anything.
        same = all(card["asked"].get(queue, cpus) == cpus for queue, cpus in record["queues"].items())
        return same or card["cpus"] == IRQBALANCE


def _boot(ctx: Context) -> str:
    try:
        with open(place(ctx, "/proc/sys/kernel/random/boot_id"), encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _text(found: Any) -> str:
    return (files.text_of(found) or "") if found else ""


class IrqCpus(NicLever):
    """Where the interrupts of a card's queues go."""

    what = "interrupts"

    def card(self, ctx: Context, nic: str) -> Dict[str, Any] | None:
        queues = nic_queues.queues(ctx.root, nic)
        mark = nic_place.read_mark(ctx.root, self.key) or {"nic": ""}
        refused = set(mark["refused"]) if mark["nic"] == nic else set()
        looks = {}
        for queue, number in queues.items():
            with contextlib.suppress(OSError):  # gone since: a card that sets its queues up anew
                looks[queue] = affinity.look(ctx.root, number)
        kept = sorted(queue for queue in looks if looks[queue].fixed or queue in refused)
        free = {queue: number for queue, number in queues.items() if queue in looks and queue not in kept}
        if not free:
            return None
        notes = ["left to the kernel, which manages them: %s" % ", ".join(kept)] if kept else []
        cpus: Dict[str, Sequence[int]] = {}
        late = []
        for queue, number in free.items():
            follows = affinity.follows(ctx.root, number)
            cpus[queue] = looks[queue].effective if follows is False else looks[queue].requested
            late += [queue] if follows is None else []
        if late:
            notes.append("pending until their next interrupt: %s" % ", ".join(sorted(late)))
        words = irqbalance.arguments(ctx.root)
        moved = words is not None and not set(free.values()) <= irqbalance.banned(words)
        asked = {queue: looks[queue].requested for queue in free}
        return {"cpus": IRQBALANCE if moved else _common(cpus), "asked": asked, "notes": notes}

    def options(self, ctx: Context) -> Any:
        path = irqbalance.place_of(ctx.root)
        return files.record(path) if path else None

    def obstacles(self, ctx: Context, nic: str) -> List[Problem]:
        numbers = nic_queues.queues(ctx.root, nic).values()
        paths = [place(ctx, "/proc/irq/%d/smp_affinity_list" % number) for number in numbers]
        error = irqbalance.obstacle(ctx.root, numbers)
        return _read_only(self.key, paths) + (error.problems if error else [])

    def remarks(self, ctx: Context, seen: Observation, wanted: Any) -> List[str]:
        return ["irqbalance is told to leave them alone, and restarted"] if irqbalance.arguments(ctx.root) else []

    def put(self, ctx: Context, nic: str, cpus: Sequence[int]) -> None:
        nic_place.place_irqs(ctx.root, nic, cpus, self.key)

    def put_back(self, ctx: Context, nic: str, cpus: Mapping[str, Sequence[int]]) -> None:
        nic_place.put_irqs(ctx.root, nic, cpus)

    def put_options_back(self, ctx: Context, record: Any) -> List[str]:
        # Unbanned after the masks are back, so that irqbalance starts from them.
        remarks = irqbalance.take_back(ctx.root, record["options"])
        if irqbalance.has_ban(_text(record["options"])) and record["boot"] != _boot(ctx):
            irqbalance.keep_off(ctx.root, nic_queues.queues(ctx.root, record["nic"]).values())
        moved = (self.card(ctx, record["nic"]) or {"cpus": None})["cpus"] == IRQBALANCE
        if moved != record["moved"]:
            remarks.append(
                "irqbalance runs now, and did not when this was found: it moves them"
                if moved
                else "irqbalance moved them when this was found, and does not run now"
            )
        return remarks


class RpsCpus(NicLever):
    """Which CPUs share the work of what a card received."""

    what = "receive queues"

    def card(self, ctx: Context, nic: str) -> Dict[str, Any] | None:
        paths = nic_queues.receive_queues(ctx.root, nic)
        asked = {queue: affinity.spread_over(path) for queue, path in paths.items()}
        return {"cpus": _common(asked), "asked": asked, "notes": []} if asked else None

    def obstacles(self, ctx: Context, nic: str) -> List[Problem]:
        return _read_only(self.key, list(nic_queues.receive_queues(ctx.root, nic).values()))

    def remarks(self, ctx: Context, seen: Observation, wanted: Any) -> List[str]:
        nic = self._nic(seen["around"], wanted)
        queues, cpus = len(nic_queues.receive_queues(ctx.root, nic)), len(ctx.host["online_cpus"])
        if queues < cpus:
            return []
        return ["%s has %d receive queues for %d CPUs, so there is nothing to share" % (nic, queues, cpus)]

    def put(self, ctx: Context, nic: str, cpus: Sequence[int]) -> None:
        nic_place.place_receive(ctx.root, nic, cpus, self.key)

    def put_back(self, ctx: Context, nic: str, cpus: Mapping[str, Sequence[int]]) -> None:
        nic_place.put_receive(ctx.root, nic, cpus)


def _read_only(key: str, paths: List[str]) -> List[Problem]:
    # Root may write whatever its mode; a mount that is read-only nobody may.
    bad = [path for path in paths if not os.access(path, os.W_OK)]
    if not bad:
        return []
    return [
        problem(
            "this cannot be written here",
            where=bad[0],
            found="read-only",
            do="In a container /proc and /sys are: tune the host instead, or put %s into tuning_exclude." % key,
        )
    ]
