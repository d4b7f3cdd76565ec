# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What brings a volume back at boot: one line at the end of fstab, or a .mount unit; taken away octet for octet.

Neither says nofail. With it systemd would start slapd without waiting for the volume, and slapd would make an empty
database on the bare mount point: a host that stops at boot is seen, a directory without its entries answers wrongly.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..problems import LdaptuneError, problem
from . import files, fstab, mount_keep, unit

_UNITS = "/etc/systemd/system"
_WANTS = "local-fs.target.requires"
_UNIT = """# Written by ldaptune; the module volume takes it away.
[Unit]
Description=Volume %(point)s

[Mount]
What=/dev/disk/by-uuid/%(uuid)s
Where=%(point)s
Type=%(kind)s
Options=%(options)s

[Install]
RequiredBy=local-fs.target
"""


class Volume(NamedTuple):
    """A volume as the files of a host name it. way: fstab or unit; below root they lie."""

    root: str
    way: str
    uuid: str
    point: str
    kind: str
    options: Tuple[str, ...]

    @property
    def words(self) -> str:
        """The options as one field."""
        return ",".join(self.options) or "defaults"

    @property
    def line(self) -> str:
        """The line for fstab; ext4 alone wants its check at boot."""
        fields = (self.uuid, fstab.escaped(self.point), self.kind, self.words, 2 if self.kind == "ext4" else 0)
        return "UUID=%s %s %s %s 0 %d\n" % fields

    @property
    def unit(self) -> str:
        """The text of its unit."""
        return _UNIT % {"uuid": self.uuid, "point": self.point, "kind": self.kind, "options": self.words}


class Kept(NamedTuple):
    """What the files of a host say of a mount point. said: a line or a file, for people; "" for nothing.

    ours: whether it mounts this volume, and by the way that is wanted. lacks: options that are wanted and not there.
    """

    said: str
    ours: bool
    lacks: List[str]


def _fstab(root: str) -> str:
    return os.path.join(root, mount_keep.FSTAB.lstrip("/"))


def text_of(root: str) -> str:
    """Return the text of fstab, "" where there is none."""
    return files.text_of(files.record(_fstab(root))) or ""


def _unit(root: str, point: str) -> str:
    return os.path.join(root, _UNITS.lstrip("/"), mount_keep.unit_name(point))


def _link(root: str, point: str) -> str:
    return os.path.join(root, _UNITS.lstrip("/"), _WANTS, mount_keep.unit_name(point))


def kept(volume: Volume, names: Sequence[str]) -> Kept:
    """Return what is there for a mount point. names: other spellings of this volume that count as it."""
    lines = fstab.of_point(text_of(volume.root), volume.point)
    path = _unit(volume.root, volume.point)
    text = files.text_of(files.record(path))
    if text is not None:
        linked = os.path.lexists(_link(volume.root, volume.point))
        return Kept(path, volume.way == "unit" and not lines and text == volume.unit and linked, [])
    if not lines:
        return Kept("", False, [])
    entry = lines[0]
    said = "%s: %s %s %s %s" % (_fstab(volume.root), entry.source, entry.point, entry.kind, entry.options)
    mine = ["UUID=" + volume.uuid, *names] if volume.uuid else []
    ours = len(lines) == 1 and volume.way == "fstab" and entry.kind == volume.kind and entry.source in mine
    there = entry.options.split(",")
    return Kept(said, ours, [word for word in volume.options if word not in there] if ours else [])


def elsewhere(root: str, uuid: str, point: str, names: Sequence[str]) -> List[str]:
    """Return the lines of fstab that mount this volume at another place, or name its device for anything."""
    mine = ["UUID=" + uuid, *names] if uuid else list(names)
    found = [item for item in fstab.entries(text_of(root)) if item.source in mine and item.point != point]
    return ["%s: %s %s" % (_fstab(root), item.source, item.point) for item in found]


def keep(volume: Volume) -> Dict[str, Any]:
    """Write it; returns what `forget` needs: {"way", "newline": was put before the line, "made": the file, "dirs"}."""
    path = _fstab(volume.root)
    if volume.way == "unit":
        path, link = _unit(volume.root, volume.point), _link(volume.root, volume.point)
        missing = files.record(path)["missing"]
        missing += [name for name in files.record(link)["missing"] if name not in missing]
        files.install(path, volume.unit)
        files.link(link, os.path.join("..", os.path.basename(path)))
        return {"way": volume.way, "newline": False, "made": True, "dirs": missing}
    if os.path.islink(path):
        raise LdaptuneError(problem("fstab is a link, so it is left alone", where=path, do="Ask for a unit instead."))
    there = files.record(path)
    text = files.text_of(there)
    newline = bool(text) and not str(text).endswith("\n")
    changed = (text or "") + ("\n" if newline else "") + volume.line
    if text is None:
        files.install(path, changed)
    else:
        files.rewrite(there, changed)
    return {"way": volume.way, "newline": newline, "made": text is None, "dirs": there["missing"]}


def removed(text: str, uuid: str, point: str, then: Dict[str, Any]) -> str | None:
    """Return fstab's text without our line, whatever options it has by now; None where it is not there."""
    mine = [item for item in fstab.of_point(text, point) if item.source == "UUID=" + uuid]
    if not mine:
        return None
    before, after = fstab.cut(text, mine[0])
    if then["newline"] and not after and before.endswith("\n"):
        before = before[:-1]
    return before + after


def forget(root: str, uuid: str, point: str, then: Dict[str, Any]) -> bool:
    """Take the line or the unit away, and what was made for it; returns whether there was anything."""
    if then["way"] == "unit":
        path, link = _unit(root, point), _link(root, point)
        there = files.record(path)
        if there["content"] is None and not os.path.lexists(link):
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(link)
        files.put_back(dict(there, content=None, missing=then["dirs"]))
        return True
    there = files.record(_fstab(root))
    rest = removed(files.text_of(there) or "", uuid, point, then)
    if rest is None:
        return False
    if then["made"] and not rest:
        files.put_back(dict(there, content=None, missing=then["dirs"]))
    else:
        files.rewrite(there, rest)
    return True


def has(root: str, uuid: str, point: str, then: Dict[str, Any]) -> bool:
    """Return whether `forget` would find something."""
    if then["way"] == "unit":
        return os.path.lexists(_unit(root, point)) or os.path.lexists(_link(root, point))
    return removed(text_of(root), uuid, point, then) is not None


def tell(root: str) -> None:
    """Let systemd read its files and fstab again, where it runs."""
    if unit.here(root):
        unit.reload()
