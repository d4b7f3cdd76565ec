# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every lever as data: its type, range, cost, risk, versions and the source of each claim.

Profile validation, the lever behaviours and docs/levers.md all read this table. "Manual" is slapd-config(5) or
slapd-mdb(5) of 2.5; "source" is the server's source code; "seen" was observed on a running slapd.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple

from ..profile.values import Checkpoint, CpuSet, Flags, Integer, LogFile, LogLevel, Size, ValueType


class LeverSpec(NamedTuple):
    """The facts of one lever.

    key: its name in profiles. attribute: its cn=config name, or "". entry: where that lives: global, database or
    thread (no attribute). cost: what taking effect needs, live or restart. risk: safe, durability, availability
    or security, at its worst value (see `risk_by_value`). compare: flip (changed at every leg) or hold (set once,
    equal in both arms). since: first version, (major, minor). default: the server's own (normal form; None: unset).
    effective: where the value in force is seen. zero_is_default: a stored 0 means the default.
    """

    key: str
    type: ValueType
    unit: str
    attribute: str
    entry: str
    cost: str
    risk: str
    compare: str
    since: Tuple[int, ...]
    default: Any
    effective: str
    summary: str
    risk_why: str
    source: str
    tested: str
    zero_is_default: bool = False


_MAX_INT = 2147483647

