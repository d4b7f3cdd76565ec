# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judging one leg: its figures, and every reason why they cannot be believed.

A leg that cannot be believed is named and makes the comparison invalid; it is never left out in silence.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List

from .schedule import AS_FOUND, Schedule

Leg = Dict[str, Any]
Judged = Dict[str, Any]
Reason = Dict[str, str]

# Operations that were neither the probe's nor our own, as a share of all; and how far the arms may differ in it.
FOREIGN_LIMIT = 5.0
FOREIGN_DIFFERENCE_LIMIT = 2.0
# A phase shorter than this share of its plan was cut short.
DURATION_SHARE = 0.9
# Operations the server answers one by one: none can be sent, answered and not counted.
ANSWERED = ("bind", "search", "extended")
# How the names of failures begin that mean a connection is gone.
LOST = ("reset", "eof", "notice_of_disconnection", "connect_", "tls")


def reason(code: str, text: str) -> Reason:
    """Return one reason as data."""
    return {"code": code, "text": text}


def judge_leg(leg: Leg, schedule: Schedule, max_error_percent: float, before: Leg | None = None) -> Judged:
    """Return the judged leg; `before` is the leg that ran just before it.

    Figures: goodput (operations/s), p99_ns and service_p99_ns (fixed-rate phase), cpu_per_kop (server CPU seconds for
    1,000 operations), foreign_operations, foreign_percent, error_percent, operations, errors. A figure that was
    not measured is None; so is all of a fixed-rate phase in which the generator was late: `own_latency` says why.
    """
    figures = _figures(leg)
    counted = _counted(leg)
    dropped = [reason("dropped_out", str(item["text"])) for item in _probe(leg).get("dropped_out") or []]
    reasons = (
        dropped
        + _readback_reasons(leg)
        + _server_reasons(leg, schedule, before)
        # What a generator sent that dropped out may be among the foreign operations.
        + [item for item in _counting_reasons(counted) if not (dropped and item["code"] == "foreign_load")]
        + _probe_reasons(leg, schedule)
        + _error_reasons(leg, figures, max_error_percent)
    )
    return {
        "index": leg["index"],
        "block": leg["block"],
        "position": leg["position"],
        "arm": leg["arm"],
        "started": leg.get("started"),
        "valid": not reasons,
        "reasons": reasons,
        **figures,
        "foreign_operations": counted["foreign"],
        "foreign_percent": counted["foreign_percent"],
        "server_operations": counted["operations"],
        "cpu_per_kop": _cpu_per_kop(leg, counted["operations"]),
        "limited_by": _probe(leg).get("limited_by"),
    }


def foreign_difference(judged: List[Judged]) -> float | None:
    """Return by how many points of operations the arms' foreign load differs, None when a count is missing."""
    shares: List[float] = []
    for as_found in (True, False):
        arm = [leg for leg in judged if (leg["arm"] == AS_FOUND) is as_found]
        total = sum(leg["server_operations"] or 0 for leg in arm)
        if not total:
            return None
        shares.append(100.0 * sum(leg["foreign_operations"] or 0 for leg in arm) / total)
    return abs(shares[0] - shares[1])


def _probe(leg: Leg) -> Dict[str, Any]:
    probe: Dict[str, Any] = leg.get("probe") or {}
    return probe


def _phase(leg: Leg, name: str) -> Dict[str, Any]:
    phase: Dict[str, Any] = (_probe(leg).get("phases") or {}).get(name) or {}
    return phase


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _figures(leg: Leg) -> Dict[str, Any]:
    goal, fixed = _phase(leg, "goal"), _phase(leg, "fixed")
    operations = sum(int(item.get("operations") or 0) for item in (goal, fixed))
    errors = sum(int(item.get("errors") or 0) for item in (goal, fixed))
    planned = _finite(fixed.get("planned"))
    late = str(fixed.get("limited_why")) if fixed.get("limited_by") == "generator_limited" else ""
    achieved = int(fixed.get("operations") or 0) / planned if planned and not late else None
    latencies = {} if late else fixed
    return {
        "goodput": _finite(goal.get("goodput")),
        "p99_ns": _finite((latencies.get("latency_ns") or {}).get("p99")),
        "service_p99_ns": _finite((latencies.get("service_ns") or {}).get("p99")),
        "own_latency": late,
        "achieved": achieved,
        "operations": operations,
        "errors": errors,
        "error_percent": 100.0 * errors / operations if operations else None,
    }


