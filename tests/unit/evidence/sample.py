# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Legs as the play would store them, for the tests of evidence and report (no test in here)."""

from __future__ import annotations

import copy
import math
import random

from ldaptune.evidence.expect import normal_expect
from ldaptune.evidence.legs import judge_leg
from ldaptune.evidence.schedule import make_schedule, with_rate


def schedule(kind="quick", seed=7, restart=False, p99=True):
    """A primed schedule at 10,000 operations/s as found."""
    return with_rate(make_schedule(kind, seed, restart, p99), 10000.0, 1.0)


def phase(seconds, goodput, mode="closed", p99=None, errors=0, planned=None):
    """One PHASE as the authrate module returns it."""
    successes = round(goodput * seconds)
    return {
        "mode": mode,
        "seconds": seconds,
        "connections": 16,
        "operations": successes + errors,
        "successes": successes,
        "goodput": float(goodput),
        "errors": errors,
        "error_percent": 100.0 * errors / max(1, successes + errors),
        "codes": {"success": successes, **({"busy": errors} if errors else {})},
        "failures": {},
        "late": 0,
        "connections_lost": 0,
        "latency_ns": {"count": successes, "p50": 400000, "p99": p99},
        "service_ns": {"count": successes, "p50": 400000, "p99": p99},
        "planned": planned,
        "dropped": 0,
        "cut_short": False,
    }


def leg(plan, index, goodput=10000.0, p99=1000000, foreign=0, pid=4711, errors=0):
    """One LEG that nothing is wrong with; spoil it in the test."""
    due = plan["legs"][index]
    phases = {}
    for item in due["phases"]:
        rate = item["rate"] or goodput
        opened = item["mode"] == "open"
        phases[item["name"]] = phase(
            item["seconds"],
            rate if opened else goodput,
            item["mode"],
            p99 if opened else None,
            errors if item["name"] == "goal" else 0,
            round(rate * item["seconds"]) if opened else None,
        )
    sent = sum(item["operations"] for item in phases.values())
    start = {"bind": 1000 * index, "search": 50, "unbind": 3, "total": 1000 * index + 53}
    if plan["restart"]:
        pid += index
    finish = {
        "bind": start["bind"] + sent + 1,
        "search": start["search"] + 3 + foreign,
        "unbind": start["unbind"] + 17,
    }
    finish["total"] = sum(finish.values())
    levers = {
        "slapd.log_level": {"wanted": 256, "configured": 256, "effective": 256, "state": "applied"},
    }
    return {
        "index": index,
        "block": due["block"],
        "position": due["position"],
        "arm": due["arm"],
        "started": "2026-01-01T12:00:%02d+00:00" % (index % 60),
        "readback": {end: {"ok": True, "levers": copy.deepcopy(levers)} for end in ("start", "finish")},
        "server": {
            "start": {
                "counters": {"operations": start, "connections_total": 1, "own": {"bind": 1, "search": 3}},
                "slapd": {"pid": pid, "start": 99, "cpu_seconds": 10.0, "rss_bytes": 1},
            },
            "finish": {
                "counters": {"operations": finish, "connections_total": 18, "own": {"bind": 1, "search": 3}},
                "slapd": {"pid": pid, "start": 99, "cpu_seconds": 10.0 + sent * 5e-5, "rss_bytes": 1},
            },
        },
        "probe": {
            "phases": phases,
            "totals": {"operations": {"bind": sent, "search": 0, "unbind": 16, "extended": 0}, "connections": 16},
            "limited_by": "server_limited",
            "limited_why": "",
            "accounts": 100,
            "line": "",
        },
    }


def legs(plan, count=None, effect=0.0, noise=0.005, p99_effect=0.0, seed=1, **more):
    """Legs of a run with a true effect (log ratios) and some noise."""
    draw = random.Random(seed)
    made = []
    for due in plan["legs"][: count or plan["looks"][0] * 4]:
        profile = due["arm"] == "profile"
        made.append(
            leg(
                plan,
                due["index"],
                10000.0 * math.exp(effect * profile + draw.gauss(0, noise)),
                round(1e6 * math.exp(p99_effect * profile + draw.gauss(0, noise))),
                **more,
            )
        )
    return made


def judged(plan, made, limit=0.1):
    """The legs judged in order."""
    return [judge_leg(item, plan, limit, made[index - 1] if index else None) for index, item in enumerate(made)]


def expect(**changes):
    """Expectations with their defaults."""
    return normal_expect(changes)
