# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one process counts in one phase, and how processes are put together."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from .histogram import Histogram

SECOND = 1000000000
CHUNK = 256
MAX_REMARKS = 20


def count(counts: Dict[str, int], name: str, by: int = 1) -> None:
    """Add to one of several named counts."""
    counts[name] = counts.get(name, 0) + by


class Tally:
    """Counts and times of one phase in one process; the loop appends to `fresh` (and `fresh_service`)."""

    def __init__(self) -> None:
        self.fresh: List[int] = []
        self.fresh_service: List[int] = []
        self.second = Histogram()
        self.second_errors = 0
        self.second_codes: Dict[str, int] = {}
        self.second_failures: Dict[str, int] = {}
        self.seconds: List[Dict[str, Any]] = []
        self.whole = Histogram()
        self.service = Histogram()
        self.codes: Dict[str, int] = {}
        self.expected: Dict[str, int] = {}
        self.failures: Dict[str, int] = {}
        self.unsent_of: Dict[str, int] = {}
        self.sent: Dict[str, int] = {}
        self.entries = 0
        self.fresh_parts: Dict[str, List[int]] = {}
        self.parts: Dict[str, Histogram] = {}
        self.remarks: Dict[Tuple[str, str], int] = {}
        self.errors = 0
        self.late = 0
        self.connections = 0
        self.connections_lost = 0
        self.planned = 0
        self.dropped = 0
        self.in_time = 0
        self.cut_short = False
        self.elapsed_ns = 0
        self.started_late_ns = 0
        self.waited_ns = 0
        self.cpu_seconds = 0.0
        self.queued_seconds: float | None = None
        self.throttled_seconds = 0.0
        self.stood_seconds: float | None = None
        self.naming = False
        self.fresh_lag: List[int] = []
        self.lag = Histogram()

    @property
    def successes(self) -> int:
        """Operations that ended well so far."""
        return self.whole.count + self.second.count + len(self.fresh)

    def flush(self) -> None:
        """Move the loop's fresh values into the second's histogram; in small portions, so the loop never stalls."""
        self.second.add(self.fresh)
        self.fresh.clear()
        if self.fresh_service:
            self.service.add(self.fresh_service)
            self.fresh_service.clear()
        for name, values in self.fresh_parts.items():
            self.parts.setdefault(name, Histogram()).add(values)
            values.clear()
        self.lag.add(self.fresh_lag)
        self.fresh_lag.clear()

    def roll(self) -> Dict[str, Any]:
        """End a second: keep its figures and begin the next; return the row."""
        self.flush()
        row = {
            "second": len(self.seconds),
            "errors": self.second_errors,
            "codes": self.second_codes,
            "failures": self.second_failures,
            "histogram": self.second.state(),
        }
        self.whole.merge(self.second)
        self.second = Histogram()
        self.second_errors = 0
        self.second_codes, self.second_failures = {}, {}
        self.seconds.append(row)
        return row

    def close(self) -> None:
        """Take what came after the last second into the whole, but into no second."""
        self.flush()
        self.whole.merge(self.second)
        self.second = Histogram()

    def part(self, name: str, nanoseconds: int) -> None:
        """Note how long one part of an operation took."""
        self.fresh_parts.setdefault(name, []).append(nanoseconds)

    def fail(self, name: str) -> None:
        """Count one operation that failed on this side of the wire."""
        count(self.failures, name)
        count(self.second_failures, name)
        self.errors += 1
        self.second_errors += 1

    def refuse(self, code: str) -> None:
        """Count one operation that the server answered with another code than success."""
        count(self.codes, code)
        count(self.second_codes, code)
        self.errors += 1
        self.second_errors += 1

    def expect(self, code: str) -> None:
        """Count one success whose code is another than success, as was asked for."""
        count(self.expected, code)
        count(self.second_codes, code)

    def remark(self, what: str, text: str) -> None:
        """Keep a text of the server's for the report, a bounded number of different ones."""
        key = (what, text[:200])
        if key in self.remarks or len(self.remarks) < MAX_REMARKS:
            self.remarks[key] = self.remarks.get(key, 0) + 1

    def state(self) -> Dict[str, Any]:
        """Return all of it as JSON-able data for the parent process."""
        names = (
            "codes expected failures entries errors late connections_lost planned dropped in_time cut_short elapsed_ns"
            " waited_ns cpu_seconds connections queued_seconds throttled_seconds stood_seconds seconds successes"
            " started_late_ns"
        )
        found = {name: getattr(self, name) for name in names.split()}
        found["remarks"] = [[what, text, times] for (what, text), times in self.remarks.items()]
        found["parts"] = {name: part.state() for name, part in self.parts.items()}
        for name in ("whole", "service", "lag"):
            found[name] = getattr(self, name).state()
        return found
