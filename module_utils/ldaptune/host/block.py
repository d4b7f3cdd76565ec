# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Block devices as sysfs shows them: which node lies under a mount, which disks lie under that, and who holds it.

A device is its directory in sysfs, links resolved: .../block/dm-0, .../block/sda/sda1.
"""

from __future__ import annotations

import glob
import os
from typing import List

from .mounts import Mount


def _at(root: str, path: str) -> str:
    return os.path.join(root, path.lstrip("/"))


def text(device: str, name: str) -> str | None:
    """Return one file of a device, None where it has none."""
    try:
        with open(os.path.join(device, name), encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return None


def by_number(root: str, number: str) -> str | None:
    """Return the device "major:minor"; None where the kernel has no such block device."""
    path = _at(root, "/sys/dev/block/" + number)
    return os.path.realpath(path) if os.path.isdir(path) else None


def by_name(root: str, name: str) -> str | None:
    """Return the device of a kernel's name (sda1, dm-0)."""
    path = _at(root, "/sys/class/block/" + name.replace("/", "!"))
    return os.path.realpath(path) if os.path.isdir(path) else None


def number(device: str) -> str:
    """Return a device's "major:minor"."""
    return text(device, "dev") or ""


def name(device: str) -> str:
    """Return the kernel's name of a device."""
    return os.path.basename(device).replace("!", "/")


def disk(device: str) -> str:
    """Return the whole disk of a partition, which has the queue for both; any other device is its own."""
    return os.path.dirname(device) if text(device, "partition") is not None else device


def _listed(device: str, folder: str) -> List[str]:
    try:
        return sorted(os.listdir(os.path.join(device, folder)))
    except OSError:
        return []


def slaves(device: str) -> List[str]:
    """Return the devices that this one (dm, md) is made of."""
    return [os.path.realpath(os.path.join(device, "slaves", item)) for item in _listed(device, "slaves")]


def holders(device: str) -> List[str]:
    """Return the names of the devices that are made of this one."""
    return _listed(device, "holders")


def partitions(device: str) -> List[str]:
    """Return the names of the partitions the kernel sees on a device."""
    return [item for item in _listed(device, "") if text(os.path.join(device, item), "partition") is not None]


def leaves(device: str) -> List[str]:
    """Return the whole disks at the bottom of a device, each once."""
    found: List[str] = []
    below = slaves(disk(device))
    for item in [leaf for part in below for leaf in leaves(part)] if below else [disk(device)]:
        if item not in found:
            found.append(item)
    return found


def under(root: str, mount: Mount) -> List[str]:
    """Return the devices a mounted filesystem lies on: one, or each of a btrfs; [] for none that is a block device."""
    device = by_number(root, mount.device)
    if device:
        return [device]
    if mount.kind != "btrfs":
        return []
    # It has a number of its own, and names one of its devices as the source.
    source = os.path.basename(os.path.realpath(_at(root, mount.source)))
    for folder in glob.glob(os.path.join(_at(root, "/sys/fs/btrfs"), "*")):
        names = _listed(folder, "devices")
        if source in names:
            return [item for item in (by_name(root, name) for name in names) if item]
    found = by_name(root, source) if source else None
    return [found] if found else []