def _reading(leg: Leg, end: str, part: str) -> Dict[str, Any]:
    return ((leg.get("server") or {}).get(end) or {}).get(part) or {}


def _counted(leg: Leg) -> Dict[str, Any]:
    """Return what the server counted between the two readings, beside what the probe sent."""
    first = _reading(leg, "start", "counters").get("operations") or {}
    last = _reading(leg, "finish", "counters").get("operations") or {}
    sent = (_probe(leg).get("totals") or {}).get("operations") or {}
    own = _reading(leg, "finish", "counters").get("own") or {}
    counted = {name: last[name] - first[name] for name in last if name in first}
    total = counted.get("total")
    if total is None:
        return {"counted": {}, "sent": sent, "operations": None, "foreign": None, "foreign_percent": None}
    ours = sum(sent.values()) + sum(number for name, number in own.items() if name != "total")
    foreign = max(0, total - ours)
    share = 100.0 * foreign / total if total > 0 else None
    return {"counted": counted, "sent": sent, "operations": total, "foreign": foreign, "foreign_percent": share}


def _counting_reasons(counted: Dict[str, Any]) -> List[Reason]:
    if counted["operations"] is None:
        return [reason("not_counted", "the server's own operation counters (cn=monitor) were not read")]
    reasons = []
    for name in ANSWERED:
        sent, seen = int(counted["sent"].get(name) or 0), counted["counted"].get(name)
        if seen is not None and seen < sent:
            text = "the server counted %d %s operations, the probe sent %d" % (seen, name, sent)
            reasons.append(reason("server_counted_fewer", text))
    answered = sum(int(counted["sent"].get(name) or 0) for name in ANSWERED)
    if not reasons and counted["operations"] < answered:
        text = "the server counted %d operations, the probe sent %d" % (counted["operations"], answered)
        reasons.append(reason("server_counted_fewer", text))
    share = counted["foreign_percent"]
    if share is not None and share > FOREIGN_LIMIT:
        text = "%d foreign operations, %.1f %% of all (at most %g %%)" % (counted["foreign"], share, FOREIGN_LIMIT)
        reasons.append(reason("foreign_load", text))
    return reasons


def _readback_reasons(leg: Leg) -> List[Reason]:
    reasons = []
    for end in ("start", "finish"):
        readback = (leg.get("readback") or {}).get(end)
        if not readback:
            reasons.append(reason("readback", "the settings were not read back at the %s" % end))
            continue
        levers = readback.get("levers") or {}
        drifted = sorted(key for key, item in levers.items() if item.get("state") == "drifted")
        for key in drifted:
            text = "%s was changed by someone else: %s" % (key, _difference(levers[key]))
            reasons.append(reason("drifted", text))
        if not readback.get("ok") and not drifted:
            wrong = ["%s (%s)" % (key, _difference(item)) for key, item in sorted(levers.items()) if _is_wrong(item)]
            text = "settings not as intended at the %s: %s" % (end, ", ".join(wrong) or "not said which")
            reasons.append(reason("readback", text))
    return reasons


def _is_wrong(item: Dict[str, Any]) -> bool:
    return item.get("state") == "failed" or item.get("effective") != item.get("wanted")


def _difference(item: Dict[str, Any]) -> str:
    found = item.get("effective") if item.get("effective") is not None else item.get("configured")
    return "found %s, wanted %s" % (_shown(found), _shown(item.get("wanted")))


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)


