# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a network card gathers packets before it interrupts: what of `ethtool -C` a profile may name."""

from __future__ import annotations

from typing import Any, Dict, List

from .names import advice
from .nic_values import is_interface
from .value_type import ValueType

SWITCHES = ("adaptive_rx", "adaptive_tx")
NUMBERS = ("rx_usecs", "tx_usecs", "rx_frames", "tx_frames")
MOST = (1 << 32) - 1
# Drivers round to what their clocks can do: e1000e gives 523 for 522, 10000 for 9999. More than this is a clamp.
ROUNDING = 0.02


class Coalescing(ValueType):
    """`{nic: eth0, adaptive_rx: false, rx_usecs: 20}`; `nic: auto` is the card that serves the directory.

    The normal form is that mapping. Two are equal where they agree in all that the right one names, numbers as far as
    drivers round (see `near`).
    """

    name = "coalescing of a network card"

    def wanted(self) -> str:
        return "a mapping with nic (an interface, or auto) and any of %s (true or false), %s (0 to %d)" % (
            ", ".join(SWITCHES),
            ", ".join(NUMBERS),
            MOST,
        )

    def parse(self, raw: object) -> Dict[str, Any]:
        if not isinstance(raw, dict) or len(raw) < 2:
            raise self.refuse(raw)
        known = ("nic", *SWITCHES, *NUMBERS)
        for key in raw:
            if key not in known:
                raise self.refuse(key, advice(str(key), known))
        if not is_interface(raw.get("nic")):
            raise self.refuse(raw.get("nic"), "nic is an interface, or auto")
        for key in SWITCHES:
            if not isinstance(raw.get(key, False), bool):
                raise self.refuse(raw[key], "%s is true or false" % key)
        for key in NUMBERS:
            number = raw.get(key, 0)
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MOST:
                raise self.refuse(number, "%s is a number from 0 to %d" % (key, MOST))
        return {key: raw[key] for key in known if key in raw}

    def equal(self, left: Any, right: Any) -> bool:
        if left is None or right is None or left.get("nic") != right.get("nic"):
            return left is right
        return all(near(left.get(key), right[key]) for key in right if key != "nic")

    def show(self, normal: Any) -> str:
        if normal is None:
            return "absent"
        shown = [
            "%s=%s" % (key, {True: "on", False: "off"}[value] if isinstance(value, bool) else value)
            for key, value in normal.items()
            if key != "nic"
        ]
        return "%s: %s" % (normal["nic"], " ".join(shown) or "nothing to set")

    def from_config(self, values: List[str]) -> None:
        """Return None: it is no configuration attribute."""

    def to_config(self, normal: Any) -> List[str]:
        """Return no values: it is no configuration attribute."""
        return []


def near(found: Any, wanted: Any) -> bool:
    """Return whether a driver that shows `found` took `wanted`: equal, or rounded by at most 1 or 2 %."""
    if found is None or isinstance(wanted, bool) or isinstance(found, bool):
        return found is wanted
    return bool(abs(found - wanted) <= max(1, ROUNDING * wanted) and (found == 0) == (wanted == 0))
