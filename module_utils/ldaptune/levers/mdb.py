# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Levers of an mdb database, and the cache that only its predecessors have."""

from __future__ import annotations

import mmap
import os
from typing import Any, List, Tuple

from ..host import process
from ..problems import Problem
from .attribute import AttributeLever
from .base import CONFIG_ONLY, Observation
from .context import Context
from .server import READER_SLACK
from .table import in_force

#: A map that is used beyond this share is not made that small again.
FULLEST = 0.8


def data_file(ctx: Context) -> str:
    """Return the path of the database's data file as the kernel shows it."""
    return os.path.join(os.path.realpath(ctx.database["directory"]), "data.mdb")


def map_state(ctx: Context) -> Tuple[int | None, str]:
    """Return the length of the mapped data file in bytes and its rights, (None, "") where it is not mapped."""
    found = process.mappings(ctx.slapd.pid, data_file(ctx))
    return max(found) if found else (None, "")


def used_bytes(ctx: Context) -> int | None:
    """Return the bytes up to the highest page in use; None where neither cn=monitor nor the data file tells.

    The file is never shorter than that; with writemap it is as long as the map, which errs on the safe side.
    """
    figures = ctx.directory.database_figures(ctx.database)
    pages = figures.get("pages_used")
    if pages is not None:
        return int(pages) * int(figures["page_size"])
    try:
        return os.stat(data_file(ctx)).st_size
    except OSError:
        return None


def size_on_disk(path: str) -> int:
    """Return the bytes a file takes on its disk (it may have holes), 0 where it is missing."""
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0


def free_bytes(folder: str) -> int | None:
    """Return the bytes the service can still write in a folder, or None where that cannot be told."""
    try:
        state = os.statvfs(folder)
    except OSError:
        return None
    return state.f_bavail * state.f_frsize


def address_space(pid: int) -> Tuple[int, int | None]:
    """Return (bytes of address space in use, the limit or None for none) of a process."""
    with open("%s/%d/statm" % (process.PROC, pid), encoding="ascii") as stream:
        used = int(stream.read().split()[0]) * mmap.PAGESIZE
    with open("%s/%d/limits" % (process.PROC, pid), encoding="ascii") as stream:
        for line in stream:
            if line.startswith("Max address space"):
                soft = line[len("Max address space") :].split()[0]
                return used, None if soft == "unlimited" else int(soft)
    return used, None


class MaxSize(AttributeLever):
    """olcDbMaxSize. The server accepts less than what is used and clamps it; this lever does not ask for that."""

    def effective(self, ctx: Context, configured: Any) -> Tuple[Any, str]:
        length, _rights = map_state(ctx)
        source = "/proc"
        if length is None:
            figures = ctx.directory.database_figures(ctx.database)
            if not figures:
                return None, CONFIG_ONLY
            length, source = int(figures["pages_max"]) * int(figures["page_size"]), "cn=monitor"
        asked = in_force(self.spec, configured)
        # A mapping is whole pages; a size between two is in force all the same.
        return (asked if 0 <= length - asked < mmap.PAGESIZE else length), source

    def observe(self, ctx: Context) -> Observation:
        seen = super().observe(ctx)
        if seen["supported"]:
            seen["record"]["map_bytes"] = seen["effective"]
        return seen

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        current = seen["effective"] or in_force(self.spec, seen["configured"])
        if wanted < current:
            return self._check_smaller(ctx, current, wanted)
        return self._check_larger(ctx, current, wanted)

    def _check_smaller(self, ctx: Context, current: int, wanted: int) -> List[Problem]:
        used = used_bytes(ctx)
        if used is None:
            return [
                self.refuse(
                    "a smaller map needs cn=monitor or the data file to tell what is used",
                    found=self.spec.type.show(current),
                    wanted=self.spec.type.show(wanted),
                )
            ]
        if used > FULLEST * wanted:
            return [
                self.refuse(
                    "the map would be too small for what is in it",
                    found="%s in use" % self.spec.type.show(used),
                    wanted="%s, of which at most %d %% may be in use" % (self.spec.type.show(wanted), FULLEST * 100),
                )
            ]
        return []

    def _check_larger(self, ctx: Context, current: int, wanted: int) -> List[Problem]:
        problems = []
        folder = ctx.database["directory"]
        free = free_bytes(folder)
        room = None if free is None else free + size_on_disk(data_file(ctx))
        if wanted > current and room is not None and wanted > room:
            problems.append(
                self.refuse(
                    "the disk would be full before the map is",
                    found="%s for it in %s" % (self.spec.type.show(room), folder),
                    wanted=self.spec.type.show(wanted),
                )
            )
        used, limit = address_space(ctx.slapd.pid)
        if limit is not None and used + wanted - current > limit:
            problems.append(
                self.refuse(
                    "slapd has not enough address space for the map",
                    found="a limit of %s, %s in use" % (self.spec.type.show(limit), self.spec.type.show(used)),
                    wanted=self.spec.type.show(wanted),
                    do="Raise LimitAS of its unit.",
                )
            )
        return problems

    def restore(self, ctx: Context, record: Any) -> List[str]:
        """Go back, but for a map that is used beyond 80 % of its old size: it stays, and the remark says so."""
        self.claim(ctx, record)
        old = int(record.get("map_bytes") or in_force(self.spec, self.spec.type.from_config(record["values"] or [])))
        now, _source = self.effective(ctx, self.spec.type.from_config(self.values(ctx)))
        used = used_bytes(ctx)
        if now is not None and old < now and (used is None or used > FULLEST * old):
            return [
                "%s: the map stays at %s: %s are in use, more than %d %% of the %s it had"
                % (
                    self.key,
                    self.spec.type.show(now),
                    "an unknown number of bytes" if used is None else self.spec.type.show(used),
                    FULLEST * 100,
                    self.spec.type.show(old),
                )
            ]
        return super().restore(ctx, record)


