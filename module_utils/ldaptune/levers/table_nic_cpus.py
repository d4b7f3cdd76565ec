# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The levers that say which CPUs serve a network card, as data."""

from __future__ import annotations

from typing import Tuple

from ..profile.values import NicCpus
from .spec import LeverSpec


def _unit(key: str) -> str:
    return (
        "a unit of its own, ldaptune-%s.service with its program /usr/local/sbin/ldaptune-%s, which finds the "
        "queues by name at each boot; without systemd none: live only" % (key, key)
    )


NIC_CPU_LEVERS: Tuple[LeverSpec, ...] = (
    LeverSpec(
        key="nic.irq_cpus",
        type=NicCpus(),
        unit="CPUs",
        attribute="",
        entry="host",
        cost="live",
        risk="safe",
        compare="flip",
        since=(2, 4),
        default=None,
        effective="/proc/irq/N/effective_affinity_list of every queue, known by the card's PCI function and by name",
        summary="The CPUs that a network card's interrupts go to, those of its queues and of no other device. "
                "irqbalance is told to leave them alone (--banirq in its own options file, every other line kept) and "
                "restarted where it runs; its care for isolated CPUs stays. Interrupts that the kernel manages itself "
                "are listed and left alone. A card that sets its interrupts up anew (more queues, down and up) may "
                "forget: then the lever reads drifted. In no supplied profile.",
        risk_why="Only speed can change, and it is undone at once.",
        source="Linux, core-api/irq/irq-affinity.rst and the drivers' names for their interrupts; irqbalance(1).",
        tested="Found and read on a virtio card, Linux 6.18; moved on trees of files shaped like /proc and /sys. "
               "irqbalance 1.9.2, run against such a tree, left alone what our lines name and nothing else. What it "
               "is worth was not measured.",
        persistence=_unit("nic.irq_cpus"),
    ),
    LeverSpec(
        key="nic.rps_cpus",
        type=NicCpus(),
        unit="CPUs",
        attribute="",
        entry="host",
        cost="live",
        risk="safe",
        compare="flip",
        since=(2, 4),
        default=None,
        effective="/sys/class/net/NIC/queues/rx-*/rps_cpus of every queue",
        summary="The CPUs that share the work of what a network card received (RPS). For cards with fewer queues than "
                "the host has CPUs; with a queue for each CPU there is nothing to share. In no supplied profile.",
        risk_why="Only speed can change, and it is undone at once.",
        source="Linux, networking/scaling.rst",
        tested="Written, read back and put back on a veth of a network namespace, Linux 6.18; what it is worth was "
               "not measured.",
        persistence=_unit("nic.rps_cpus"),
    ),
)
