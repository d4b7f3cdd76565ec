# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log-linear histogram of nanoseconds that merges exactly.

The index of a value is the upper half of its IEEE 754 single: eight bits of exponent, seven of mantissa. So each power
of two is cut into 128 equal buckets and a bucket's middle is within 0.4 % of every value in it. The conversion runs in
C for a whole list at a time (about 0.1 us a value), and two histograms merge by adding counts.
Minimum, maximum, count and sum are kept exactly.
"""

from __future__ import annotations

import struct
import sys
from array import array
from typing import Any, Dict, Iterable, List

try:  # the counting loop of Counter in C, without Counter's overhead a call
    from collections import _count_elements as count_elements  # type: ignore[attr-defined]
except ImportError:  # another Python than CPython

    def count_elements(counts: Dict[int, int], values: Iterable[int]) -> None:
        """Add one to the count of each value."""
        for value in values:
            counts[value] = counts.get(value, 0) + 1


QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999))
# A percentile needs this many samples beyond it, or it says more about chance than about the server.
SAMPLES_BEYOND = 100
_UPPER = 1 if sys.byteorder == "little" else 0


def index_of(value: int) -> int:
    """Return the bucket of one value."""
    return int(struct.unpack(">H", struct.pack(">f", value)[:2])[0])


def middle_of(index: int) -> float:
    """Return the middle of a bucket."""
    low, high = struct.unpack(">ff", struct.pack(">HHHH", index, 0, index + 1, 0))
    return (float(low) + float(high)) / 2


class Histogram:
    """Counts of values >= 0 by bucket, with exact extremes."""

    __slots__ = ("counts", "count", "total", "minimum", "maximum")

    def __init__(self) -> None:
        self.counts: Dict[int, int] = {}
        self.count = 0
        self.total = 0
        self.minimum: int | None = None
        self.maximum: int | None = None

    def add(self, values: List[int]) -> None:
        """Count a list of whole numbers >= 0."""
        if not values:
            return
        low, high = min(values), max(values)
        if self.minimum is None or low < self.minimum:
            self.minimum = low
        if self.maximum is None or high > self.maximum:
            self.maximum = high
        self.count += len(values)
        self.total += sum(values)
        count_elements(self.counts, array("H", array("f", values).tobytes())[_UPPER::2])

    def merge(self, other: Histogram) -> None:
        """Add another histogram's counts to this one."""
        for index, count in other.counts.items():
            self.counts[index] = self.counts.get(index, 0) + count
        self.count += other.count
        self.total += other.total
        for value in (other.minimum, other.maximum):
            if value is not None:
                self.minimum = value if self.minimum is None else min(self.minimum, value)
                self.maximum = value if self.maximum is None else max(self.maximum, value)

    def quantile(self, share: float) -> int | None:
        """Return the value below which `share` of the values lie, within 0.4 %; None when empty."""
        if self.minimum is None or self.maximum is None:
            return None
        # nearest rank; the small term keeps 0.9 * 10 from becoming rank 10
        rank = max(1, int(-(-(share * self.count - 1e-9) // 1)))
        seen = 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= rank:
                return int(min(max(middle_of(index), self.minimum), self.maximum))
        return self.maximum

    def summary(self) -> Dict[str, Any]:
        """Return count, min, mean, p50, p90, p99, p999, max; a percentile with too few samples beyond it is None."""
        found: Dict[str, Any] = {"count": self.count, "min": self.minimum}
        found["mean"] = self.total / self.count if self.count else None
        for name, share in QUANTILES:
            enough = self.count * (1 - share) >= SAMPLES_BEYOND - 1e-6
            found[name] = self.quantile(share) if enough else None
        found["max"] = self.maximum
        return found

    def to_json(self) -> Dict[str, int]:
        """Return the counts as a sparse map with text keys, in order of value."""
        return {str(index): self.counts[index] for index in sorted(self.counts)}

    def state(self) -> Dict[str, Any]:
        """Return everything, for `from_state` in another process."""
        return {"counts": self.to_json(), "sum": self.total, "min": self.minimum, "max": self.maximum}

    @classmethod
    def from_state(cls, state: Dict[str, Any]) -> Histogram:
        """Return the histogram that `state` was taken from."""
        made = cls()
        made.counts = {int(index): int(count) for index, count in state["counts"].items()}
        made.count = sum(made.counts.values())
        made.total = state["sum"]
        made.minimum, made.maximum = state["min"], state["max"]
        return made
