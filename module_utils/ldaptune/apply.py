# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out a plan: record, write, read back; a failure in the middle undoes what this run wrote, in reverse."""

from __future__ import annotations

import contextlib
import copy
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from .directory.errors import DirectoryTimeout, DirectoryUnreachable
from .measurement import own_step
from .plan import Plan, Row
from .problems import LdaptuneError, Problem, problem
from .snapshot import Snapshot, remember
from .target import Target

# How long an undo waits for a slapd that went away while it was being changed.
RECONNECT_SECONDS = 5.0


def settle_states(target: Target, rows: List[Row]) -> None:
    """Mark the rows that hold now but would not survive a restart."""
    for row in rows:
        if row["state"] in ("applied", "unchanged") and not target.lasts(row["lever"]):
            row["state"] = "live_only"


class Carried(NamedTuple):
    """What is on the disk of a run: the way home, and what this run found; None where nothing had to be written."""

    origin: Snapshot | None
    step: Snapshot | None


def carry_out(
    target: Target,
    plan: Plan,
    profile: Mapping[str, Any],
    owner: str = "",
    measured: Callable[[str], None] | None = None,
) -> Carried:
    """Make the changes of a plan that has no problems; the caller holds the lock.

    Rows get their state and what was read back. `measured` is given for a run that compares: what will be flipped is
    recorded, too, and `measured` is called with the id of the step before the first write.
    Raises LdaptuneError after a failure: its first problem says what failed, the others how the undo went.
    """
    changes = plan.changes()
    if not changes and measured is None:
        settle_states(target, plan.rows)
        return Carried(target.store.origin(), own_step(target.store, owner))
    run = _Run(target, profile, owner)
    flips = [row for row in plan.rows if row["action"] == "none" and row["compare"] == "flip"]
    run.record(changes + (flips if measured else []))
    try:
        if measured:
            run.doing = "the watchdog"
            measured(run.step["id"])
        for row in changes:
            run.change(row)
    except BaseException as error:
        run.reconnect_after(error)
        raise LdaptuneError([_failure(error, run.doing), *run.undo()]) from error
    settle_states(target, plan.rows)
    if changes:
        run.finish(profile)
    return Carried(run.origin, run.step)


