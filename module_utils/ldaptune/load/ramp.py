# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which number of clients gets the most out of a server: the procedure, without any measuring of its own.

`Ramp.asks()` yields what to measure next; whoever drives it hands each measurement to `add`. Client counts go up until
a rule stops them; the counts that may be the best, and the highest, are measured again in random order; knee and peak
come from those alone, because the highest of many single figures is too high by chance.
"""

from __future__ import annotations

import random
import statistics
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from . import usl

LOW = (1, 2, 4)
GAIN = 1.02  # a step must be so much above the best before it to count as a gain
IDLE_STEPS = 2  # so many steps in a row without a gain end the ramp
NEAR = 0.98  # of the best median: as good as the best
ROUNDS = 3


class Rules(NamedTuple):
    """How far and how long; `p99_ns` 0 sets no limit."""

    limit: int
    seed: str = "1"
    error_percent: float = 0.1
    p99_ns: float = 0.0


class Ask(NamedTuple):
    """What to measure next: a `step` of the ramp or a candidate `again`."""

    kind: str
    clients: int


class Point(NamedTuple):
    """One measurement. `at_least_ns` is a time that p99 is not below, for when p99 itself has too few samples."""

    clients: int
    goodput: float
    error_percent: float | None = 0.0
    p99_ns: float | None = None
    at_least_ns: float | None = None
    lost: int = 0
    failed: str = ""
    limited: bool = False


def counts(limit: int) -> List[int]:
    """Return 1, 2, 4, 8, 12, 16, 24, 32, 48, ... up to the limit, which is always the last."""
    found = [number for number in LOW if number < limit]
    step = 8
    while step < limit:
        found += [step] + ([step * 3 // 2] if step * 3 // 2 < limit else [])
        step *= 2
    return [*found, limit]


class Ramp:
    """The state of one ramp."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.steps: List[Point] = []
        self.again: List[Point] = []
        self.stopped_why = ""
        self.stopped_at: int | None = None
        self.stopped_by = ""
        self.fit: usl.Fit | None = None
        self.candidates: List[int] = []
        self.complete = False

    def add(self, ask: Ask, point: Point) -> None:
        """Take the measurement that was asked for."""
        (self.steps if ask.kind == "step" else self.again).append(point)

    def asks(self) -> Iterator[Ask]:
        """Yield what to measure, in order; each must be added before the next is asked for."""
        for clients in counts(self.rules.limit):
            yield Ask("step", clients)
            if self._stop():
                break
        else:
            self._end("limit", "the limit of %d clients was reached" % self.rules.limit)
        self.candidates = self._candidates()
        generator = random.Random("%s/ramp" % self.rules.seed)  # noqa: S311 - an order, not a secret
        for _ in range(ROUNDS):
            # each round has each of them once: what changes slowly meets all alike
            for clients in generator.sample(self.candidates, len(self.candidates)):
                yield Ask("again", clients)
        self.complete = True

    def fits(self, point: Point) -> str:
        """Return the rule that a measurement breaks by itself and the reason, or nothing."""
        return self._broken(point)[1]

    def _broken(self, point: Point) -> Tuple[str, str]:
        rules = self.rules
        if point.failed:
            return "failed", point.failed
        if point.lost:
            return "connections", "%d of %d connections were lost" % (point.lost, point.clients)
        if point.error_percent is None:
            return "errors", "no operation was completed"
        if point.error_percent > rules.error_percent:
            return "errors", "%.2g %% of operations failed, %g %% are allowed" % (
                point.error_percent,
                rules.error_percent,
            )
        known = point.p99_ns if point.p99_ns is not None else point.at_least_ns
        if rules.p99_ns and known is not None and known > rules.p99_ns:
            which = "p99" if point.p99_ns is not None else "p90"
            return "p99", "%s was %.3g ms, %.3g ms are allowed" % (which, known / 1e6, rules.p99_ns / 1e6)
        return "", ""

    def _end(self, rule: str, why: str) -> None:
        self.stopped_by, self.stopped_why, self.stopped_at = rule, why, self.steps[-1].clients

    def _stop(self) -> bool:
        rule, why = self._broken(self.steps[-1])
        if not rule and self._idle_steps() >= IDLE_STEPS:
            rule, why = "no gain", "%d steps in a row without a gain of %g %%" % (IDLE_STEPS, 100 * (GAIN - 1))
        if rule:
            self._end(rule, why)
        return bool(rule)

    def _idle_steps(self) -> int:
        best, idle = 0.0, 0
        for point in self.steps:
            idle = 0 if point.goodput >= best * GAIN else idle + 1
            best = max(best, point.goodput)
        return idle

    def _good(self) -> List[Point]:
        return [point for point in self.steps if not self._broken(point)[0] and point.goodput > 0]

    def _candidates(self) -> List[int]:
        """Return the highest step with its neighbours, the optimum of the fit, and the last step for the decline."""
        good = self._good()
        if not good:
            return []
        # what the generator held down is no point of the server's curve
        self.fit = usl.fit([(point.clients, point.goodput) for point in good if not point.limited])
        best = max(range(len(good)), key=lambda number: good[number].goodput)
        found = {point.clients for point in good[max(0, best - 1) : best + 2]}
        found.add(good[-1].clients)
        if self.fit and self.fit.peak:
            # never beyond a count that broke a rule
            top = self.rules.limit if self.stopped_by in ("limit", "no gain") else good[-1].clients
            found.add(int(min(max(1, round(self.fit.peak)), top)))
        return sorted(found)

    def report(self) -> Dict[str, Any]:
        """Return what was found so far as plain data; complete or not."""
        found: Dict[str, Any] = {
            "limit": self.rules.limit,
            "complete": self.complete,
            "stopped_by": self.stopped_by,
            "stopped_at": self.stopped_at,
            "stopped_why": self.stopped_why,
            "usl": self.fit and dict(self.fit._asdict()),
            "candidates": [self._candidate(clients) for clients in self.candidates],
            "knee": None,
            "peak": None,
            "decline": None,
            "shape": "undetermined",
            "generator_limited_from": self._limited_from(),
            "spread_percent": None,
        }
        usable = [row for row in found["candidates"] if row["usable"]] if self.complete else []
        if usable:
            peak = max(usable, key=lambda row: row["goodput"])
            knee = next(row for row in usable if row["goodput"] >= peak["goodput"] * NEAR)
            found["peak"] = {"clients": peak["clients"], "goodput": peak["goodput"]}
            found["knee"] = {"clients": knee["clients"], "goodput": knee["goodput"]}
            spreads = [(max(row["figures"]) - min(row["figures"])) / row["goodput"] for row in usable if row["goodput"]]
            found["spread_percent"] = 100 * max(spreads, default=0.0)
            found["decline"] = self._decline(peak, usable[-1])
            found["shape"] = self._shape(peak, found["decline"])
        return found

    def _candidate(self, clients: int) -> Dict[str, Any]:
        points = [point for point in self.again if point.clients == clients]
        rates = [point.goodput for point in points]
        broken = [why for why in (self._broken(point)[1] for point in points) if why]
        return {
            "clients": clients,
            "goodput": statistics.median(rates) if rates else None,
            "figures": rates,
            # one bad measurement of three is bad luck, two are not
            "usable": bool(rates) and 2 * len(broken) < len(points),
            "broken": broken,
        }

    def _decline(self, peak: Dict[str, Any], last: Dict[str, Any]) -> Dict[str, Any] | None:
        """Return the fall after the peak: 2 % or more, and all figures of the last below all of the peak's."""
        figures = [*last["figures"], *(point.goodput for point in self.steps if point.clients == last["clients"])]
        if last["clients"] <= peak["clients"] or last["goodput"] >= peak["goodput"] * NEAR:
            return None
        if max(figures) >= min(peak["figures"]):
            return None
        share = 100 * (1 - last["goodput"] / peak["goodput"])
        return {"clients": last["clients"], "goodput": last["goodput"], "percent": share}

    def _shape(self, peak: Dict[str, Any], decline: Dict[str, Any] | None) -> str:
        if decline:
            return "peak"
        if self.stopped_by == "no gain":
            return "plateau"
        if self.stopped_by == "limit":
            # the last two steps gained nothing, or only one did not: the ramp was too short to tell
            return "plateau" if self._idle_steps() and peak["clients"] < self.steps[-1].clients else "rising"
        return "cut"

    def _limited_from(self) -> int | None:
        """Return the smallest count from which on the generator was the limit.

        A count is held for limited when most of its measurements were; one measured once also needs the next to
        agree, so that a single disturbed second does not spoil a whole ramp.
        """
        votes: Dict[int, List[bool]] = {}
        for point in [*self.steps, *self.again]:
            votes.setdefault(point.clients, []).append(point.limited)
        order = sorted(votes)
        limited = {clients: 2 * sum(votes[clients]) > len(votes[clients]) for clients in order}
        for number, clients in enumerate(order):
            agreed = number + 1 == len(order) or limited[order[number + 1]] or len(votes[clients]) > 1
            if limited[clients] and agreed:
                return clients
        return None
