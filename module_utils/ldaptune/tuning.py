# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module tuning_profile does, as plain functions: options in, result out."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Sequence

from . import measurement, watchdog
from .apply import carry_out, settle_states, states_of
from .host.process import find_slapds
from .levers.table import LEVERS
from .plan import Plan, Row, before_of, diff_of
from .preflight.leftover import strays
from .problems import LdaptuneError, Problem, render
from .revert import adopt, go_home, home_lines, plan_home
from .snapshot import Snapshot
from .target import Target

Result = Dict[str, Any]
NOTHING: Mapping[str, Any] = {"levers": {}}
_TYPES = {key: spec.type for key, spec in LEVERS.items()}


class Refused(LdaptuneError):
    """Problems together with the result so far: the plan that was refused, the states reached."""

    def __init__(self, problems: List[Problem], result: Result) -> None:
        super().__init__(problems)
        self.result = result


def line_of(row: Row) -> str:
    """Return one row as a line for people."""
    show = _TYPES[row["lever"]].show
    before, after = ("not set" if row[side] is None else show(row[side]) for side in ("before", "after"))
    words = [name for name in (row["cost"], row["risk"]) if name not in ("", "safe")]
    if row["state"] in ("unsupported", "excluded"):
        text = row["state"]
    elif row["action"] == "change":
        text = "%s -> %s, %s [%s]" % (before, after, row["state"], ", ".join(words))
    else:
        text = "%s, %s" % (before, row["state"])
    why = "; why: %s" % row["why"] if row["state"] == "pending" and row["why"] else ""
    return "%s: %s%s%s" % (row["lever"], text, " (%s)" % row["reason"] if row["reason"] else "", why)


def result_of(rows: Sequence[Row], snapshot: Dict[str, Any] | None, changed: bool) -> Result:
    """Return what every state of tuning_profile returns."""
    return {
        "changed": changed,
        "plan": list(rows),
        "states": states_of(list(rows)),
        "live_only": [row["lever"] for row in rows if row["state"] == "live_only"],
        "snapshot": snapshot,
        "step": None,
        "diff": diff_of(rows, _TYPES),
        "lines": [line_of(row) for row in rows],
        "problems": [],
        "notes": [],
    }


def shown_snapshot(target: Target, origin: Snapshot | None) -> Dict[str, Any] | None:
    """Return the way home as {"id", "path", "content"}."""
    if origin is None or origin["state"] != "open":
        return None
    return {"id": origin["id"], "path": target.store.path(origin["id"]), "content": origin}


def shown_step(target: Target, step: Snapshot | None) -> Dict[str, Any] | None:
    """Return what a run found when it began as {"id", "path"}."""
    return {"id": step["id"], "path": target.store.path(step["id"])} if step else None


def _notes(target: Target) -> List[str]:
    left = watchdog.interrupted(target.store)
    return [render(left)] if left else []


def applied(
    target: Target,
    resolved: Mapping[str, Any],
    *,
    consent: Sequence[str] = (),
    exclude: Sequence[str] = (),
    watch_seconds: int = 0,
    check: bool = False,
    owner: str = "",
) -> Result:
    """Apply a profile. Raises Refused, with the plan in it, before anything was changed, or after it was undone.

    `owner` names the run; what it found when it first wrote is its step, the way back of this run alone.
    """

    def planned() -> Plan:
        plan = target.plan(resolved, consent, exclude)
        other = measurement.taken(target.store, owner) or measurement.ended(target.store, owner)
        return Plan(plan.rows, [other] + plan.problems) if other else plan

    def watch(step: str) -> None:
        name = str(resolved.get("name", ""))
        watchdog.arm(target.store, target.ctx.server, name, watch_seconds, owner=owner, reference=step)

    if check:
        return _planned(target, planned(), check=True)
    notes = _notes(target)
    plan = planned()
    if plan.problems or not (plan.changes() or watch_seconds or target.store.exists()):
        return _planned(target, plan)
    with target.store.lock():
        plan = planned()
        if plan.problems:
            return _planned(target, plan)
        changed = bool(plan.changes())
        for row in plan.changes():
            drifted(target, row)
        try:
            done = carry_out(target, plan, resolved, owner, watch if watch_seconds else None)
        except LdaptuneError as error:
            active = target.store.active()
            if active is not None and target.store.is_closed(active["reference"]):
                watchdog.disarm(target.store)
            raise Refused(error.problems, result_of(plan.rows, None, changed=True)) from error
        if not watch_seconds:
            watchdog.disarm(target.store)
    result = result_of(plan.rows, shown_snapshot(target, done.origin), changed)
    result.update(notes=notes, step=shown_step(target, done.step))
    return result


