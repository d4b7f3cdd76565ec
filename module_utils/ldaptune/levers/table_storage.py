# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The levers of the storage under the database, as data."""

from __future__ import annotations

from typing import Tuple

from ..profile.values import Boolean, Choice, Integer
from .spec import LeverSpec


def _rule(key: str) -> str:
    return (
        "a udev rule of its own, /etc/udev/rules.d/90-ldaptune-%s.rules, for the disk's serial number or another name "
        "that lasts; refused where a later rule sets the same; without udev or such a name none: live only" % key
    )


STORAGE_LEVERS: Tuple[LeverSpec, ...] = (
    LeverSpec(
        key="storage.noatime",
        type=Boolean(),
        unit="",
        attribute="",
        entry="host",
        cost="live",
        risk="safe",
        compare="flip",
        since=(2, 4),
        default=None,
        effective="the options of the mount in /proc/PID/mountinfo of slapd",
        summary="Whether the mount that holds the mdb directory keeps access times. Changed by a remount of that one "
                "mount; every other option stays. Refused on the root filesystem and on a mount that also holds /tmp, "
                "/var/tmp, /home or mail, as those are cleaned and read by access times; a slapd with mounts of its "
                "own cannot have it. mdb reads through its map, so expect little.",
        risk_why="Nothing of the database goes by access times.",
        source="mount(8), FILESYSTEM-INDEPENDENT MOUNT OPTIONS; Linux, touch_atime: a map is touched once, when made.",
        tested="Remounted, read back and put back on ext4, xfs and btrfs of loop devices, Linux 6.18; what it is worth "
               "was not measured.",
        persistence="the options field of the mount's own line in /etc/fstab, every other octet kept; for an admin's "
                    ".mount unit a drop-in of its own. Refused where neither makes the mount",
    ),
    LeverSpec(
        key="storage.read_ahead",
        type=Integer(0, 65536, "KiB"),
        unit="KiB",
        attribute="",
        entry="host",
        cost="restart",
        risk="safe",
        compare="flip",
        since=(2, 4),
        default=None,
        effective="read_ahead_kb of the device's bdi in /sys: what a file opened from now on gets",
        summary="How much the kernel reads around a page that the map faults in. Of the node under the mount: for LVM "
                "and md the dm or md node, not its legs. Restarts slapd, as a file keeps the read-ahead it was opened "
                "with. For a database larger than memory a small value keeps random reads small; one that fits is read "
                "in sooner with a large one. database.env_flags nordahead switches it off for the map. Not on btrfs, "
                "which has a value of its own.",
        risk_why="Only speed can change, and it is undone by the next restart.",
        source="Linux, admin-guide/abi-stable (queue/read_ahead_kb); file_ra_state_init in mm/readahead.c.",
        tested="Seen on Linux 6.18, ext4 and xfs: pages around a fault followed the value at open, not the one set "
               "later; btrfs followed neither. What it is worth was not measured.",
        persistence=_rule("storage.read_ahead"),
    ),
    LeverSpec(
        key="storage.scheduler",
        type=Choice(("none", "mq-deadline", "kyber", "bfq")),
        unit="",
        attribute="",
        entry="host",
        cost="live",
        risk="safe",
        compare="flip",
        since=(2, 4),
        default=None,
        effective="the word in brackets in /sys/block/DISK/queue/scheduler of every disk",
        summary="The I/O scheduler of the disks at the bottom of the mount, through LVM, md and partitions. none suits "
                "NVMe and virtual disks, mq-deadline disks that turn. Other filesystems on the same disks share it.",
        risk_why="Only the order of reads and writes can change, and it is undone at once.",
        source="Linux, block/switching-sched.rst; the boot parameter elevator= does nothing any more.",
        tested="Set, read back and put back on loop devices, Linux 6.18; LVM on trees of files shaped like sysfs. "
               "Debian's udev 252 took the rule. What it is worth was not measured.",
        persistence=_rule("storage.scheduler"),
    ),
)
