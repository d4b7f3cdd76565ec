# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a service's unit: one word out of a list, and journald's limit for its lines."""

from __future__ import annotations

from typing import Dict, List, Sequence

from .value_type import ValueRefused, ValueType, found_text


class Choice(ValueType):
    """One word out of a closed list."""

    name = "choice"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def wanted(self) -> str:
        return "one of %s" % ", ".join(self.names)

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or raw.strip().lower() not in self.names:
            raise self.refuse(raw)
        return raw.strip().lower()

    def from_config(self, values: List[str]) -> str | None:
        return values[0] if values else None

    def to_config(self, normal: str) -> List[str]:
        return [normal]


class RateLimit(ValueType):
    """How many lines in how many seconds: {"burst": lines, "interval": seconds}.

    systemd takes 0 for "as journald has it", so no limit at all has to be written as one that nothing reaches.
    """

    name = "rate limit"
    OPEN: Dict[str, int] = {"burst": 1000000, "interval": 1}

    def wanted(self) -> str:
        return (
            "a mapping with burst (lines, from 100 to %d) and interval (seconds, from 1 to 3600), or 0 for a limit "
            "that nothing reaches (%s)" % (self.OPEN["burst"], self.show(self.OPEN))
        )

    def parse(self, raw: object) -> Dict[str, int]:
        if raw in (0, "0") and not isinstance(raw, bool):
            return dict(self.OPEN)
        if not isinstance(raw, dict) or set(raw) != {"burst", "interval"}:
            raise self.refuse(raw)
        found = {key: self._number(key, value) for key, value in raw.items()}
        if 0 in found.values():
            return dict(self.OPEN)
        for key, low, high in (("burst", 100, self.OPEN["burst"]), ("interval", 1, 3600)):
            if not low <= found[key] <= high:
                raise ValueRefused("%s %d" % (key, found[key]), self.wanted())
        return {key: found[key] for key in sorted(found)}

    @staticmethod
    def _number(key: str, value: object) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise ValueRefused("%s %s" % (key, found_text(value)), "a whole number")

    def show(self, normal: Dict[str, int] | None) -> str:
        return "absent" if normal is None else "%d lines in %d s" % (normal["burst"], normal["interval"])

    def from_config(self, values: List[str]) -> None:
        """Return None: this is no configuration attribute."""

    def to_config(self, normal: Dict[str, int]) -> List[str]:
        """Return no values: this is no configuration attribute."""
        return []
