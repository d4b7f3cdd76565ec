# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel settings that matter to a directory, as data: a closed list, each with its why."""

from __future__ import annotations

from typing import Tuple

from ..profile.values import Integer, Size, ValueType
from .spec import LeverSpec


def _sysctl(
    kernel: str, kind: ValueType, default: object, summary: str, source: str, *, unit: str = ""
) -> LeverSpec:  # fmt: skip
    name = kernel.rpartition(".")[2]
    return LeverSpec(
        key="sysctl." + name,
        type=kind,
        unit=unit,
        attribute="",
        entry="host",
        cost="live",
        risk="safe",
        compare="flip",
        since=(2, 4),
        default=default,
        effective="/proc/sys/" + kernel.replace(".", "/"),
        summary=summary,
        risk_why="Only speed can change, and it is undone at once.",
        source=source,
        tested="Written, read back and put back on a running Linux 6.18; what it is worth was not measured.",
        kernel=kernel,
        persistence="a file of its own, /etc/sysctl.d/90-ldaptune-%s.conf; refused where a later file overrides it"
        % name,
    )


SYSCTL_LEVERS: Tuple[LeverSpec, ...] = (
    _sysctl(
        "vm.swappiness",
        Integer(0, 200),
        60,
        "How readily the kernel swaps memory of processes out rather than drop cached files. The mdb map is such a "
        "file, and slapd's heap is small: on a host for a directory alone a low value only keeps the heap in.",
        "Linux, admin-guide/sysctl/vm.rst",
    ),
    _sysctl(
        "vm.dirty_background_bytes",
        Size(0, 1 << 40),
        0,
        "From how much unwritten data on the kernel begins to write in the background; 0 leaves it to "
        "vm.dirty_background_ratio. Matters where the database is written without a sync at each commit.",
        "Linux, admin-guide/sysctl/vm.rst: it and its ratio exclude each other, so going back sets the ratio again.",
        unit="bytes",
    ),
    _sysctl(
        "kernel.numa_balancing",
        Integer(0, 1),
        1,
        "Whether the kernel moves memory to the node that uses it, by faults on purpose. A map that all threads read "
        "belongs to no node.",
        "Linux, admin-guide/sysctl/kernel.rst",
    ),
    _sysctl(
        "net.core.busy_read",
        Integer(0, 1000),
        0,
        "How long a read waits at the network card's queue before it sleeps. Latency for CPU; few drivers do it.",
        "Linux, admin-guide/sysctl/net.rst",
        unit="microseconds",
    ),
    _sysctl(
        "net.core.busy_poll",
        Integer(0, 1000),
        0,
        "The same for poll and select; slapd waits in epoll, which follows it where the driver does.",
        "Linux, admin-guide/sysctl/net.rst",
        unit="microseconds",
    ),
    _sysctl(
        "net.ipv4.tcp_max_syn_backlog",
        Integer(64, 1 << 20),
        None,
        "How many half-open connections a listener remembers: storms of new connections, as after an outage.",
        "Linux, networking/ip-sysctl.rst",
    ),
    _sysctl(
        "net.ipv4.tcp_slow_start_after_idle",
        Integer(0, 1),
        1,
        "Whether a kept connection that was idle begins slowly again. 0 helps large answers over long ways.",
        "Linux, networking/ip-sysctl.rst",
    ),
)
