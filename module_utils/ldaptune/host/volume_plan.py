# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done for a volume, and what stands against it; pure: all that was found comes in as data."""

from __future__ import annotations

import os
import re
from typing import Dict, List, NamedTuple, Sequence, Tuple

from ..problems import Problem, problem
from . import mount_options
from .blank import shown
from .volume_keep import Kept

#: Label lengths in octets: mkfs.xfs(8), mke2fs(8), mkfs.btrfs(8).
KINDS = {"xfs": 12, "ext4": 16, "btrfs": 255}
_LABEL = re.compile(r"^[A-Za-z0-9._-]+$")


class Wish(NamedTuple):
    """A volume as it shall be. options: of the mount. way: fstab or unit. owner: (uid, gid). consent: risks taken.

    root: below it lie fstab, units, records and the mount point.
    """

    device: str
    point: str
    kind: str
    label: str
    options: Tuple[str, ...]
    way: str
    owner: Tuple[int, int]
    mode: int
    consent: Tuple[str, ...] = ()
    root: str = "/"


class Found(NamedTuple):
    """What is there. signature: of the device ({}: blank). used: what stands against making a filesystem on it.

    known: whether this host's records name the filesystem as one of ours. at: where the device is mounted.
    here: what is mounted at the point, as text, "" for nothing. folder: missing, empty, full, odd (no directory).
    kept: what fstab and units say of the point. lines: fstab's lines that mount this device elsewhere.
    twins: other devices with the same label or UUID. owner, mode: of the mounted directory, None before.
    missing: programs that it takes and that are not here.
    cow: of a mounted btrfs: "off", "on" (and empty, so it can be switched off), "late" (files are there).
    """

    signature: Dict[str, str]
    used: Sequence[Problem]
    known: bool
    at: Sequence[str]
    here: str
    folder: str
    kept: Kept
    lines: Sequence[str]
    twins: Sequence[str]
    missing: Sequence[str] = ()
    owner: Tuple[int, int] | None = None
    mode: int | None = None
    cow: str = ""


class Plan(NamedTuple):
    """Steps in order: make, mount, cow, own, keep. notes are said aloud, problems stand against all of it."""

    steps: List[str]
    problems: List[Problem]
    notes: List[str]


def wrong(wish: Wish, kernel: str) -> List[Problem]:
    """Return what is wrong with a wish whatever the host has."""
    found = []
    if wish.label and (not _LABEL.match(wish.label) or len(wish.label) > KINDS[wish.kind]):
        found.append(
            problem(
                "this label does not fit the filesystem",
                where=wish.kind,
                found=wish.label,
                wanted="up to %d of letters, digits, dot, dash and underscore" % KINDS[wish.kind],
            )
        )
    if os.path.normpath(wish.point) != wish.point or wish.point in (".", "/") or not os.path.isabs(wish.point):
        found.append(problem("this is no place for a volume", where=wish.point, wanted="a plain absolute path"))
    for word in wish.options:
        if not word or re.search(r"[\s,#\\]", word):
            found.append(problem("this is no mount option", where=wish.point, found=repr(word)))
    found.extend(
        problem("this kernel would refuse the mount", where=wish.point, found=why, wanted="no %s" % option)
        for option, why in mount_options.gone(wish.kind, wish.options, kernel)
    )
    found.extend(
        problem(
            "this mount option costs durability",
            where=wish.point,
            found="%s: %s" % (option, why),
            wanted="the consent durability",
            do="Leave it out, or add durability to the consents.",
        )
        for option, why in mount_options.risks(wish.kind, wish.options)
        if "durability" not in wish.consent
    )
    return found


def plan(wish: Wish, found: Found, kernel: str = "") -> Plan:
    """Return what to do for a volume that shall be present."""
    problems = [*wrong(wish, kernel), *_against(wish, found)]
    steps: List[str] = [] if found.signature else ["make"]
    notes: List[str] = []
    if not found.here:
        steps.append("mount")
    # Of one that is there and not mounted nobody knows it; mounting it sees to both.
    if found.cow == "on" or (wish.kind == "btrfs" and not found.signature):
        steps.append("cow")
    elif found.cow == "late":
        notes.append("%s holds files, so copy on write cannot be switched off for it any more" % wish.point)
    if not found.signature or (found.owner and (found.owner, found.mode) != (wish.owner, wish.mode)):
        steps.append("own")
    if not found.kept.ours:
        steps.append("keep")
    if "nofail" in wish.options:
        notes.append("with nofail slapd may start without its volume, on an empty directory")
    return Plan([] if problems else steps, problems, notes)


def _against(wish: Wish, found: Found) -> List[Problem]:
    """Return what of the host stands against it."""
    return [
        *(_of_the_filesystem(wish, found) if found.signature else found.used),
        *_of_the_place(wish, found),
        *_of_the_files(wish, found),
        *(problem("a program is missing here", where=name, do="Install its package.") for name in found.missing),
    ]


def _of_the_filesystem(wish: Wish, found: Found) -> List[Problem]:
    have = found.signature
    fits = have.get("TYPE") == wish.kind and "PTTYPE" not in have and "ALL" not in have
    fits = fits and (not wish.label or have.get("LABEL") == wish.label)
    ours = found.known or found.kept.ours or wish.point in found.at
    if fits and ours:
        return []
    return [
        problem(
            "this device holds something already, and nothing is ever made over it",
            where=wish.device,
            found=shown(have),
            wanted="a blank device" if not ours else "%s %s" % (wish.kind, wish.label),
            do="Take another device. Only you can know that this one may be lost: then wipe it yourself (wipefs -a), "
            "or mount it at %s by hand if it is the volume." % wish.point,
        )
    ]


def _of_the_place(wish: Wish, found: Found) -> List[Problem]:
    problems = []
    away = [point for point in found.at if point != wish.point]
    if away and found.signature:
        problems.append(
            problem(
                "this volume is mounted at another place, and would be at two",
                where=wish.device,
                found=", ".join(away),
                wanted=wish.point,
                do="Take it away there first (state: absent with that path).",
            )
        )
    if found.here and wish.point not in found.at:
        problems.append(
            problem("something else is mounted here", where=wish.point, found=found.here, wanted=wish.device)
        )
    if not found.here and found.folder in ("full", "odd"):
        full = found.folder == "full"
        text = "files that the mount would hide" if full else "no directory, or a link on the way to it"
        problems.append(
            problem(
                "a volume is mounted on an empty directory, or on one that is made for it",
                where=wish.point,
                found=text,
                do="Move what is there away first; a living database has to be migrated.",
            )
        )
    return problems


def _of_the_files(wish: Wish, found: Found) -> List[Problem]:
    problems = [
        problem("this device is named for another place", where=text, wanted=wish.point, do="Take the line out.")
        for text in found.lines
    ]
    problems.extend(
        problem(
            "another device has the same name, so the wrong one could be mounted",
            where=other,
            found=wish.label or found.signature.get("UUID", ""),
            wanted="one device of that name",
            do="Choose another label, or take that device away.",
        )
        for other in found.twins
    )
    if found.kept.said and not found.kept.ours:
        problems.append(
            problem(
                "something else of this host mounts here",
                where=found.kept.said,
                wanted="%s by %s" % (wish.device, wish.way),
                do="Take it out of there, or choose another path.",
            )
        )
    if found.kept.lacks:
        problems.append(
            problem(
                "this volume is kept with other options",
                where=found.kept.said,
                found="no %s" % ", ".join(found.kept.lacks),
                wanted=",".join(wish.options),
                do="Edit the line and mount it anew; or state: absent, then present: the files stay.",
            )
        )
    return problems