def drifted(target: Target, row: Row) -> bool:
    """Return whether someone else changed the lever of a row since we wrote it; the row's reason then says who."""
    origin = target.store.origin()
    entry = origin["levers"].get(row["lever"]) if origin else None
    if not entry or not entry["wrote"] or row["action"] == "skip":
        return False
    seen = target.observe(row["lever"])
    if target.matches(row["lever"], seen, entry["before"]) or target.is_ours(row["lever"], seen, entry):
        return False
    who = target.last_change(row["lever"])
    row["reason"] = "changed by someone else since we wrote it" + (": %s" % who if who else "")
    return True


def _planned(target: Target, plan: Plan, check: bool = False) -> Result:
    """Return a plan that is not carried out; raises Refused where something stands against it.

    `check` makes `changed` a prediction.
    """
    settle_states(target, plan.rows)
    for row in plan.changes():
        drifted(target, row)
    result = result_of(plan.rows, shown_snapshot(target, target.store.origin()), check and bool(plan.changes()))
    result["notes"] = _notes(target)
    if plan.problems:
        result["problems"] = plan.problems
        raise Refused(plan.problems, result)
    return result


def audited(target: Target, resolved: Mapping[str, Any], exclude: Sequence[str] = ()) -> Result:
    """Return wanted, configured and effective of all levers, those of the profile first; reads only."""
    plan = target.plan(resolved, (), exclude)
    rows = list(plan.rows)
    settle_states(target, rows)
    rows.extend(_seen(target, key) for key in LEVERS if key not in resolved["levers"])
    for row in rows:
        row["action"] = "none" if row["action"] == "change" else row["action"]
        if drifted(target, row):
            row["state"] = "drifted"
    origin = target.store.origin()
    result = result_of(rows, shown_snapshot(target, origin), changed=False)
    result["lines"] = [_audit_line(target, row, resolved) for row in rows]
    result["problems"] = plan.problems
    result["notes"] = _notes(target)
    return result


def _seen(target: Target, key: str) -> Row:
    spec, seen = target.behaviour(key).spec, target.observe(key)
    supported = bool(seen.get("supported"))
    return {
        "lever": key,
        "before": before_of(spec, seen) if supported else None,
        "after": before_of(spec, seen) if supported else None,
        "configured": seen.get("configured"),
        "effective": seen.get("effective"),
        "cost": spec.cost,
        "risk": spec.risk,
        "compare": spec.compare,
        "why": "",
        "state": "unchanged" if supported else "unsupported",
        "reason": "" if supported else str(seen.get("reason", "")),
        "action": "none" if supported else "skip",
    }


def _audit_line(target: Target, row: Row, resolved: Mapping[str, Any]) -> str:
    key = row["lever"]
    if row["state"] in ("unsupported", "excluded"):
        return line_of(row)
    wish = resolved["levers"].get(key)
    wanted = "-"
    if wish:
        wanted = "" if wish["op"] == "value" else wish["op"].replace("_", " ") + " "
        wanted += target.show(key, wish["value"])
    effective = "not shown" if row["effective"] is None else target.show(key, row["effective"])
    text = "%s: wanted %s, configured %s, in force %s, %s" % (
        key,
        wanted,
        target.show(key, row["configured"]),
        effective,
        row["state"] if key in resolved["levers"] or row["state"] == "drifted" else "not in the profile",
    )
    return text + (" (%s)" % row["reason"] if row["reason"] else "")


