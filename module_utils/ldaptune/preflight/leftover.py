# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A measurement that was interrupted, or that someone else runs just now: its mark lies in the state directory."""

from __future__ import annotations

import glob
import json
import os
from typing import Any, List, Mapping

from ..problems import Problem, problem

MARK = "active.json"


def marks(state_dir: str) -> List[str]:
    """Return the marks of measurements in progress, one an instance of slapd."""
    return sorted(glob.glob(os.path.join(glob.escape(state_dir), "*", MARK)))


def read_mark(path: str) -> Mapping[str, Any]:
    """Return what a mark says, empty when it cannot be read; a mark counts even then."""
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def interrupted(path: str, mark: Mapping[str, Any], watched: bool) -> Problem:
    """Refuse a host that a measurement has in hand; `watched` says that its watchdog is alive."""
    details = ["%s %s" % (name, mark[name]) for name in sorted(mark) if isinstance(mark[name], (str, int, float))]
    if watched:
        what = "a measurement has this host in hand"
        do = "Wait for it to end: its watchdog returns the host to as found at the deadline."
    else:
        what = "a measurement was interrupted and left this host as it was at that moment"
        do = "Run rollback.yml for this host: it restores as found and removes the mark."
    return problem(what, where=path, found=", ".join(details), do=do)


def process_alive(pid: Any) -> bool:
    """Tell whether a process with that number runs."""
    return isinstance(pid, int) and pid > 0 and os.path.exists("/proc/%d" % pid)


def leftovers(state_dir: str) -> List[Problem]:
    """Name every measurement in progress on this host."""
    found = []
    for path in marks(state_dir):
        mark = read_mark(path)
        found.append(interrupted(path, mark, process_alive(mark.get("pid"))))
    return found
