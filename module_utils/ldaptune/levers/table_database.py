# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The levers of one mdb database; table.py says how to read the claims."""

from __future__ import annotations

from ..profile.values import Checkpoint, Flags, Integer, Size
from .spec import LeverSpec

_MAX_INT = 2147483647

DATABASE_LEVERS = (
    LeverSpec(
        key="database.max_size",
        type=Size(1 << 20, 1 << 46),
        unit="bytes",
        attribute="olcDbMaxSize",
        entry="database",
        cost="live",
        risk="availability",
        compare="hold",
        since=(2, 4),
        default=10485760,
        effective="olmMDBPagesMax times the page size in cn=monitor; the mapping of data.mdb in /proc/PID/maps",
        summary="The mdb map: the most the database can ever hold. A full map refuses writes while reads go on. "
        "Less than what is used is accepted, clamped, and then the next growing write fails.",
        risk_why="Changing it closes and opens the database; where opening fails (address space, disk, rights) slapd "
        "ends.",
        source="Manual, maxsize in slapd-mdb(5); servers/slapd/back-mdb/config.c (mdb_cf_cleanup).",
        tested="Seen on 2.5.13: live, growing and shrinking; below use it reads back small and is clamped; 64 TiB "
        "works, 128 TiB ended slapd.",
    ),
    LeverSpec(
        key="database.max_readers",
        type=Integer(2, 65535, "readers"),
        unit="readers",
        attribute="olcDbMaxReaders",
        entry="database",
        cost="live",
        risk="availability",
        compare="hold",
        since=(2, 4),
        default=126,
        effective="olmMDBReadersMax in cn=monitor",
        summary="Reader slots of the mdb database: one for each worker thread and each tool. Keep it above "
        "slapd.threads with some to spare. Slots in force never become fewer, not even after a restart: the lock file "
        "only grows, so a way back sets the value alone.",
        risk_why="Too few and reads fail; changing it closes and opens the database, and where that fails slapd ends.",
        source="Manual, maxreaders in slapd-mdb(5); servers/slapd/back-mdb/config.c.",
        tested="Seen on 2.5.13: raising is live. Lowering is taken and reads back, but the slots in force stay, over a "
        "restart too: the table in lock.mdb never shrinks.",
        zero_is_default=True,
    ),
    LeverSpec(
        key="database.env_flags",
        type=Flags(("mapasync", "nometasync", "nordahead", "nosync", "writemap")),
        unit="",
        attribute="olcDbEnvFlags",
        entry="database",
        cost="live",
        risk="durability",
        compare="flip",
        since=(2, 4),
        default=None,
        effective="cn=config; writemap also as a writable mapping of data.mdb in /proc/PID/maps",
        summary="mdb flags. nordahead (no read-ahead: for databases larger than memory) risks nothing. writemap and "
        "nordahead open the database again.",
        risk_why="nosync and mapasync lose recent changes when the system crashes and may corrupt the database; "
        "nometasync can lose the last transaction; with writemap a stray pointer can damage the file.",
        source="Manual, envflags in slapd-mdb(5); libraries/liblmdb/lmdb.h.",
        tested="Seen on 2.5.13: all live; the attribute takes no {n} prefix; olcDbNoSync is the same bit as nosync.",
    ),
    LeverSpec(
        key="database.checkpoint",
        type=Checkpoint(),
        unit="kilobytes and minutes",
        attribute="olcDbCheckpoint",
        entry="database",
        cost="live",
        risk="durability",
        compare="hold",
        since=(2, 4),
        default=None,
        effective="cn=config only",
        summary="How often mdb is flushed when nosync is on. mdb ignores the kilobytes; the minutes do nothing "
        "without nosync. Debian installs 512 30.",
        risk_why="With nosync the minutes are what a crash can lose.",
        source="Manual, checkpoint in slapd-mdb(5); servers/slapd/back-mdb/config.c.",
        tested="Source of 2.5.13 read.",
    ),
    LeverSpec(
        key="database.search_stack",
        type=Integer(8, 512, "levels"),
        unit="levels",
        attribute="olcDbSearchStack",
        entry="database",
        cost="restart",
        risk="availability",
        compare="hold",
        since=(2, 4),
        default=16,
        effective="cn=config only",
        summary="How deep a filter may nest before a search allocates a stack of its own, which is slow; 512 KiB a "
        "level for every worker thread. A probe of simple filters cannot show it.",
        risk_why="Threads keep the stack they have: raising it in a running server may let them write past its end.",
        source="Manual, searchstack in slapd-mdb(5); servers/slapd/back-mdb/search.c. The server raises less than 8 "
        "to 8 without a word.",
        tested="Seen on 2.5.13: any number is taken and read back. Set by restart only, by what the source says.",
    ),
    LeverSpec(
        key="database.cache",
        type=Integer(1, _MAX_INT, "entries"),
        unit="entries",
        attribute="olcDbCacheSize",
        entry="database",
        cost="restart",
        risk="availability",
        compare="flip",
        since=(2, 4),
        default=1000,
        effective="cn=config only",
        summary="The entry cache of hdb and bdb, which 2.4 has and 2.5 removed. mdb has no cache to size: the page "
        "cache of the system is its cache, so the lever is unsupported there.",
        risk_why="A cache larger than memory makes the server swap.",
        source="Manual of 2.4, slapd-bdb(5).",
        tested="Not run: Debian 12 has no 2.4.",
    ),
)
