# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values with a notation of slapd's own: log levels, flags, checkpoints, the log file."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from .scalars import Boolean
from .value_type import ValueRefused, ValueType, found_text

#: Names and bits of slapd-config(5), olcLogLevel.
LOG_LEVELS: Dict[str, int] = {
    "trace": 0x1, "packets": 0x2, "args": 0x4, "conns": 0x8, "BER": 0x10, "filter": 0x20, "config": 0x40,
    "ACL": 0x80, "stats": 0x100, "stats2": 0x200, "shell": 0x400, "parse": 0x800, "sync": 0x4000, "none": 0x8000,
}
ANY = -1
_BY_LOWER_NAME = {name.lower(): bit for name, bit in LOG_LEVELS.items()}
_NUMBER = re.compile(r"^(-1|0|[1-9][0-9]*|0x[0-9a-fA-F]+)$")


class LogLevel(ValueType):
    """A set of log categories as a bit mask: none is 32768, 0 is nothing at all, any is -1."""

    name = "log level"

    def wanted(self) -> str:
        return "0, any, or one or more of %s (names, or their numbers from 1 to 65535)" % ", ".join(LOG_LEVELS)

    def parse(self, raw: object) -> int:
        mask = 0
        items = raw if isinstance(raw, (list, tuple)) else [raw]
        if not items:
            raise self.refuse(raw, 'Write 0 (quoted or not) to log nothing, or "none" for the unmaskable messages')
        for item in items:
            if isinstance(item, int) and not isinstance(item, bool):
                mask |= self._number(item)
            elif isinstance(item, str) and item.split():
                for word in item.replace(",", " ").split():
                    mask |= self._word(word)
            else:
                raise self.refuse(item)
        return mask

    def _word(self, word: str) -> int:
        if word.lower() == "any":
            return ANY
        if word.lower() in _BY_LOWER_NAME:
            return _BY_LOWER_NAME[word.lower()]
        if _NUMBER.match(word):
            return self._number(int(word, 0))
        raise self.refuse(word)

    def _number(self, number: int) -> int:
        if number != ANY and not 0 <= number <= 0xFFFF:
            raise ValueRefused(str(number), self.wanted())
        return number

    def show(self, normal: int | None) -> str:
        return "absent" if normal is None else " ".join(self.to_config(normal))

    def from_config(self, values: List[str]) -> int | None:
        return self.parse(values) if values else None

    def to_config(self, normal: int) -> List[str]:
        if normal == ANY:
            return ["any"]
        names = [name for name, bit in LOG_LEVELS.items() if normal & bit]
        return names if names and sum(LOG_LEVELS[name] for name in names) == normal else [str(normal)]


class Flags(ValueType):
    """A set of names out of a closed list; no attribute and no flag are the same."""

    name = "flags"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def wanted(self) -> str:
        return "a list of %s" % ", ".join(self.names)

    def parse(self, raw: object) -> List[str]:
        items = raw if isinstance(raw, (list, tuple)) else [raw]
        flags = set()
        for item in items:
            if not isinstance(item, str):
                raise self.refuse(item)
            for word in item.replace(",", " ").split():
                if word.lower() not in self.names:
                    raise self.refuse(word)
                flags.add(word.lower())
        return sorted(flags)

    def equal(self, left: Any, right: Any) -> bool:
        return (left or []) == (right or [])

    def show(self, normal: List[str] | None) -> str:
        return "no flags" if not normal else " ".join(normal)

    def from_config(self, values: List[str]) -> List[str] | None:
        return sorted({word.lower() for value in values for word in value.split()}) if values else None

    def to_config(self, normal: List[str] | None) -> List[str]:
        return list(normal or [])


class Checkpoint(ValueType):
    """Two numbers, kilobytes and minutes, in one value."""

    name = "checkpoint"

    def wanted(self) -> str:
        return 'kilobytes and minutes, two whole numbers as in "512 30"'

    def parse(self, raw: object) -> List[int]:
        parts: List[object] = list(raw.split()) if isinstance(raw, str) else list(raw) if isinstance(raw, list) else []
        numbers = []
        for part in parts:
            if isinstance(part, str) and re.match(r"^[0-9]+$", part):
                numbers.append(int(part))
            elif isinstance(part, int) and not isinstance(part, bool) and part >= 0:
                numbers.append(part)
        if len(parts) != 2 or len(numbers) != 2:
            raise self.refuse(raw)
        return numbers

    def show(self, normal: List[int] | None) -> str:
        return "absent" if normal is None else " ".join(str(number) for number in normal)

    def from_config(self, values: List[str]) -> List[int] | None:
        return self.parse(values[0]) if values else None

    def to_config(self, normal: List[int]) -> List[str]:
        return [self.show(normal)]


