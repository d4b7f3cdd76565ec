# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text summary of a result, for a terminal: ASCII, no colours, the same under every locale and time zone."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, List, Sequence

from ..figures import MISSING, milliseconds, share, signed, whole
from ..levers.table import LEVERS
from .lines import ARM_WORDS, leg_line
from .model import Result

ACTIONS = {"keep": "keep the profile", "roll_back": "roll back to as found", "none": "nothing: the same settings twice"}


def summary(result: Result) -> str:
    """Return the whole summary; parts with nothing to say are left out."""
    verdict = result["verdict"]
    parts = [
        _heading(result),
        _section("Decision", [ACTIONS[verdict["action"]], _required(verdict)]),
        _section("Reasons", _reasons(verdict)),
        _section("Goal", _goal(verdict)),
        _section("Guards", _guards(verdict)),
        _section("Arms (medians)", _arms(verdict)),
        _section("What was at its limit", _limits(result)),
        _section("Legs in run order", [leg_line(leg, result["legs_planned"]) for leg in result["legs"]]),
        _section("Levers", [_lever(item) for item in result["levers"]]),
        _section("Set alike in both arms, not measured", result["not_measured"]),
        _section("Lost at the next restart of slapd", result["lost_at_restart"] or ["nothing"]),
        _section("Undo", [result["undo"]]),
        _section("Environment", _environment(result)),
        _section("Not shown", result["not_shown"]),
    ]
    return "\n".join(part for part in parts if part)


def _heading(result: Result) -> str:
    about = "%s on %s, run %s" % (result["profile"] or "profile", result["host"] or "host", result["run"])
    return "%s\n%s: %s\n" % (about, result["verdict"]["verdict"], result["sentence"])


def _section(title: str, lines: Iterable[str]) -> str:
    body = "".join("  %s\n" % line for line in lines)
    return "%s\n%s" % (title, body) if body else ""


def _required(verdict: Dict[str, Any]) -> str:
    asked = verdict["requirement"]
    if verdict["aa"]:
        return "the same settings in both arms: asked is no difference of %g %%" % asked["min_effect_percent"]
    met = "met" if verdict["met"] else "not met"
    if asked["require"] == "none":
        return "nothing was required of the goal"
    return "required: %s by %s %g %% in %s: %s" % (
        asked["require"].replace("_", " "),
        "at least" if asked["require"] == "improved" else "not more than",
        asked["min_effect_percent"],
        verdict["goal"]["noun"],
        met,
    )


def _reasons(verdict: Dict[str, Any]) -> List[str]:
    return [
        "%s%s (%s)"
        % (
            "" if item["leg"] is None else "leg %d, %s: " % (item["leg"] + 1, ARM_WORDS[item["arm"]]),
            item["text"],
            item["code"],
        )
        for item in verdict["reasons"]
    ]


def _goal(verdict: Dict[str, Any]) -> List[str]:
    goal = verdict["goal"]
    if goal["effect_percent"] is None:
        return []
    return [
        "%s: %s %% (%s), %d of %d blocks agree"
        % (
            goal["noun"],
            signed(goal["effect_percent"]),
            goal["interval"],
            goal["blocks_agree"],
            goal["blocks"],
        ),
        "neighbouring legs: %s %%" % ", ".join(signed(value) for value in goal["pair_percent"]),
    ]


def _guards(verdict: Dict[str, Any]) -> List[str]:
    guards, lines = verdict["guards"], []
    if "p99" in guards:
        p99, text = guards["p99"], "p99: %s" % guards["p99"]["verdict"].replace("_", " ")
        if p99["effect_percent"] is not None:
            text += ", %s %% at %s operations/s offered to both arms (one-sided 95 %% bounds %s and %s %%)" % (
                signed(p99["effect_percent"]),
                whole(verdict["fixed_rate"]),
                signed(p99["low_percent"]),
                signed(p99["high_percent"]),
            )
        lines.append(text + (p99["text"] and "; %s" % p99["text"]))
    if "errors" in guards:
        errors = guards["errors"]
        lines.append(
            "errors: %s, %s as found, %s with the profile"
            % (errors["verdict"], share(errors["as_found_percent"]), share(errors["profile_percent"]))
        )
    return lines


def _arms(verdict: Dict[str, Any]) -> List[str]:
    if verdict["as_found"]["goodput_median"] is None:
        return []
    rows: List[Sequence[str]] = [("", "operations/s", "p99", "CPU s/1000 ops", "errors")]
    for arm in ("as_found", "profile"):
        figures = verdict[arm]
        cpu = figures["cpu_per_kop_median"]
        rows.append(
            (
                ARM_WORDS[arm],
                whole(figures["goodput_median"]),
                milliseconds(figures["p99_ns_median"]),
                MISSING if cpu is None else "%.4f" % cpu,
                share(figures["error_percent_median"]),
            )
        )
    return ["%-9s %14s %12s %15s %9s" % tuple(row) for row in rows]


def _limits(result: Result) -> List[str]:
    return [
        "%-9s %s (%s in %d of %d legs)" % (ARM_WORDS[arm], item["text"], item["code"], item["legs"], item["of"])
        for arm, item in result.get("diagnosis", {}).items()
    ]


def _lever(item: Dict[str, Any]) -> str:
    key, before, effective = item["lever"], item.get("before"), item.get("effective")
    text = "%s: %s" % (key, _value(key, before))
    if effective is not None and effective != before:
        text += " (in force: %s)" % _value(key, effective)
    if item.get("action") == "change":
        text += " -> %s" % _value(key, item.get("after"))
    state = item.get("state")
    if state:
        text += " [%s]" % str(state).replace("_", " ")
    return text + (": %s" % item["reason"] if item.get("reason") else "")


def _value(key: str, value: Any) -> str:
    """Return a lever's value as its own type shows it; a value that is not of that type as JSON."""
    if value is None:
        return "absent"
    try:
        return LEVERS[key].type.show(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        return json.dumps(value, sort_keys=True)


def _environment(result: Result) -> List[str]:
    schedule = result["schedule"]
    lines = ["%s: %s" % item for item in result["environment"].items()]
    lines.append(
        "schedule: %s, seed %d, looks after %s blocks"
        % (schedule["kind"], schedule["seed"], ", ".join(map(str, schedule["looks"])))
    )
    if result["digest"]:
        lines.append("profile digest: %s" % result["digest"])
    return lines
