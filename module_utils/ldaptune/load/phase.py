# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A phase's result: the processes' tallies merged into one plain dict without NaN or infinities."""

from __future__ import annotations

from typing import Any, Dict, List

from .histogram import Histogram
from .tally import SECOND, count


def merge(spec: Dict[str, Any], states: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Return the result of one phase from the state of each process's tally (see Tally.state)."""
    whole, service = Histogram(), Histogram()
    codes: Dict[str, int] = {}
    failures: Dict[str, int] = {}
    for state in states:
        whole.merge(Histogram.from_state(state["whole"]))
        service.merge(Histogram.from_state(state["service"]))
        for target, source in ((codes, state["codes"]), (failures, state["failures"])):
            for name, times in source.items():
                count(target, name, times)
    total = {
        name: sum(state[name] for state in states)
        for name in ("errors", "late", "connections", "connections_lost", "planned", "dropped", "in_time")
    }
    seconds = max((state["elapsed_ns"] for state in states), default=0) / SECOND
    if whole.count:
        codes["success"] = whole.count
    operations = whole.count + total["errors"]
    return {
        "mode": spec["mode"],
        "seconds": seconds,
        "connections": total["connections"],
        "operations": operations,
        "successes": whole.count,
        "goodput": total["in_time"] / seconds if seconds else None,
        "errors": total["errors"],
        "error_percent": 100 * total["errors"] / operations if operations else None,
        "codes": codes,
        "failures": failures,
        "late": total["late"],
        "connections_lost": total["connections_lost"],
        "latency_ns": whole.summary(),
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
    found = []
    for second in range(max((len(rows) for rows in rows_of), default=0)):
        histogram, errors = Histogram(), 0
        for rows in rows_of:
            if second < len(rows):
                histogram.merge(Histogram.from_state(rows[second]["histogram"]))
                errors += rows[second]["errors"]
        found.append(row(second, histogram, errors))
    return found


def row(second: int, histogram: Histogram, errors: int) -> Dict[str, Any]:
    """Return the figures of one second; its percentiles are shown from few samples too."""
    return {
        "second": second,
        "operations": histogram.count + errors,
        "successes": histogram.count,
        "errors": errors,
        "p50_ns": histogram.quantile(0.5),
        "p99_ns": histogram.quantile(0.99),
    }


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
