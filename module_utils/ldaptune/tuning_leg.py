# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module tuning_arm does: the host put into an arm and read back, and read again when the leg has ended.

Beside tuning.py, because it starts twice a leg and Python compiles all it imports each time.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

from . import leg_sampler, measurement, watchdog
from .arm import Arms
from .host.process import figures
from .problems import LdaptuneError, problem
from .snapshot import now_text
from .target import Target

Result = Dict[str, Any]


def arm_started(
    target: Target, resolved: Mapping[str, Any], arm: str, watch_seconds: int, owner: str = "", *, sample: bool = False
) -> Result:
    """Put the host into an arm, read it back; the counters come last, so that nothing of ours follows them.

    With `sample` a sampler is ready before them and begins behind them; it ends when the watchdog would, at the latest.
    Raises LdaptuneError unless the run `owner` has this host in hand: it began with `applied`, and nobody ended it.
    """
    measurement.measuring(target.store, owner)
    target.ctx.switching = True
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
    sampler, reason = leg_sampler.begin(target, watch_seconds) if sample else (None, "")
    result = _leg(target, arm, readback)
    if sampler:
        sampler.release()
    return dict(result, sampler=reason or "started") if sample else result


def arm_finished(
    target: Target, resolved: Mapping[str, Any], arm: str, owner: str = "", *, sample: bool = False
) -> Result:
    """Read the host at the end of a leg: the counters first; nothing is written."""
    # /proc is read on the load's side of the counters: our own reading of them is in neither CPU time.
    process = figures(target.ctx.slapd)
    sampled = {"sample": leg_sampler.finish(target)} if sample else {}
    counted = {**_leg(target, arm, {}, process), **sampled}
    reference = measurement.measuring(target.store, owner)["reference"]
    counted["readback"] = Arms(target, resolved, reference).read_back(arm)
    return counted


def _leg(target: Target, arm: str, readback: Dict[str, Any], process: Dict[str, Any] | None = None) -> Result:
    counters = target.ctx.directory.counters()
    return {
        "changed": False,
        "arm": arm,
        "readback": readback,
        "counters": counters,
        "slapd": process or figures(target.ctx.slapd),
        "time": now_text(),
    }
