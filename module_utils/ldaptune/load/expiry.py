# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private folder for a password that goes away by itself: a killed controller takes nothing away.

A process of its own watches the folder and removes it when nothing in it was renewed for so many seconds. It knows
the folder by its inode, removes plain files and nothing deeper, and ends when the folder is gone.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from typing import Callable, NoReturn

PREFIX = "ldaptune-"
POLL_SECONDS = 1.0


def make(parent: str, seconds: float) -> str:
    """Make a folder 0700 below `parent` and return its path; its watcher runs already. Raises OSError."""
    path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    _detach(path, seconds)
    return path


def renew(path: str) -> None:
    """Put off the end of the folder that holds the file `path`, if it is one of ours; never fails."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.basename(folder).startswith(PREFIX):
        with contextlib.suppress(OSError):
            os.utime(folder)


def watch(
    path: str,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Remove the folder once it is `seconds` old or was not renewed for so long; return when it is gone.

    Renewing is a new time of change, whatever the wall clock says; how long ago is measured by `clock`.
    """
    first = os.stat(path)
    changed, since = first.st_mtime_ns, clock()
    while True:
        try:
            seen = os.stat(path)
        except OSError:
            return
        if (seen.st_dev, seen.st_ino) != (first.st_dev, first.st_ino):
            return
        if seen.st_mtime_ns != changed:
            changed, since = seen.st_mtime_ns, clock()
        if clock() - since >= seconds:
            remove(path)
            return
        pause(POLL_SECONDS)


def remove(path: str) -> None:
    """Remove a folder of ours with the files in it."""
    for name in os.listdir(path):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(path, name))
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _detach(path: str, seconds: float) -> None:
    """Start the watcher so that it outlives this process and holds none of its files and pipes."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    with contextlib.suppress(OSError):
        os.setsid()
        if os.fork() == 0:
            _be_watcher(path, seconds)
    os._exit(0)


def _be_watcher(path: str, seconds: float) -> NoReturn:
    try:
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.closerange(3, 1024)
        watch(path, seconds)
    finally:
        os._exit(0)
