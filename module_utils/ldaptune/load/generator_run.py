# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what the checks of generator.py need, around a normal run."""

from __future__ import annotations

import random
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..problems import LdaptuneError
from . import generator, limits
from .connect import Security
from .null_responder import NullResponder
from .phase import busiest
from .prepare import Ready
from .run import run
from .series import Series
from .summary import rate
from .workers import Progress

Told = Optional[Callable[[str], None]]


class Times(NamedTuple):
    """Seconds of the short runs: to settle, to measure."""

    settle: float = 1.0
    measure: float = 3.0


BRIEF = Times()


def run_checked(ready: Ready, progress: Progress = None, told: Told = None, times: Times = BRIEF) -> Dict[str, Any]:
    """Run as asked, then the checks; return the run's result with its verdict replaced by that of all checks.

    Raises LdaptuneError when the run itself cannot be measured. What was interrupted is marked and undetermined.
    """
    checker = _Checker(ready, times, told)
    with checker.series:
        return checker.go(progress)


class _Checker:
    def __init__(self, ready: Ready, times: Times, told: Told) -> None:
        self.ready, self.times, self.told = ready, times, told
        self.series = Series()
        self.legs: List[Dict[str, Any]] = []
        self.refused = ""

    def go(self, progress: Progress) -> Dict[str, Any]:
        result = run(self.ready, progress)
        self.series.take(result)
        goal = result["phases"].get("goal", {})
        if goal.get("mode") == "open" or "worker_died" in result or self.series.stopped:
            return result
        more = generator.one_process_more(self._pairs(), self.refused)
        null = self._null()
        checks = [
            generator.own_figures(result["limited_by"], result["limited_why"]),
            more,
            generator.null_responder(goal.get("goodput"), null, self.refused),
        ]
        result.update(self.series.result())
        result["generator_check"] = {
            "checks": generator.as_data(checks),
            "processes": self.ready.processes,
            "legs": self.legs,
            "null": null and dict(null._asdict()),
        }
        for line in generator.lines(checks):
            self._say(line)
        verdict, why = generator.decide(checks)
        if self.series.stopped and verdict != "generator_limited":
            verdict, why = "undetermined", "the checks were interrupted"
        elif verdict == "server_limited" and self.ready.local:
            why += "; server and generator share this host, so the figure is no capacity"
        result["limited_by"], result["limited_why"] = verdict, why
        return result

    def _say(self, line: str) -> None:
        if self.told:
            self.told(line)

    def _pairs(self) -> List[float]:
        """Measure with as many processes and one more, in pairs whose order is drawn; return the ratios."""
        as_many = self.ready.processes
        self.refused = ""
        if self.ready.settings.connections <= as_many:
            self.refused = "each process has but one connection"
            return []
        drawn = random.Random("%s/pairs" % self.ready.settings.seed)  # noqa: S311 - an order, not a secret
        gains: List[float] = []
        for number in range(generator.PAIRS):
            found: Dict[int, float] = {}
            for processes in drawn.sample([as_many, as_many + 1], 2):
                goodput = self._leg(self.ready._replace(processes=processes), number)
                if not goodput:
                    return gains
                found[processes] = goodput
            gains.append(found[as_many + 1] / found[as_many])
        return gains

    def _null(self) -> generator.Null | None:
        """Measure against a server of our own that answers at once."""
        self.refused = ""
        ready = self.ready
        known = {item.tail: item.dn for item in ready.workload.regular if item.dn}
        deadline = int(self.times.settle + self.times.measure + ready.connect_seconds + 60)
        settings = ready.settings
        try:
            stub = NullResponder(
                deadline, known, ready.processes, settings.connections, unix=ready.target.scheme == "ldapi"
            )
        except (OSError, LdaptuneError) as error:
            self.refused = "it could not be started: %s" % error
            return None
        with stub:
            against = ready._replace(
                target=stub.target, addresses=stub.addresses, security=Security(None, False), local=True
            )
            before, cpu = limits.host_cpu(), stub.cpu_seconds()
            goodput = self._leg(against, "null")
            used = [now - was for now, was in zip(stub.cpu_seconds(), cpu)]
            idle = limits.idle_share(before, limits.host_cpu())
        if not goodput:
            self.refused = self.refused or "the run against it gave no figure"
            return None
        seconds = self.times.settle + self.times.measure
        tls = ready.security.context is not None
        return generator.Null(goodput, max(used) / seconds, self.legs[-1]["busiest"], idle, tls)

    def _leg(self, ready: Ready, pair: object) -> float:
        """Run a short closed phase; return its goodput, or 0 when there is none to use."""
        if self.series.stopped:
            return 0.0
        phases: List[Dict[str, Any]] = []
        if self.times.settle > 0:
            phases.append({"name": "settle", "mode": "closed", "seconds": self.times.settle, "rate": 0})
        phases.append({"name": "goal", "mode": "closed", "seconds": self.times.measure, "rate": 0})
        try:
            found = run(ready._replace(settings=ready.settings._replace(phases=phases, sample=0)))
        except LdaptuneError as error:
            self.refused = str(error)
            return 0.0
        if pair == "null":
            self.series.stopped = self.series.stopped or found["interrupted"]
        else:
            self.series.take(found)
        goal = found["phases"].get("goal")
        if not goal or found["interrupted"] or "worker_died" in found:
            self.refused = found.get("worker_died", "interrupted")
            return 0.0
        goodput = float(goal["goodput"] or 0)
        row = {"pair": pair, "processes": ready.processes, "goodput": goodput, "errors": goal["errors"]}
        self.legs.append({**row, "busiest": busiest(goal), "limited_by": goal["limited_by"]})
        name = "null responder" if pair == "null" else "pair %d" % (int(str(pair)) + 1)
        self._say(
            "%s, %d process%s: %s successes/s"
            % (name, ready.processes, "es"[: 2 * (ready.processes > 1)], rate(goodput))
        )
        return goodput
