# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""slapd.log_file: four attributes that make sense together only, and a folder the service can write."""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, List, Set, Tuple

from ..host import process
from ..problems import Problem
from ..profile.values import LogFile
from .attribute import AttributeLever, show_version
from .base import Observation
from .context import Context

_FORMAT_SINCE = {"rfc3339-utc": (2, 6, 10)}
_ANY_FORMAT_SINCE = (2, 6, 1)


def identity(pid: int) -> Tuple[int, Set[int]]:
    """Return the effective user and all groups of a process."""
    user, groups = 0, set()
    with open("%s/%d/status" % (process.PROC, pid), encoding="utf-8", errors="replace") as stream:
        for line in stream:
            name, _sep, rest = line.partition(":")
            if name == "Uid":
                user = int(rest.split()[1])
            elif name == "Gid":
                groups.add(int(rest.split()[1]))
            elif name == "Groups":
                groups.update(int(word) for word in rest.split())
    return user, groups


def may(path: str, user: int, groups: Set[int], bits: int) -> bool:
    """Return whether a user has these rights (4 read, 2 write, 1 enter) by the mode of an existing path."""
    if user == 0:
        return True
    state = os.stat(path)
    shift = 6 if state.st_uid == user else 3 if state.st_gid in groups else 0
    return (state.st_mode >> shift) & bits == bits


def obstacle(path: str, user: int, groups: Set[int]) -> str:
    """Return what keeps a user from writing a log file at this path, or ""."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        return "no such folder: %s" % folder
    above = folder
    while above != "/":
        above = os.path.dirname(above)
        if not may(above, user, groups, 1):
            return "the service's user may not enter %s" % above
    if not os.path.exists(path):
        return "" if may(folder, user, groups, 3) else "the service's user may not write in %s" % folder
    if not stat.S_ISREG(os.stat(path).st_mode):
        return "not a plain file: %s" % path
    return "" if may(path, user, groups, 2) else "the service's user may not write %s" % path


class LogFileLever(AttributeLever):
    """olcLogFile, -Only, -Rotate and -Format, set by one modify. Its record holds the values of all four.

    A path that cannot be opened is never tried: the refusal has effects of its own (lines go to stderr from then on).
    """

    kind = LogFile()

    def impossible(self, ctx: Context) -> str:
        reason = super().impossible(ctx)
        if reason:
            return "what olcLogLevel selects goes to a file of slapd's own from OpenLDAP 2.6 on, this is %s" % (
                show_version(ctx.version) or "unknown"
            )
        return ""

    def observe(self, ctx: Context) -> Observation:
        reason = self.impossible(ctx)
        if reason:
            return dict(super().observe(ctx), reason=reason)
        found = self._all(ctx)
        seen = super().observe(ctx)
        seen["configured"] = self.kind.from_attributes(found)
        seen["record"]["values"] = found
        seen["effective"] = self._in_force(ctx, seen["configured"])
        seen["effective_source"] = "/proc"
        return seen

    def _all(self, ctx: Context) -> Dict[str, List[str]]:
        entry = ctx.directory.read(self.entry(ctx), self.kind.ATTRIBUTES) or {}
        by_name = {name.lower(): values for name, values in entry.items()}
        return {name: list(by_name.get(name.lower(), [])) for name in self.kind.ATTRIBUTES}

    @staticmethod
    def _in_force(ctx: Context, configured: Dict[str, Any] | None) -> Dict[str, Any] | None:
        """Return the configured value where slapd has that file open, None where it has not."""
        if configured is None:
            return None
        return configured if process.has_open(ctx.slapd.pid, configured["path"]) else None

    def same(self, seen: Observation, wanted: Any) -> bool:
        return self.kind.equal(seen["configured"], wanted) and self.kind.equal(seen["effective"], wanted)

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        problems = []
        layout = wanted["format"]
        since = _FORMAT_SINCE.get(layout, _ANY_FORMAT_SINCE)
        if layout and ctx.version < since:
            problems.append(
                self.refuse(
                    "this server does not know the log format",
                    found=show_version(ctx.version),
                    wanted="%s (%s or later)" % (layout, show_version(since)),
                )
            )
        hindrance = obstacle(wanted["path"], *identity(ctx.slapd.pid))
        if hindrance:
            problems.append(
                self.refuse(
                    "slapd could not write its log file",
                    found=hindrance,
                    wanted=wanted["path"],
                    do="Make the folder and give it to the service's user first.",
                )
            )
        return problems

    def write(self, ctx: Context, wanted: Any) -> None:
        self._put_all(ctx, self.kind.to_attributes(wanted))

    def restore(self, ctx: Context, record: Any) -> List[str]:
        self.claim(ctx, record)
        self._put_all(ctx, record["values"])
        return []

    def _put_all(self, ctx: Context, values: Dict[str, List[str]]) -> None:
        present = self._all(ctx)
        changes = [("replace", name, values[name]) for name in self.kind.ATTRIBUTES if values[name]]
        # The one that says "only" goes before the file it speaks of.
        gone = [name for name in reversed(self.kind.ATTRIBUTES) if present[name] and not values[name]]
        changes = [("delete", name, []) for name in gone] + changes
        if changes:
            ctx.directory.modify(self.entry(ctx), changes)
