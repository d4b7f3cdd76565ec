# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module tuning_arm does: the host put into an arm and read back, and read again when the leg has ended.

Beside tuning.py, because it starts twice a leg and Python compiles all it imports each time.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

from . import measurement, watchdog
from .arm import Arms
from .host.process import figures
from .problems import LdaptuneError, problem
from .snapshot import now_text
from .target import Target

Result = Dict[str, Any]


def arm_started(
    target: Target, resolved: Mapping[str, Any], arm: str, watch_seconds: int, owner: str = ""
) -> Result:
    """Put the host into an arm, read it back; the counters come last, so that nothing of ours follows them.

    Raises LdaptuneError unless the run `owner` has this host in hand: it began with `applied`, and nobody ended it.
    """
    measurement.measuring(target.store, owner)
    with target.store.lock():
        reference = measurement.measuring(target.store, owner)["reference"]
        arms = Arms(target, resolved, reference)
        arms.remember()
        if watch_seconds:
            name = str(resolved.get("name", ""))
            watchdog.arm(target.store, target.ctx.server, name, watch_seconds, owner=owner, reference=reference)
        elif not watchdog.alive(target.store):
            raise LdaptuneError(
                problem(
                    "no watchdog is armed, so nothing is flipped",
                    where="watch_seconds",
                    found="0",
                    wanted="seconds until this host returns to as found by itself",
                )
            )
        drifted = arms.set(arm)
        readback = arms.read_back(arm, drifted)
    return _leg(target, arm, readback, start=True)


def arm_finished(target: Target, resolved: Mapping[str, Any], arm: str, owner: str = "") -> Result:
    """Read the host at the end of a leg: the counters first; nothing is written."""
    counted = _leg(target, arm, {}, start=False)
    reference = measurement.measuring(target.store, owner)["reference"]
    counted["readback"] = Arms(target, resolved, reference).read_back(arm)
    return counted


def _leg(target: Target, arm: str, readback: Dict[str, Any], start: bool) -> Result:
    # /proc is read on the load's side of the counters: our own reading of them is in neither CPU time.
    process = {} if start else figures(target.ctx.slapd)
    counters = target.ctx.directory.counters()
    return {
        "changed": False,
        "arm": arm,
        "readback": readback,
        "counters": counters,
        "slapd": process or figures(target.ctx.slapd),
        "time": now_text(),
    }
