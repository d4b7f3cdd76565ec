# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole numbers, yes/no, sizes in bytes and plain text."""

from __future__ import annotations

import re
from typing import List

from .value_type import ValueRefused, ValueType, found_text

_DECIMAL = re.compile(r"^(0|-?[1-9][0-9]*)$")
_SIZE = re.compile(r"^([0-9]+)\s*([A-Za-z]*)$")
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_AMBIGUOUS_UNITS = {"k": "KiB", "kb": "KiB", "m": "MiB", "mb": "MiB", "g": "GiB", "gb": "GiB", "t": "TiB", "tb": "TiB"}


class Integer(ValueType):
    """A whole number from `min` to `max` (both included) in `unit`.

    power_of_two narrows it further. zero says what 0 means where it is no small number ("never"): such a value
    has no more and less.
    """

    name = "integer"

    def __init__(self, min: int, max: int, unit: str = "", power_of_two: bool = False, zero: str = "") -> None:
        self.min = min
        self.max = max
        self.unit = unit
        self.power_of_two = power_of_two
        self.zero = zero
        self.ordered = not zero

    def wanted(self) -> str:
        kind = "a power of two" if self.power_of_two else "a whole number"
        notes = [self.unit] if self.unit else []
        notes += ["0: %s" % self.zero] if self.zero else []
        return "%s from %d to %d%s" % (kind, self.min, self.max, " (%s)" % ", ".join(notes) if notes else "")

    def parse(self, raw: object) -> int:
        if isinstance(raw, str) and _DECIMAL.match(raw.strip()):
            number = int(raw)
        elif isinstance(raw, int) and not isinstance(raw, bool):
            number = raw
        else:
            raise self.refuse(raw)
        if not self.min <= number <= self.max or (self.power_of_two and number & (number - 1)):
            raise ValueRefused(str(number), self.wanted())
        return number

    def from_config(self, values: List[str]) -> int | None:
        if not values:
            return None
        try:
            return int(values[0].strip(), 0)
        except ValueError:
            raise ValueRefused(found_text(values[0]), "a whole number") from None

    def to_config(self, normal: int) -> List[str]:
        return [str(normal)]


class Boolean(ValueType):
    """true or false; cn=config spells them TRUE and FALSE."""

    name = "boolean"

    def wanted(self) -> str:
        return "true or false"

    def parse(self, raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        if isinstance(raw, str) and raw.strip().lower() in ("true", "false"):
            return raw.strip().lower() == "true"
        raise self.refuse(raw)

    def show(self, normal: bool | None) -> str:
        return "absent" if normal is None else str(normal).lower()

    def from_config(self, values: List[str]) -> bool | None:
        return self.parse(values[0]) if values else None

    def to_config(self, normal: bool) -> List[str]:
        return ["TRUE" if normal else "FALSE"]


class Size(ValueType):
    """A number of bytes from `min` to `max`, also written with KiB, MiB, GiB or TiB."""

    name = "size"
    ordered = True

    def __init__(self, min: int, max: int) -> None:
        self.min = min
        self.max = max

    def wanted(self) -> str:
        return "a size from %s to %s (bytes, or a whole number with KiB, MiB, GiB or TiB)" % (
            self.show(self.min), self.show(self.max))

    def parse(self, raw: object) -> int:
        if isinstance(raw, str):
            number = self._parse_text(raw)
        elif isinstance(raw, int) and not isinstance(raw, bool):
            number = raw
        else:
            do = "Write a whole number, in a smaller unit if need be" if isinstance(raw, float) else ""
            raise self.refuse(raw, do)
        if not self.min <= number <= self.max:
            raise ValueRefused(self.show(number), self.wanted())
        return number

    def _parse_text(self, raw: str) -> int:
        match = _SIZE.match(raw.strip())
        if not match or (len(match.group(1)) > 1 and match.group(1).startswith("0")):
            raise self.refuse(raw)
        unit = _AMBIGUOUS_UNITS.get(match.group(2).lower())
        if unit:
            # 1 GB is 10^9 bytes to some and 2^30 to others.
            raise ValueRefused(found_text(raw), self.wanted(), "Write %s %s" % (match.group(1), unit))
        if match.group(2) not in _UNITS:
            raise self.refuse(raw)
        return int(match.group(1)) * _UNITS[match.group(2)]

    def show(self, normal: int | None) -> str:
        if normal is None:
            return "absent"
        for unit in ("TiB", "GiB", "MiB", "KiB"):
            if normal and normal % _UNITS[unit] == 0:
                return "%d %s" % (normal // _UNITS[unit], unit)
        return "%d bytes" % normal

    def from_config(self, values: List[str]) -> int | None:
        if not values:
            return None
        try:
            return int(values[0].strip(), 0)
        except ValueError:
            raise ValueRefused(found_text(values[0]), "a number of bytes") from None

    def to_config(self, normal: int) -> List[str]:
        return [str(normal)]


class Text(ValueType):
    """One line of text that is not blank."""

    name = "text"

    def wanted(self) -> str:
        return "one line of text"

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or not raw.strip() or "\n" in raw or "\0" in raw:
            raise self.refuse(raw)
        return raw.strip()

    def from_config(self, values: List[str]) -> str | None:
        return values[0] if values else None

    def to_config(self, normal: str) -> List[str]:
        return [normal]
