# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was there before, kept on the host: the way home.

A snapshot is a dict: schema, id, created, kind, state, closed, host {"machine_id", "name"}, suffixes, config,
profile {"name", "digest"}, and levers: {key: {"record", "before", "configured", "effective", "recorded", "wrote"}}.
`record` is what the lever needs to go back exactly; before, configured and effective are normal forms (None is absent).
`wrote` is None or {"value", "replaces", "done", "at"}: it is on the disk before the write is tried, so that a crash in
between leaves both possible values known.

The oldest open snapshot is the origin; it gets the before-value of every lever that is ever written, and in it `wrote`
is kept up to date. Later runs add steps, which keep what that run found, with `wrote` as it was at that moment; the
way back to a step puts it into the origin again. `owner` is the run that made a snapshot ("" where it gave no name).
"""

from __future__ import annotations

import copy
import datetime
import os
import re
from typing import Any, ContextManager, Dict, List, Mapping

from . import durable
from .problems import LdaptuneError, problem

SCHEMA = 1
LOCK_SECONDS = 30.0
Snapshot = Dict[str, Any]

_FILE = re.compile(r"^(\d{6}-[0-9TZ]+)\.json$")


class Identity:
    """Whom a snapshot belongs to: machine, slapd configuration, suffixes. Plain data, compared by value."""

    def __init__(self, machine_id: str, name: str, config: str, suffixes: List[str]) -> None:
        self.machine_id = machine_id
        self.name = name
        self.config = config
        self.suffixes = sorted(suffixes)

    def as_dict(self) -> Dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "machine_id": self.machine_id,
            "name": self.name,
            "config": self.config,
            "suffixes": self.suffixes,
        }

    @property
    def instance(self) -> str:
        """Return a directory name; a clone of the machine has the same one, so that it is found and refused by name."""
        return "slapd-%s" % durable.digest_of(self.config)[:12]


def now_text() -> str:
    """Return the present time, ISO 8601 with offset."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