_SPECS = (
    LeverSpec(
        key="slapd.log_level",
        type=LogLevel(),
        unit="",
        attribute="olcLogLevel",
        entry="global",
        cost="live",
        risk="security",
        compare="flip",
        since=(2, 4),
        default=256,
        effective="cn=Log,cn=Monitor (managedInfo)",
        summary="What slapd logs. stats is upstream's default and about six lines for a bind and a search; Debian "
                "installs none, so lowering it gains nothing on a stock Debian host. 0 silences even what none keeps.",
        risk_why="Without stats nobody can tell afterwards who logged in.",
        source="Manual, olcLogLevel; servers/slapd/logging: each line is one blocking send under one lock of the "
               "process.",
        tested="Seen on 2.5.13: live; read back exactly as written; a stalled reader of the log socket stops slapd.",
    ),
    LeverSpec(
        key="slapd.log_file",
        type=LogFile(),
        unit="",
        attribute="olcLogFile",
        entry="global",
        cost="live",
        risk="security",
        compare="flip",
        since=(2, 6),
        default=None,
        effective="cn=config (olcLogFileOnly falls back to FALSE where the file cannot be opened), the open file in "
                  "/proc/PID/fd",
        summary="slapd's own log file in place of syslog: olcLogFile with olcLogFileOnly, olcLogFileRotate and "
                "olcLogFileFormat. 2.5 has the attribute, but what olcLogLevel selects never goes there. Use 2.6.11 "
                "or later: earlier ones can overflow a buffer (ITS#10410).",
        risk_why="Lines leave syslog, and with it whatever collects them; a full disk loses them. There is no fsync.",
        source="Manual of 2.6; servers/slapd/logging.c: one writev a line, a mutex only when rotation is set. "
               "format: 2.6.1 and later, rfc3339-utc 2.6.10 and later.",
        tested="Source of 2.6 read. Not run by this project's tests, which have 2.5.13.",
    ),
    LeverSpec(
        key="slapd.threads",
        type=Integer(2, 1024, "threads"),
        unit="threads",
        attribute="olcThreads",
        entry="global",
        cost="live",
        risk="availability",
        compare="flip",
        since=(2, 4),
        default=16,
        effective="cn=Max,cn=Threads,cn=Monitor (0 there means 1024); threads exist only once they are needed",
        summary="The most worker threads. The server takes more than 1024 and runs 1024; it refuses 1. More threads "
                "mean more contention; the manual's authors see 16 as enough for reads.",
        risk_why="Too few let slow clients hold the whole pool; each one takes a reader slot of every mdb database "
                 "(database.max_readers) and its own search stack (8 MiB at the default depth).",
        source="Manual, olcThreads; libraries/libldap/tpool.c (LDAP_MAXTHR).",
        tested="Seen on 2.5.13: live both ways, growth lazy, shrinking when idle; 5000 reads back 5000 and runs 1024.",
    ),
    LeverSpec(
        key="slapd.thread_queues",
        type=Integer(1, 1024, "queues"),
        unit="queues",
        attribute="olcThreadQueues",
        entry="global",
        cost="live",
        risk="availability",
        compare="flip",
        since=(2, 5),
        default=1,
        effective="cn=config only: no monitor entry shows it",
        summary="Work queues of the thread pool; never more than the host has CPUs. One is enough up to about 8 cores.",
        risk_why="Each queue owns its share of the threads, so one full of slow work makes its connections wait.",
        source="Manual, olcThreadQueues; libraries/libldap/tpool.c.",
        tested="One or two queues made no difference on two cores.",
    ),
    LeverSpec(
        key="slapd.tool_threads",
        type=Integer(1, 1024, "threads"),
        unit="threads",
        attribute="olcToolThreads",
        entry="global",
        cost="live",
        risk="safe",
        compare="hold",
        since=(2, 4),
        default=1,
        effective="cn=config only: slapadd and slapindex read it when they start, the running slapd never does",
        summary="Threads of slapadd and slapindex. For mdb 2 separates reading from writing and more gain nothing; "
                "2.4's hdb and bdb index with more.",
        risk_why="The server does not use it.",
        source="Manual, olcToolThreads; servers/slapd/slapadd.c, servers/slapd/back-mdb/tools.c.",
        tested="Source of 2.5.13 and 2.7 read.",
    ),
    LeverSpec(
        key="slapd.listener_threads",
        type=Integer(1, 16, "threads", power_of_two=True),
        unit="threads",
        attribute="olcListenerThreads",
        entry="global",
        cost="restart",
        risk="availability",
        compare="flip",
        since=(2, 5),
        default=1,
        effective="the eventpoll descriptors in /proc/PID/fd: one a listener",
        summary="Threads that wait for connections and requests. Start-up ignores the stored value; the first live "
                "write after a start takes effect; so each change is a restart and one write. One is enough up to "
                "about 16 cores. In no supplied profile.",
        risk_why="A second live write in the life of one slapd process can hang it for good (about one in ten).",
        source="Manual, olcListenerThreads; servers/slapd/bconfig.c, daemon.c. In 2.4 a live change orphans "
               "connections, so it is not offered there.",
        tested="Seen on 2.5.13: start-up ignores it; 6 of about 60 later writes hung slapd, 0 of 56 first ones.",
    ),
    LeverSpec(
        key="slapd.idle_timeout",
        type=Integer(0, _MAX_INT, "seconds", zero="never"),
        unit="seconds",
        attribute="olcIdleTimeout",
        entry="global",
        cost="live",
        risk="availability",
        compare="hold",
        since=(2, 4),
        default=0,
        effective="cn=config only",
        summary="Seconds after which an idle connection is closed, without a word; 0 never.",
        risk_why="Clients that keep connections (pools, replication) lose them.",
        source="Manual, olcIdleTimeout; servers/slapd/daemon.c.",
        tested="Seen on 2.5.13: live; the connection ends with no bytes at all.",
    ),
    LeverSpec(
        key="slapd.write_timeout",
        type=Integer(0, _MAX_INT, "seconds", zero="never"),
        unit="seconds",
        attribute="olcWriteTimeout",
        entry="global",
        cost="live",
        risk="availability",
        compare="hold",
        since=(2, 4),
        default=0,
        effective="cn=config only",
        summary="Seconds after which a client that does not read its answer is cut off; 0 never. It frees the worker "
                "such a client holds.",
        risk_why="Slow but honest clients of large answers are cut off too.",
        source="Manual, olcWriteTimeout; servers/slapd/daemon.c.",
        tested="Source read.",
    ),
    LeverSpec(
        key="slapd.conn_max_pending",
        type=Integer(1, _MAX_INT, "requests"),
        unit="requests",
        attribute="olcConnMaxPending",
        entry="global",
        cost="live",
        risk="availability",
        compare="hold",
        since=(2, 4),
        default=100,
        effective="cn=config only",
        summary="Requests an anonymous connection may have waiting; one more closes it.",
        risk_why="Too low closes connections of clients that send ahead; too high lets one client fill the memory.",
        source="Manual, olcConnMaxPending.",
        tested="Manual read.",
    ),
    LeverSpec(
        key="slapd.conn_max_pending_auth",
        type=Integer(1, _MAX_INT, "requests"),
        unit="requests",
        attribute="olcConnMaxPendingAuth",
        entry="global",
        cost="live",
        risk="availability",
        compare="hold",
        since=(2, 4),
        default=1000,
        effective="cn=config only",
        summary="Requests a bound connection may have waiting; one more closes it.",
        risk_why="Too low closes connections of clients that send ahead; too high lets one client fill the memory.",
        source="Manual, olcConnMaxPendingAuth.",
        tested="Manual read.",
    ),
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
        tested="Seen on 2.5.13: live, growing and shrinking; below use it reads back small and is clamped.",
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
                "slapd.threads with some to spare.",
        risk_why="Too few and reads fail; changing it closes and opens the database, and where that fails slapd ends.",
        source="Manual, maxreaders in slapd-mdb(5); servers/slapd/back-mdb/config.c.",
        tested="Seen on 2.5.13: live by opening the database again.",
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
        tested="Source of 2.5.13 read; set by restart only for that reason.",
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
    LeverSpec(
        key="cpu.listener",
        type=CpuSet(),
        unit="CPUs",
        attribute="",
        entry="thread",
        cost="live",
        risk="safe",
        compare="flip",
        since=(2, 4),
        default=None,
        effective="the masks of the threads in /proc/PID/task, listeners told by their blocking call (epoll)",
        summary="The CPUs of slapd's listener threads. Lost when slapd restarts. In no supplied profile: no "
                "comparison on Linux has shown a gain.",
        risk_why="Only speed can change, and it is undone at once.",
        source="servers/slapd/daemon.c, libraries/libldap/tpool.c: a new worker inherits the mask of the thread "
               "that made it.",
        tested="Seen on 2.5.13: kept under load when the pool is filled first. No difference on two cores.",
    ),
    LeverSpec(
        key="cpu.workers",
        type=CpuSet(),
        unit="CPUs",
        attribute="",
        entry="thread",
        cost="live",
        risk="safe",
        compare="flip",
        since=(2, 4),
        default=None,
        effective="the masks of the threads in /proc/PID/task",
        summary="The CPUs of slapd's worker threads. Lost when slapd restarts. In no supplied profile: no comparison "
                "on Linux has shown a gain.",
        risk_why="Only speed can change, and it is undone at once.",
        source="libraries/libldap/tpool.c: workers are made late, by the listener or by another worker.",
        tested="Seen on 2.5.13: kept under load when the pool is filled first. No difference on two cores.",
    ),
)

#: All levers by key, in the order they are documented.
LEVERS: Dict[str, LeverSpec] = {spec.key: spec for spec in _SPECS}

_HARMLESS_FLAGS = frozenset(["nordahead"])


def risk_by_value(key: str, normal: Any) -> str:
    """Return the risk of having this value; the table's risk is that of the worst value.

    Only env_flags differ by value: a set that holds nothing but nordahead is safe.
    """
    if key == "database.env_flags" and _HARMLESS_FLAGS.issuperset(normal or []):
        return "safe"
    return LEVERS[key].risk


def in_force(spec: LeverSpec, configured: Any) -> Any:
    """Return what a configured value means: absent, and 0 where 0 says so, are the server's default."""
    if configured is None or (spec.zero_is_default and configured == 0):
        return spec.default
    return configured
