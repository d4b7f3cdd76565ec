# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From wishes and observations to ordered changes; pure, nothing is read or written here.

A row of a plan is a dict: lever, before, after, configured, effective (normal forms, None is absent),
cost, risk, compare, why, state, reason, action ("change", "none" or "skip"). `state` of a change that is
not made yet is "pending"; a lever left to its owner is "excluded"; the others are the states of a lever.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Tuple

from .levers.table import in_force
from .problems import Problem, problem

Row = Dict[str, Any]
Wish = Mapping[str, Any]

# 0 switches these limits off, so 0 is the longest of all times, not the shortest.
ZERO_IS_ENDLESS = frozenset(["slapd.idle_timeout", "slapd.write_timeout"])


class View(NamedTuple):
    """What the plan knows of one lever on one host; the callables take normal values."""

    spec: Any
    observation: Mapping[str, Any]
    same: Callable[[Any], bool]
    check: Callable[[Any], List[Problem]]
    risk_of: Callable[[Any, Any], str]
    remarks: Callable[[Any], List[str]] = lambda wanted: []


class Plan(NamedTuple):
    """Rows in the order in which they are carried out, and all that stands against it."""

    rows: List[Row]
    problems: List[Problem]

    def changes(self) -> List[Row]:
        """Return the rows that write."""
        return [row for row in self.rows if row["action"] == "change"]


def present(spec: Any, observation: Mapping[str, Any]) -> Any:
    """Return the value in force: effective, else configured, else the server's own default."""
    effective = observation.get("effective")
    return in_force(spec, observation.get("configured")) if effective is None else effective


def before_of(spec: Any, observation: Mapping[str, Any]) -> Any:
    """Return the value a change replaces: what is configured; levers outside cn=config have only an effective one."""
    if spec.attribute:
        return observation.get("configured")
    configured = observation.get("configured")
    return observation.get("effective") if configured is None else configured


def target_of(wish: Wish, spec: Any, observation: Mapping[str, Any]) -> Tuple[Any, bool]:
    """Return (value to write, satisfied): at_least and at_most never make a host worse than it is."""
    value = wish["value"]
    there = present(spec, observation)
    if wish["op"] == "value" or there is None:
        return value, False
    have, want = (_length(spec.key, item) for item in (there, value))
    satisfied = have >= want if wish["op"] == "at_least" else have <= want
    return (before_of(spec, observation), True) if satisfied else (value, False)


def _length(key: str, value: Any) -> Any:
    return float("inf") if key in ZERO_IS_ENDLESS and value == 0 else value


def rank(spec: Any, old: Any, new: Any) -> int:
    """Return the stage of a change; the same for doing and undoing, as it looks at the direction."""
    if spec.key.startswith("cpu."):
        # Workers inherit the mask of their creator and a restart forgets all masks: pin last, the listener at the end.
        # Which masks there can be says the cpuset of the service.
        return {"cpu.service": 75, "cpu.listener": 81}.get(spec.key, 80)
    if spec.key == "slapd.listener_threads":
        # A later restart would start one listener again.
        return 70
    if spec.cost == "restart":
        return 60
    if spec.key == "slapd.threads":
        return 30
    if spec.key == "database.max_readers":
        old, new = in_force(spec, old), in_force(spec, new)
        # Each worker needs a slot: room first when growing, threads first when shrinking.
        return 20 if old is None or new is None or new >= old else 40
    return 10


def targets(resolved: Mapping[str, Any], views: Mapping[str, View]) -> Dict[str, Any]:
    """Return {lever: value} of what a plan would write, so that limits between levers can be checked."""
    found: Dict[str, Any] = {}
    for key, view in views.items():
        if view.observation.get("supported"):
            value, satisfied = target_of(resolved["levers"][key], view.spec, view.observation)
            if not satisfied and not view.same(value):
                found[key] = value
    return found


