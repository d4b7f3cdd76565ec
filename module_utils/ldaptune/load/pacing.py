# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A timer that wakes an epoll at the microsecond: epoll itself counts in milliseconds, too coarse for send times."""

from __future__ import annotations

import ctypes
import os
import select
from typing import Any

CLOCK_MONOTONIC = 1
SECOND = 1000000000


class _Setting(ctypes.Structure):
    """struct itimerspec"""

    _fields_ = (
        ("interval_seconds", ctypes.c_long),
        ("interval_nanoseconds", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
    )


class Timer:
    """One timerfd, registered in an epoll by its edge, so that nobody needs to read it."""

    def __init__(self, epoll: select.epoll) -> None:
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._epoll = epoll
        self._setting = _Setting(0, 0, 0, 0)
        self._reference = ctypes.byref(self._setting)
        self.fd: int = self._libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        epoll.register(self.fd, select.EPOLLIN | select.EPOLLET)

    def set(self, after: int) -> None:
        """Wake the epoll `after` ns from now, once; replaces what was set before."""
        self._setting.seconds, self._setting.nanoseconds = divmod(max(1, after), SECOND)
        self._libc.timerfd_settime(self.fd, 0, self._reference, None)

    def close(self) -> None:
        """Give the timer back."""
        self._epoll.unregister(self.fd)
        os.close(self.fd)
