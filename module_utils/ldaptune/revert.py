# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way home: back to a snapshot, leaving alone what someone else changed since."""

from __future__ import annotations

import contextlib
import copy
from typing import Dict, List, NamedTuple, Sequence, Tuple

from .levers.table import LEVERS
from .plan import Row, rank
from .problems import LdaptuneError, Problem, problem
from .snapshot import Snapshot
from .target import Entry, Observation, Target


class Homeward(NamedTuple):
    """What a way home would do: its rows, what stands against parts of it, the snapshots it closes."""

    rows: List[Row]
    problems: List[Problem]
    closes: List[Snapshot]
    entries: Dict[str, Entry]

    def changes(self) -> List[Row]:
        """Return the rows that write."""
        return [row for row in self.rows if row["action"] == "change"]

    def complete(self) -> bool:
        """Return whether the host is as the snapshot says, apart from what a remark says."""
        return not any(row["state"] in ("failed", "drifted", "pending") for row in self.rows)


def choose(target: Target, name: str) -> Tuple[List[Snapshot], Dict[str, Entry]]:
    """Return the open snapshots that end with this way home, and {lever: entry} to go back to.

    Without a name: the oldest, before all runs. A named later one stands for the state before that run: of each
    lever the oldest value recorded from it on.
    """
    found = target.store.open_snapshots()
    if name:
        wanted = target.store.load(name)
        if wanted["state"] != "open":
            raise LdaptuneError(
                problem(
                    "this snapshot is closed: it was %s" % wanted["state"],
                    where=target.store.path(name),
                    found=", ".join(item["id"] for item in found) or "no open snapshot",
                    wanted=name,
                    do="Choose an open one, or leave it empty for the oldest.",
                )
            )
        found = [item for item in found if item["id"] >= name]
    entries: Dict[str, Entry] = {}
    for snapshot in found:
        for key, entry in snapshot["levers"].items():
            entries.setdefault(key, entry)
    return found, entries


def plan_home(target: Target, name: str = "") -> Homeward:
    """Observe and say what going home would change; writes nothing."""
    closes, entries = choose(target, name)
    origin = target.store.origin()
    rows, problems = [], []
    for key, entry in entries.items():
        wrote = origin["levers"][key] if origin and key in origin["levers"] else entry
        if wrote.get("wrote"):
            row, found = _row(target, key, entry, wrote)
            rows.append(row)
            problems.extend(found)
    rows.reverse()
    rows.sort(key=lambda row: row.pop("rank"))
    return Homeward(rows, problems, closes, entries)


def _row(target: Target, key: str, entry: Entry, ours: Entry) -> Tuple[Row, List[Problem]]:
    spec = target.behaviour(key).spec
    seen = target.observe(key)
    now = target.before(key, seen)
    row: Row = {
        "lever": key,
        "before": now,
        "after": entry["before"],
        "configured": seen.get("configured"),
        "effective": seen.get("effective"),
        "cost": spec.cost,
        "risk": spec.risk,
        "compare": spec.compare,
        "why": "as found on %s" % entry["recorded"],
        "state": "pending",
        "reason": "",
        "action": "change",
        "rank": rank(spec, now, entry["before"]),
    }
    if not seen.get("supported"):
        row.update(state="failed", reason=str(seen.get("reason", "")), action="skip")
        return row, [problem("%s cannot be taken back" % key, found=row["reason"])]
    if target.is_home(key, seen, entry):
        row.update(state="unchanged", action="none")
        return row, []
    if not (target.matches(key, seen, entry["before"]) or target.is_ours(key, seen, ours)):
        return row, [_drift(target, key, row, ours)]
    return row, []


def _drift(target: Target, key: str, row: Row, ours: Entry) -> Problem:
    row.update(state="drifted", action="skip", reason=target.last_change(key))
    found = target.show(key, row["before"])
    if row["effective"] not in (None, row["before"]):
        found += ", in force %s" % target.show(key, row["effective"])
    return problem(
        "%s was changed by someone else since, so it is left alone" % key,
        where=row["reason"],
        found=found,
        wanted="%s (as found) or %s (as written)"
        % (target.show(key, row["after"]), target.show(key, ours["wrote"]["value"])),
        do="Set it by hand, or accept the present with rollback_adopt.",
    )


