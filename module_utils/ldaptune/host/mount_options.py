# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a mount: what a kernel no longer takes, what costs durability, and the one about access times."""

from __future__ import annotations

import re
from typing import Dict, List, Sequence, Tuple

# Each takes the place of the others; the last one counts.
ATIME = ("noatime", "relatime", "strictatime", "atime", "norelatime", "nostrictatime")
#: Those of one mount alone, which a remount has to repeat or loses.
OF_A_MOUNT = ("ro", "rw", "nosuid", "nodev", "noexec", "nodiratime", "nosymfollow")

# The first kernel that refuses the mount. Linux, admin-guide/xfs.rst, "Removed Mount Options"; btrfs(5).
_GONE: Dict[Tuple[str, str], Tuple[int, int]] = {
    ("xfs", "barrier"): (4, 19),
    ("xfs", "nobarrier"): (4, 19),
    ("xfs", "delaylog"): (4, 0),
    ("xfs", "nodelaylog"): (4, 0),
    ("xfs", "irixsgid"): (4, 0),
    ("xfs", "osyncisdsync"): (4, 0),
    ("xfs", "osyncisosync"): (4, 0),
    ("btrfs", "inode_cache"): (5, 11),
    ("btrfs", "check_int"): (6, 7),
    ("btrfs", "check_int_data"): (6, 7),
}
_RISKS: Dict[Tuple[str, str], str] = {
    ("ext4", "data=writeback"): "after a crash a file may hold old contents of the disk",
    ("ext4", "barrier=0"): "a power loss can lose what was committed, and tear the filesystem",
    ("ext4", "nobarrier"): "a power loss can lose what was committed, and tear the filesystem",
    ("ext4", "journal_async_commit"): "the journal may be replayed from blocks that were never written",
    ("xfs", "nobarrier"): "a power loss can lose what was committed, and tear the filesystem",
    ("btrfs", "nobarrier"): "a power loss can lose what was committed, and tear the filesystem",
    ("btrfs", "nodatacow"): "nothing in the filesystem has checksums any more, and files written before keep theirs",
    ("btrfs", "nodatasum"): "nothing in the filesystem has checksums any more",
}


def version(release: str) -> Tuple[int, int]:
    """Return (major, minor) of a kernel's release; (0, 0) where it has none."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def gone(kind: str, options: Sequence[str], release: str) -> List[Tuple[str, str]]:
    """Return (option, why) of each that this kernel refuses: such a line in fstab ends the next boot."""
    found = []
    for option in options:
        since = _GONE.get((kind, option))
        if since and version(release) >= since:
            found.append((option, "%s takes no %s from Linux %d.%d on, this is %s" % (kind, option, *since, release)))
    return found


def risks(kind: str, options: Sequence[str]) -> List[Tuple[str, str]]:
    """Return (option, what it can cost) of each that trades durability for speed."""
    known = "ext4" if kind in ("ext2", "ext3") else kind
    return [(option, _RISKS[known, option]) for option in options if (known, option) in _RISKS]


def split(text: str) -> List[str]:
    """Return the options of a field; what stands in quotes comes in pieces, and goes together again by a comma."""
    return [word for word in text.split(",") if word]


def is_noatime(options: Sequence[str]) -> bool:
    """Return whether access times are not kept, by the last word of a list of options."""
    said = [word for word in options if word in ATIME]
    return bool(said) and said[-1] == "noatime"


def with_noatime(text: str, wanted: bool) -> str:
    """Return an options field that says noatime, or relatime in its place; every other word stays where it is."""
    words = text.split(",") if text else []
    if is_noatime(words) == wanted:
        return text
    found = [number for number, word in enumerate(words) if word in ATIME]
    new = ["noatime"] if wanted else ["relatime"]
    if not found:
        return ",".join([*words, *new])
    kept = [word for number, word in enumerate(words) if number not in found[:-1]]
    return ",".join(new[0] if word in ATIME else word for word in kept)


def access_times(options: Sequence[str]) -> str:
    """Return the option by which a remount makes the access times of a mount as these options of it say."""
    return next((word for word in ("noatime", "relatime") if word in options), "strictatime")
