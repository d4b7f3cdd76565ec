# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unit files and their drop-ins, read as systemd reads them: in its order, the last one to say something wins."""

from __future__ import annotations

import os
from typing import List, NamedTuple, Tuple

from . import conf_dirs, files

# systemd.unit(5), the system's search path; a file in an earlier folder hides one of the same name in a later.
FOLDERS = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
)
_OURS = "90-ldaptune-"


class Setting(NamedTuple):
    """One assignment in a unit's files, in the order in which systemd reads them."""

    path: str
    key: str
    value: str


def path_of(unit: str, lever: str) -> str:
    """Return the drop-in that keeps a lever of ours."""
    return "/etc/systemd/system/%s.d/%s%s.conf" % (unit, _OURS, lever)


def assignments(text: str, section: str = "Service") -> List[Tuple[str, str]]:
    """Return (key, value) of each assignment in a section; lines that go on (backslash) are joined by a blank."""
    found: List[Tuple[str, str]] = []
    here, held = "", ""
    for raw in text.splitlines():
        line = raw.strip()
        if line[:1] in ("#", ";") or not (line or held):
            continue
        line, held = held + line, ""
        if line.endswith("\\"):
            held = line[:-1] + " "
            continue
        if line.startswith("[") and line.endswith("]"):
            here = line[1:-1]
            continue
        key, equals, value = line.partition("=")
        if equals and here == section:
            found.append((key.strip(), value.strip()))
    return found


def _names(unit: str) -> List[str]:
    """Return the names under which drop-ins of a unit are looked for: its own, its prefixes, its template, its type."""
    stem, dot, kind = unit.rpartition(".")
    names = [unit]
    prefix, at, _instance = stem.partition("@")
    if at:
        names.append(prefix + "@" + dot + kind)
    parts = prefix.split("-")
    names.extend("-".join(parts[:count]) + "-" + dot + kind for count in range(len(parts) - 1, 0, -1))
    return [*names, kind]


def read_order(root: str, unit: str) -> List[str]:
    """Return the files of a unit below `root` in the order in which they are read: itself, then its drop-ins."""
    main: List[str] = []
    template = [name for name in _names(unit) if name == unit or name.endswith("@.service")]
    for folder in FOLDERS:
        here = os.path.join(root, folder.lstrip("/"))
        main.extend(path for path in (os.path.join(here, name) for name in template) if os.path.isfile(path))
    places = ["%s/%s.d" % (folder, name) for folder in FOLDERS for name in _names(unit)]
    return main[:1] + list(conf_dirs.merged(root, places, ".conf").values())


def settings(root: str, unit: str, section: str = "Service") -> List[Setting]:
    """Return every assignment in a section of a unit's files, in order; what cannot be read says nothing."""
    found: List[Setting] = []
    for path in read_order(root, unit):
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                found.extend(Setting(path, key, value) for key, value in assignments(stream.read(), section))
        except OSError:
            continue
    return found


def later(found: List[Setting], path: str, key: str) -> Setting | None:
    """Return what would win over a drop-in at `path`: the last assignment of `key` in a file read after it."""
    name = os.path.basename(path)
    after = [item for item in found if item.key == key and ".d/" in item.path and os.path.basename(item.path) > name]
    return after[-1] if after else None


def record(path: str) -> files.FileRecord:
    """Return a drop-in's record. Its directory counts as not there where it holds nothing but our own files.

    So the last of our levers to go home takes the directory along, in whatever order they go.
    """
    found = files.record(path)
    directory = os.path.dirname(path)
    names = os.listdir(directory) if os.path.isdir(directory) else []
    if names and all(name.startswith(_OURS) for name in names):
        found["missing"] = [*found["missing"], directory]
    return found


def remove(path: str) -> None:
    """Take a drop-in away, and its directory where nothing else is in it."""
    files.put_back(dict(record(path), content=None))
