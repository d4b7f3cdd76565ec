# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long did this process stand still? Seen by a thread that wakes up often and asks where the time went.

A process that is stopped while it waits for answers hides it: the wait only seems longer. But then its other thread
does not wake up either. Time by which a wake-up was late, and in which the process neither ran nor queued for a CPU, it
was stopped, frozen or stolen. What ran or queued in the whole of the gap is subtracted, so the figure is on the low
side.
"""

from __future__ import annotations

import os
import threading
import time
from typing import List, Tuple

from .tally import SECOND

PERIOD_NS = 5000000
LEAST_NS = 3000000  # less than this is timers, and the interpreter's lock changing hands


class Heartbeat:
    """Counts standstills from `start` to `stop`."""

    def __init__(self) -> None:
        self._stood_ns = 0
        self._known = True
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> float | None:
        """End and return the seconds that the process stood still; None where the kernel does not tell enough."""
        self._end.set()
        self._thread.join()
        return self._stood_ns / SECOND if self._known else None

    def _beat(self) -> None:
        files: List[int] = []
        try:
            files += [os.open(name, os.O_RDONLY) for name in ("/proc/self/schedstat", "/proc/thread-self/schedstat")]
            before, late = _reading(files), 0
            while not self._end.is_set():
                time.sleep(PERIOD_NS / SECOND)
                now = _reading(files)
                gap, used = now[0] - before[0], now[1] - before[1]
                # The kernel books some of it later: what was used in a gap beyond its length belongs to the one before.
                late -= max(0, used - gap)
                if late > LEAST_NS:
                    self._stood_ns += late
                late, before = gap - PERIOD_NS - used, now
            if late > LEAST_NS:
                self._stood_ns += late
        except (OSError, ValueError, IndexError):
            self._known = False
        finally:
            for file in files:
                os.close(file)


def _reading(files: List[int]) -> Tuple[int, int]:
    """Return the time, and the CPU and queue time of the main thread and this one, in ns."""
    used = 0
    for file in files:
        ran, queued, _ = os.pread(file, 64, 0).split()
        used += int(ran) + int(queued)
    return time.perf_counter_ns(), used
