# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results as text for people."""

from __future__ import annotations

from typing import Any, Dict, List


def duration(nanoseconds: float | None) -> str:
    """Return a time in the unit that fits; a dash for none."""
    if nanoseconds is None:
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return "%.3g %s" % (nanoseconds / size, unit)
    return "%d ns" % nanoseconds


def rate(value: float | None) -> str:
    """Return a rate with as many digits as mean something; a dash for none."""
    if value is None:
        return "-"
    return "%.1f" % value if value < 100 else "%.0f" % value


def phase_text(name: str, result: Dict[str, Any]) -> str:
    """Return one phase in one line."""
    latency = result["latency_ns"]
    parts = ["%s: %s successes/s" % (name, rate(result["goodput"]))]
    parts.append("p50 %s, p99 %s, max %s" % tuple(duration(latency[key]) for key in ("p50", "p99", "max")))
    if result["errors"]:
        parts.append("%d errors (%s)" % (result["errors"], counts_text(result)))
    if result.get("expected"):
        parts.append("failed as asked: " + ", ".join("%s %d" % pair for pair in sorted(result["expected"].items())))
    if result["dropped"]:
        parts.append("%d of %d planned not sent" % (result["dropped"], result["planned"]))
    if result["late"]:
        parts.append("%d answers too late" % result["late"])
    if result["connections_lost"]:
        parts.append("%d connections lost" % result["connections_lost"])
    if result["cut_short"]:
        parts.append("cut short")
    return ", ".join(parts)


def counts_text(result: Dict[str, Any]) -> str:
    """Return the refusals and failures by name, the most frequent first."""
    expected = result.get("expected", {})
    counts = {name: times - expected.get(name, 0) for name, times in result["codes"].items() if name != "success"}
    counts = {name: times for name, times in counts.items() if times}
    counts.update(result["failures"])
    return ", ".join("%s %d" % (name, counts[name]) for name in sorted(counts, key=lambda name: -counts[name]))


def sentence(result: Dict[str, Any]) -> str:
    """Return the run in one line: the goal phase first, then what spoils it."""
    order: List[str] = list(result["phases"])
    shown = [name for name in ("goal", "fixed") if name in order] or order[-1:]
    parts = [phase_text(name, result["phases"][name]) for name in shown] or ["nothing was measured"]
    if result["limited_by"] != "server_limited":
        parts.append("%s: %s" % (result["limited_by"].replace("_", " "), result["limited_why"]))
    if result["interrupted"]:
        parts.append("interrupted")
    return "; ".join(parts)
