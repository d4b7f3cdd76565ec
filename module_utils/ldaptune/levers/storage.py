# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mount that holds the database, and access times on it."""

from __future__ import annotations

import os
from typing import Any, List, Tuple

from ..host import command, files, mount_keep, mounts, root, unit
from ..host import mount_options as words
from ..host.mounts import Mount
from ..problems import LdaptuneError, Problem, problem
from .base import Observation, observation, unsupported
from .context import Context
from .host_lever import HostLever, place

# What others keep here is cleaned, or told to be new, by when it was last read.
_BY_ACCESS = ("/tmp", "/var/tmp", "/home", "/var/mail", "/var/spool/mail")  # noqa: S108 - names, nothing is made there
_ZFS = "on ZFS it is a property of the dataset: zfs set atime=off; a record size of 16K suits mdb"


def mounts_of(ctx: Context) -> List[Mount]:
    """Return the mounts as slapd sees them; raises OSError where they cannot be read."""
    with open(place(ctx, "/proc/%d/mountinfo" % ctx.slapd.pid), encoding="utf-8", errors="surrogateescape") as stream:
        return mounts.parse(stream.read())


def resolved(ctx: Context, path: str) -> str:
    """Return a path with its links followed, as slapd means it."""
    return root.below(ctx.root, path)[len(ctx.root.rstrip("/")) :] or "/"


def mount_of(ctx: Context) -> Tuple[Mount | None, str]:
    """Return the mount that holds the database's directory, or None and why it cannot be told."""
    directory = str((ctx.database or {}).get("directory") or "")
    if not directory:
        return None, "this database has no directory of its own"
    try:
        found = mounts.holding(mounts_of(ctx), resolved(ctx, directory))
    except OSError as error:
        return None, "the mounts of slapd (pid %d) cannot be read: %s" % (ctx.slapd.pid, os.strerror(error.errno or 0))
    return found, "" if found else "no mount holds %s" % directory


def elsewhere(ctx: Context, mount: Mount) -> List[Problem]:
    """Return that mdb must not lie where it lies, as a problem; [] where it may."""
    if not mounts.is_elsewhere(mount.kind):
        return []
    return [
        problem(
            "mdb must not lie on this filesystem: its map and its locks need the memory and the kernel of one machine",
            where=str(ctx.database["directory"]),
            found="%s on %s" % (mount.kind, mount.point),
            wanted="xfs or ext4 on a device of this host",
            do="Move the database first; nothing here is worth tuning before.",
        )
    ]


def same_namespace(ctx: Context) -> bool:
    """Return whether slapd has our mounts; where it has others, a remount of ours would not be one of its."""
    try:
        ours, its = (os.readlink(place(ctx, "/proc/%s/ns/mnt" % pid)) for pid in ("self", ctx.slapd.pid))
    except OSError:
        return False
    return ours == its


