# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume for a directory: a filesystem on a blank device, mounted, owned, kept; and taken away without a wipe.

There is no switch that makes one over anything. Which filesystems are ours is in this host's records, written before
they are made: after a crash, or after `absent`, the same call finds its own again and mounts it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid as uuids
from typing import Any, Dict, List

from .. import durable
from ..problems import LdaptuneError, problem
from . import blank, volume_keep
from .command import run
from .volume_plan import Found, Plan, Wish, plan

_RECORDS = "/var/lib/ldaptune/volumes"
_MAKE_SECONDS = 1800.0
_UUID_OPTION = {"xfs": ["-m", "uuid=%s"], "ext4": ["-U", "%s"], "btrfs": ["-U", "%s"]}
_OWN_FILES = ("lost+found",)


def _at(root: str, path: str) -> str:
    return os.path.join(root, path.lstrip("/"))


def _records(root: str) -> List[Dict[str, Any]]:
    folder = _at(root, _RECORDS)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = [durable.read_json(os.path.join(folder, name)) for name in names if name.endswith(".json")]
    return [item for item in found if item]


def _save(root: str, record: Dict[str, Any]) -> None:
    folder = _at(root, _RECORDS)
    durable.make_private(folder)
    durable.write_json(os.path.join(folder, record["uuid"] + ".json"), record)


def _strike(root: str, uuid: str) -> None:
    """Forget a filesystem that was never made, and the folders of the records where it was the only one."""
    folder = _at(root, _RECORDS)
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, uuid + ".json"))
        os.rmdir(folder)
        os.rmdir(os.path.dirname(folder))


def _remove_directories(root: str, names: List[str]) -> None:
    for name in reversed(names):
        with contextlib.suppress(OSError):  # somebody else's file is in it
            os.rmdir(_at(root, name))


def _named(wish: Wish, uuid: str) -> volume_keep.Volume:
    return volume_keep.Volume(wish.root, wish.way, uuid, wish.point, wish.kind, wish.options)


def _real(root: str, point: str) -> str:
    """Return a mount point as the mount table names it."""
    return os.path.realpath(_at(root, point))


def find(wish: Wish) -> Found:
    """Return what is there; raises LdaptuneError where it cannot be told for certain."""
    number = blank.device_number(wish.device)
    have = blank.signature(wish.device)
    point, real = _at(wish.root, wish.point), _real(wish.root, wish.point)
    here = [item for item in blank.table() if item.point == real]
    at = [wish.point if item.point == real else item.point for item in blank.mounted_at(number)]
    if len(here) > 1:
        raise LdaptuneError(
            problem("two mounts lie on one directory", where=wish.point, found=", ".join(m.source for m in here))
        )
    uuid = have.get("UUID", "")
    names = [wish.device, os.path.realpath(wish.device)] + (["LABEL=" + wish.label] if wish.label else [])
    twins = blank.twins(wish.device, "UUID", uuid) if uuid else []
    if wish.label:
        twins += [name for name in blank.twins(wish.device, "LABEL", wish.label) if name not in twins]
    mounted = os.stat(real) if here and wish.point in at else None
    return Found(
        signature=have,
        used=[] if have else blank.in_use(wish.device),
        known=any(item["uuid"] == uuid for item in _records(wish.root)),
        at=at,
        here="%s (%s)" % (here[0].source, here[0].kind) if here else "",
        folder="odd" if real != os.path.join(os.path.realpath(wish.root), wish.point.lstrip("/")) else _folder(point),
        kept=volume_keep.kept(_named(wish, uuid), names),
        lines=volume_keep.elsewhere(wish.root, uuid, wish.point, names[:2]),
        twins=twins,
        missing=[name for name in _programs(wish, have, bool(here)) if not shutil.which(name)],
        owner=(mounted.st_uid, mounted.st_gid) if mounted else None,
        mode=stat.S_IMODE(mounted.st_mode) if mounted else None,
        cow=_cow(real) if mounted and here[0].kind == "btrfs" else "",
    )


def _programs(wish: Wish, have: Dict[str, str], mounted: bool) -> List[str]:
    found = [] if have else ["mkfs." + wish.kind]
    found += ["chattr", "lsattr"] if wish.kind == "btrfs" else []
    return found + (["restorecon"] if _labelled() and not mounted else [])


def _labelled() -> bool:
    """Return whether SELinux is on: a new filesystem has no labels, and slapd may not enter it."""
    return os.path.exists(os.path.join(blank.MACHINE, "sys/fs/selinux/enforce"))


