# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drive a ramp on a real server: each measurement is a run of its own, with connections and processes of its own."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..problems import LdaptuneError
from .prepare import Ready
from .ramp import Ask, Point, Ramp, Rules
from .run import head, run
from .series import Series
from .summary import counts_text, duration, rate

SHOWN: Tuple[str, ...] = (
    "goodput",
    "operations",
    "errors",
    "error_percent",
    "codes",
    "failures",
    "connections",
    "connections_lost",
)
SHOWN += ("latency_ns", "processes", "limited_by", "limited_why", "seconds", "cut_short")

# With 5 % of noise the widest of five candidates spreads over some 14 %.
NOISY_PERCENT = 20

Told = Optional[Callable[[str], None]]


class Times(NamedTuple):
    """Seconds: what one pass over all accounts may take before the first step (0 for none), to settle, to measure."""

    prime: float = 0.0
    settle: float = 5.0
    measure: float = 10.0


def run_ramp(ready: Ready, rules: Rules, times: Times, told: Told = None) -> Dict[str, Any]:
    """Find knee and peak; `ready` is prepared for `rules.limit` connections; `told` gets a line a measurement.

    Raises LdaptuneError when the first step cannot be measured. A ramp that was interrupted returns what it has.
    """
    driver = _Driver(ready, rules, times, told)
    with driver.series:
        driver.go()
    return driver.result()


class _Driver:
    def __init__(self, ready: Ready, rules: Rules, times: Times, told: Told) -> None:
        self.ready, self.times, self.told = ready, times, told
        self.ramp = Ramp(rules)
        self.rows: List[Dict[str, Any]] = []
        self.died = ""
        self.series = Series()

    def go(self) -> None:
        for ask in self.ramp.asks():
            point = self._measure(ask)
            if point is None:
                return
            self.ramp.add(ask, point)

    def _measure(self, ask: Ask) -> Point | None:
        """Measure once; None when the ramp ends here, whatever it found."""
        if self.series.stopped:
            return None
        first = not self.rows
        phases: List[Dict[str, Any]] = []
        if first and self.times.prime > 0:
            phases.append({"name": "prime", "mode": "pass", "seconds": self.times.prime, "rate": 0})
        if self.times.settle > 0:
            phases.append({"name": "settle", "mode": "closed", "seconds": self.times.settle, "rate": 0})
        phases.append({"name": "goal", "mode": "closed", "seconds": self.times.measure, "rate": 0})
        settings = self.ready.settings
        settings = settings._replace(connections=ask.clients, phases=phases, sample=settings.sample if first else 0)
        ready = self.ready._replace(settings=settings, processes=min(self.ready.processes, ask.clients))
        row: Dict[str, Any] = {"kind": ask.kind, "clients": ask.clients}
        try:
            found = run(ready)
        except LdaptuneError as error:
            if first:
                raise
            self.rows.append({**row, "failed": str(error)})
            self._tell(self.rows[-1])
            return Point(ask.clients, 0.0, None, failed=str(error))
        self.series.take(found)
        goal = found["phases"].get("goal")
        if goal:
            row.update((name, goal[name]) for name in SHOWN)
        self.died = found.get("worker_died", "")
        if self.died or found["interrupted"] or not goal:
            # what was cut short is shown but takes no part
            self.rows.append({**row, "failed": self.died or "interrupted"})
            return None
        self.rows.append(row)
        self._tell(row)
        return _point(ask.clients, goal)

    def _tell(self, row: Dict[str, Any]) -> None:
        if self.told:
            self.told(row_text(row))

    def result(self) -> Dict[str, Any]:
        report = self.ramp.report()
        report["measurements"] = self.rows
        limited = report["generator_limited_from"]
        report["cut_short"] = self.series.stopped or bool(self.died)
        if self.died:
            judged, why = "generator_limited", self.died
        elif limited is not None:
            judged = "generator_limited"
            why = "generator limited from %d clients on: the true peak may lie higher" % limited
        elif report["peak"] is None:
            judged, why = "undetermined", "the ramp was not finished"
        else:
            judged, why = "server_limited", "no client count was held down by the generator"
            if self.ready.local:
                why += "; server and generator share this host, so the figures are no capacity"
        result = {
            **head(self.ready.settings),
            "phases": {},
            **self.series.result(),
            "ramp": report,
            "limited_by": judged,
            "limited_why": why,
            "accounts": self.ready.workload.accounts,
        }
        if self.died:
            result["worker_died"] = self.died
        result["line"] = sentence(report)
        return result


def _point(clients: int, goal: Dict[str, Any]) -> Point:
    latency = goal["latency_ns"]
    # Where there are too few samples for a p99, there may be enough to say that it is no lower than this.
    return Point(
        clients,
        goal["goodput"] or 0.0,
        goal["error_percent"],
        latency["p99"],
        latency["p90"],
        max(goal["connections_lost"], clients - goal["connections"]),
        limited=goal["limited_by"] == "generator_limited",
    )


def row_text(row: Dict[str, Any]) -> str:
    """Return one measurement in one line."""
    name = "%s %d client%s" % ("ramp" if row["kind"] == "step" else "again", row["clients"], "s"[: row["clients"] > 1])
    if "failed" in row:
        return "%s: %s" % (name, row["failed"])
    latency = row["latency_ns"]
    parts = ["%s: %s successes/s" % (name, rate(row["goodput"]))]
    parts.append("p50 %s, p99 %s" % (duration(latency["p50"]), duration(latency["p99"])))
    if row["errors"]:
        parts.append("%d errors (%s)" % (row["errors"], counts_text(row)))
    if row["connections_lost"]:
        parts.append("%d connections lost" % row["connections_lost"])
    if row["limited_by"] != "server_limited":
        parts.append("%s: %s" % (row["limited_by"].replace("_", " "), row["limited_why"]))
    return ", ".join(parts)


def sentence(report: Dict[str, Any]) -> str:
    """Return what a ramp found in one line."""
    parts: List[str] = []
    peak, knee, decline = report["peak"], report["knee"], report["decline"]
    limited = report["generator_limited_from"]
    if peak is None:
        steps = [row for row in report["measurements"] if row["kind"] == "step" and "failed" not in row]
        best = max(steps, key=lambda row: row["goodput"] or 0, default=None)
        if best:
            text = "highest single figure %s/s at %d clients, not measured again: no peak and no knee"
            parts.append(text % (rate(best["goodput"]), best["clients"]))
        else:
            parts.append("nothing was measured")
    else:
        parts.append("knee %d clients: %s/s" % (knee["clients"], rate(knee["goodput"])))
        what = "peak" if limited is None else "highest"
        parts.append("%s %d clients: %s/s" % (what, peak["clients"], rate(peak["goodput"])))
        if decline:
            parts.append("falls to %s/s at %d" % (rate(decline["goodput"]), decline["clients"]))
        elif report["shape"] == "rising":
            parts.append("no decline up to the limit of %d: it may still rise beyond" % report["limit"])
        else:
            parts.append("no decline shown up to %d clients: a plateau" % report["stopped_at"])
    if report["stopped_by"] not in ("no gain", "limit", ""):
        parts.append("stopped at %d clients: %s" % (report["stopped_at"], report["stopped_why"]))
    if (report["spread_percent"] or 0) > NOISY_PERCENT:
        text = "noisy: figures of one client count differ by up to %.0f %%, repeat it on a quiet machine"
        parts.append(text % report["spread_percent"])
    if limited is not None:
        parts.append("generator limited from %d clients on: the true peak may lie higher" % limited)
    if report["cut_short"]:
        parts.append("cut short")
    return "; ".join(parts)