def _went_back(leg: Leg) -> bool:
    totals = [(_reading(leg, end, "counters").get("operations") or {}).get("total") for end in ("start", "finish")]
    return totals[0] is not None and totals[1] is not None and bool(totals[1] < totals[0])


def _process(leg: Leg, end: str) -> Any:
    slapd = _reading(leg, end, "slapd")
    return slapd.get("pid"), slapd.get("start")


def _server_reasons(leg: Leg, schedule: Schedule, before: Leg | None) -> List[Reason]:
    first, last = _process(leg, "start"), _process(leg, "finish")
    if first[0] is None or last[0] is None:
        return [reason("not_counted", "slapd's process was not read at both ends: a restart would not be seen")]
    if first != last or _went_back(leg):
        return [
            reason("server_restarted", "slapd was restarted within the leg (pid %s, then %s)" % (first[0], last[0]))
        ]
    if before is None:
        return []
    earlier = _process(before, "finish")
    if schedule["restart"] and earlier == first:
        return [reason("readback", "slapd was not restarted for this leg (pid %s)" % first[0])]
    if not schedule["restart"] and earlier != first:
        text = "slapd was restarted since the leg before (pid %s, then %s)" % (earlier[0], first[0])
        return [reason("server_restarted", text)]
    return []


def _probe_reasons(leg: Leg, schedule: Schedule) -> List[Reason]:
    reasons = _connection_reasons(leg)
    if _probe(leg).get("limited_by") == "generator_limited":
        why = _probe(leg).get("limited_why") or "no figure given"
        reasons.append(reason("generator_limited", "the generator was the limit: %s" % why))
    for item in schedule["legs"][leg["index"]]["phases"]:
        name, run = item["name"], _phase(leg, item["name"])
        if not run:
            reasons.append(reason("cut_short", "phase %s did not run" % name))
        elif run.get("cut_short"):
            reasons.append(reason("cut_short", "phase %s was cut short" % name))
        elif item["mode"] != "pass" and (_finite(run.get("seconds")) or 0.0) < item["seconds"] * DURATION_SHARE:
            text = "phase %s ran %s of %s seconds" % (name, run.get("seconds"), item["seconds"])
            reasons.append(reason("cut_short", text))
    return reasons


def _connection_reasons(leg: Leg) -> List[Reason]:
    lost = 0
    failures: Dict[str, int] = {}
    for item in (_probe(leg).get("phases") or {}).values():
        lost += int(item.get("connections_lost") or 0)
        for name, number in (item.get("failures") or {}).items():
            if name.startswith(LOST) and number:
                failures[name] = failures.get(name, 0) + int(number)
    if not lost and not failures:
        return []
    named = ", ".join("%s %d" % item for item in sorted(failures.items()))
    return [reason("connection_lost", "%d connections lost%s" % (lost, named and " (%s)" % named))]


def _error_reasons(leg: Leg, figures: Dict[str, Any], limit: float) -> List[Reason]:
    if not figures["goodput"] or figures["goodput"] <= 0:
        return [reason("errors", "no operation succeeded")]
    share = figures["error_percent"]
    if leg["arm"] == AS_FOUND and share is not None and share > limit:
        return [reason("errors", "%.2f %% errors as found (at most %g %%): %s" % (share, limit, _codes(leg)))]
    return []


def _codes(leg: Leg) -> str:
    codes: Dict[str, int] = {}
    for name in ("goal", "fixed"):
        for part in ("codes", "failures"):
            for code, number in (_phase(leg, name).get(part) or {}).items():
                if code != "success" and number:
                    codes[code] = codes.get(code, 0) + int(number)
    return ", ".join("%s %d" % item for item in sorted(codes.items())) or "no codes given"


def _cpu_per_kop(leg: Leg, operations: int | None) -> float | None:
    first, last = (_finite(_reading(leg, end, "slapd").get("cpu_seconds")) for end in ("start", "finish"))
    if first is None or last is None or not operations or last < first:
        return None
    return (last - first) / operations * 1000.0
