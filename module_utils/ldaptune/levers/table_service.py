# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the unit that runs slapd can be told, as data."""

from __future__ import annotations

from typing import Tuple

from ..profile.values import Choice, CpuSet, Integer, RateLimit
from .spec import LeverSpec


def _kept(key: str) -> str:
    name = "/etc/systemd/system/UNIT.d/90-ldaptune-%s.conf" % key
    return "a drop-in of its own, %s; refused where a later one wins" % name


SERVICE_LEVERS: Tuple[LeverSpec, ...] = (
    LeverSpec(
        key="service.open_files",
        type=Integer(256, 1 << 24, "descriptors"),
        unit="descriptors",
        attribute="",
        entry="host",
        cost="restart",
        risk="availability",
        compare="hold",
        since=(2, 4),
        default=None,
        effective="the soft limit in /proc/PID/limits of the running slapd",
        summary="How many descriptors slapd may have open: one for each connection, some for files. There is no "
                "unlimited: slapd allocates about 704 bytes for each at start, and more than 5 % of the host's memory "
                "is refused.",
        risk_why="Too few turn clients away, too many cost memory that nobody uses.",
        source="systemd.exec(5), LimitNOFILE; servers/slapd/daemon.c sizes its table of connections by the limit.",
        tested="Set and taken back on systemd 252 with Debian's boot-script unit and 2.5.13.",
        persistence=_kept("service.open_files"),
    ),
    LeverSpec(
        key="service.allocator",
        type=Choice(("glibc", "jemalloc", "tcmalloc")),
        unit="",
        attribute="",
        entry="host",
        cost="restart",
        risk="availability",
        compare="flip",
        since=(2, 4),
        default="glibc",
        effective="the libraries in /proc/PID/maps: a path that is wrong is only a warning of the loader",
        summary="Which malloc slapd runs with, by LD_PRELOAD in the unit's environment. The library has to be there; "
                "glibc is no preload of ours. A preload of someone else is named and left alone.",
        risk_why="Another allocator is another program under slapd: its faults and its appetite become slapd's.",
        source="ld.so(8), LD_PRELOAD; systemd.exec(5), Environment.",
        tested="jemalloc and tcmalloc set and taken back on systemd 252 with Debian's boot-script unit and 2.5.13; "
               "what they are worth was not measured.",
        persistence=_kept("service.allocator"),
    ),
    LeverSpec(
        key="journal.rate_limit",
        type=RateLimit(),
        unit="",
        attribute="",
        entry="host",
        cost="restart",
        risk="security",
        compare="flip",
        since=(2, 4),
        default=None,
        effective="/run/systemd/units/log-rate-limit-*: what journald itself goes by",
        summary="How many lines of slapd journald takes in an interval, for each priority, before it drops the rest; "
                "unset is journald's own limit (10000 in 30 s by default). journald multiplies the number by one to "
                "six and more, the more of its disk is free, and rsyslog's imjournal has a limit of its own.",
        risk_why="Fewer lose the lines of an audit, more can fill the disk and make every logged operation wait.",
        source="systemd.exec(5), LogRateLimitIntervalSec; systemd issues 22034 and 32745: 0 is no way to switch it off "
               "for one unit.",
        tested="Seen on systemd 252: a daemon-reload shows the new value and changes nothing, a restart of slapd does.",
        persistence=_kept("journal.rate_limit"),
    ),
    LeverSpec(
        key="cpu.service",
        type=CpuSet(),
        unit="CPUs",
        attribute="",
        entry="host",
        cost="live",
        risk="safe",
        compare="flip",
        since=(2, 4),
        default=None,
        effective="the cpuset of slapd's cgroup, and the masks of all its threads in /proc/PID/task",
        summary="The CPUs that slapd as a whole may use, threads made later among them: AllowedCPUs of its unit. "
                "cpu.listener and cpu.workers share these out.",
        risk_why="Only speed can change, and it is undone at once.",
        source="systemd.resource-control(5), AllowedCPUs; cgroup v2, cpuset.",
        tested="Seen on systemd 252, kernel 6.1: a reload applies it to running threads, and takes it back only by "
               "way of all CPUs where a neighbour has a cpuset; a CPU that is not there is passed over without a word.",
        persistence=_kept("cpu.service"),
    ),
)
