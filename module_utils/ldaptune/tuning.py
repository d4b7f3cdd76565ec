# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules tuning_profile and tuning_arm do, as plain functions: options in, result out."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from . import watchdog
from .apply import carry_out, settle_states, states_of
from .arm import Arms
from .host.process import figures
from .levers.table import LEVERS
from .plan import Plan, Row, before_of, diff_of
from .problems import LdaptuneError, Problem, problem, render
from .revert import adopt, go_home, plan_home
from .snapshot import Snapshot, now_text
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
    return "%s: %s%s" % (row["lever"], text, " (%s)" % row["reason"] if row["reason"] else "")


def result_of(rows: Sequence[Row], snapshot: Dict[str, Any] | None, changed: bool) -> Result:
    """Return what every state of tuning_profile returns."""
    return {
        "changed": changed,
        "plan": list(rows),
        "states": states_of(list(rows)),
        "live_only": [row["lever"] for row in rows if row["state"] == "live_only"],
        "snapshot": snapshot,
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
) -> Result:
    """Apply a profile. Raises Refused, with the plan in it, before anything was changed, or after it was undone."""
    if check:
        return _planned(target, target.plan(resolved, consent, exclude), check=True)
    notes = _notes(target)
    plan = target.plan(resolved, consent, exclude)
    if plan.problems or not (plan.changes() or watch_seconds or target.store.exists()):
        return _planned(target, plan)
    with target.store.lock():
        plan = target.plan(resolved, consent, exclude)
        if plan.problems:
            return _planned(target, plan)
        changed = bool(plan.changes())
        for row in plan.changes():
            drifted(target, row)
        if watch_seconds:
            watchdog.arm(target.store, target.ctx.server, str(resolved.get("name", "")), watch_seconds)
        try:
            origin = carry_out(target, plan, resolved)
        except LdaptuneError as error:
            if target.store.origin() is None:
                watchdog.disarm(target.store)
            raise Refused(error.problems, result_of(plan.rows, None, changed=True)) from error
        if not watch_seconds:
            watchdog.disarm(target.store)
    result = result_of(plan.rows, shown_snapshot(target, origin), changed)
    result["notes"] = notes
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
    wanted = target.show(key, row["after"]) if key in resolved["levers"] else "-"
    effective = "not shown" if row["effective"] is None else target.show(key, row["effective"])
    text = "%s: wanted %s, configured %s, in force %s, %s" % (
        key,
        wanted,
        target.show(key, row["configured"]),
        effective,
        row["state"] if key in resolved["levers"] or row["state"] == "drifted" else "not in the profile",
    )
    return text + (" (%s)" % row["reason"] if row["reason"] else "")


def reverted(target: Target, snapshot: str = "", check: bool = False) -> Result:
    """Bring the host home. Raises Refused when a lever could not be brought home; drifted ones are only named."""
    if not target.store.exists():
        nothing = result_of([], None, False)
        return dict(nothing, complete=True, lines=["nothing to undo: this host was never changed from here"])
    notes = _notes(target)
    if check:
        home = plan_home(target, snapshot)
        result = result_of(home.rows, shown_snapshot(target, target.store.origin()), bool(home.changes()))
        result.update(problems=home.problems, notes=notes, complete=not home.problems)
        return result
    with target.store.lock():
        home = plan_home(target, snapshot)
        changed = bool(home.changes())
        go_home(target, home)
        failed = any(row["state"] in ("failed", "pending") for row in home.rows)
        if not failed:
            watchdog.disarm(target.store)
    result = result_of(home.rows, shown_snapshot(target, target.store.origin()), changed)
    result.update(problems=home.problems, notes=notes, complete=home.complete())
    if not home.rows:
        result["lines"] = ["nothing to undo: no open snapshot has a change"]
    if failed:
        raise Refused(home.problems, result)
    return result


def adopted(target: Target, check: bool = False) -> Result:
    """Accept the present as the new origin."""
    notes = _notes(target)
    names = [item["id"] for item in target.store.open_snapshots()]
    if names and not check:
        with target.store.lock():
            names = adopt(target)
            watchdog.disarm(target.store)
    result = result_of([], None, bool(names))
    result["notes"] = notes
    result["lines"] = ["adopted: snapshot %s is no way home any more" % name for name in names] or ["nothing to adopt"]
    return result


def arm_started(target: Target, resolved: Mapping[str, Any], arm: str, watch_seconds: int) -> Result:
    """Put the host into an arm, read it back; the counters come last, so that nothing of ours follows them."""
    with target.store.lock():
        arms = Arms(target, resolved)
        origin = arms.remember(resolved)
        if watch_seconds:
            watchdog.arm(target.store, target.ctx.server, str(resolved.get("name", "")), watch_seconds)
        elif not watchdog.alive(target.store):
            raise LdaptuneError(
                problem(
                    "no watchdog is armed, so nothing is flipped",
                    where="watch_seconds",
                    found="0",
                    wanted="seconds until this host returns to as found by itself",
                )
            )
        drifted = arms.set(origin, arm)
        readback = arms.read_back(origin, arm, drifted)
    return _leg(target, arm, readback, start=True)


def arm_finished(target: Target, resolved: Mapping[str, Any], arm: str) -> Result:
    """Read the host at the end of a leg: the counters first; nothing is written."""
    counted = _leg(target, arm, {}, start=False)
    origin = target.store.origin()
    if origin is None:
        raise LdaptuneError(
            problem(
                "this host has no open snapshot: it was brought home while the leg ran",
                where=target.store.snapshots,
                wanted="a leg between start and finish",
                do="See watchdog.log beside it.",
            )
        )
    counted["readback"] = Arms(target, resolved).read_back(origin, arm)
    return counted


def _leg(target: Target, arm: str, readback: Dict[str, Any], start: bool) -> Result:
    # /proc is read on the load's side of the counters: our own reading of them is in neither CPU time.
    process = {} if start else figures(target.ctx.slapd)
    counters = target.ctx.directory.counters()
    return {
        "changed": False,
        "arm": arm,
        "readback": readback,
        "counters": counters,
        "slapd": process or figures(target.ctx.slapd),
        "time": now_text(),
    }