class Noatime(HostLever):
    """noatime of one mount. Record: {"point", "options": of the mount, "keeper": see host/mount_keep.record}."""

    def observe(self, ctx: Context) -> Observation:
        mount, reason = mount_of(ctx)
        if mount is None:
            return unsupported(reason)
        reason = mounts.no_disk(mount.kind) or (_ZFS if mount.kind == "zfs" else "")
        if not reason and not same_namespace(ctx):
            reason = "slapd (pid %d) has mounts of its own (a unit with PrivateTmp, a container)" % ctx.slapd.pid
        keeper = mount_keep.keeper(ctx.root, mount.point, self.key)
        if not reason and not keeper.way:
            reason = "neither fstab nor a unit makes the mount %s, so nothing would bring it back" % mount.point
        if reason and not mounts.is_elsewhere(mount.kind):
            return unsupported(reason)
        effective = words.is_noatime(mount.options)
        # What the host keeps is ours to speak of only where it is what is in force.
        kept = words.is_noatime(mount_keep.in_force(keeper))
        record = {"point": mount.point, "options": list(mount.options), "keeper": mount_keep.record(keeper)}
        return observation(record, kept if kept == effective else None, effective, self.spec.effective)

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        mount, _reason = mount_of(ctx)
        assert mount is not None
        found = elsewhere(ctx, mount)
        if found:
            return found
        keeper = mount_keep.keeper(ctx.root, mount.point, self.key)
        if keeper.stands:
            found.append(
                problem(
                    "what makes this mount cannot be edited safely",
                    where=keeper.file,
                    found=keeper.stands,
                    wanted="one place that says the options of %s" % mount.point,
                    do="Set noatime there by hand, or put %s into tuning_exclude." % self.key,
                )
            )
        gone = words.gone(mount.kind, mount_keep.in_force(keeper), str(ctx.host.get("kernel", "")))
        found.extend(
            problem(
                "the next boot would stop at this mount, whatever is tuned",
                where=keeper.file,
                found=why,
                wanted="no %s" % option,
                do="Take the word out of the options of %s." % mount.point,
            )
            for option, why in gone
        )
        others = self._others(ctx, mount) if wanted else []
        if others:
            found.append(
                problem(
                    "this mount is not the database's alone, and others go by its access times",
                    where=mount.point,
                    found=", ".join(others),
                    wanted="a mount of its own for %s" % ctx.database["directory"],
                    do="Give the database a volume (module volume), or put %s into tuning_exclude: mdb reads through "
                    "its map, which touches access times once a start." % self.key,
                )
            )
        return found

    @staticmethod
    def _others(ctx: Context, mount: Mount) -> List[str]:
        if mount.point == "/":
            return ["the root filesystem"]
        seen = mounts_of(ctx)
        there = [path for path in _BY_ACCESS if os.path.isdir(place(ctx, path))]
        return [path for path in there if mounts.holding(seen, resolved(ctx, path)) == mount]

    def write(self, ctx: Context, wanted: Any) -> None:
        mount, _reason = mount_of(ctx)
        assert mount is not None
        if words.is_noatime(mount.options) != wanted:
            self._remount(ctx, mount, "noatime" if wanted else "relatime")
        mount_keep.keep(ctx.root, mount.point, self.key, wanted)
        self._tell(ctx)

    def restore(self, ctx: Context, record: Any) -> List[str]:
        remarks = mount_keep.put_back(ctx.root, record["point"], self.key, record["keeper"])
        mount, _reason = mount_of(ctx)
        if mount is None or mount.point != record["point"]:
            there = mount.point if mount else "no mount"
            return [*remarks, "the database lies on %s now, no more on %s" % (there, record["point"])]
        then = words.access_times(record["options"])
        if words.access_times(mount.options) != then:
            self._remount(ctx, mount, then)
        self._tell(ctx)
        return remarks

    def is_home(self, seen: Observation, record: Any) -> bool:
        now = seen["record"]
        kept, then = now["keeper"], record["keeper"]
        same = words.access_times(now["options"]) == words.access_times(record["options"])
        return bool(same and kept["options"] == then["options"]) and (
            then["file"] is None or kept["file"] is not None and files.same(kept["file"], then["file"])
        )

    def _remount(self, ctx: Context, mount: Mount, access: str) -> None:
        # "bind" keeps it to this mount, the source keeps fstab out of it: a plain remount would set the filesystem's
        # own options for every mount of it, and bring in whatever else fstab says by now.
        kept = [word for word in mount.options if word in words.OF_A_MOUNT]
        options = ",".join(["remount", "bind", *kept, access])
        done = command.run(["mount", "-n", "-o", options, mount.source, mount.point])
        now, _reason = mount_of(ctx)
        took = now is not None and words.access_times(now.options) == access
        if done.code == 0 and now and took and _but_access(now) == _but_access(mount):
            return
        raise LdaptuneError(
            problem(
                "the mount did not take its access times, or something else of it changed",
                where=mount.point,
                found="%s; %s" % (",".join(now.options) if now else "no mount", done.text or "mount says nothing"),
                wanted=",".join([*kept, access]),
            )
        )

    @staticmethod
    def _tell(ctx: Context) -> None:
        # systemd holds what it made of fstab; nothing depends on it before the next boot, so a leg can do without.
        if unit.here(ctx.root) and not ctx.switching:
            unit.reload()


def _but_access(mount: Mount) -> Tuple[Any, ...]:
    rest = frozenset(word for word in mount.options if word not in words.ATIME)
    return mount.point, mount.device, mount.root, rest, frozenset(mount.super_options)
