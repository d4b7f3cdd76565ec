# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lever of a network card's interrupt coalescing, as data."""

from __future__ import annotations

from ..profile.values import Coalescing
from .spec import LeverSpec

COALESCING = LeverSpec(
    key="nic.coalescing",
    type=Coalescing(),
    unit="",
    attribute="",
    entry="host",
    cost="link_reset",
    risk="safe",
    compare="flip",
    since=(2, 4),
    default=None,
    effective="ethtool -c, after a second",
    summary="How long a card gathers packets before it interrupts. A search is answered in tens of microseconds, so 50 "
            "to 125 of waiting show at the median of a few clients, and vanish once queues are busy; long tx_usecs "
            "save CPU and hardly cost latency. What a card does not declare is left out and named; a number that "
            "ethtool shows proves nothing (virtio shows 0 and refuses). A value read back within 1 or 2 % is the "
            "driver's rounding; one further off is a clamp, and a failure. In no supplied profile.",
    risk_why="Some drivers reset the link for a new setting (ixgbe, bnx2), hence the consent link_reset.",
    source="ethtool(8); Linux, net/ethtool/coalesce.c: one setting that a card has not makes the kernel refuse all.",
    tested="On tap and veth devices in a network namespace (a tap clamps rx_frames 100 to 64, a veth refuses), and on "
           "a stand-in for ethtool with the rules of e1000e, bnx2, ice, ixgbe and virtio. Never on a real card.",
    persistence="a unit of its own, ldaptune-nic.coalescing.service with its program "
                "/usr/local/sbin/ldaptune-nic.coalescing; without systemd none: live only",
)  # fmt: skip
