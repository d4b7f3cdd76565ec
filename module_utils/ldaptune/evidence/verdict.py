# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From judged legs to a verdict: improved, regressed, equivalent, inconclusive, invalid or guard_failed.

The rules and their order: an invalid leg makes all invalid; a harmed guard comes before the goal; improved needs
a bound above nothing *and* an estimate of at least the effect asked for; regressed needs a bound below nothing;
equivalent needs an interval within the effect asked for, both ways; everything else is inconclusive.
"""

from __future__ import annotations

import math
from statistics import median
from typing import Any, Dict, List, NamedTuple

from .expect import METRICS, Expect, Metric
from .guards import Guard, Pair, errors_guard, named, p99_guard
from .legs import FOREIGN_DIFFERENCE_LIMIT, Judged, foreign_difference
from .schedule import AS_FOUND, PROFILE, Schedule
from .statistics import (
    hodges_lehmann,
    log_ratio,
    pair_noise,
    pairs_needed,
    percent,
    resolvable,
    signed_rank_interval,
)
from .wording import interval, sentence

Verdict = Dict[str, Any]

SCHEMA = 1
# More blocks than this are no advice: the noise is in the host.
BLOCKS_LIMIT = 48
EXIT_MET, EXIT_HARM, EXIT_NOT_SHOWN, EXIT_INVALID = 0, 3, 4, 5


class Decision(NamedTuple):
    """A goal decided; all figures are log ratios, above 0 is better."""

    verdict: str
    estimate: float
    low: float
    high: float
    low_equivalent: float
    high_equivalent: float


def decide(differences: List[float], alpha: float, floor: float) -> Decision | None:
    """Return the decision on paired differences (above 0 is better), None when there are too few for alpha.

    `floor` is the smallest log ratio worth having. Equivalence is two one-sided tests, hence the interval at 2 alpha.
    """
    interval, wide = signed_rank_interval(differences, alpha), signed_rank_interval(differences, 2 * alpha)
    if interval is None or wide is None:
        return None
    estimate = hodges_lehmann(differences)
    if interval[0] > 0 and estimate >= floor:
        word = "improved"
    elif interval[1] < 0:
        word = "regressed"
    elif -floor < wide[0] and wide[1] < floor:
        word = "equivalent"
    else:
        word = "inconclusive"
    return Decision(word, estimate, interval[0], interval[1], wide[0], wide[1])


def judge(judged: List[Judged], schedule: Schedule, expect: Expect, aa: bool = False, broken: str = "") -> Verdict:
    """Return the VERDICT over judged legs in run order.

    The legs up to the last look that is complete give the figures; every leg must be valid. `broken` says why a run
    could not go on and makes it invalid. `aa`: both arms have the same settings.
    """
    blocks = max((look for look in schedule["looks"] if look * 4 <= len(judged)), default=0)
    used = judged[: blocks * 4]
    pairs = pairs_of(used)
    reasons = _invalid_reasons(judged, used, broken)
    metric = METRICS[expect["goal"]]
    if not blocks and not reasons:
        reasons.append(_reason("too_few_pairs", "%d legs of at least %d" % (len(judged), schedule["looks"][0] * 4)))
    if not reasons:
        missing = [leg["index"] + 1 for pair in pairs for leg in pair if not leg[metric.figure]]
        if missing:
            text = "%s was not measured in %s" % (metric.noun, named(missing, len(used)))
            reasons.append(_reason("goal_not_measured", text))
    differences = [] if reasons else [_difference(pair, metric) for pair in pairs]
    decision = decide(differences, schedule["alpha"], log_ratio(expect["min_effect_percent"])) if differences else None
    guards = {"p99": p99_guard(pairs, expect), "errors": errors_guard(pairs, expect)} if decision else {}
    word = _word(decision, guards)
    if aa and decision:
        word = _aa_word(decision, guards, log_ratio(expect["min_effect_percent"]))
        if word == "invalid":
            text = "the same settings twice differ: this host cannot be trusted at this schedule"
            reasons.append(_reason("aa_difference", text))
    met = _met(word, decision, expect, aa)
    verdict: Verdict = {
        "schema": SCHEMA,
        "verdict": word,
        "requirement": dict(expect),
        "met": met,
        "exit_code": _exit_code(word, met),
        "action": "none" if aa else "keep" if met else "roll_back",
        "goal": _goal(decision, differences, metric, schedule, expect),
        "guards": guards,
        "as_found": _medians(used, AS_FOUND),
        "profile": _medians(used, PROFILE),
        "fixed_rate": (schedule.get("fixed") or {}).get("rate"),
        "aa": aa,
        "reasons": reasons,
        "notes": _notes(decision, expect, judged),
        "power": _power(differences, schedule, expect),
    }
    verdict["sentence"] = sentence(verdict)
    return verdict


def settled(verdict: Verdict) -> bool:
    """Return whether more blocks could change nothing that is asked for."""
    if verdict["verdict"] in ("invalid", "guard_failed") or verdict["met"]:
        return True
    return bool(verdict["verdict"] != "inconclusive")


def pairs_of(judged: List[Judged]) -> List[Pair]:
    """Return neighbouring legs as (as found, profile)."""
    pairs = []
    for first, second in zip(judged[::2], judged[1::2]):
        pairs.append((first, second) if first["arm"] == AS_FOUND else (second, first))
    return pairs


def _difference(pair: Pair, metric: Metric) -> float:
    """Return ln(profile / as found), turned so that above 0 is better."""
    return metric.better * math.log(pair[1][metric.figure] / pair[0][metric.figure])


def _reason(code: str, text: str, leg: Judged | None = None) -> Dict[str, Any]:
    return {
        "code": code,
        "text": text,
        "leg": None if leg is None else leg["index"],
        "arm": None if leg is None else leg["arm"],
    }


def _invalid_reasons(judged: List[Judged], used: List[Judged], broken: str) -> List[Dict[str, Any]]:
    reasons = [_reason("run_broken", broken)] if broken else []
    reasons += [_reason(item["code"], item["text"], leg) for leg in judged for item in leg["reasons"]]
    apart = foreign_difference(used)
    if apart is not None and apart > FOREIGN_DIFFERENCE_LIMIT:
        text = "foreign load differs by %.1f points between the arms (at most %g)" % (apart, FOREIGN_DIFFERENCE_LIMIT)
        reasons.append(_reason("foreign_load", text))
    return reasons


def _word(decision: Decision | None, guards: Dict[str, Guard]) -> str:
    if decision is None:
        return "invalid"
    if any(guard["verdict"] == "harm" for guard in guards.values()):
        return "guard_failed"
    return decision.verdict


def _aa_word(decision: Decision, guards: Dict[str, Guard], floor: float) -> str:
    """Return the word for the same settings twice: equivalent comes first, a shown difference is the host's fault."""
    if -floor < decision.low_equivalent and decision.high_equivalent < floor:
        word = "equivalent"
    elif decision.low > 0 or decision.high < 0:
        word = "invalid"
    else:
        word = "inconclusive"
    return "invalid" if any(guard["verdict"] == "harm" for guard in guards.values()) else word


