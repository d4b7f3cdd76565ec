# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Phases that begin at agreed times of the wall clock, so that several generators load a server together."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Dict, List, Sequence

from ..problems import LdaptuneError, Problem, problem
from .tally import SECOND

#: Between the end of a phase and the agreed start of the next: answers are awaited, tallies put together.
GAP_SECONDS = 0.5
#: A start further ahead is a mistake, or another host's clock.
MOST_AHEAD = 600.0
#: So long before the start the workers get their order and do the last bit of waiting themselves.
LEAD_SECONDS = 0.2
PAUSE_SECONDS = 0.05
#: How long a run with its connections made waits to be told when to start; and the word for "not at all".
MOST_WAIT = 120.0
CALLED_OFF = "off"

wall: Callable[[], float] = time.time


def offsets(phases: Sequence[Dict[str, Any]]) -> List[float]:
    """Return the seconds from the agreed start to the start of each phase."""
    found, at = [], 0.0
    for spec in phases:
        found.append(at)
        at += spec["seconds"] + GAP_SECONDS
    return found


def problems_of(start_at: float) -> List[Problem]:
    """Say what is wrong with an agreed start; 0 is none."""
    ahead = start_at - wall()
    if not start_at or 0 < ahead <= MOST_AHEAD:
        return []
    found = "%.1f s %s by this host's clock" % (abs(ahead), "ahead" if ahead > 0 else "past")
    return [problem("the agreed start cannot be kept", "start_at", found, "0 to %g s ahead" % MOST_AHEAD)]


def told(path: str, stopped: Callable[[], bool]) -> float:
    """Wait for a line with the agreed start in the file `path`, and remove it; 0 when stopped. Raises LdaptuneError."""
    until = time.monotonic() + MOST_WAIT
    text = ""
    while not text.endswith("\n"):
        if stopped():
            return 0.0
        if time.monotonic() > until:
            raise LdaptuneError(problem("nobody said when to start", path, "nothing in %g s" % MOST_WAIT))
        time.sleep(PAUSE_SECONDS)
        with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
            text = file.read()
    with contextlib.suppress(OSError):
        os.unlink(path)  # the next run in the same folder is told anew
    if text.strip() == CALLED_OFF:
        raise LdaptuneError(problem("the load was called off before it began"))
    try:
        at = float(text)
    except ValueError:
        raise LdaptuneError(problem("a start that is no time", path, text.strip())) from None
    problems = problems_of(at)
    if problems:
        raise LdaptuneError(problems)
    return at


class Agreed:
    """The agreed starts of a run's phases; an `at` of 0 lets each phase begin as soon as it can."""

    def __init__(self, at: float, phases: Sequence[Dict[str, Any]]) -> None:
        self.at = at
        self.offsets = offsets(phases)
        # The wall clock is asked once: a step of it in the middle moves no phase.
        self.origin = time.perf_counter_ns() + int((at - wall()) * SECOND)

    @property
    def spare_seconds(self) -> float:
        """What waiting adds to a run at most."""
        return max(0.0, self.at - wall()) + GAP_SECONDS * len(self.offsets)

    def refuse_past(self) -> None:
        """Raise LdaptuneError when the start has gone by while the connections were made."""
        late = (time.perf_counter_ns() - self.origin) / SECOND
        if self.at and late > 0:
            raise LdaptuneError(
                problem(
                    "the agreed start went by while the connections were made",
                    "start_at",
                    "%.1f s past" % late,
                    do="Agree on a later start; no load was sent",
                )
            )

    def wait(self, number: int, stopped: Callable[[], bool]) -> int:
        """Wait until phase `number` (from 0) is about to start; return when it starts, in ns of perf_counter, or 0."""
        if not self.at:
            return 0
        start = self.origin + int(self.offsets[number] * SECOND)
        while not stopped():
            left = (start - time.perf_counter_ns()) / SECOND - LEAD_SECONDS
            if left <= 0:
                break
            time.sleep(min(left, PAUSE_SECONDS))
        return start
