# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies in the state directory: marks of runs, interrupted or in progress, and ways home gone astray."""

from __future__ import annotations

import fcntl
import glob
import json
import os
from typing import Any, Dict, Iterable, List, Mapping, Sequence

from ..problems import Problem, problem

MARK = "active.json"
LOCK = "watchdog.lock"


def marks(state_dir: str) -> List[str]:
    """Return the marks of runs in progress, one an instance of slapd."""
    return sorted(glob.glob(os.path.join(glob.escape(state_dir), "*", MARK)))


def read_mark(path: str) -> Mapping[str, Any]:
    """Return what a mark or a snapshot says, empty when it cannot be read; a mark counts even then."""
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def watched(path: str) -> bool:
    """Tell whether the watchdog of a mark lives: it holds a lock beside it as long as it does."""
    try:
        handle = os.open(os.path.join(os.path.dirname(path), LOCK), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def interrupted(path: str, mark: Mapping[str, Any], has_watchdog: bool) -> Problem:
    """Refuse a host that a run has in hand, or that one has left behind."""
    words = {"run": "owner", "profile": "profile", "since": "since", "deadline": "deadline"}
    found = ", ".join("%s %s" % (word, mark[name]) for word, name in words.items() if mark.get(name))
    if has_watchdog:
        what = "a run has this host in hand"
        do = (
            "Wait for it to end: its watchdog returns the host to as found at the deadline, if its controller is gone. "
            "rollback.yml for this host ends it at once."
        )
    else:
        what = "a run was interrupted and left this host as it was at that moment"
        do = "Run rollback.yml for this host: it restores as found and removes the mark."
    return problem(what, where=path, found=found, do=do)


def leftovers(state_dir: str) -> List[Problem]:
    """Name every run in progress on this host."""
    return [interrupted(path, read_mark(path), watched(path)) for path in marks(state_dir)]


def strays(state_dir: str, suffixes: Sequence[str], configs: Iterable[str]) -> List[Problem]:
    """Refuse where this directory was changed under another configuration, which no running slapd uses any more.

    Its way home would not be found, and what a profile set would pass for what was there first. `suffixes` are the
    database's, `configs` the configurations in use.
    """
    used = {os.path.realpath(path) if os.path.isabs(path) else path for path in configs}
    found: Dict[str, str] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(state_dir), "*", "snapshots", "*.json"))):
        snapshot = read_mark(path)
        mine = snapshot.get("state") == "open" and sorted(snapshot.get("suffixes") or []) == sorted(suffixes)
        if mine and snapshot.get("config") not in used:
            found.setdefault(str(snapshot.get("config")), path)
    return [_stray(path, config, used) for config, path in found.items()]


def _stray(path: str, config: str, used: Iterable[str]) -> Problem:
    return problem(
        "this directory was changed from here while its configuration lay elsewhere, and that was never undone",
        where=path,
        found="changed in %s, now in %s" % (config, ", ".join(sorted(used))),
        do="Its way home is in that file. Start slapd from there again and run rollback.yml; or, to keep the present, "
        "move %s away." % os.path.dirname(os.path.dirname(path)),
    )
