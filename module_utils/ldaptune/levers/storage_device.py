# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The block devices under the database: read-ahead of the node under its mount, scheduler of the disks at the bottom.

Both are written to sysfs and kept by a udev rule of our own, keyed by a name that lasts, never by sdX.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Dict, List, Tuple

from ..host import block, files, mounts, tuned, udev
from ..host.mounts import Mount
from ..problems import LdaptuneError, Problem, problem
from .base import Observation, observation, unsupported
from .context import Context
from .host_lever import HostLever, place
from .storage import elsewhere, mount_of, mounts_of

_PAGE = os.sysconf("SC_PAGE_SIZE") // 1024
_ZFS = (
    "ZFS reads by plans of its own and caches a second time what mdb's map holds: keep its ARC small, record size 16K"
)


def sysfs_number(device: str, *paths: str) -> int | None:
    """Return the first of some files of a device that holds a number."""
    found = [block.text(device, path) for path in paths]
    return next((int(text) for text in found if text and text.isdigit()), None)


def choices(text: str) -> Tuple[str, List[str]]:
    """Return the scheduler in force and all on offer, of `none [mq-deadline] kyber`."""
    chosen = re.search(r"\[([^\]]+)\]", text)
    words = text.replace("[", " ").replace("]", " ").split()
    return chosen.group(1) if chosen else (words[0] if len(words) == 1 else ""), words


class DeviceLever(HostLever):
    """What both share. Record: {"devices": {name: what it was}, "keys": what udev finds them by, "file"}."""

    #: The file of sysfs, and what tuned calls it.
    attribute = ""
    tuned = ""

    def devices(self, ctx: Context, mount: Mount) -> Tuple[List[str], str]:
        """Return the devices to set, and why there are none."""
        raise NotImplementedError

    def value(self, device: str) -> Any:
        """Return what is in force on one device."""
        raise NotImplementedError

    def parse(self, text: str) -> Any:
        """Return the value that a rule's text means."""
        return text

    def file(self, ctx: Context) -> str:
        """Return where our rule lies."""
        return place(ctx, udev.path_of(self.key))

    def observe(self, ctx: Context) -> Observation:
        mount, reason = mount_of(ctx)
        if mount is None:
            return unsupported(reason)
        kept = files.record(self.file(ctx))
        if mounts.is_elsewhere(mount.kind):
            return observation({"devices": {}, "keys": [], "file": kept}, None, None, self.spec.effective)
        devices, reason = self.devices(ctx, mount)
        if not devices:
            return unsupported(mounts.no_disk(mount.kind) or (_ZFS if mount.kind == "zfs" else reason))
        found = {block.name(item): self.value(item) for item in devices}
        keys = self._keys(ctx, devices)
        text = udev.kept(files.text_of(kept) or "", keys, self.attribute) if keys else None
        record = {"devices": found, "keys": [list(key) for key in keys], "file": kept}
        values = set(found.values())
        seen = observation(
            record, None if text is None else self.parse(text), values.pop() if len(values) == 1 else None,
            self.spec.effective,
        )  # fmt: skip
        if not keys:
            seen["reason"] = "%s: lost at the next boot" % self._why_not_kept(ctx)
        elif seen["effective"] is None:
            seen["reason"] = ", ".join("%s on %s" % (value, name) for name, value in found.items())
        return seen

    @staticmethod
    def _keys(ctx: Context, devices: List[str]) -> List[udev.Key]:
        keys = [udev.lasting_key(ctx.root, item) for item in devices]
        return [key for key in keys if key] if all(keys) else []

    @staticmethod
    def _why_not_kept(ctx: Context) -> str:
        return "udev knows no lasting name of it" if udev.here(ctx.root) else "udev does not run here"

    def same(self, seen: Observation, wanted: Any) -> bool:
        kept = seen["configured"] == wanted or not seen["record"]["keys"]
        return bool(kept and seen["effective"] == wanted)

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        mount, _reason = mount_of(ctx)
        assert mount is not None
        found = elsewhere(ctx, mount)
        if found:
            return found
        later = udev.later(ctx.root, udev.path_of(self.key), self.attribute)
        over = [(path, value, "a udev rule read after ours") for path, value in later if value != str(wanted)]
        over += [(path, value, "tuned's active profile") for path, value in tuned.says(ctx.root, self.tuned)]
        return [
            problem(
                "%s sets this as well" % who,
                where=path,
                found=value,
                wanted=self.spec.type.show(wanted),
                do="Set it there, or take it out of that file, or put %s into tuning_exclude." % self.key,
            )
            for path, value, who in over
        ]

    def remarks(self, ctx: Context, seen: Observation, wanted: Any) -> List[str]:
        said = [] if seen["record"]["keys"] else [seen["reason"]]
        names = set(seen["record"]["devices"])
        mount, _reason = mount_of(ctx)
        for other in mounts_of(ctx):
            if mount and other.device != mount.device and names.intersection(self._names(ctx, other)):
                said.append("%s is on the same device" % other.point)
        return said[:4]

    def _names(self, ctx: Context, mount: Mount) -> List[str]:
        return [block.name(item) for item in self.devices(ctx, mount)[0]]

    def write(self, ctx: Context, wanted: Any) -> None:
        mount, _reason = mount_of(ctx)
        assert mount is not None
        devices, _reason = self.devices(ctx, mount)
        self._set(ctx, {block.name(item): wanted for item in devices})
        keys = self._keys(ctx, devices)
        if keys:
            files.install(self.file(ctx), udev.rules(keys, self.attribute, str(wanted)))
        self._take_effect(ctx)

    def restore(self, ctx: Context, record: Any) -> List[str]:
        files.put_back(record["file"])
        there = {name: value for name, value in record["devices"].items() if block.by_name(ctx.root, name)}
        self._set(ctx, there)
        self._take_effect(ctx)
        gone = sorted(set(record["devices"]) - set(there))
        return ["%s is no more, so nothing of it was set back" % ", ".join(gone)] if gone else []

    def is_home(self, seen: Observation, record: Any) -> bool:
        same = seen["record"]["devices"] == record["devices"]
        return bool(same and files.same(seen["record"]["file"], record["file"]))

    def _set(self, ctx: Context, values: Dict[str, Any]) -> None:
        for name, value in values.items():
            device = block.by_name(ctx.root, name)
            assert device is not None
            if self.value(device) == value:
                continue
            refused = ""
            try:
                with open(os.path.join(device, self.attribute), "w", encoding="ascii") as stream:
                    stream.write(str(value))
            except OSError as error:
                refused = os.strerror(error.errno or 0)
            now = self.value(device)
            if refused or now != value:
                raise LdaptuneError(
                    problem(
                        "the kernel did not take this value",
                        where="%s, %s" % (name, self.attribute),
                        found="%s%s" % (now, " (%s)" % refused if refused else ""),
                        wanted=str(value),
                    )
                )

    def _take_effect(self, ctx: Context) -> None:
        """Do what else the value needs."""


