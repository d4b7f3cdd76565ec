# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One line of text for one leg, and figures as people read them; independent of locale."""

from __future__ import annotations

from typing import Any, Dict

MISSING = "-"
ARM_WORDS = {"as_found": "as found", "profile": "profile"}


def whole(value: float | None) -> str:
    """Return 28431.2 as 28,431."""
    return MISSING if value is None else format(round(value), ",d")


def milliseconds(nanoseconds: float | None) -> str:
    """Return 1234567 as 1.23 ms."""
    return MISSING if nanoseconds is None else "%.2f ms" % (nanoseconds / 1e6)


def share(percent: float | None) -> str:
    """Return 0.1234 as 0.12 %."""
    return MISSING if percent is None else "%.2f %%" % percent


def leg_line(judged: Dict[str, Any], legs: int) -> str:
    """Return the line printed when a leg has ended."""
    text = "leg %2d of %d, block %d, %-8s: %s operations/s, p99 %s, errors %s, foreign %s" % (
        judged["index"] + 1,
        legs,
        judged["block"] + 1,
        ARM_WORDS[judged["arm"]],
        whole(judged["goodput"]),
        milliseconds(judged["p99_ns"]),
        share(judged["error_percent"]),
        whole(judged["foreign_operations"]),
    )
    if not judged["valid"]:
        text += "; NOT VALID: %s" % "; ".join(item["text"] for item in judged["reasons"])
    return text