def _folder(path: str) -> str:
    if not os.path.lexists(path):
        above = os.path.dirname(path)
        while not os.path.lexists(above):
            above = os.path.dirname(above)
        return "missing" if os.path.isdir(above) else "odd"
    if not os.path.isdir(path):
        return "odd"
    return "full" if os.listdir(path) else "empty"


def _cow(path: str) -> str:
    done = run(["lsattr", "-d", path])
    if done.code == 0 and "C" in done.text.split()[0]:
        return "off"
    return "on" if not set(os.listdir(path)) - set(_OWN_FILES) else "late"


def present(wish: Wish, check: bool = False) -> Dict[str, Any]:
    """Make a volume be there; returns {"changed", "uuid", "steps", "notes", "diff"}.

    Raises LdaptuneError with every reason before anything is written. `check` says what would be done.
    """
    found = find(wish)
    todo = plan(wish, found, os.uname().release)
    if todo.problems:
        raise LdaptuneError(todo.problems)
    uuid = found.signature.get("UUID", "")
    before = volume_keep.text_of(wish.root)
    if todo.steps and not check:
        uuid = _Work(wish, found, uuid).carry_out(todo)
    after = volume_keep.text_of(wish.root)
    if check and "keep" in todo.steps and wish.way == "fstab":
        after += _named(wish, uuid or "(made anew)").line
    return {
        "changed": bool(todo.steps),
        "uuid": uuid,
        "steps": todo.steps,
        "notes": todo.notes,
        "diff": {"before": before, "after": after},
    }


class _Work:
    """One volume being made; what fails is taken back as far as it goes, but for the filesystem."""

    def __init__(self, wish: Wish, found: Found, uuid: str) -> None:
        self.wish = wish
        self.uuid = uuid or str(uuids.uuid4())
        self.path = _at(wish.root, wish.point)
        same = [item for item in _records(wish.root) if item["uuid"] == self.uuid]
        # A volume that was adopted had its directory before us.
        fresh: Dict[str, Any] = {"uuid": self.uuid, "kind": wish.kind, "label": wish.label, "kept": None, "dirs": []}
        self.record: Dict[str, Any] = {**fresh, **(same[0] if same else {}), "point": wish.point}
        self.directories: List[str] = []

    def carry_out(self, todo: Plan) -> str:
        """Take the steps; returns the UUID."""
        mounted = False
        try:
            for step in todo.steps:
                getattr(self, "_" + step)()
                mounted = mounted or step == "mount"
        except BaseException as error:
            self._give_up(todo, mounted)
            if isinstance(error, OSError):
                where, text = str(error.filename or self.wish.point), os.strerror(error.errno or 0)
                raise LdaptuneError(problem("a volume could not be made", where=where, found=text)) from error
            raise
        return self.uuid

    def _give_up(self, todo: Plan, mounted: bool) -> None:
        if mounted:
            run(["umount", "-n", self.path])
        _remove_directories(self.wish.root, self.directories)
        with contextlib.suppress(LdaptuneError):
            if "make" in todo.steps and not blank.signature(self.wish.device):
                _strike(self.wish.root, self.uuid)

    def _make(self) -> None:
        wish = self.wish
        # Before it is made: whoever is cut off behind this finds the filesystem as ours.
        _save(wish.root, self.record)
        options = [word % self.uuid if "%s" in word else word for word in _UUID_OPTION[wish.kind]]
        label = ["-L", wish.label] if wish.label else []
        # Looked at once more: what was blank a moment ago is to be blank now.
        again = blank.signature(wish.device)
        if again or blank.in_use(wish.device):
            found = blank.shown(again) or "someone uses it"
            raise LdaptuneError(problem("the device is not blank any more", where=wish.device, found=found))
        _done(["mkfs." + wish.kind, "-q", *options, *label, wish.device], _MAKE_SECONDS)
        now = blank.signature(wish.device)
        if (now.get("TYPE"), now.get("UUID"), now.get("LABEL", "")) != (wish.kind, self.uuid, wish.label):
            raise LdaptuneError(
                problem(
                    "the filesystem that was made is not the one that was asked for",
                    where=wish.device,
                    found=blank.shown(now),
                    wanted="TYPE %s, LABEL %s, UUID %s" % (wish.kind, wish.label, self.uuid),
                )
            )

    def _mount(self) -> None:
        wish = self.wish
        self._make_directories()
        options = ",".join(wish.options) or "defaults"
        _done(["mount", "-n", "-t", wish.kind, "-o", options, wish.device, self.path])
        real, on_it = _real(wish.root, wish.point), blank.mounted_at(blank.device_number(wish.device))
        if not any(item.point == real and item.kind == wish.kind for item in on_it):
            run(["umount", "-n", self.path])
            raise LdaptuneError(problem("the mount cannot be seen", where=wish.point, wanted=wish.device))
        if _labelled():
            _done(["restorecon", self.path])
        if wish.kind == "btrfs":
            self._cow()
        self._own()

    def _cow(self) -> None:
        if _cow(self.path) != "on":
            return
        _done(["chattr", "+C", self.path])
        if _cow(self.path) != "off":
            raise LdaptuneError(problem("copy on write was switched off, and is on", where=self.wish.point))

    def _own(self) -> None:
        os.chown(self.path, *self.wish.owner)
        os.chmod(self.path, self.wish.mode)

    def _keep(self) -> None:
        wish = self.wish
        kept = volume_keep.keep(_named(wish, self.uuid))
        self.record["kept"] = kept
        try:
            _save(wish.root, self.record)
        except BaseException:
            volume_keep.forget(wish.root, self.uuid, wish.point, kept)
            raise
        volume_keep.tell(wish.root)

    def _make_directories(self) -> None:
        missing: List[str] = []
        path = self.path
        while not os.path.isdir(path):
            missing.insert(0, path)
            path = os.path.dirname(path)
        for path in missing:
            os.mkdir(path)
            self.directories.append(os.path.relpath(path, self.wish.root))
            os.chmod(path, 0o755)  # noqa: S103 - root's own, so that slapd cannot write where the volume is not
        self.record["dirs"] = [*self.directories, *self.record["dirs"]]
        _save(self.wish.root, self.record)