def go_home(target: Target, home: Homeward, closed_as: str = "reverted") -> None:
    """Carry it out; the caller holds the lock. Rows get their state, `home.problems` what failed.

    One lever that fails does not keep the others from going home; the snapshots are closed only when all are there.
    """
    origin = target.store.origin()
    for row in home.changes():
        assert origin is not None
        try:
            _restore(target, origin, row, home.entries[row["lever"]])
        except Exception as error:  # noqa: BLE001 - whatever stops one lever must not keep the others from going home
            found = error.problems if isinstance(error, LdaptuneError) else [_unforeseen(row["lever"], error)]
            row.update(state="failed", reason=found[0]["what"])
            home.problems.extend(found)
    if home.complete():
        if origin is not None and home.closes and origin["id"] != home.closes[0]["id"]:
            _give_back(target, origin, home)
        # The last to be closed is what this way home went by: cut short, it can be gone again.
        for snapshot in reversed(_fresh(target, home.closes)):
            target.store.close(snapshot, closed_as)


def _give_back(target: Target, origin: Snapshot, home: Homeward) -> None:
    """Let the origin say what was written last before the step: what came after is as if it had never been."""
    for row in home.rows:
        if row["state"] == "applied" or row["action"] == "none":
            origin["levers"][row["lever"]]["wrote"] = copy.deepcopy(home.entries[row["lever"]]["wrote"])
    origin["applied"] = home.closes[0].get("applied")
    with contextlib.suppress(LdaptuneError):
        target.store.save(origin)


def _restore(target: Target, origin: Snapshot, row: Row, entry: Entry) -> None:
    key = row["lever"]
    remarks = target.write(origin, key, entry["before"], row["before"], entry["record"])
    seen: Observation = target.observe(key)
    row.update(configured=seen.get("configured"), effective=seen.get("effective"))
    home = target.matches(key, seen, entry["before"])
    if not home and not remarks:
        raise LdaptuneError(
            problem(
                "%s was set back, but reading it shows another value" % key,
                found=target.show(key, target.before(key, seen)),
                wanted=target.show(key, entry["before"]),
                do="The snapshot stays open; look at the server's log and run this again.",
            )
        )
    row.update(state="applied" if home else "unchanged", reason="; ".join(remarks))
    if remarks:
        row["after"] = target.before(key, seen)
    if not home:
        # Something had to stay, a map too full to be made small again: that is told, and is the end of it.
        origin["levers"][key]["wrote"]["value"] = row["after"]
        with contextlib.suppress(LdaptuneError):
            target.store.save(origin)


def _unforeseen(key: str, error: Exception) -> Problem:
    return problem("%s could not be set back" % key, found="%s: %s" % (type(error).__name__, error))


def _fresh(target: Target, snapshots: List[Snapshot]) -> List[Snapshot]:
    # The origin was saved meanwhile: close what is on the disk, not what was read at the start.
    return [target.store.load(snapshot["id"]) for snapshot in snapshots]


def home_lines(rows: Sequence[Row]) -> List[str]:
    """Return a way home as lines for people; what was home already is said only where there is nothing else to say."""
    told = [row for row in rows if row["state"] != "unchanged" or row["reason"]]
    return [_home_line(row) for row in told or rows]


def _home_line(row: Row) -> str:
    show = LEVERS[row["lever"]].type.show
    before, after = ("not set" if row[side] is None else show(row[side]) for side in ("before", "after"))
    way = "%s -> %s" % (before, after)
    text = {
        "applied": "%s, set back" % way,
        "pending": "%s, would be set back" % way,
        "failed": "%s, NOT set back" % way,
        "drifted": "drifted, %s is left alone" % before,
        "unchanged": "%s is left as it is" % before if row["reason"] else "%s, as it was" % before,
    }[row["state"]]
    return "%s: %s%s" % (row["lever"], text, " (%s)" % row["reason"] if row["reason"] else "")


def adopt(target: Target) -> List[str]:
    """Close every open snapshot: the present is the new origin. Returns their ids; the caller holds the lock."""
    found = target.store.open_snapshots()
    for snapshot in found:
        target.store.close(snapshot, "adopted")
    return [snapshot["id"] for snapshot in found]
