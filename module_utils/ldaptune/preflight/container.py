# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""slapd in a container that we are not in: its paths are not ours, and a change may be lost with the container.

A mount namespace alone is no sign: service managers give one to ordinary services.
"""

from __future__ import annotations

import os
import re
from typing import List, Mapping, NamedTuple, Tuple

from ..problems import Problem, problem
from .files import read_text

_PROC = "/proc"
# The root directory of a process that we may not look into.
UNSEEN = (0, 0)
_MARK = re.compile(r"docker|libpod|kubepods|containerd|crio|lxc|garden|machine\.slice|nspawn", re.IGNORECASE)


class Place(NamedTuple):
    """Where a process lives: its namespaces by kind, its cgroup lines, its root directory (device, inode) and type."""

    namespaces: Mapping[str, str]
    cgroup: str
    root: Tuple[int, int]
    root_type: str


def container_signs(own: Place, theirs: Place) -> List[str]:
    """Return what says that `theirs` is in a container that `own` is not in."""
    signs = []
    for kind in ("pid", "user"):
        mine = own.namespaces.get(kind, "")
        if theirs.namespaces.get(kind, mine) != mine:
            signs.append("a %s namespace of its own" % kind)
    foreign = [line for line in theirs.cgroup.splitlines() if line not in own.cgroup.splitlines()]
    marked = [line.split(":", 2)[-1] for line in foreign if _MARK.search(line)]
    if marked:
        signs.append("cgroup %s" % marked[0])
    if theirs.root not in (own.root, UNSEEN):
        signs.append("another root directory%s" % (" (overlay)" if theirs.root_type == "overlay" else ""))
    return signs


def in_container(pid: int, signs: List[str]) -> List[Problem]:
    """Refuse a slapd with such signs."""
    if not signs:
        return []
    return [
        problem(
            "slapd runs in a container or a changed root: its files are not this host's",
            where="pid %d" % pid,
            found=", ".join(signs),
            wanted="a slapd of this host",
            do="Make the container itself the Ansible host (a connection plugin or ssh into it), or tune its image.",
        )
    ]


def root_type(mountinfo: str) -> str:
    """Return the filesystem type of `/` from a mountinfo file (proc(5)); the last mount on it counts."""
    found = ""
    for line in mountinfo.splitlines():
        left, _dash, right = line.partition(" - ")
        fields = left.split()
        if len(fields) > 4 and fields[4] == "/":
            found = right.split(" ")[0]
    return found


def place_of(pid: int) -> Place:
    """Look where a process lives; what we may not see counts as the same for all."""
    base = "%s/%d" % (_PROC, pid)
    namespaces = {}
    for kind in ("pid", "user"):
        try:
            namespaces[kind] = os.readlink("%s/ns/%s" % (base, kind))
        except OSError:
            continue
    try:
        status = os.stat("%s/root/" % base)
        root = (status.st_dev, status.st_ino)
    except OSError:
        root = UNSEEN
    return Place(namespaces, read_text("%s/cgroup" % base), root, root_type(read_text("%s/mountinfo" % base)))