def _done(command: List[str], seconds: float = 90.0) -> None:
    done = run(command, seconds)
    if done.code != 0:
        raise LdaptuneError(
            problem(
                "a step of making a volume failed",
                where=" ".join(command),
                found=done.text or "exit code %d" % done.code,
                do="Nothing was written over. What was made stays, and the same call goes on with it.",
            )
        )


def absent(root: str, point: str, check: bool = False) -> Dict[str, Any]:
    """Unmount a volume of ours and take its line or unit away; never wipes. Returns as `present` does.

    Raises LdaptuneError where what is mounted there is not ours, or is busy: then nothing was changed.
    """
    real = _real(root, point)
    here = [item for item in blank.table() if item.point == real]
    uuid = blank.signature(here[-1].source).get("UUID", "") if here and os.path.exists(here[-1].source) else ""
    before = volume_keep.text_of(root)
    ours = [item for item in _records(root) if item["point"] == point]
    mine = [item for item in ours if item["uuid"] == uuid] if here else ours
    if here and not mine or len(here) > 1:
        raise LdaptuneError(
            problem(
                "what is mounted here is not a volume that ldaptune made, so it stays",
                where=point,
                found=", ".join("%s (%s)" % (item.source, item.kind) for item in here),
                do="Unmount it by hand.",
            )
        )
    steps = ["unmount"] if here else []
    kept = [item for item in mine if item["kept"] and volume_keep.has(root, item["uuid"], point, item["kept"])]
    steps += ["forget"] if kept else []
    after = before
    for item in kept:
        if item["kept"]["way"] == "fstab":
            after = volume_keep.removed(after, item["uuid"], point, item["kept"]) or ""
    if steps and not check:
        _take_away(root, point, here, kept, mine)
        after = volume_keep.text_of(root)
    diff = {"before": before, "after": after}
    return {"changed": bool(steps), "uuid": mine[-1]["uuid"] if mine else "", "steps": steps, "notes": [], "diff": diff}


def _take_away(root: str, point: str, here: List[Any], kept: List[Dict[str, Any]], mine: List[Dict[str, Any]]) -> None:
    path = _at(root, point)
    if here:
        done = run(["umount", "-n", path])
        if done.code != 0:
            raise LdaptuneError(
                problem(
                    "the volume is in use, so nothing was changed",
                    where=point,
                    found=done.text,
                    do="Stop slapd and whatever else has files open there.",
                )
            )
    for item in kept:
        volume_keep.forget(root, item["uuid"], point, item["kept"])
    for item in mine:
        _remove_directories(root, item["dirs"])
        # What can be mounted again is still ours.
        _save(root, {**item, "kept": None, "dirs": []})
    if kept:
        volume_keep.tell(root)
