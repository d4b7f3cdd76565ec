# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a block device holds nothing and is used by nobody: asked of several witnesses, and no for any doubt.

blkid alone is none: it says "nothing" (exit code 2) of a device it could not even open.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import stat
import time
from typing import Dict, List, Tuple

from ..problems import LdaptuneError, Problem, problem
from . import block, mounts
from .command import run

# Where /proc and /sys of this machine lie: what runs now, whatever root the files are for.
MACHINE = "/"
# udev has a device open for a moment after each event.
_OPEN_SECONDS = 2.0
_READ = 1 << 20
_VOLATILE = ("ram", "zram")


def device_number(path: str) -> str:
    """Return "major:minor" of a block device; raises LdaptuneError for anything else."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise LdaptuneError(_no_device(path, os.strerror(error.errno or 0))) from None
    if not stat.S_ISBLK(found.st_mode):
        raise LdaptuneError(_no_device(path, "no block device"))
    return "%d:%d" % (os.major(found.st_rdev), os.minor(found.st_rdev))


def _no_device(path: str, found: str) -> Problem:
    return problem("this is not a device for a volume", where=path, found=found, wanted="a block device of this host")


def _failed(path: str, who: str, found: str) -> LdaptuneError:
    return LdaptuneError(
        problem(
            "the device could not be looked at, so nothing is made on it",
            where=path,
            found="%s: %s" % (who, found),
            wanted="an answer that it is blank",
            do="Find out why it cannot be read (dmesg).",
        )
    )


def signature(path: str) -> Dict[str, str]:
    """Return what blkid finds on a device by its own words (TYPE, LABEL, UUID, PTTYPE), {} for nothing at all.

    Raises LdaptuneError where the device cannot be read, a program is missing or fails, or the two do not agree.
    """
    _read_ends(path)
    asked = run(["blkid", "-p", "-o", "export", path])
    listed = run(["wipefs", "-n", "-p", path])
    if listed.code != 0:
        raise _failed(path, "wipefs", listed.text or "exit code %d" % listed.code)
    if asked.code not in (0, 2) or (asked.code == 2 and asked.text):
        raise _failed(path, "blkid", asked.text or "exit code %d" % asked.code)
    lines = [line.split(",")[-1] for line in listed.text.splitlines() if line and not line.startswith("#")]
    pairs = dict(line.partition("=")[::2] for line in asked.text.splitlines() if "=" in line)
    # Of a partition blkid also says where it lies, which is nothing that is on it.
    found = {name: text for name, text in pairs.items() if name != "DEVNAME" and not name.startswith("PART_ENTRY_")}
    if bool(lines) != bool(found):
        raise _failed(path, "blkid and wipefs", "%r against %r" % (asked.text, listed.text))
    if len(set(lines)) > 1:
        found["ALL"] = ", ".join(sorted(set(lines)))
    return found


def _read_ends(path: str) -> None:
    try:
        with open(path, "rb", buffering=0) as stream:
            size = stream.seek(0, os.SEEK_END)
            for start in (0, max(0, size - _READ)):
                stream.seek(start)
                if not stream.read(min(_READ, size)):
                    raise _failed(path, "reading", "nothing to read at %d of %d" % (start, size))
    except OSError as error:
        raise _failed(path, "reading", os.strerror(error.errno or 0)) from None


def shown(found: Dict[str, str]) -> str:
    """Return a signature as text."""
    words = ["%s %s" % (name, found[name]) for name in ("TYPE", "PTTYPE", "LABEL", "UUID", "ALL") if found.get(name)]
    return ", ".join(words) or ", ".join("%s %s" % item for item in sorted(found.items()))


def table() -> List[mounts.Mount]:
    """Return the mounts as this process sees them."""
    with open(os.path.join(MACHINE, "proc/self/mountinfo"), encoding="utf-8", errors="surrogateescape") as stream:
        return mounts.parse(stream.read())


def mounted_at(number: str) -> List[mounts.Mount]:
    """Return the mounts that lie on a device."""
    device = block.by_number(MACHINE, number)
    return [item for item in table() if item.device == number or (device and device in block.under(MACHINE, item))]


def in_use(path: str) -> List[Problem]:
    """Return who uses a device in any way; [] for nobody. Raises LdaptuneError where that cannot be told."""
    number = device_number(path)
    device = block.by_number(MACHINE, number)
    if device is None:
        raise _failed(path, "/sys/dev/block", "no %s" % number)
    found = [("it is mounted", item.point) for item in mounted_at(number)]
    found += [("it is used for swap", name) for name in _swaps() if _number_of(name) == number]
    found += [("another device is made of it", name) for name in block.holders(device)]
    found += [("a loop device lies on it", name) for name in _loops(number)]
    found += [("it has a partition", name) for name in block.partitions(device)]
    if block.text(device, "ro") == "1":
        found.append(("it is read-only", ""))
    if block.name(device).rstrip("0123456789") in _VOLATILE:
        found.append(("it is memory", ""))
    if not found:
        found += _opened(path, number)
    return [
        problem(
            "a filesystem is made on a device that nobody uses, and on no other",
            where=path,
            found="%s: %s" % item if item[1] else item[0],
            wanted="a blank device",
        )
        for item in found
    ]


def _opened(path: str, number: str) -> List[Tuple[str, str]]:
    """Return who has a device open, after a moment of patience."""
    deadline = time.monotonic() + _OPEN_SECONDS
    while True:
        found = [("a program has it open", pid) for pid in _openers(number)]
        try:
            # The kernel lets one user have a device for itself; mounts of any namespace, dm, md and swap are such.
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        except OSError as error:
            found.append(("the kernel does not give it to us alone", errno.errorcode.get(error.errno or 0, "")))
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def _number_of(path: str) -> str:
    try:
        return device_number(path)
    except LdaptuneError:
        return ""


def _swaps() -> List[str]:
    with open(os.path.join(MACHINE, "proc/swaps"), encoding="utf-8", errors="surrogateescape") as stream:
        return [mounts.plain(line.split()[0]) for line in stream.readlines()[1:] if line.split()]


def _loops(number: str) -> List[str]:
    """Return the loop devices whose file is this device: the kernel does not count them as holders."""
    found = []
    for path in glob.glob(os.path.join(MACHINE, "sys/block/loop*")):
        backing = block.text(path, "loop/backing_file")
        if backing and _number_of(backing) == number:
            found.append(os.path.basename(path))
    return found


def _openers(number: str) -> List[str]:
    """Return the processes that have a device open, as "pid 12 (name)"."""
    found = []
    for folder in glob.glob(os.path.join(MACHINE, "proc/[0-9]*/fd")):
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                with contextlib.suppress(OSError):
                    status = os.stat(os.path.join(folder, name))
                    if stat.S_ISBLK(status.st_mode) and _same(status.st_rdev, number):
                        top = os.path.dirname(folder)
                        found.append("pid %s (%s)" % (os.path.basename(top), block.text(top, "comm")))
                        break
    return found


def _same(rdev: int, number: str) -> bool:
    return "%d:%d" % (os.major(rdev), os.minor(rdev)) == number


def twins(path: str, tag: str, value: str) -> List[str]:
    """Return the other devices that have a LABEL or a UUID; those that this one is made of are not others."""
    done = run(["blkid", "-c", os.devnull, "-o", "device", "-t", "%s=%s" % (tag, value)])
    if done.code not in (0, 2):
        raise _failed(path, "blkid -t %s=%s" % (tag, value), done.text or "exit code %d" % done.code)
    own = block.by_number(MACHINE, device_number(path))
    family = _below(own) if own else []
    found = []
    for name in done.text.splitlines():
        other = block.by_number(MACHINE, _number_of(name))
        if other and other not in family and own not in _below(other):
            found.append(name)
    return found


def _below(device: str) -> List[str]:
    return [device] + [item for part in block.slaves(device) for item in _below(part)]
