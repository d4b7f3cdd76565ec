# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Will the log of a measurement fit on its filesystem? A full log volume stalls slapd."""

from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Sequence

from ..problems import Problem, problem
from ..profile.slapd_values import LOG_LEVELS, LogLevel
from ..profile.value_type import ValueRefused

# Levels that write for every operation (slapd-config(5), olcLogLevel); sync, config and none do not.
_PER_OPERATION = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x20 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
# A rebind under `stats` makes four lines (seen on 2.5.13); 200 bytes a line leaves room for long DNs.
BYTES_PER_OPERATION = 4 * 200
# Where syslog usually ends; both may hold a copy.
SYSLOG_DIRECTORIES = ("/var/log", "/var/log/journal")


class Space(NamedTuple):
    """A filesystem that takes the log: a directory on it, its device, free bytes."""

    path: str
    device: int
    free: int


def logs_operations(levels: List[str]) -> bool:
    """Tell whether a log level (values of olcLogLevel) writes for every operation; an unknown one counts as such."""
    try:
        mask = LogLevel().from_config(levels)
    except ValueRefused:
        return True
    # Absent means stats in slapd's own code.
    return bool((LOG_LEVELS["stats"] if mask is None else mask) & _PER_OPERATION)


def log_volume(seconds: float, rate: float) -> int:
    """Return the bytes of log that `seconds` of load at `rate` operations a second make."""
    return int(round(seconds * rate * BYTES_PER_OPERATION))


def log_directories(log_file: str, log_file_only: bool) -> List[str]:
    """Return the directories the log may go to: slapd's own file, syslog's unless that is switched off."""
    own = [os.path.dirname(log_file)] if log_file else []
    return own if log_file and log_file_only else [*own, *SYSLOG_DIRECTORIES]


def spaces(directories: Sequence[str]) -> List[Space]:
    """Return the filesystems of these directories, each once; one that is not there is left out."""
    found: Dict[int, Space] = {}
    for path in directories:
        try:
            device = os.stat(path).st_dev
            usage = os.statvfs(path)
        except OSError:
            continue
        found.setdefault(device, Space(path, device, usage.f_bavail * usage.f_frsize))
    return list(found.values())


def refuse_volume(volume: int, where: Sequence[Space]) -> List[Problem]:
    """Refuse a run whose log would take more than half of what is free."""
    return [
        problem(
            "the log of the measurement may fill its filesystem",
            where=space.path,
            found="%s free" % _size(space.free),
            wanted="at least %s, twice the %s expected" % (_size(2 * volume), _size(volume)),
            do="Free space there, measure for a shorter time, or lower olcLogLevel first.",
        )
        for space in where
        if volume * 2 > space.free
    ]


def _size(count: int) -> str:
    return "%.1f GiB" % (count / 2**30) if count >= 2**30 else "%d MiB" % (count // 2**20)