class MaxReaders(AttributeLever):
    """olcDbMaxReaders. The lock file only ever grows: fewer slots than it has are configured, not in force."""

    def effective(self, ctx: Context, configured: Any) -> Tuple[Any, str]:
        most = ctx.directory.database_figures(ctx.database).get("readers_max")
        return (most, "cn=monitor") if most is not None else (None, CONFIG_ONLY)

    def same(self, seen: Observation, wanted: Any) -> bool:
        """More slots in force than are asked for do no harm and cannot be taken away while the database lives."""
        if in_force(self.spec, seen["configured"]) != wanted:
            return False
        return seen["effective"] is None or bool(seen["effective"] >= wanted)

    def restore(self, ctx: Context, record: Any) -> List[str]:
        """Go back to the value as it was; the slots in force stay as many as they are, and the remark says so."""
        remarks = super().restore(ctx, record)
        configured = in_force(self.spec, self.spec.type.from_config(record["values"] or []))
        now, _source = self.effective(ctx, configured)
        if now is not None and now > configured:
            remarks.append("%d reader slots stay in force, since the table in lock.mdb never shrinks; no harm" % now)
        return remarks

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        threads = ctx.wanted.get("slapd.threads") or ctx.directory.threads()["max"]
        if threads is not None and wanted < threads + READER_SLACK:
            return [
                self.refuse(
                    "fewer reader slots than worker threads need",
                    found="%d threads" % threads,
                    wanted="at least %d (threads and %d to spare)" % (threads + READER_SLACK, READER_SLACK),
                )
            ]
        return []


class EnvFlags(AttributeLever):
    """olcDbEnvFlags; of its flags writemap alone is seen from outside, as a writable mapping."""

    def effective(self, ctx: Context, configured: Any) -> Tuple[Any, str]:
        length, rights = map_state(ctx)
        if length is None:
            return None, CONFIG_ONLY
        flags = set(configured or []) - {"writemap"}
        if "w" in rights:
            flags.add("writemap")
        return sorted(flags), "/proc"

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        problems = []
        if "mapasync" in wanted and ("writemap" not in wanted or "nosync" in wanted):
            problems.append(
                self.refuse(
                    "mapasync means something with writemap and without nosync only",
                    found=self.spec.type.show(wanted),
                    do="Leave it out, or add writemap and drop nosync.",
                )
            )
        entry = ctx.directory.read(self.entry(ctx), ("olcDbNoSync",)) or {}
        if "nosync" not in wanted and "TRUE" in [str(value).upper() for value in entry.get("olcDbNoSync", [])]:
            problems.append(
                self.refuse(
                    "olcDbNoSync sets the flag nosync as well",
                    found="olcDbNoSync: TRUE",
                    wanted=self.spec.type.show(wanted),
                    do="Remove olcDbNoSync, or add nosync to the flags.",
                )
            )
        length, _rights = map_state(ctx)
        free = free_bytes(ctx.database["directory"])
        room = None if free is None else free + size_on_disk(data_file(ctx))
        if "writemap" in wanted and length is not None and room is not None and length > room:
            problems.append(
                self.refuse(
                    "with writemap slapd is killed where the disk is full before the map is",
                    found="room for %d bytes" % room,
                    wanted="%d bytes" % length,
                )
            )
        return problems


class SearchStack(AttributeLever):
    """olcDbSearchStack: by restart only, as a running thread keeps the stack it has."""

    LEVEL_BYTES = 512 * 1024

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        threads = ctx.wanted.get("slapd.threads") or ctx.directory.threads()["max"] or 16
        need, memory = wanted * self.LEVEL_BYTES * threads, int(ctx.host["memory_bytes"])
        if need > memory // 2:
            return [
                self.refuse(
                    "the search stacks of all threads would take more than half of the memory",
                    found="%d MiB" % (memory >> 20),
                    wanted="%d MiB for %d threads" % (need >> 20, threads),
                )
            ]
        return []


class Cache(AttributeLever):
    """olcDbCacheSize of hdb and bdb."""

    stores = ("hdb", "bdb")

    def impossible(self, ctx: Context) -> str:
        if ctx.database["backend"] == "mdb":
            return "mdb has no cache of its own to size: the system's page cache is its cache"
        return super().impossible(ctx)
