# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several runs that are one to the user: a signal between two of them ends all, and what they sent adds up."""

from __future__ import annotations

import signal
from types import TracebackType
from typing import Any, Dict, List, Tuple, Type

from .tally import count


class Series:
    """A context in which SIGINT and SIGTERM set `stopped`; a run inside has its own handlers while it lasts."""

    def __init__(self) -> None:
        self.stopped = False
        self.operations: Dict[str, int] = {}
        self.connections = 0
        self.remarks: Dict[Tuple[str, str], int] = {}
        self.sample: Dict[str, Any] | None = None
        self._previous: List[Tuple[int, Any]] = []

    def __enter__(self) -> Series:
        numbers = (signal.SIGINT, signal.SIGTERM)
        self._previous = [(number, signal.signal(number, lambda *_: self.stop())) for number in numbers]
        return self

    def __exit__(
        self, kind: Type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous:
            signal.signal(number, handler)

    def stop(self) -> None:
        """Let nothing more begin."""
        self.stopped = True

    def take(self, found: Dict[str, Any]) -> None:
        """Add a run's totals and remarks."""
        self.stopped = self.stopped or found["interrupted"]
        for name, times in found["totals"]["operations"].items():
            count(self.operations, name, times)
        self.connections += found["totals"]["connections"]
        for item in found["remarks"]:
            key = (item["what"], item["text"])
            self.remarks[key] = self.remarks.get(key, 0) + item["count"]
        self.sample = found.get("sample", self.sample)

    def result(self) -> Dict[str, Any]:
        """Return the part of a result that a single run has too."""
        remarks = [{"what": w, "text": text, "count": times} for (w, text), times in sorted(self.remarks.items())]
        found: Dict[str, Any] = {
            "totals": {"operations": self.operations, "connections": self.connections},
            "interrupted": self.stopped,
            "remarks": remarks,
        }
        if self.sample is not None:
            found["sample"] = self.sample
        return found
