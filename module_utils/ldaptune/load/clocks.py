# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the clocks of other hosts are from the controller's, from looks at them between two looks at its own."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple


class Offset(NamedTuple):
    """What to add to the controller's time for a host's, known to within `uncertainty` (half a round trip)."""

    seconds: float
    uncertainty: float


def offsets_of(looks: Sequence[Tuple[str, str]]) -> Dict[str, Offset]:
    """Return each host's offset from (name, text) in the order they were taken.

    A text has the controller's time just before the look and the host's own, in seconds. The next look's first time
    is after this look's second one, so that the last look serves as an end only; of a host's looks the one with the
    shortest round trip counts. A text that has no two numbers is no look.
    """
    read: List[Tuple[str, float, float]] = []
    for name, text in looks:
        try:
            before, there = [float(word) for word in text.split()]
        except ValueError:
            continue
        read.append((name, before, there))
    found: Dict[str, Offset] = {}
    for (name, before, there), (_, after, _) in zip(read, read[1:]):
        made = Offset(there - (before + after) / 2, (after - before) / 2)
        if made.uncertainty >= 0 and (name not in found or made.uncertainty < found[name].uncertainty):
            found[name] = made
    return found