class _Run:
    """One run's writes, in order, with what is needed to take exactly these back."""

    def __init__(self, target: Target, profile: Mapping[str, Any], owner: str) -> None:
        self.target = target
        self.doing = ""
        earlier = own_step(target.store, owner)
        # A run that comes back to keep its profile found what it found when it began.
        self.again = earlier is not None
        self.step: Snapshot = earlier or target.store.create(profile, owner)
        origin = target.store.origin()
        # The very first snapshot is origin and step in one.
        self.origin: Snapshot = self.step if origin is None or origin["id"] == self.step["id"] else origin
        if self.step is not self.origin and not self.again:
            self.step["applied"] = self.origin.get("applied")
        self.now: Dict[str, Any] = {}
        self.written: List[Tuple[Row, Any]] = []

    def record(self, rows: Sequence[Row]) -> None:
        """Put the before-values of all that will be written on the disk, before the first write."""
        self.doing = "the snapshot"
        for row in rows:
            seen = self.target.observe(row["lever"])
            self.now[row["lever"]] = before = self.target.before(row["lever"], seen)
            remember(self.origin, self.step, row["lever"], seen, before)
        self.target.store.save_both(self.origin, self.step)

    def change(self, row: Row) -> None:
        """Write one lever and read it back from where it takes effect."""
        target, key = self.target, row["lever"]
        self.doing = key
        self.written.append((row, copy.deepcopy(self.origin["levers"][key]["wrote"])))
        target.write(self.origin, key, row["after"], self.now[key])
        seen = target.observe(key)
        row.update(configured=seen.get("configured"), effective=seen.get("effective"))
        if not target.behaviour(key).same(seen, row["after"]):
            row["state"] = "failed"
            raise LdaptuneError(
                problem(
                    "%s was written, but reading it back shows another value" % key,
                    where=str(seen.get("effective_source", "")),
                    found="configured %s, in force %s"
                    % (target.show(key, seen.get("configured")), target.show(key, seen.get("effective"))),
                    wanted=target.show(key, row["after"]),
                )
            )
        row["state"] = "applied"
        # What is in force, and yet to be told of: parts that the kernel keeps to itself, or that follow later.
        row["reason"] = "; ".join(filter(None, (row["reason"], str(seen.get("reason", "")))))

    def reconnect_after(self, error: BaseException) -> None:
        """Connect again where the failure was a lost connection; what follows says it if that does not help."""
        if isinstance(error, (DirectoryUnreachable, DirectoryTimeout)):
            with contextlib.suppress(LdaptuneError):
                self.target.ctx.reconnect(RECONNECT_SECONDS)

    def undo(self) -> List[Problem]:
        """Take this run's writes back, last first; return what could not be taken back, or that all was."""
        failed: List[Problem] = []
        names = []
        for row, earlier in reversed(self.written):
            key = row["lever"]
            row["state"] = "failed"
            try:
                self._undo_one(row, earlier)
                names.append(key + (" (%s)" % row["reason"] if row["reason"] else ""))
            except Exception as error:  # noqa: BLE001 - whatever stops one lever must not keep the others from going home
                failed.append(_not_undone(key, error, self.target.store.path(self.origin["id"])))
        if failed:
            return failed
        try:
            self._drop_records()
        except LdaptuneError as error:
            failed = error.problems
        text = "undone again: %s" % ", ".join(names) if names else "nothing had been written"
        rest = "the rest is left to the run's own way back" if self.again else "the host is as it was before this run"
        return [problem("%s; %s" % (text, rest)), *failed]

    def _undo_one(self, row: Row, earlier: Any) -> None:
        target, key = self.target, row["lever"]
        entry = self.step["levers"][key]
        if not target.is_home(key, target.observe(key), entry):
            wrote = self.origin["levers"][key]["wrote"]["value"]
            remarks = target.write(self.origin, key, entry["before"], wrote, entry["record"])
            seen = target.observe(key)
            if remarks:
                row["reason"] = "; ".join(remarks)
            elif not target.matches(key, seen, entry["before"]):
                raise LdaptuneError(
                    problem(
                        "%s reads back another value after the undo" % key,
                        found=target.show(key, target.before(key, seen)),
                        wanted=target.show(key, entry["before"]),
                    )
                )
        self.origin["levers"][key]["wrote"] = earlier
        with contextlib.suppress(LdaptuneError):
            target.store.save(self.origin)

    def _drop_records(self) -> None:
        """Close what is no way home any more: this step, and the origin when nothing is left to take back."""
        if self.again:
            return
        if self.step is not self.origin:
            self.target.store.close(self.step, "undone")
        elif not any(entry["wrote"] for entry in self.origin["levers"].values()):
            self.target.store.close(self.origin, "undone")

    def finish(self, profile: Mapping[str, Any]) -> None:
        """Note in the way home which profile is in force now."""
        self.origin["applied"] = {"name": profile.get("name", ""), "digest": profile.get("digest", "")}
        self.target.store.save(self.origin)


def _failure(error: BaseException, doing: str) -> Problem:
    if isinstance(error, LdaptuneError):
        first = dict(error.problems[0])
        first["where"] = "%s, %s" % (doing, first["where"]) if first.get("where") else doing
        return first
    return problem("the change failed", where=doing, found="%s: %s" % (type(error).__name__, error))


def _not_undone(key: str, error: Exception, path: str) -> Problem:
    return problem(
        "%s could not be taken back and may still carry this run's value" % key,
        where=path,
        found=str(error) or type(error).__name__,
        do="Make slapd answer again, then run rollback.yml: the snapshot on the host stays open for it.",
    )


def states_of(rows: List[Row]) -> Dict[str, str]:
    """Return {lever: state}."""
    return {row["lever"]: row["state"] for row in rows}