class LogFile(ValueType):
    """slapd's own log file (2.6 and later): four attributes that only make sense together.

    Normal form: {"path": text, "only": bool, "rotate": [files, megabytes, hours] or None, "format": text or None}.
    `only` defaults to true: without it the file never gets what olcLogLevel selects.
    """

    name = "log file"
    ATTRIBUTES: Tuple[str, ...] = ("olcLogFile", "olcLogFileOnly", "olcLogFileRotate", "olcLogFileFormat")
    FORMATS = ("debug", "syslog-utc", "syslog-localtime", "rfc3339-utc")
    _KEYS = ("path", "only", "rotate", "format")

    def wanted(self) -> str:
        return ("a mapping with path (absolute), only (true or false), rotate (files 1-99, megabytes, hours, the last "
                "two not both 0) and format (%s)" % ", ".join(self.FORMATS))

    def parse(self, raw: object) -> Dict[str, Any]:
        if not isinstance(raw, dict):
            raise self.refuse(raw, "Write {path: /var/log/slapd/stats.log}" if isinstance(raw, str) else "")
        for key in raw:
            if key not in self._KEYS:
                raise ValueRefused("%s" % (key,), self.wanted())
        path = raw.get("path")
        if not isinstance(path, str) or not path.startswith("/") or re.search(r"[\s\0]", path):
            raise ValueRefused("path %s" % found_text(path), self.wanted(), "Name an absolute path without blanks")
        layout = raw.get("format")
        if layout is not None and layout not in self.FORMATS:
            raise ValueRefused("format %s" % found_text(layout), self.wanted())
        return {
            "path": path,
            "only": Boolean().parse(raw.get("only", True)),
            "rotate": self._rotate(raw.get("rotate")),
            "format": layout,
        }

    def _rotate(self, raw: object) -> List[int] | None:
        if raw is None:
            return None
        parts = raw.split() if isinstance(raw, str) else raw
        try:
            numbers = [int(part) for part in parts if not isinstance(part, bool)]  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            numbers = []
        if len(numbers) != 3 or not 1 <= numbers[0] <= 99 or min(numbers) < 0 or not any(numbers[1:]):
            raise ValueRefused("rotate %s" % found_text(raw), self.wanted())
        return numbers

    def equal(self, left: Any, right: Any) -> bool:
        return self._in_force(left) == self._in_force(right)

    @staticmethod
    def _in_force(normal: Mapping[str, Any] | None) -> Dict[str, Any] | None:
        return dict(normal, format=normal["format"] or "debug") if normal else None

    def show(self, normal: Mapping[str, Any] | None) -> str:
        if normal is None:
            return "absent"
        parts = [normal["path"], "only" if normal["only"] else "beside syslog"]
        if normal["rotate"]:
            parts.append("rotate %d files, %d MB, %d h" % tuple(normal["rotate"]))
        if normal["format"]:
            parts.append("format %s" % normal["format"])
        return ", ".join(parts)

    def from_config(self, values: List[str]) -> Dict[str, Any] | None:
        """Return the value of olcLogFile alone; `from_attributes` reads all four."""
        return self.from_attributes({"olcLogFile": values})

    def to_config(self, normal: Mapping[str, Any]) -> List[str]:
        """Return the value of olcLogFile alone; `to_attributes` gives all four."""
        return [str(normal["path"])]

    def from_attributes(self, attributes: Mapping[str, List[str]]) -> Dict[str, Any] | None:
        """Return the normal form of the global entry's attributes; None without an olcLogFile."""
        path, only, rotate, layout = (attributes.get(name) or [] for name in self.ATTRIBUTES)
        if not path:
            return None
        return {
            "path": path[0],
            "only": bool(Boolean().from_config(only)),
            "rotate": [int(part) for part in rotate[0].split()] if rotate else None,
            "format": layout[0] if layout else None,
        }

    def to_attributes(self, normal: Mapping[str, Any] | None) -> Dict[str, List[str]]:
        """Return the values of all four attributes; an empty list means that the attribute is removed."""
        if normal is None:
            return {name: [] for name in self.ATTRIBUTES}
        return {
            "olcLogFile": [str(normal["path"])],
            "olcLogFileOnly": Boolean().to_config(normal["only"]),
            "olcLogFileRotate": [" ".join(str(number) for number in normal["rotate"])] if normal["rotate"] else [],
            "olcLogFileFormat": [str(normal["format"])] if normal["format"] else [],
        }
