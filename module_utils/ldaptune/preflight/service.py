# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host in service is not loaded: what clients did while we watched, less our own reads."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple

from ..problems import Problem, problem


class Sample(NamedTuple):
    """The server's counters at one moment: operations started, of which ours; connections accepted and open now."""

    at: float
    operations: int
    own: int
    accepted: int
    current: int


class Traffic(NamedTuple):
    """What clients did: open connections, operations and new connections a second."""

    connections: int
    operations_per_second: float
    accepted_per_second: float
    went_backwards: bool

    def as_data(self) -> Mapping[str, Any]:
        """Return it as JSON-able data."""
        return dict(self._asdict())


def traffic(before: Sample, after: Sample, own_connections: int) -> Traffic:
    """Return what others did between two samples taken over `own_connections` connections of ours."""
    seconds = max(after.at - before.at, 1e-3)
    foreign = (after.operations - before.operations) - (after.own - before.own)
    accepted = after.accepted - before.accepted
    return Traffic(
        connections=max(after.current - own_connections, 0),
        operations_per_second=max(foreign, 0) / seconds,
        accepted_per_second=max(accepted, 0) / seconds,
        went_backwards=foreign < 0 or accepted < 0,
    )


def _number(value: float) -> str:
    return "%d" % round(value) if value >= 10 else "%.1f" % value


def in_service(host: str, seen: Traffic, max_rate: float) -> List[Problem]:
    """Refuse a host whose clients do more than `max_rate` operations, or open more connections, a second."""
    wanted = "at most %g a second" % max_rate
    if seen.went_backwards:
        return [
            problem(
                "slapd's counters went backwards while we watched: it was restarted",
                where=host,
                do="Find out who restarts it, and try again when it is left alone.",
            )
        ]
    if max(seen.operations_per_second, seen.accepted_per_second) <= max_rate:
        return []
    what = "%s is in service (%d connections, %s op/s): drain it first" % (
        host,
        seen.connections,
        _number(seen.operations_per_second),
    )
    found = ""
    if seen.operations_per_second <= max_rate:
        found = "%s new connections a second" % _number(seen.accepted_per_second)
    return [problem(what, found=found, wanted=wanted, do="Take it out of the load balancer, then run again.")]


def idle_clients(host: str, seen: Traffic) -> List[str]:
    """Warn of clients that are connected though silent: a restart would drop them."""
    if not seen.connections:
        return []
    text = "%s has %d open client connections: a restart or a saturating load will disturb them"
    return [text % (host, seen.connections)]


def load_not_allowed(host: str, allowed: bool) -> List[Problem]:
    """Refuse a saturating load on a host that nobody released for it."""
    if allowed:
        return []
    return [
        problem(
            "saturating load is not allowed on this host",
            where=host,
            found="authrate_allow_load: false",
            wanted="authrate_allow_load: true",
            do="Set it for this host when no client depends on it, or use tuning_measure: never.",
        )
    ]
