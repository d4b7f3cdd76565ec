# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Schedules: which arm is measured when, for how long, and after which blocks the result is looked at.

A block is four legs, ABBA or BAAB by a coin flip, A being as found: a slow drift cancels within the block and a
disturbance of a fixed period cannot stay in step with one arm. Everything follows from the seed.
"""

from __future__ import annotations

import random
from typing import Any, Dict, List, NamedTuple, Tuple

from ..problems import LdaptuneError, problem

Schedule = Dict[str, Any]

SCHEMA = 1
AS_FOUND, PROFILE = "as_found", "profile"
KINDS = ("brief", "quick", "standard")

# The fixed-rate phase offers this share of the as-found goodput, to both arms.
OFFERED_SHARE = 0.7
# p99 is read only when 100 samples lie beyond it; some more are planned, for the rate falls short now and then.
OPERATIONS_FOR_P99 = 12000


class Durations(NamedTuple):
    """Seconds of one leg; `jitter` is the largest random extra settle, `prime` the cap of a pass over all accounts."""

    settle: float
    jitter: float
    goal: float
    fixed: float
    fixed_most: float
    prime: float


class Plan(NamedTuple):
    """How often and at which price the result is looked at.

    One look: alpha 0.05. Three looks at 0.0221 each keep 0.05 together (Pocock).
    """

    looks: Tuple[int, ...]
    alpha: float
    live: Durations
    restart: Durations


PLANS: Dict[str, Plan] = {
    # To try the machinery: legs too short to show less than large effects.
    "brief": Plan((4,), 0.05, Durations(0.2, 0.2, 0.7, 0.5, 1.0, 10.0), Durations(0.3, 0.2, 0.7, 0.5, 1.0, 10.0)),
    "quick": Plan((4,), 0.05, Durations(0.5, 0.5, 2.5, 1.0, 3.0, 20.0), Durations(1.0, 0.5, 2.5, 1.0, 3.0, 20.0)),
    "standard": Plan(
        (4, 8, 12), 0.0221, Durations(4.0, 2.0, 16.0, 8.0, 16.0, 120.0), Durations(20.0, 5.0, 35.0, 15.0, 30.0, 120.0)
    ),
}


def phase(name: str, mode: str, seconds: float, rate: int = 0) -> Dict[str, Any]:
    """Return one phase in the form the authrate module takes; rate 0 is "as fast as answers come"."""
    return {"name": name, "mode": mode, "seconds": round(seconds, 3), "rate": rate}


def make_schedule(
    kind: str,
    seed: int,
    restart: bool,
    p99: bool,
    *,
    leg_overhead: float = 2.5,
    leg_overhead_worst: float = 5.0,
    run_overhead: float = 10.0,
) -> Schedule:
    """Return a schedule with all its legs; the fixed-rate phase has rate 0 until `with_rate` is called.

    The overheads (seconds, around a leg and around the run) only serve the expected and worst-case time.
    An unknown kind is refused.
    """
    if kind not in PLANS:
        raise LdaptuneError(problem("unknown schedule", "schedule", str(kind), " or ".join(KINDS)))
    plan = PLANS[kind]
    times = plan.restart if restart else plan.live
    # Only random() is promised to give the same sequence in every Python.
    draw = random.Random(seed).random  # noqa: S311 (order of legs, not a secret)
    legs: List[Dict[str, Any]] = []
    for block in range(plan.looks[-1]):
        order = "ABBA" if draw() < 0.5 else "BAAB"
        for position, letter in enumerate(order):
            settle = times.settle + times.jitter * draw()
            phases = [phase("prime", "pass", times.prime)] if restart else []
            phases += [phase("settle", "closed", settle), phase("goal", "closed", times.goal)]
            if p99:
                phases.append(phase("fixed", "open", times.fixed))
            index = len(legs)
            legs.append(
                {
                    "index": index,
                    "block": block,
                    "position": position,
                    "pair": index // 2,
                    "order": order,
                    "arm": AS_FOUND if letter == "A" else PROFILE,
                    "probe_seed": seed + index // 2,  # both legs of a pair draw the same accounts
                    "phases": phases,
                }
            )
    schedule = {
        "schema": SCHEMA,
        "kind": kind,
        "seed": seed,
        "restart": restart,
        "p99": p99,
        "looks": list(plan.looks),
        "alpha": plan.alpha,
        "prime": [
            phase("prime", "pass", times.prime),
            phase("settle", "closed", max(1.0, times.settle)),
            phase("goal", "closed", max(2.0, times.goal)),
        ],
        "fixed": None,
        "overhead": {"leg": leg_overhead, "leg_worst": leg_overhead_worst, "run": run_overhead},
        "legs": legs,
    }
    return {**schedule, "seconds": _seconds(schedule)}


def with_rate(schedule: Schedule, goodput: float | None, prime_seconds: float) -> Schedule:
    """Return the schedule with what priming taught: the rate of its fixed phases and the cap of its passes.

    `goodput` is that of as found, operations/s; nothing is refused, for there is no rate to offer.
    `prime_seconds` is what one pass over all accounts took. The fixed phase grows, up to a limit of its kind,
    until the rate gives enough operations for a p99.
    """
    if not goodput or goodput < 2:
        raise LdaptuneError(
            problem(
                "the directory answered nothing while it was primed",
                "priming",
                "%.1f successful operations/s" % (goodput or 0.0),
                "at least 2",
                "See the probe's result codes: accounts, password and base must fit this directory.",
            )
        )
    times = durations(schedule)
    rate = int(goodput * OFFERED_SHARE)
    seconds = min(max(times.fixed, OPERATIONS_FOR_P99 / rate), times.fixed_most)
    cap = min(times.prime, max(5.0, 3 * prime_seconds))
    learnt = {"fixed": phase("fixed", "open", seconds, rate), "prime": phase("prime", "pass", cap)}
    legs = [
        {**leg, "phases": [dict(learnt.get(item["name"], item)) for item in leg["phases"]]} for leg in schedule["legs"]
    ]
    primed = {
        **schedule,
        "legs": legs,
        "fixed": {"rate": rate, "seconds": round(seconds, 3), "as_found_goodput": goodput},
    }
    return {**primed, "seconds": _seconds(primed)}


def durations(schedule: Schedule) -> Durations:
    """Return the durations a schedule was made from."""
    plan = PLANS[schedule["kind"]]
    return plan.restart if schedule["restart"] else plan.live


def next_legs(schedule: Schedule, done: int) -> List[Dict[str, Any]]:
    """Return the legs still to run of the block that comes after `done` legs; empty at the end."""
    legs = schedule["legs"]
    if done >= len(legs):
        return []
    block = legs[done]["block"]
    return [leg for leg in legs[done:] if leg["block"] == block]


def _seconds(schedule: Schedule) -> Dict[str, float]:
    """Return the seconds to the first look as expected, and to the last one at the worst.

    Before priming, the worst takes the longest fixed phase; a pass is expected to take no time worth naming.
    """
    overhead, longest = schedule["overhead"], durations(schedule).fixed_most
    first = schedule["looks"][0] * 4
    expected = worst = float(overhead["run"])
    for leg in schedule["legs"]:
        for item in leg["phases"]:
            if item["mode"] != "pass" and leg["index"] < first:
                expected += item["seconds"]
            worst += longest if item["mode"] == "open" and not item["rate"] else item["seconds"]
    expected += first * overhead["leg"]
    worst += len(schedule["legs"]) * overhead["leg_worst"]
    return {"expected": round(expected, 1), "worst": round(worst, 1)}
