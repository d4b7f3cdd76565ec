# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a mount at boot, a line of fstab or a .mount unit of the admin, and the access times it asks for."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple

from ..problems import LdaptuneError, Problem, problem
from . import dropin, files, fstab, unit
from . import mount_options as words

FSTAB = "/etc/fstab"
# Made by systemd out of fstab: the line is the one to edit.
_GENERATED = "/run/systemd/generator"


class Keeper(NamedTuple):
    """way: "fstab", "unit", or "" where nothing of the host makes this mount; file: what of it we would write.

    options: the options it asks for, without what a drop-in of ours says. ours: what that says, None for none.
    stands: what stands against editing it, "" for nothing.
    """

    way: str
    file: str
    options: str
    ours: str | None
    stands: str


def unit_name(point: str) -> str:
    """Return the name of a mount point's unit, as systemd-escape --path --suffix=mount makes it."""
    path = "/".join(part for part in point.split("/") if part)
    octets = path.encode("utf-8", "surrogateescape")
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_"
    found = [
        "-" if octet == 47 else chr(octet) if octet in plain or (octet == 46 and number) else "\\x%02x" % octet
        for number, octet in enumerate(octets)
    ]
    return ("".join(found) or "-") + ".mount"


def keeper(root: str, point: str, lever: str) -> Keeper:
    """Return what makes the mount at `point`. Where both do, it is the unit: systemd then passes over the line."""
    name = unit_name(point)
    if unit.here(root):
        order = dropin.read_order(root, name)
        generated = os.path.join(root, _GENERATED.lstrip("/"))
        if order and os.path.basename(order[0]) == name and not order[0].startswith(generated):
            ours = os.path.join(root, dropin.path_of(name, lever).lstrip("/"))
            said = dropin.settings(root, name, "Mount")
            options = [item.value for item in said if item.key == "Options" and item.path != ours]
            own: List[str | None] = [item.value for item in said if item.key == "Options" and item.path == ours]
            return Keeper("unit", ours, (options or [""])[-1], own[-1] if own else None, _stands_unit(said, ours))
    path = os.path.join(root, FSTAB.lstrip("/"))
    lines = fstab.of_point(files.text_of(files.record(path)) or "", point) if os.path.isfile(path) else []
    if not lines:
        return Keeper("", "", "", None, "")
    stands = "it is a link" if os.path.islink(path) else ""
    if len(lines) > 1:
        stands = "%d lines for %s" % (len(lines), point)
    return Keeper("fstab", path, lines[0].options, None, stands)


def _stands_unit(said: List[dropin.Setting], ours: str) -> str:
    over = dropin.later(said, ours, "Options")
    return "%s says Options=%s after ours" % (over.path, over.value) if over else ""


def in_force(found: Keeper) -> List[str]:
    """Return the options that the next boot would mount with."""
    return words.split(found.options if found.ours is None else found.ours)


def record(found: Keeper) -> Dict[str, Any]:
    """Return {"way", "options": the line's field or null, "file": record of our drop-in or null}."""
    return {
        "way": found.way,
        "options": found.options if found.way == "fstab" else None,
        "file": dropin.record(found.file) if found.way == "unit" else None,
    }


def keep(root: str, point: str, lever: str, noatime: bool) -> None:
    """Make the mount come back with these access times; raises LdaptuneError where nothing is there to say it to."""
    found = keeper(root, point, lever)
    if found.way == "unit":
        options = words.with_noatime(found.options, noatime)
        if options == found.options:
            dropin.remove(found.file)
        else:
            head = "# Written by ldaptune; rollback.yml takes it away.\n[Mount]\nOptions=%s\n"
            files.install(found.file, head % options)
    elif found.way == "fstab":
        _set(found, point, words.with_noatime(found.options, noatime))
    else:
        raise LdaptuneError(_nothing(point))


def _nothing(point: str) -> Problem:
    return problem("no line of fstab and no unit makes this mount", where=point, do="Write one, then try again.")


def put_back(root: str, point: str, lever: str, then: Dict[str, Any]) -> List[str]:
    """Leave what a record says, in the options field or the drop-in; returns remarks on what others changed since.

    Where someone else changed the field meanwhile, their words stay and the access times alone go back.
    """
    if then["way"] == "unit":
        files.put_back(then["file"])
        return []
    found = keeper(root, point, lever)
    if found.way != "fstab":
        return ["the line of %s for %s is gone, and stays so" % (FSTAB, point)]
    before = then["options"]
    if found.options in (before, words.with_noatime(before, True), words.with_noatime(before, False)):
        _set(found, point, before)
        return []
    _set(found, point, words.with_noatime(found.options, words.is_noatime(words.split(before))))
    return ["someone changed the options of %s in %s since: theirs stay" % (point, FSTAB)]


def _set(found: Keeper, point: str, options: str) -> None:
    kept = files.record(found.file)
    text = files.text_of(kept) or ""
    # An empty field would make the next one the options.
    changed = fstab.with_options(text, fstab.of_point(text, point)[0], options or "defaults")
    if changed != text:
        files.rewrite(kept, changed)