def make_plan(
    resolved: Mapping[str, Any], views: Mapping[str, View], consent: Iterable[str] = (), exclude: Iterable[str] = ()
) -> Plan:
    """Return the plan for one host.

    `resolved` is a resolved profile; `views` has one View for each of its levers that is not excluded.
    """
    given = set(consent)
    left = set(exclude) | set(resolved.get("excluded", ()))
    rows: List[Tuple[int, Row]] = []
    problems: List[Problem] = []
    for key, wish in resolved["levers"].items():
        if key in left:
            rows.append((0, _skipped(key, wish, "excluded", "left to its owner by tuning_exclude")))
            continue
        row, stage, found = _plan_one(key, wish, views[key])
        problems.extend(found)
        if row["action"] == "change":
            problems.extend(_consents(row, given))
        rows.append((stage, row))
    ordered = [row for _, row in sorted(rows, key=lambda pair: pair[0])]
    return Plan(ordered, problems)


def _skipped(key: str, wish: Wish, state: str, reason: str) -> Row:
    return {
        "lever": key,
        "before": None,
        "after": None,
        "configured": None,
        "effective": None,
        "cost": "",
        "risk": "",
        "compare": "",
        "why": wish.get("why", ""),
        "state": state,
        "reason": reason,
        "action": "skip",
    }


def _plan_one(key: str, wish: Wish, view: View) -> Tuple[Row, int, List[Problem]]:
    spec, seen = view.spec, view.observation
    row = _skipped(key, wish, "unsupported", str(seen.get("reason", "")))
    row.update(cost=spec.cost, risk=spec.risk, compare=spec.compare)
    row.update(configured=seen.get("configured"), effective=seen.get("effective"))
    if not seen.get("supported"):
        problems = []
        if wish.get("when_unsupported") == "fail":
            problems.append(
                problem(
                    "%s is not supported here" % key,
                    where=str(wish.get("from", "")),
                    found=row["reason"],
                    wanted=spec.type.show(wish["value"]),
                    do="Set when_unsupported: skip for it, or put it into tuning_exclude.",
                )
            )
        return row, 0, problems
    target, satisfied = target_of(wish, spec, seen)
    old = before_of(spec, seen)
    row.update(before=old, after=target, reason=str(seen.get("reason", "")))
    if satisfied or view.same(target):
        row.update(state="unchanged", action="none")
        if satisfied:
            row.update(after=old, reason="%s %s holds already" % (wish["op"], spec.type.show(wish["value"])))
        return row, rank(spec, old, old), []
    row.update(state="pending", action="change", risk=view.risk_of(old, target), reason="; ".join(view.remarks(target)))
    return row, rank(spec, present(spec, seen), target), view.check(target)


def needed_consents(row: Row) -> List[str]:
    """Return what must be consented to for a row: every cost but live, every risk but safe."""
    return [name for name, free in ((row["cost"], "live"), (row["risk"], "safe")) if name and name != free]


def _consents(row: Row, given: Iterable[str]) -> List[Problem]:
    return [
        problem(
            "%s needs the consent %s" % (row["lever"], name),
            where="tuning_consent",
            found=", ".join(sorted(given)) or "no consents",
            wanted=name,
            do="Add %s to tuning_consent, or %s to tuning_exclude." % (name, row["lever"]),
        )
        for name in needed_consents(row)
        if name not in given
    ]


def diff_of(rows: Iterable[Row], types: Mapping[str, Any]) -> Dict[str, str]:
    """Return {"before", "after"} texts, one line "setting = value" for each lever, sorted by lever."""
    before, after = [], []
    for row in sorted(rows, key=lambda item: str(item["lever"])):
        if row["action"] == "skip":
            continue
        show = types[row["lever"]].show
        before.append(_line(row["lever"], row["before"], show))
        after.append(_line(row["lever"], row["after"], show))
    return {"before": "".join(before), "after": "".join(after)}


def _line(key: str, value: Any, show: Callable[[Any], str]) -> str:
    return "%s = %s\n" % (key, "(not set)" if value is None else show(value))
