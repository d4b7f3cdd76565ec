# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPUs serve a network card: written once for every host, resolved on the host, where its cards are known."""

from __future__ import annotations

import re
from typing import Any, Dict, List

from .cpuset import CpuSet, ranges
from .value_type import ValueRefused, ValueType

AUTO = "auto"
ONE = "one"
# The kernel takes nearly everything for an interface's name; names in use are of these, and fit any command line.
_NIC = re.compile(r"^(?![.-])[A-Za-z0-9_.-]{1,15}$")


def is_interface(name: object) -> bool:
    """Return whether this can be the name of an interface (or auto)."""
    return isinstance(name, str) and bool(_NIC.match(name))


class NicCpus(ValueType):
    """`{nic: eth0, cpus: 0,2-3}`, or `auto` for the card that serves the directory and `one` for one CPU near it.

    The normal form of a profile is {"nic", "cpus": canonical text}. What is read on a host is {"nic", "cpus"} with the
    CPU numbers of all queues as a list, {queue: list} where they differ, or the name of whoever moves them.
    """

    name = "CPUs of a network card"

    def wanted(self) -> str:
        return (
            "a mapping with nic (an interface, or auto) and cpus (CPUs such as 0 or 0,2-3 or 1-last, or all, or one: "
            "the last CPU near the card)"
        )

    def parse(self, raw: object) -> Dict[str, str]:
        if not isinstance(raw, dict) or set(raw) != {"nic", "cpus"}:
            raise self.refuse(raw)
        nic, cpus = raw["nic"], raw["cpus"]
        if not is_interface(nic) or not isinstance(nic, str):
            raise self.refuse(nic)
        if cpus == ONE:
            return {"nic": nic, "cpus": ONE}
        try:
            text = CpuSet().parse(cpus)
        except ValueRefused as refused:
            raise ValueRefused(refused.found, self.wanted(), refused.do) from None
        if text == "rest":
            raise self.refuse(cpus, "Name the CPUs: what is left over depends on levers that do not look at the card")
        return {"nic": nic, "cpus": text}

    def show(self, normal: Any) -> str:
        if normal is None:
            return "absent"
        return "%s: %s" % (normal["nic"], _shown(normal["cpus"]))

    def from_config(self, values: List[str]) -> None:
        """Return None: it is no configuration attribute."""

    def to_config(self, normal: Any) -> List[str]:
        """Return no values: it is no configuration attribute."""
        return []


def _shown(cpus: Any) -> str:
    if isinstance(cpus, dict):
        if len(cpus) > 4:
            return "%s by %d queues" % (ranges(cpu for item in cpus.values() for cpu in item), len(cpus))
        return " ".join("%s=%s" % (queue, _shown(cpus[queue])) for queue in sorted(cpus))
    if isinstance(cpus, list):
        return ranges(cpus) or "none"
    return "one CPU near it" if cpus == ONE else str(cpus)
