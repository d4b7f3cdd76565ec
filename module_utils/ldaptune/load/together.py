# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each of several generators is to do for one load, and when all of them begin."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from ..problems import LdaptuneError, problem
from .agreed import CALLED_OFF, GAP_SECONDS
from .clocks import Offset

Row = Dict[str, Any]

#: A clock that is known less well than this cannot be told to start together with others.
UNCERTAINTY_LIMIT = 0.25
#: What telling them may take, in all and for each generator: they are told one after the other.
START_SECONDS, START_SECONDS_EACH = 3.0, 1.0
#: How long after the last phase a result may be waited for: answers that were long in coming.
PATIENCE_SECONDS = 60


def share(folders: Sequence[Row], connections: int, phases: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Return `orders` (one a generator) and `asked`, which the results are set against later.

    `folders` are the results of the loop that made them, one a generator: `item` is its name, without a `path` it is
    out already. Where one is out nobody gets an order: a load smaller than asked would be measured for nothing. Raises
    LdaptuneError when there are more generators than connections.
    """
    names = [row["item"] for row in folders]
    if connections < len(names):
        raise LdaptuneError(
            problem(
                "a generator would have no connection",
                "authrate_connections",
                "%d for %d generators" % (connections, len(names)),
                "one for each generator or more; it is the number of all of them together",
            )
        )
    each, more = divmod(connections, len(names))
    shares = {name: each + (number < more) for number, name in enumerate(names)}
    lost = {row["item"]: unanswered(row, "no private folder") for row in folders if not row.get("path")}
    orders = [
        {
            "name": row["item"],
            "folder": row["path"],
            "connections": shares[row["item"]],
            "part": number,
            "parts": len(names),
        }
        for number, row in enumerate(folders)
        if not lost
    ]
    nothing = {"offset_seconds": None, "uncertainty_seconds": None}
    generators = {name: {"connections": shares[name], **nothing} for name in names}
    return {"orders": orders, "asked": {"phases": phases, "lost": lost, "generators": generators}}


def agree(
    asked: Dict[str, Any], started: Sequence[Row], offsets: Dict[str, Offset], now: float, start_seconds: float = 0.0
) -> Dict[str, Any]:
    """Return `starts` (one for each generator that waits for it) and `asked` with the clocks.

    `started` are the results of the loop over orders. When a generator did not start, or its clock is not known well
    enough, the others are called off.
    """
    lost = dict(asked["lost"])
    for row in started:
        name = row["item"]["name"]
        if "pid" not in row:
            lost[name] = unanswered(row, "it did not start")
        elif name not in offsets:
            lost[name] = "its clock could not be read"
        elif offsets[name].uncertainty > UNCERTAINTY_LIMIT:
            known = (offsets[name].uncertainty, UNCERTAINTY_LIMIT)
            lost[name] = "its clock is known to %.2f s only (at most %g s)" % known
    ahead = start_seconds or START_SECONDS + START_SECONDS_EACH * len(asked["generators"])
    longest = ahead + sum(spec["seconds"] + GAP_SECONDS for spec in asked["phases"]) + PATIENCE_SECONDS
    starts = [
        {
            "name": row["item"]["name"],
            "folder": row["item"]["folder"],
            "start_at": CALLED_OFF if lost else "%.6f" % (now + ahead + offsets[row["item"]["name"]].seconds),
            "seconds": round(longest, 1),
        }
        for row in started
        if "pid" in row
    ]
    generators = {
        name: {
            **given,
            "offset_seconds": offsets[name].seconds if name in offsets else None,
            "uncertainty_seconds": offsets[name].uncertainty if name in offsets else None,
        }
        for name, given in asked["generators"].items()
    }
    return {"starts": starts, "asked": {**asked, "lost": lost, "generators": generators}}


def outcomes(told: Sequence[Row], collected: Sequence[Row]) -> Dict[str, Row]:
    """Return each generator's `result`, or why there is none as `ended`, from what the two loops over starts gave."""
    found: Dict[str, Row] = {}
    for row in collected:
        known = "result" in row or "ended" in row
        found[row["item"]["name"]] = row if known else {"ended": unanswered(row, "its result was not fetched")}
    for row in told:
        if "result" not in found.get(row["item"]["name"], {}) and (row.get("unreachable") or row.get("rc")):
            found[row["item"]["name"]] = {"ended": unanswered(row, "it could not be told when to start")}
    return found


def unanswered(row: Row, what: str) -> str:
    """Say what a task on a generator failed with."""
    how = "unreachable" if row.get("unreachable") else what
    return "%s (%s)" % (how, " ".join(str(row["msg"]).split())) if row.get("msg") else how
