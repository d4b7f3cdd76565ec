# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One line of text for one leg."""

from __future__ import annotations

from typing import Any, Dict

from ..figures import milliseconds, share, whole

ARM_WORDS = {"as_found": "as found", "profile": "profile"}


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
    if judged.get("diagnosis"):
        text += "; %s" % judged["diagnosis"][0]["text"]
    if not judged["valid"]:
        text += "; NOT VALID: %s" % "; ".join(item["text"] for item in judged["reasons"])
    return text
