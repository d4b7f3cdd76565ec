# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which mount holds a path, from /proc/PID/mountinfo (proc_pid_mountinfo(5)); pure functions over its text."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Sequence, Tuple

#: Filesystems whose pages live on another machine, or in a program: mdb's map and its locks need the kernel's own.
_ELSEWHERE = re.compile(
    r"^(nfs4?|cifs|smb3?|smbfs|ceph|9p|virtiofs|afs|coda|lustre|gfs2?|ocfs2|glusterfs|beegfs|gpfs|orangefs|fuse(blk|\..*)?)$"
)
_MEMORY = ("tmpfs", "ramfs", "zram")
_LAYERED = ("overlay", "aufs", "unionfs")


class Mount(NamedTuple):
    """One mount. device: "major:minor" of the filesystem; root: the part of it that is mounted; point: where.

    options are those of this mount alone (ro, nosuid, noatime), super_options those of the filesystem.
    """

    id: int
    parent: int
    device: str
    root: str
    point: str
    options: Tuple[str, ...]
    kind: str
    source: str
    super_options: Tuple[str, ...]


def plain(word: str) -> str:
    """Return a field with its octal escapes undone; mountinfo and fstab write blanks as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), word)


def parse(text: str) -> List[Mount]:
    """Return the mounts of a mountinfo in its order; lines of another form are passed over."""
    found = []
    for line in text.splitlines():
        words = line.split(" ")
        if len(words) < 10 or "-" not in words[6:]:
            continue
        rest = words[words.index("-", 6) + 1 :]
        if len(rest) < 3:
            continue
        found.append(
            Mount(
                int(words[0]),
                int(words[1]),
                words[2],
                plain(words[3]),
                plain(words[4]),
                tuple(words[5].split(",")),
                rest[0],
                plain(rest[1]),
                tuple(rest[2].split(",")),
            )
        )
    return found


def covers(point: str, path: str) -> bool:
    """Return whether a path without links lies at or below a mount point."""
    return point in ("/", path) or path.startswith(point.rstrip("/") + "/")


def holding(mounts: Sequence[Mount], path: str) -> Mount | None:
    """Return the mount in which the kernel ends when it walks a path without links; None for no mounts.

    Walked as the kernel does, from a mount to what is mounted on it: one that a later mount above it has hidden is
    not found, though its point would fit better.
    """
    ids = {item.id for item in mounts}
    tops = [item for item in mounts if item.point == "/" and item.parent not in ids - {item.id}]
    here = tops[-1] if tops else None
    while here is not None:
        start = here
        on_it = [
            item
            for item in mounts
            if item.parent == start.id and item.id != start.id and covers(item.point, path)
        ]
        if not on_it:
            break
        nearest = min(len(item.point) for item in on_it)
        here = [item for item in on_it if len(item.point) == nearest][-1]
    return here


def is_elsewhere(kind: str) -> bool:
    """Return whether a filesystem is remote, shared by a cluster, or a program's (FUSE): mdb must not be on one."""
    return bool(_ELSEWHERE.match(kind))


def no_disk(kind: str) -> str:
    """Return why a filesystem of this kind has no disk that could be tuned for it, or ""."""
    if kind in _LAYERED:
        return "it lies in %s, a layer over other filesystems (a container's own): give it a volume" % kind
    if kind in _MEMORY:
        return "it lies in %s, which is memory and gone at the next boot" % kind
    return ""