def _met(word: str, decision: Decision | None, expect: Expect, aa: bool) -> bool:
    if decision is None or word in ("invalid", "guard_failed"):
        return False
    if aa:
        return word == "equivalent"
    if expect["require"] == "none":
        return True
    if expect["require"] == "no_regression":
        return word == "equivalent" or decision.low > log_ratio(-expect["min_effect_percent"])
    return word == "improved"


def _exit_code(word: str, met: bool) -> int:
    if met:
        return EXIT_MET
    return {"invalid": EXIT_INVALID, "guard_failed": EXIT_HARM, "regressed": EXIT_HARM}.get(word, EXIT_NOT_SHOWN)


def _goal(
    decision: Decision | None, differences: List[float], metric: Metric, schedule: Schedule, expect: Expect
) -> Dict[str, Any]:
    """Return the goal's figures as changes of the metric itself (for a latency, less is below 0)."""
    goal: Dict[str, Any] = {
        "metric": expect["goal"],
        "noun": metric.noun,
        "better": "higher" if metric.better > 0 else "lower",
        "alpha": schedule["alpha"],
        "effect_percent": None,
        "low_percent": None,
        "high_percent": None,
        "interval": None,
        "equivalent_low_percent": None,
        "equivalent_high_percent": None,
        "pairs": len(differences),
        "blocks": len(differences) // 2,
        "blocks_agree": None,
        "pair_percent": [percent(metric.better * value) for value in differences],
    }
    if decision is None:
        return goal
    bounds = sorted(metric.better * value for value in (decision.low, decision.high))
    wide = sorted(metric.better * value for value in (decision.low_equivalent, decision.high_equivalent))
    blocks = [first + second for first, second in zip(differences[::2], differences[1::2])]
    goal.update(
        effect_percent=percent(metric.better * decision.estimate),
        low_percent=percent(bounds[0]),
        high_percent=percent(bounds[1]),
        interval=interval(schedule["alpha"], percent(bounds[0]), percent(bounds[1])),
        equivalent_low_percent=percent(wide[0]),
        equivalent_high_percent=percent(wide[1]),
        blocks_agree=sum(1 for block in blocks if block * decision.estimate > 0),
    )
    return goal


def _medians(judged: List[Judged], arm: str) -> Dict[str, float | None]:
    legs = [leg for leg in judged if leg["arm"] == arm]
    medians: Dict[str, float | None] = {}
    for figure in ("goodput", "p99_ns", "cpu_per_kop", "error_percent", "foreign_percent"):
        values = [leg[figure] for leg in legs if leg[figure] is not None]
        medians["%s_median" % figure] = median(values) if values else None
    return medians


def _notes(decision: Decision | None, expect: Expect, judged: List[Judged]) -> List[str]:
    notes = []
    if decision and decision.low > 0 and decision.estimate < log_ratio(expect["min_effect_percent"]):
        notes.append("a gain is real but smaller than the %g %% asked for" % expect["min_effect_percent"])
    if any(leg["limited_by"] == "undetermined" for leg in judged):
        notes.append("in some legs it could not be told whether the server was the limit: a gain may be understated")
    return notes


def _power(differences: List[float], schedule: Schedule, expect: Expect) -> str:
    """Return what this run could have shown, and what the effect asked for would take; empty without figures."""
    if not differences:
        return ""
    noise, pairs = pair_noise(differences), len(differences)
    text = "%d blocks can show a change of %.1f %% or more (pair noise %.1f %%)" % (
        pairs // 2,
        percent(resolvable(noise, pairs, schedule["alpha"])),
        percent(noise),
    )
    needed = pairs_needed(noise, log_ratio(expect["min_effect_percent"]), schedule["alpha"], limit=2 * BLOCKS_LIMIT)
    if needed is None:
        text += "; %g %% is out of reach here: longer legs or a quieter host come first" % expect["min_effect_percent"]
        return text
    if needed > pairs:
        first = schedule["looks"][0]
        minutes = (schedule["seconds"]["expected"] - schedule["overhead"]["run"]) / first * needed / 2 / 60
        text += "; %g %% would take %d blocks (about %d minutes)" % (
            expect["min_effect_percent"],
            math.ceil(needed / 2),
            math.ceil(minutes),
        )
    return text
