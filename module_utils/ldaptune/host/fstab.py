# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""fstab(5), edited in one field of one line: every other octet stays. Pure functions over its text."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Tuple

from .mounts import plain

# Device, mount point, kind, options, and whatever follows; each with the blanks before it.
_LINE = re.compile(r"^(\s*)(\S+)(\s+)(\S+)(\s+)(\S+)(\s+)(\S+)(.*)$", re.DOTALL)


class Entry(NamedTuple):
    """One line: which it is (from 0), and its fields with escapes undone, options as written."""

    number: int
    source: str
    point: str
    kind: str
    options: str


def _lines(text: str) -> List[str]:
    # Not splitlines: it would also cut at a form feed in a comment.
    return re.split(r"(?<=\n)", text)


def _point(word: str) -> str:
    path = plain(word)
    return path.rstrip("/") or "/" if path.startswith("/") else path


def entries(text: str) -> List[Entry]:
    """Return the lines that mount something and have their options; comments and broken lines are passed over."""
    found = []
    for number, line in enumerate(_lines(text)):
        parts = _LINE.match(line)
        if parts and not parts.group(2).startswith("#"):
            _, source, _, point, _, kind, _, options, _ = parts.groups()
            found.append(Entry(number, plain(source), _point(point), kind, options))
    return found


def of_point(text: str, point: str) -> List[Entry]:
    """Return the lines for a mount point."""
    return [item for item in entries(text) if item.point == (point.rstrip("/") or "/")]


def with_options(text: str, entry: Entry, options: str) -> str:
    """Return the text with another options field in that line, all else octet for octet."""
    lines = _lines(text)
    parts = _LINE.match(lines[entry.number])
    assert parts is not None
    pieces = list(parts.groups())
    pieces[7] = options
    lines[entry.number] = "".join(pieces)
    return "".join(lines)


def escaped(path: str) -> str:
    """Return a path as a field, with blanks and backslashes as octal escapes."""
    return re.sub(r"[\s\\#]", lambda found: "".join("\\%03o" % octet for octet in found.group().encode()), path)


def cut(text: str, entry: Entry) -> Tuple[str, str]:
    """Return what stands before a line and what stands behind it."""
    lines = _lines(text)
    return "".join(lines[: entry.number]), "".join(lines[entry.number + 1 :])