class Store:
    """The files of one slapd under state_dir/<instance>; nothing is created before the first write."""

    def __init__(self, state_dir: str, identity: Identity) -> None:
        self.identity = identity
        self.root = os.path.join(state_dir, identity.instance)
        self.snapshots = os.path.join(self.root, "snapshots")
        self.active_path = os.path.join(self.root, "active.json")
        self.watchdog_lock = os.path.join(self.root, "watchdog.lock")
        self.watchdog_log = os.path.join(self.root, "watchdog.log")

    def exists(self) -> bool:
        """Return whether this slapd was ever changed from here."""
        return os.path.isdir(self.root)

    def lock(self, seconds: float = LOCK_SECONDS) -> ContextManager[None]:
        """Return a context in which no other run, nor the watchdog, writes; creates the directory."""
        durable.make_private(self.snapshots)
        return durable.locked(os.path.join(self.root, "lock"), seconds)

    def path(self, name: str) -> str:
        """Return the path of a snapshot."""
        return os.path.join(self.snapshots, name + ".json")

    def names(self) -> List[str]:
        """Return the ids of all snapshots, oldest first."""
        if not os.path.isdir(self.snapshots):
            return []
        found = (_FILE.match(name) for name in os.listdir(self.snapshots))
        return sorted(match.group(1) for match in found if match)

    def load(self, name: str) -> Snapshot:
        """Return one snapshot, verified; raises LdaptuneError when absent, damaged or of another host."""
        data = durable.read_json(self.path(name)) if _FILE.match(name + ".json") else None
        if data is None:
            raise LdaptuneError(
                problem(
                    "there is no such snapshot",
                    where=self.snapshots,
                    found=", ".join(self.names()) or "none",
                    wanted=name,
                    do="Name one of these, or leave it empty for the oldest open one.",
                )
            )
        return self._verified(data, name)

    def _verified(self, data: Snapshot, name: str) -> Snapshot:
        if data.get("schema") != SCHEMA:
            raise LdaptuneError(
                problem(
                    "this snapshot was written by another version of ldaptune",
                    where=self.path(name),
                    found="schema %s" % data.get("schema"),
                    wanted="schema %d" % SCHEMA,
                    do="Use the version that wrote it.",
                )
            )
        mine = {"machine": self.identity.machine_id, "suffixes": self.identity.suffixes}
        its = {"machine": data["host"]["machine_id"], "suffixes": data["suffixes"]}
        for what in ("machine", "suffixes"):
            if mine[what] != its[what]:
                raise LdaptuneError(
                    problem(
                        "this snapshot belongs to another %s" % ("host" if what == "machine" else "directory"),
                        where=self.path(name),
                        found="%s %s" % (what, its[what]),
                        wanted="%s %s" % (what, mine[what]),
                        do="Nothing was changed. Bring back the directory it was taken of, or accept the present "
                        "with rollback_adopt after moving this file away.",
                    )
                )
        return data

    def open_snapshots(self) -> List[Snapshot]:
        """Return all open snapshots, oldest first; a damaged one is an error, as it may be the way home."""
        loaded = []
        for name in self.names():
            data = durable.read_json(self.path(name))
            if data is not None and data.get("state") == "open":
                loaded.append(self._verified(data, name))
        return loaded

    def origin(self) -> Snapshot | None:
        """Return the oldest open snapshot."""
        found = self.open_snapshots()
        return found[0] if found else None

    def is_closed(self, name: str) -> bool:
        """Return whether a snapshot there is has been closed."""
        data = durable.read_json(self.path(name)) if name in self.names() else None
        return data is not None and data["state"] != "open"

    def owned(self, owner: str) -> List[Snapshot]:
        """Return all snapshots a run made, open or closed, oldest first; none for a run without a name."""
        loaded = [durable.read_json(self.path(name)) for name in self.names()] if owner else []
        return [data for data in loaded if data is not None and data.get("owner") == owner]

    def create(self, profile: Mapping[str, Any], owner: str = "") -> Snapshot:
        """Return a new open snapshot, not saved yet. The running number orders them even if the clock is set back."""
        names = self.names()
        number = int(names[-1].split("-")[0]) + 1 if names else 1
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        return {
            "schema": SCHEMA,
            "id": "%06d-%s" % (number, stamp),
            "created": now_text(),
            "kind": "step" if self.open_snapshots() else "origin",
            "state": "open",
            "closed": None,
            "host": {"machine_id": self.identity.machine_id, "name": self.identity.name},
            "config": self.identity.config,
            "suffixes": self.identity.suffixes,
            "profile": {"name": profile.get("name", ""), "digest": profile.get("digest", "")},
            "owner": owner,
            "levers": {},
        }

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot through to the disk."""
        durable.make_private(self.snapshots)
        durable.write_json(self.path(snapshot["id"]), snapshot)

    def save_both(self, origin: Snapshot, step: Snapshot) -> None:
        """Write the origin and a step, which may be the origin itself."""
        self.save(origin)
        if step is not origin:
            self.save(step)

    def close(self, snapshot: Snapshot, state: str) -> None:
        """Close a snapshot as reverted, adopted or undone: it is no way home any more, but stays as a record."""
        snapshot.update(state=state, closed=now_text())
        self.save(snapshot)

    def active(self) -> Dict[str, Any] | None:
        """Return what is known of a run in progress; raises LdaptuneError when its record is damaged."""
        try:
            return durable.read_json(self.active_path)
        except LdaptuneError as error:
            raise LdaptuneError(
                problem(
                    "the record of the run in progress is damaged",
                    where=self.active_path,
                    found=error.problems[0]["found"],
                    do="Run rollback.yml: the way home is in the snapshots beside it. To keep the present, move this "
                    "file away before.",
                )
            ) from error

    def set_active(self, data: Dict[str, Any] | None) -> None:
        """Record a run in progress, or with None that there is none."""
        if data is not None:
            durable.write_json(self.active_path, data)
        elif os.path.exists(self.active_path):
            os.unlink(self.active_path)


def remember(origin: Snapshot, step: Snapshot, key: str, observation: Mapping[str, Any], before: Any) -> None:
    """Add what is there now to both; the step may be the origin itself.

    What a step has stays as it is, and so does what the origin has of a lever that was written since. A lever that
    was given back is found afresh.
    """
    known = origin["levers"].get(key)
    if known is None or not known["wrote"]:
        origin["levers"][key] = _entry(observation, before, None)
    if key not in step["levers"]:
        step["levers"][key] = _entry(observation, before, known and known["wrote"])


def _entry(observation: Mapping[str, Any], before: Any, wrote: Any) -> Dict[str, Any]:
    return {
        "record": observation["record"],
        "before": before,
        "configured": observation.get("configured"),
        "effective": observation.get("effective"),
        "recorded": now_text(),
        "wrote": copy.deepcopy(wrote),
    }
