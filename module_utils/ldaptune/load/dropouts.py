# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which generator or connection dropped out of a load of several, and from which second on."""

from __future__ import annotations

from typing import Any, Dict, List

from .tally import SECOND

Result = Dict[str, Any]
Dropout = Dict[str, Any]

#: Later than this, a generator was not there when the others were.
LATE_LIMIT = 0.25
#: Who does so many operations in each second, on average, does none in a second only when it stands still.
STEADY = 20
#: How the names of failures begin that mean a connection is gone.
GONE = ("reset", "eof", "notice_of_disconnection", "connect_", "tls")


def dropout(generator: str, text: str, phase: str = "", second: int | None = None) -> Dropout:
    """Return one dropout as data; `second` (from 0) is the first without the generator or connection."""
    return {"generator": generator, "phase": phase, "second": second, "text": "generator %s %s" % (generator, text)}


def of_run(name: str, result: Result, phases: List[Dict[str, Any]]) -> List[Dropout]:
    """Return what shows in one generator's result as a whole."""
    found = []
    if result.get("worker_died"):
        found.append(dropout(name, "lost a process: %s" % result["worker_died"]))
    if result["interrupted"]:
        found.append(dropout(name, "was interrupted"))
    missing = [spec["name"] for spec in phases if spec["name"] not in result["phases"]]
    if missing:
        found.append(dropout(name, "did not run phase %s" % ", ".join(missing), missing[0]))
    return found


def of_phase(name: str, spec: Dict[str, Any], ran: Dict[str, Result], connections: int) -> List[Dropout]:
    """Return what one generator was missing in a phase; `ran` has the phase's result of each that ran it."""
    mine, phase = ran[name], spec["name"]
    found = []
    late = mine.get("started_late_seconds") or 0.0
    if late > LATE_LIMIT:
        found.append(dropout(name, "started phase %s %.1f s late" % (phase, late), phase, 0))
    if mine["connections"] < connections:
        text = "had %d of %d connections in phase %s" % (mine["connections"], connections, phase)
        found.append(dropout(name, text, phase, 0))
    if mine["connections_lost"]:
        second = next((row["second"] for row in mine["series"] if _gone(row)), None)
        since = "" if second is None else ", from second %d on" % second
        text = "lost %d of %d connections in phase %s%s" % (mine["connections_lost"], connections, phase, since)
        found.append(dropout(name, text, phase, second))
    whole = whole_seconds(mine)
    wanted = int(spec["seconds"] + 0.01)
    if spec["mode"] != "pass" and whole < wanted:
        since = "after %d" % (whole - 1) if whole else "at all"
        found.append(dropout(name, "has no seconds %s in phase %s" % (since, phase), phase, whole))
    return found + _stood_still(name, spec, ran)


def whole_seconds(result: Result) -> int:
    """Return how many whole seconds of a phase each process of a generator has."""
    return min(
        (min(len(state["seconds"]), int(state["elapsed_ns"] / SECOND + 0.01)) for state in result["states"]), default=0
    )


def _stood_still(name: str, spec: Dict[str, Any], ran: Dict[str, Result]) -> List[Dropout]:
    """Name the whole seconds in which this generator did nothing while another one worked."""
    if spec["mode"] == "pass":
        return []
    seconds = {each: _operations(result) for each, result in ran.items()}
    mine = seconds.pop(name)
    if not mine or sum(mine) < STEADY * len(mine):
        return []
    still = [
        second
        for second, many in enumerate(mine)
        if not many and any(other[second : second + 1] > [0] for other in seconds.values())
    ]
    if not still:
        return []
    text = "did nothing in second %s of phase %s" % (", ".join(map(str, still)), spec["name"])
    return [dropout(name, text, spec["name"], still[0])]


def _operations(result: Result) -> List[int]:
    return [row["operations"] for row in result["series"][: whole_seconds(result)]]


def _gone(row: Dict[str, Any]) -> bool:
    return any(name.startswith(GONE) for name in row["failures"])
