# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Was it the generator? The judgement on a run, a run with one process more, and a run against a null responder.

Nothing is measured here. The checks stand in order, the first that finds the generator at its limit decides.
"""

from __future__ import annotations

import statistics
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from .limits import BUSY_CORE, IDLE_LITTLE

PAIRS = 4
GAIN = 1.03  # one process more must bring so much in every pair
ENOUGH = 1.5  # a ceiling so many times the figure is far enough away
SAME = 1.1  # below this a server that does nothing is no faster than the real one
LIMITED, CLEAN, NEAR, OPEN, SKIPPED = "limited", "clean", "near", "undetermined", "skipped"


class Check(NamedTuple):
    """One check: its name, what it found (limited, clean, near, undetermined, skipped), why."""

    name: str
    found: str
    why: str


class Null(NamedTuple):
    """A run against the null responder; shares are of one core, `idle` of the host's CPUs (None where unknown)."""

    goodput: float
    stub_busy: float
    generator_busy: float
    idle: float | None
    tls_left_out: bool = False


def own_figures(limited_by: str, why: str) -> Check:
    """Take the judgement on the run's own figures: CPU, quota, standstill, idle host, unread answers."""
    found = {"generator_limited": LIMITED, "server_limited": CLEAN}.get(limited_by, OPEN)
    return Check("own figures", found, why)


def one_process_more(gains: Sequence[float], skipped: str = "") -> Check:
    """Judge goodput ratios (one more by as many) of pairs in random order: the deciding check.

    Without a difference a pair's ratio is above 1.03 in less than half of the cases, whatever the noise, so all four
    are in less than one of 16 (by simulation 0.4 % at 3 % of noise a leg, 1.3 % at 5 %, 2.5 % at 8 %).
    """
    name = "one process more"
    if skipped or len(gains) < PAIRS:
        return Check(name, SKIPPED, skipped or "only %d of %d pairs were measured" % (len(gains), PAIRS))
    middle = statistics.median(gains)
    shown = ", ".join("%+.1f %%" % (100 * (gain - 1)) for gain in gains)
    if min(gains) > GAIN:
        return Check(name, LIMITED, "goodput rose in each of %d pairs (%s)" % (len(gains), shown))
    if middle <= GAIN:
        return Check(name, CLEAN, "no gain above %.0f %% (%s)" % (100 * (GAIN - 1), shown))
    return Check(name, OPEN, "goodput rose in some pairs only (%s)" % shown)


def null_responder(real: float | None, null: Null | None, skipped: str = "") -> Check:
    """Judge how far the generator's ceiling is above the real figure."""
    name = "null responder"
    if null is None or not real or not null.goodput:
        return Check(name, SKIPPED, skipped or "nothing to compare")
    ratio = null.goodput / real
    text = "%.2f times the figure against a server that answers at once" % ratio
    if null.tls_left_out:
        text += " (which speaks no TLS, so the generator's real ceiling is lower)"
    if ratio >= ENOUGH:
        return Check(name, OPEN if null.tls_left_out else CLEAN, text)
    if null.stub_busy > BUSY_CORE:
        return Check(name, OPEN, text + ", but that server was at its own limit")
    if null.idle is not None and null.idle < IDLE_LITTLE and null.generator_busy < BUSY_CORE:
        return Check(name, OPEN, text + ", but it shared this host's CPUs with the generator and they were full")
    if ratio < SAME:
        return Check(name, LIMITED, text + ": the figure is the generator's own")
    return Check(name, NEAR, text + ": the ceiling is too near")


def decide(checks: Sequence[Check]) -> Tuple[str, str]:
    """Return (server_limited | generator_limited | undetermined, why) from the three checks in their order."""
    for check in checks:
        if check.found == LIMITED:
            return "generator_limited", "%s: %s" % (check.name, check.why)
    own, more, null = checks
    if own.found != CLEAN:
        return "undetermined", "%s: %s" % (own.name, own.why)
    if more.found == CLEAN:
        # The deciding check; a ceiling that could not be found out does not outweigh it, but one that is near does.
        if null.found == NEAR:
            return "undetermined", "%s: %s" % (null.name, null.why)
        return "server_limited", "%s: %s" % (more.name, more.why)
    if more.found == SKIPPED and null.found == CLEAN:
        return "server_limited", "%s: %s" % (null.name, null.why)
    return "undetermined", "%s: %s; %s: %s" % (more.name, more.why, null.name, null.why)


def lines(checks: Sequence[Check]) -> List[str]:
    """Return the checks as text."""
    return ["check %s: %s, %s" % (check.name, check.found, check.why) for check in checks]


def as_data(checks: Sequence[Check]) -> List[Dict[str, Any]]:
    """Return the checks as plain data."""
    return [dict(check._asdict()) for check in checks]
