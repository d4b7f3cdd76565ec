# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one sentence of a verdict. It says "faster" only where that was shown, and names the interval's true level."""

from __future__ import annotations

from typing import Any, Dict

from ..figures import signed, unsigned
from .expect import METRICS

Verdict = Dict[str, Any]

# Characters of one reason within the sentence.
LONGEST = 200


def level(alpha: float) -> str:
    """Return an interval's level in per cent: 0.0221 is 97.8."""
    return "%g" % round(100 * (1 - alpha), 1)


def interval(alpha: float, low: float, high: float) -> str:
    """Return an interval in words, with its level."""
    return "%s %% interval %s to %s %%" % (level(alpha), signed(low), signed(high))


def sentence(verdict: Verdict) -> str:
    """Return the sentence of a verdict, without a full stop and without what the host did about it."""
    word = verdict["verdict"]
    if word == "invalid":
        return _invalid(verdict)
    if verdict["aa"]:
        return _same_twice(verdict)
    if word == "guard_failed":
        return _guard_failed(verdict)
    text = {"improved": _shown, "regressed": _shown, "equivalent": _equivalent, "inconclusive": _inconclusive}[word](
        verdict
    )
    return text + _p99(verdict)


def _noun(verdict: Verdict) -> str:
    noun = METRICS[verdict["goal"]["metric"]].noun
    if verdict["goal"]["metric"] == "p99" and verdict["fixed_rate"]:
        noun += " at %s operations/s" % format(verdict["fixed_rate"], ",d")
    return noun


def _shown(verdict: Verdict) -> str:
    goal, metric = verdict["goal"], METRICS[verdict["goal"]["metric"]]
    text = "%s is %s %% %s than as found (%s), %d of %d blocks agree" % (
        _noun(verdict),
        unsigned(goal["effect_percent"]),
        metric.more if goal["effect_percent"] > 0 else metric.less,
        goal["interval"],
        goal["blocks_agree"],
        goal["blocks"],
    )
    if verdict["verdict"] == "regressed" and verdict["met"] and verdict["requirement"]["require"] == "no_regression":
        text += ", within the %g %% allowed" % verdict["requirement"]["min_effect_percent"]
    return text


def _equivalent(verdict: Verdict) -> str:
    goal = verdict["goal"]
    return "%s is the same as found within %g %% (%s %% interval %s to %s %%)" % (
        _noun(verdict),
        verdict["requirement"]["min_effect_percent"],
        level(2 * goal["alpha"]),
        signed(goal["equivalent_low_percent"]),
        signed(goal["equivalent_high_percent"]),
    )


def _inconclusive(verdict: Verdict) -> str:
    goal, requirement = verdict["goal"], verdict["requirement"]
    if verdict["met"] and requirement["require"] == "no_regression":
        text = "a loss of %g %% in %s is ruled out, a gain is not shown"
    else:
        text = "a change of %g %% in %s is neither shown nor ruled out"
    text %= (requirement["min_effect_percent"], _noun(verdict))
    return "%s (%s, %d blocks)" % (text, goal["interval"], goal["blocks"])


def _p99(verdict: Verdict) -> str:
    guard = verdict["guards"]["p99"]
    if guard["verdict"] == "not_claimed":
        return ""
    if guard["effect_percent"] is None:
        return ", p99 %s" % guard["verdict"]
    return ", p99 %s %% (%s)" % (signed(guard["effect_percent"]), guard["verdict"])


def _guard_failed(verdict: Verdict) -> str:
    p99, errors, goal = verdict["guards"]["p99"], verdict["guards"]["errors"], verdict["goal"]
    harmed = []
    if p99["verdict"] == "harm" and p99["effect_percent"] is None:
        harmed.append(p99["text"])
    elif p99["verdict"] == "harm":
        harmed.append(
            "p99 at the same rate is %s %% higher (95 %% sure of %s %% or more)"
            % (unsigned(p99["effect_percent"]), signed(p99["low_percent"]))
        )
    if errors["verdict"] == "harm":
        harmed.append(
            "%.2f %% of operations fail, as found %.2f %%" % (errors["profile_percent"], errors["as_found_percent"])
        )
    return "the profile does harm: %s; %s changed by %s %% (%s)" % (
        " and ".join(harmed),
        _noun(verdict),
        signed(goal["effect_percent"]),
        goal["interval"],
    )


def _same_twice(verdict: Verdict) -> str:
    goal = verdict["goal"]
    width = max(abs(goal["equivalent_low_percent"]), abs(goal["equivalent_high_percent"]))
    if verdict["verdict"] == "equivalent":
        return "the same settings twice are equal within %g %%: this host can resolve a change of %s %%" % (
            verdict["requirement"]["min_effect_percent"],
            unsigned(width),
        )
    return "the same settings twice differ by anything up to %s %%: this host cannot resolve %g %% at this schedule" % (
        unsigned(width),
        verdict["requirement"]["min_effect_percent"],
    )


def _invalid(verdict: Verdict) -> str:
    reasons = verdict["reasons"]
    texts = ["%s%s" % (_leg(item), _short(item["text"])) for item in reasons[:2]]
    if len(reasons) > 2:
        texts.append("and %d more" % (len(reasons) - 2))
    return "the measurement is not valid, nothing is claimed: %s" % "; ".join(texts)


def _short(text: str) -> str:
    """Return a reason on one line; the whole of it is in the verdict's reasons."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 4] + " ..."


def _leg(item: Dict[str, Any]) -> str:
    if item["leg"] is None:
        return ""
    return "leg %d (%s): " % (item["leg"] + 1, item["arm"].replace("_", " "))
