# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guards: what must not get worse while the goal gets better (p99 at one offered rate, errors)."""

from __future__ import annotations

import math
from statistics import median
from typing import Any, Dict, List, Tuple

from .expect import Expect
from .legs import Judged
from .statistics import hodges_lehmann, log_ratio, percent, signed_rank_interval, wilson

Guard = Dict[str, Any]
Pair = Tuple[Judged, Judged]  # as found, profile

# Two one-sided bounds at 5 % each.
P99_ALPHA = 0.10
# An open loop that answers less than this share of its plan is falling behind.
CARRIED, NOT_CARRIED = 0.98, 0.95


def p99_guard(pairs: List[Pair], expect: Expect) -> Guard:
    """Return the p99 guard over judged pairs, both arms at the same offered rate.

    harm: shown to be higher (one-sided 95 % bound) and by more than half of what is allowed (10 % of 20 %);
    safe: shown to be less than the allowed increase; unproven: neither; not_claimed: not asked for or not measured.
    Needs at least five pairs (ValueError); a goal that could be decided has eight.
    """
    allowed = expect["max_p99_increase_percent"]
    if allowed is None or expect["goal"] == "p99":
        return _p99("not_claimed", "no limit was asked for" if allowed is None else "p99 is the goal itself")
    carried = [_carried(pair[0]) for pair in pairs], [_carried(pair[1]) for pair in pairs]
    if min(carried[0]) >= CARRIED and median(carried[1]) < NOT_CARRIED:
        return _p99("harm", "the profile did not carry the rate that as found carried")
    missing = [leg["index"] + 1 for pair in pairs for leg in pair if not leg["p99_ns"]]
    if missing:
        text = "too few answers at the fixed rate for a p99 in %s" % named(missing, 2 * len(pairs))
        late = [leg["index"] + 1 for pair in pairs for leg in pair if leg.get("own_latency")]
        if late:
            text = "the generator itself was late at the fixed rate in %s" % named(late, 2 * len(pairs))
        hidden = any(not pair[1]["p99_ns"] and pair[0]["p99_ns"] for pair in pairs)
        return _p99("unproven" if hidden else "not_claimed", text)
    changes = [math.log(pair[1]["p99_ns"] / pair[0]["p99_ns"]) for pair in pairs]
    interval = signed_rank_interval(changes, P99_ALPHA)
    if interval is None:
        raise ValueError("%d pairs are too few for a p99 guard" % len(pairs))
    estimate, (low, high) = hodges_lehmann(changes), interval
    figures = {
        "effect_percent": percent(estimate),
        "low_percent": percent(low),
        "high_percent": percent(high),
        "as_found_ns": median(pair[0]["p99_ns"] for pair in pairs),
        "profile_ns": median(pair[1]["p99_ns"] for pair in pairs),
        "allowed_percent": allowed,
    }
    if low > 0 and estimate > log_ratio(allowed / 2):
        return _p99("harm", "", **figures)
    behind = min(carried[0]) < CARRIED
    text = "as found itself fell behind the offered rate" if behind else ""
    return _p99("safe" if high < log_ratio(allowed) and not behind else "unproven", text, **figures)


def named(legs: List[int], of: int) -> str:
    """Return leg numbers in words, "every leg" when it is all of them."""
    return "every leg" if len(legs) == of else "leg %s" % ", ".join(map(str, sorted(legs)))


def errors_guard(pairs: List[Pair], expect: Expect) -> Guard:
    """Return the error guard over the summed operations of each arm.

    harm: the profile's share above the limit while as found stays below half of it, or the Wilson bounds of the two
    apart by more than half the limit.
    """
    limit = expect["max_error_percent"] / 100.0
    found = _sum(pairs, 0)
    profile = _sum(pairs, 1)
    shares = [errors / operations if operations else 0.0 for errors, operations in (found, profile)]
    above = shares[1] > limit and shares[0] <= limit / 2
    apart = wilson(*profile)[0] - wilson(*found)[1] > limit / 2
    return {
        "verdict": "harm" if above or apart else "safe",
        "text": "",
        "as_found_percent": 100 * shares[0],
        "profile_percent": 100 * shares[1],
        "as_found": {"errors": found[0], "operations": found[1]},
        "profile": {"errors": profile[0], "operations": profile[1]},
        "allowed_percent": expect["max_error_percent"],
    }


def _p99(verdict: str, text: str, **figures: Any) -> Guard:
    empty = dict.fromkeys(
        ("effect_percent", "low_percent", "high_percent", "as_found_ns", "profile_ns", "allowed_percent")
    )
    return {"verdict": verdict, "text": text, **empty, **figures}


def _carried(leg: Judged) -> float:
    return 1.0 if leg["achieved"] is None else float(leg["achieved"])


def _sum(pairs: List[Pair], side: int) -> Tuple[int, int]:
    return sum(pair[side]["errors"] for pair in pairs), sum(pair[side]["operations"] for pair in pairs)