def reverted(target: Target, snapshot: str = "", check: bool = False, owner: str = "") -> Result:
    """Bring the host home. Raises Refused when a lever could not be brought home; drifted ones are only named.

    To `snapshot`; without it to what the run `owner` found; without both to before all runs.
    """
    notes = [] if owner else _elsewhere(target, snapshot)
    if not target.store.exists():
        return _nothing("nothing to undo: this host was never changed from here")
    notes += _notes(target)
    if owner and not snapshot:
        step = measurement.own_step(target.store, owner)
        if step is None:
            return _nothing_of(target, owner)
        snapshot = step["id"]
    ends = measurement.ends(target.store, owner, check)
    notes += [ends] if ends else []
    if check:
        home = plan_home(target, snapshot)
        result = result_of(home.rows, shown_snapshot(target, target.store.origin()), bool(home.changes()))
        result.update(problems=home.problems, notes=notes, complete=not home.problems, lines=home_lines(home.rows))
        return result
    with target.store.lock():
        home = plan_home(target, snapshot)
        changed = bool(home.changes())
        measurement.end(target.store, home.closes[0]["id"] if home.closes else "")
        go_home(target, home)
        failed = any(row["state"] in ("failed", "pending") for row in home.rows)
        if not failed:
            watchdog.disarm(target.store)
    result = result_of(home.rows, shown_snapshot(target, target.store.origin()), changed)
    result.update(problems=home.problems, notes=notes, complete=home.complete(), lines=home_lines(home.rows))
    if not home.rows:
        result["lines"] = ["nothing to undo: no open snapshot has a change"]
    if failed:
        raise Refused(home.problems, result)
    return result


def _elsewhere(target: Target, snapshot: str = "") -> List[str]:
    """Name the ways home that lie under a configuration which moved; raises Refused where there is none here.

    They are never gone by from here: whether that configuration is this one, moved, nobody can tell.
    """
    store = target.store
    used = [store.identity.config, *(item.config_dir or item.config_file for item in find_slapds())]
    lost = strays(os.path.dirname(store.root), store.identity.suffixes, filter(None, used))
    here = [snapshot] if snapshot in store.names() else [] if snapshot else store.open_snapshots()
    if lost and not here:
        raise Refused(lost, result_of([], None, changed=False))
    return [render(item) for item in lost]


def _nothing(line: str) -> Result:
    return dict(result_of([], None, False), complete=True, lines=[line])


def _nothing_of(target: Target, owner: str) -> Result:
    """A run without an open step has nothing to take back; a measurement of another run is none of its business."""
    closed = target.store.owned(owner)
    if not closed:
        return _nothing("nothing to undo: this run changed nothing here")
    last = closed[-1]
    return _nothing("nothing to undo: what this run changed was %s at %s" % (last["state"], last["closed"]))


def adopted(target: Target, check: bool = False, owner: str = "") -> Result:
    """Accept the present as the new origin. Raises LdaptuneError while another run measures here."""

    def refuse_others() -> None:
        other = measurement.taken(target.store, owner)
        if other:
            raise LdaptuneError(other)

    refuse_others()
    notes = _elsewhere(target) + _notes(target)
    names = [item["id"] for item in target.store.open_snapshots()]
    if names and not check:
        with target.store.lock():
            refuse_others()
            names = adopt(target)
            watchdog.disarm(target.store)
    result = result_of([], None, bool(names))
    result["notes"] = notes
    result["lines"] = ["adopted: snapshot %s is no way home any more" % name for name in names] or ["nothing to adopt"]
    return result
