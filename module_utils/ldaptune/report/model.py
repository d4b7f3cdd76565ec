# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result model: one JSON-able value that every rendering is made from."""

from __future__ import annotations

from typing import Any, Dict, List

Result = Dict[str, Any]

SCHEMA_VERSION = 1


def make_result(
    run: str,
    record: Dict[str, Any],
    judged: List[Dict[str, Any]],
    verdict: Dict[str, Any],
    beside: Dict[str, Any],
    *,
    undo: str = "",
    live_only: List[str] | None = None,
) -> Result:
    """Return the result of a run.

    `beside` has what the run directory holds: plan (what tuning_profile returned, or its list alone), applied (the
    same after the change), resolved, facts; each may be None. `undo` is the command that brings the host home;
    `live_only` names the levers lost at the next restart (from the plan when not given).
    """
    levers = _with_states(_levers(beside.get("plan")), _levers(beside.get("applied")), verdict["action"])
    lost = live_only if live_only is not None else _live_only(beside.get("plan"), levers)
    return {
        "schema_version": SCHEMA_VERSION,
        "run": run,
        "host": record.get("host", ""),
        "profile": record.get("profile", ""),
        "digest": record.get("digest", ""),
        "sentence": verdict.get("closing") or verdict["sentence"],
        "verdict": verdict,
        "schedule": {key: value for key, value in record["schedule"].items() if key != "legs"},
        "legs": judged,
        "diagnosis": _diagnosis(judged),
        "legs_planned": len(record["schedule"]["legs"]),
        "levers": levers,
        "not_measured": [item["lever"] for item in levers if item.get("compare") == "hold" and _changes(item)],
        "lost_at_restart": lost,
        "undo": undo or "ansible-playbook rollback.yml -l %s" % (record.get("host") or "HOST"),
        "environment": _environment(beside.get("facts")),
        "not_shown": _not_shown(verdict, levers),
    }


def _diagnosis(judged: List[Dict[str, Any]]) -> Dict[str, Dict[str, Any]]:
    """Return for each arm what most of its legs found at the limit, as {"code", "text", "legs", "of"}."""
    found = {}
    for arm in ("as_found", "profile"):
        firsts = [leg["diagnosis"][0] for leg in judged if leg["arm"] == arm and leg.get("diagnosis")]
        codes = [line["code"] for line in firsts]
        if codes:
            # Of several as frequent ones, that of the latest leg.
            code = max(reversed(codes), key=codes.count)
            text = next(line["text"] for line in reversed(firsts) if line["code"] == code)
            found[arm] = {"code": code, "text": text, "legs": codes.count(code), "of": len(codes)}
    return found


def _levers(plan: Any) -> List[Dict[str, Any]]:
    entries = plan.get("plan") if isinstance(plan, dict) else plan
    return [item for item in entries or [] if isinstance(item, dict) and item.get("lever")]


def _with_states(
    levers: List[Dict[str, Any]], applied: List[Dict[str, Any]], action: str
) -> List[Dict[str, Any]]:
    """Return the plan's levers with the state they ended in: a plan is made before anything is written."""
    states = {item["lever"]: item.get("state") for item in applied}
    found = []
    for item in levers:
        state = states.get(item["lever"], item.get("state"))
        back = action == "roll_back" and _changes(item) and item["lever"] in states
        found.append({**item, "state": "to be taken back" if back else state})
    return found


def _changes(item: Dict[str, Any]) -> bool:
    return item.get("action") == "change"


def _live_only(plan: Any, levers: List[Dict[str, Any]]) -> List[str]:
    if isinstance(plan, dict) and plan.get("live_only") is not None:
        return [str(key) for key in plan["live_only"]]
    return [item["lever"] for item in levers if item.get("state") == "live_only"]


def _environment(facts: Any) -> Dict[str, Any]:
    """Return what of the host's facts a reader needs to compare figures, in a fixed order."""
    facts = facts if isinstance(facts, dict) else {}
    wanted = {
        "slapd": ("version", "threads", "config_source"),
        "host": ("cpus", "memory_bytes", "numa_nodes", "kernel", "os", "python"),
        "database": ("suffix", "backend", "map_size_bytes", "used_bytes"),
    }
    return {
        "%s.%s" % (group, name): facts[group][name]
        for group, names in wanted.items()
        for name in names
        if isinstance(facts.get(group), dict) and facts[group].get(name) is not None
    }


def _not_shown(verdict: Dict[str, Any], levers: List[Dict[str, Any]]) -> List[str]:
    """Return what a reader might take for shown and was not."""
    said = []
    if verdict["power"]:
        said.append(verdict["power"])
    p99 = verdict["guards"].get("p99")
    if p99 and p99["verdict"] in ("unproven", "not_claimed"):
        said.append("p99 is %s%s" % (p99["verdict"].replace("_", " "), p99["text"] and ": " + p99["text"]))
    if sum(1 for item in levers if item.get("compare") == "flip" and _changes(item)) > 1:
        said.append("which of the levers gave which share")
    held = [item["lever"] for item in levers if item.get("compare") == "hold" and _changes(item)]
    if held:
        said.append("anything about levers set alike in both arms: %s" % ", ".join(held))
    return said + list(verdict["notes"])
