# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A phase's result: the processes' tallies merged into one plain dict without NaN or infinities."""

from __future__ import annotations

from typing import Any, Dict, List

from .histogram import QUANTILES, Histogram
from .tally import SECOND, count


def merge(spec: Dict[str, Any], states: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Return the result of one phase from the state of each process's tally (see Tally.state)."""
    whole, service = Histogram(), Histogram()
    codes: Dict[str, int] = {}
    expected: Dict[str, int] = {}
    failures: Dict[str, int] = {}
    for state in states:
        whole.merge(Histogram.from_state(state["whole"]))
        service.merge(Histogram.from_state(state["service"]))
        for target, source in ((codes, state["codes"]), (expected, state["expected"]), (failures, state["failures"])):
            for name, times in source.items():
                count(target, name, times)
    total = {
        name: sum(state[name] for state in states)
        for name in ("entries", "errors", "late", "connections", "connections_lost", "planned", "dropped", "in_time")
    }
    seconds = max((state["elapsed_ns"] for state in states), default=0) / SECOND
    if whole.count > sum(expected.values()):
        codes["success"] = whole.count - sum(expected.values())
    operations = whole.count + total["errors"]
    parts: Dict[str, Histogram] = {}
    for state in states:
        for name, part in state["parts"].items():
            parts.setdefault(name, Histogram()).merge(Histogram.from_state(part))
    return {
        "mode": spec["mode"],
        "seconds": seconds,
        "connections": total["connections"],
        "operations": operations,
        "successes": whole.count,
        "entries": total["entries"],
        "goodput": total["in_time"] / seconds if seconds else None,
        "errors": total["errors"],
        "error_percent": 100 * total["errors"] / operations if operations else None,
        "codes": {name: codes.get(name, 0) + expected.get(name, 0) for name in [*codes, *expected]},
        "expected": expected,
        "failures": failures,
        "late": total["late"],
        "connections_lost": total["connections_lost"],
        "latency_ns": whole.summary(),
        "parts_ns": {name: part.summary() for name, part in parts.items()},
        "service_ns": service.summary() if spec["mode"] == "open" else whole.summary(),
        "histogram": whole.to_json(),
        "series": series([state["seconds"] for state in states]),
        "processes": [process(state) for state in states],
        "planned": total["planned"],
        "dropped": total["dropped"],
        "cut_short": any(state["cut_short"] for state in states),
    }


def series(rows_of: List[List[Dict[str, Any]]]) -> List[Dict[str, Any]]:
    """Return one row a second from the rows of each process; the last second is a partial one."""
    longest = max((len(rows) for rows in rows_of), default=0)
    return [merge_rows([rows[second] for rows in rows_of if second < len(rows)]) for second in range(longest)]


def merge_rows(rows: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Return the figures of one second from those of each process; percentiles are shown from few samples too."""
    histogram = Histogram()
    errors = 0
    codes: Dict[str, int] = {}
    failures: Dict[str, int] = {}
    for row in rows:
        histogram.merge(Histogram.from_state(row["histogram"]))
        errors += row["errors"]
        for target, source in ((codes, row["codes"]), (failures, row["failures"])):
            for name, times in source.items():
                count(target, name, times)
    plain = histogram.count + errors - sum(codes.values()) - sum(failures.values())
    found: Dict[str, Any] = {
        "second": rows[0]["second"],
        "operations": histogram.count + errors,
        "successes": histogram.count,
        "errors": errors,
        "codes": {**({"success": plain} if plain else {}), **codes},
        "failures": failures,
    }
    for name, share in QUANTILES:
        found[name + "_ns"] = histogram.quantile(share)
    found["max_ns"] = histogram.maximum
    return found


def busiest(result: Dict[str, Any]) -> float:
    """Return the highest share of a core that a process of a phase used."""
    shares = [item["cpu_seconds"] / item["wall_seconds"] for item in result["processes"] if item["wall_seconds"]]
    return max(shares, default=0.0)


def process(state: Dict[str, Any]) -> Dict[str, Any]:
    """Return what one process used, and how late it was in reading answers (closed) or in sending (open)."""
    lag = Histogram.from_state(state["lag"])
    return {
        "cpu_seconds": state["cpu_seconds"],
        "wall_seconds": state["elapsed_ns"] / SECOND,
        "waited_seconds": state["waited_ns"] / SECOND,
        "queued_seconds": state["queued_seconds"],
        "throttled_seconds": state["throttled_seconds"],
        "stood_seconds": state["stood_seconds"],
        "lag_mean_ns": lag.total // lag.count if lag.count else None,
        "lag_p99_ns": lag.quantile(0.99),
    }
