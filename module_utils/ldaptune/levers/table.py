# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every lever as data: its type, range, cost, risk, versions and the source of each claim.

Profile validation, the lever behaviours and docs/levers.md all read this table. "Manual" is slapd-config(5) or
slapd-mdb(5) of 2.5; "source" is the server's source code; "seen" was observed on a running slapd.
"""

from __future__ import annotations

from typing import Any, Dict

from ..profile.values import CpuSet
from .spec import LeverSpec
from .table_coalescing import COALESCING
from .table_database import DATABASE_LEVERS
from .table_nic_cpus import NIC_CPU_LEVERS
from .table_service import SERVICE_LEVERS
from .table_slapd import SLAPD_LEVERS
from .table_storage import STORAGE_LEVERS
from .table_sysctl import SYSCTL_LEVERS

__all__ = ["LEVERS", "LeverSpec", "in_force", "risk_by_value"]

_COMPANION = "ldaptune-cpus.service, which pins again after every start of slapd; none without systemd: lost then"

_CPU_LEVERS = (
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
        summary="The CPUs of slapd's listener threads. In no supplied profile: no comparison on Linux showed a gain.",
        risk_why="Only speed can change, and it is undone at once.",
        source="servers/slapd/daemon.c, libraries/libldap/tpool.c: a new worker inherits the mask of the thread "
               "that made it.",
        tested="Seen on 2.5.13: kept under load when the pool is filled first. No difference on two cores.",
        persistence=_COMPANION,
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
        summary="The CPUs of slapd's worker threads. In no supplied profile: no comparison on Linux showed a gain.",
        risk_why="Only speed can change, and it is undone at once.",
        source="libraries/libldap/tpool.c: workers are made late, by the listener or by another worker.",
        tested="Seen on 2.5.13: kept under load when the pool is filled first. No difference on two cores.",
        persistence=_COMPANION,
    ),
)

_NIC_LEVERS = (COALESCING, *NIC_CPU_LEVERS)

#: All levers by key, in the order they are documented.
LEVERS: Dict[str, LeverSpec] = {
    spec.key: spec
    for group in (
        SLAPD_LEVERS, DATABASE_LEVERS, _CPU_LEVERS, SERVICE_LEVERS, _NIC_LEVERS, STORAGE_LEVERS, SYSCTL_LEVERS,
    )
    for spec in group
}

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