class ReadAhead(DeviceLever):
    """KiB of the node under the mount. An open file keeps what it was opened with, so slapd has to open it anew."""

    attribute = "queue/read_ahead_kb"
    tuned = "readahead"

    def devices(self, ctx: Context, mount: Mount) -> Tuple[List[str], str]:
        if mount.kind == "btrfs":
            return [], "btrfs reads ahead by a value of its own, whatever its devices say"
        found = [block.disk(item) for item in block.under(ctx.root, mount)]
        found = [item for item in found if self.value(item) is not None]
        return found, "%s (%s) lies on no block device of this host" % (mount.point, mount.kind)

    def value(self, device: str) -> Any:
        # Written to the queue, read from what files take it from when they are opened.
        return sysfs_number(device, "bdi/read_ahead_kb", self.attribute)

    def parse(self, text: str) -> Any:
        return int(text) if text.isdigit() else None

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        found = super().check(ctx, seen, wanted)
        if wanted % _PAGE:
            found.append(
                problem(
                    "the kernel counts read-ahead in pages",
                    where=self.key,
                    found="%d KiB" % wanted,
                    wanted="a multiple of %d KiB" % _PAGE,
                )
            )
        return found

    def remarks(self, ctx: Context, seen: Observation, wanted: Any) -> List[str]:
        said = super().remarks(ctx, seen, wanted)
        if "nordahead" in (ctx.wanted.get("database.env_flags") or ()):
            said.append("with nordahead the map is read without any")
        return said

    def _take_effect(self, ctx: Context) -> None:
        ctx.restart()


class Scheduler(DeviceLever):
    """The I/O scheduler of every disk at the bottom of the mount."""

    attribute = "queue/scheduler"
    tuned = "elevator"

    def devices(self, ctx: Context, mount: Mount) -> Tuple[List[str], str]:
        found: List[str] = []
        for device in block.under(ctx.root, mount):
            found.extend(item for item in block.leaves(device) if item not in found)
        if not found:
            return [], "%s (%s) lies on no block device of this host" % (mount.point, mount.kind)
        without = [block.name(item) for item in found if len(self._offer(item)) < 2]
        return ([], "%s has no scheduler to choose" % ", ".join(without)) if without else (found, "")

    @staticmethod
    def _offer(device: str) -> List[str]:
        return choices(block.text(device, "queue/scheduler") or "")[1]

    def value(self, device: str) -> Any:
        return choices(block.text(device, self.attribute) or "")[0]

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        found = super().check(ctx, seen, wanted)
        for name in seen["record"]["devices"]:
            offer = self._offer(block.by_name(ctx.root, name) or "")
            if wanted not in offer and not self._loadable(ctx, wanted):
                found.append(
                    problem(
                        "this kernel does not offer that scheduler",
                        where=name,
                        found=", ".join(offer),
                        wanted=wanted,
                        do="Choose another, or put %s into tuning_exclude." % self.key,
                    )
                )
        return found

    @staticmethod
    def _loadable(ctx: Context, scheduler: str) -> bool:
        """Return whether the kernel has it as a module, which it loads when it is asked for."""
        folder = "/lib/modules/%s/kernel/block" % ctx.host.get("kernel", "")
        return any(glob.glob(place(ctx, folder + "/" + name)) for name in (
            scheduler + ".ko*", scheduler + "-iosched.ko*"))  # fmt: skip
