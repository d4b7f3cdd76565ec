# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files as another process sees them: its root or its mounts may be other ones than ours (chroot, container)."""

from __future__ import annotations

import errno
import os
from typing import List, Tuple

# Device and inode: equal for one and the same file, by whatever path or mount.
Identity = Tuple[int, int]

_PROC = "/proc"
# As many links as the kernel follows in one path.
_LINKS = 40


def root_of(pid: int) -> str:
    """Return the path by which we see the root of a process; our own where we may not look into it."""
    root = "%s/%d/root" % (_PROC, pid)
    try:
        os.stat(root)
    except OSError:
        return "/"
    return root


def below(root: str, path: str) -> str:
    """Return where `path` lies for us as a process with that root means it: its links lead nowhere outside."""
    base = root.rstrip("/")
    done: List[str] = []
    left = path.split("/")[::-1]
    links = 0
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = done[:-1]
            continue
        try:
            target = os.readlink("/".join([base, *done, name]))
        except OSError:
            done.append(name)
            continue
        links += 1
        if links > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            done = []
        left.extend(target.split("/")[::-1])
    return "/".join([base, *done]) or "/"


def identity(root: str, path: str) -> Identity | None:
    """Return which file `path` is below a root; None where there is none, or where we may not look."""
    try:
        found = os.stat(below(root, path))
    except OSError:
        return None
    return found.st_dev, found.st_ino


def same_root(pid: int) -> bool:
    """Return whether a process has our root directory; True where that cannot be seen."""
    return identity(root_of(pid), "/") in (None, identity("/", "/"))


def same_file(pid: int, its_path: str, path: str) -> bool:
    """Return whether `its_path`, as a process sees it, is the file that `path` is for us; by text where neither is."""
    its, ours = identity(root_of(pid), its_path), identity("/", path)
    if its is None and ours is None:
        return os.path.realpath(its_path) == os.path.realpath(path)
    return its == ours
