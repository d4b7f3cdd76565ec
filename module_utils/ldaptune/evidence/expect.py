# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a profile asks of its measurement, with its defaults filled in and nonsense refused."""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, NamedTuple

from ..problems import LdaptuneError, problem

Expect = Dict[str, Any]

REQUIRE = ("improved", "no_regression", "none")
DEFAULTS: Expect = {
    "goal": "goodput",
    "require": "improved",
    "min_effect_percent": 3.0,
    "max_p99_increase_percent": 20.0,
    "max_error_percent": 0.1,
}


class Metric(NamedTuple):
    """A goal: the figure of a judged leg, which way is better (+1 higher, -1 lower), and its words."""

    figure: str
    better: int
    noun: str
    more: str
    less: str


# A goal of "none" still shows what happened to throughput; it only asks nothing of it.
METRICS: Dict[str, Metric] = {
    "goodput": Metric("goodput", 1, "throughput", "faster", "slower"),
    "p99": Metric("p99_ns", -1, "p99 latency", "higher", "lower"),
    "cpu_per_op": Metric("cpu_per_kop", -1, "server CPU per operation", "higher", "lower"),
    "none": Metric("goodput", 1, "throughput", "faster", "slower"),
}


def normal_expect(raw: Mapping[str, Any] | None) -> Expect:
    """Return the expectations with defaults; unknown keys, words and impossible numbers are refused."""
    expect = {**DEFAULTS, **(raw or {})}
    unknown = sorted(set(expect) - set(DEFAULTS))
    if unknown:
        raise LdaptuneError(problem("unknown expectation", "expect", ", ".join(unknown), ", ".join(sorted(DEFAULTS))))
    for key, allowed in (("goal", tuple(METRICS)), ("require", REQUIRE)):
        if expect[key] not in allowed:
            raise LdaptuneError(problem("unknown word", "expect.%s" % key, str(expect[key]), " or ".join(allowed)))
    for key in ("min_effect_percent", "max_p99_increase_percent", "max_error_percent"):
        if key == "max_p99_increase_percent" and expect[key] is None:
            continue
        expect[key] = _number(key, expect[key])
    return expect


def wants_p99(expect: Expect) -> bool:
    """Return whether legs need the fixed-rate phase."""
    return expect["goal"] == "p99" or expect["max_p99_increase_percent"] is not None


def _number(key: str, value: Any) -> float:
    most = 1000.0 if key == "max_p99_increase_percent" else 100.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise LdaptuneError(problem("not a number", "expect.%s" % key, str(value), "a number of per cent"))
    if not 0 <= value < most or (key == "min_effect_percent" and value == 0):
        least = "above 0" if key == "min_effect_percent" else "at least 0"
        raise LdaptuneError(problem("out of range", "expect.%s" % key, "%g" % value, "%s and below %g" % (least, most)))
    return float(value)
