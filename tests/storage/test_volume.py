# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module volume on loop devices, with a fstab of the test's own, where nobody else sees its mounts."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

import pytest

KINDS = pytest.mark.parametrize("kind", ["xfs", "ext4", "btrfs"])
FSTAB = "# by hand\nUUID=0 / ext4 defaults 0 1\n"


@pytest.fixture
def volume(host, run_module, tools):
    """Call the module for /srv/ldap of the test's host: volume(device, kind="xfs", check=False, **options)."""
    tools.need("blkid", "wipefs", "mkfs.xfs")
    host.fstab(FSTAB)

    def call(device="", kind="xfs", check=False, **more):
        given = {"device": device, "path": "/srv/ldap", "fstype": kind, "root": str(host.tree), **more}
        return run_module("volume", given, check=check)

    return call


def done(result, *steps):
    assert not result.get("failed"), result
    assert (result["changed"], result["steps"]) == (bool(steps), list(steps))
    return result


def refused(result, *texts):
    assert result.get("failed"), result
    for text in texts:
        assert text in result["msg"]
    assert result["problems"]
    return result


def mounts_of(path):
    """Return (device, options) of every mount at a path."""
    table = Path("/proc/self/mountinfo").read_text().splitlines()
    rows = [line.split() for line in table]
    return [(row[row.index("-") + 2], row[5]) for row in rows if row[4] == str(path)]


def octets(device):
    """Return the digest of all that is on a device."""
    import hashlib

    return hashlib.sha256(Path(device).read_bytes()).hexdigest()


@KINDS
def test_made_mounted_owned_kept_and_taken_away(kind, apart, loop, host, volume, label, tools):
    tools.need("mkfs." + kind)
    device, other = loop(), {"xfs": "ro", "ext4": "nodev", "btrfs": "nosuid"}[kind]
    before = host.files()
    given = {"kind": kind, "label": label, "options": ["noatime", other], "owner": "12", "group": "13", "mode": "0750"}

    def body():
        steps = ["make", "mount", *(["cow"] if kind == "btrfs" else []), "own", "keep"]
        if other == "ro":
            given["options"].remove("ro")
        predicted = done(volume(device, check=True, **given), *steps)
        assert host.files() == before
        assert tools.sh("wipefs", "-n", "-p", device) == ""
        assert not (host.tree / "srv").exists()
        made = done(volume(device, **given), *steps)
        assert predicted["diff"]["after"] == made["diff"]["after"].replace(made["uuid"], "(made anew)")
        point = host.tree / "srv/ldap"
        status = point.stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (12, 13, 0o750)
        ((source, options),) = mounts_of(point)
        assert source == device
        assert set(given["options"]) <= set(options.split(","))
        line = "UUID=%s /srv/ldap %s %s 0 %d\n" % (
            made["uuid"], kind, ",".join(given["options"]), 2 if kind == "ext4" else 0)
        assert host.text("etc/fstab") == FSTAB + line
        seen = tools.sh("blkid", "-p", "-o", "export", device).splitlines()
        assert {"TYPE=" + kind, "LABEL=" + label, "UUID=" + made["uuid"]} <= set(seen)
        (point / "data.mdb").write_text("x")
        if kind == "btrfs":
            assert "C" in tools.sh("lsattr", point / "data.mdb").split()[0]
        # Again, and again by check: nothing to do, fstab not touched.
        stamp = (host.tree / "etc/fstab").stat()
        done(volume(device, **given))
        done(volume(device, check=True, **given))
        now = (host.tree / "etc/fstab").stat()
        assert (stamp.st_ino, stamp.st_mtime_ns) == (now.st_ino, now.st_mtime_ns)
        # What fstab makes of it is what we made: mounted by its line.
        tools.sh("umount", point)
        again = done(volume(device, **given), "mount")
        assert again["uuid"] == made["uuid"]
        (point / "data.mdb").read_text()
        # Away, and back with its files.
        away = done(volume(state="absent", check=True), "unmount", "forget")
        assert away["diff"]["after"] == FSTAB
        assert mounts_of(point)
        done(volume(state="absent"), "unmount", "forget")
        done(volume(state="absent"))
        assert not mounts_of(point)
        assert host.text("etc/fstab") == FSTAB
        assert not (host.tree / "srv").exists()
        back = volume(device, **given)
        assert back["steps"][0] == "mount"
        assert back["uuid"] == made["uuid"]
        assert (point / "data.mdb").read_text() == "x"
        done(volume(device, **given))
        done(volume(state="absent"), "unmount", "forget")
        # Ours, and all the same no other kind is made over it.
        other_kind = "ext4" if kind == "xfs" else "xfs"
        refused(volume(device, **{**given, "kind": other_kind}), "holds something already", "TYPE " + kind)
        refused(volume(device, **{**given, "label": label + "z"}), "holds something already", label)

    apart(body)
    assert host.text("etc/fstab") == FSTAB
    assert not (host.tree / "srv").exists()


def ext4(device, tools):
    tools.sh("mkfs.ext4", "-q", device)
    return "TYPE ext4"


def swap(device, tools):
    tools.need("mkswap")
    tools.sh("mkswap", device)
    return "TYPE swap"


def partition_table(device, tools):
    with open(device, "r+b") as stream:
        stream.seek(446)
        stream.write(bytes([0, 0, 0, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little"))
        stream.seek(510)
        stream.write(b"\x55\xaa")
    return "PTTYPE dos"


def lvm(device, tools, right=True):
    """A physical volume's label; its checksum is a CRC with a start of LVM's own."""
    body = (32).to_bytes(4, "little") + b"LVM2 001" + b"abcdefghijklmnopqrstuvwxyzabcdef"
    body += bytes(512 - 20 - len(body))
    checksum = zlib.crc32(body, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF if right else 0
    with open(device, "r+b") as stream:
        stream.seek(512)
        stream.write(b"LABELONE" + (1).to_bytes(8, "little") + checksum.to_bytes(4, "little") + body)
    return "LVM2_member"


def luks(device, tools):
    with open(device, "r+b") as stream:
        stream.write(b"LUKS\xba\xbe\x00\x01aes")
        stream.seek(168)
        stream.write(b"11111111-2222-4333-8444-555555555555")
    return "crypto_LUKS"


@pytest.mark.parametrize("put", [ext4, swap, partition_table, lvm, luks])
def test_what_holds_anything_is_refused_and_not_touched(put, apart, loop, host, volume, tools):
    device = loop(16)

    def body():
        said = put(device, tools)
        before, files = octets(device), host.files()
        refused(volume(device), "holds something already", said)
        refused(volume(device, check=True), said)
        # Of the same kind as well: a filesystem that is not ours is nobody's to take.
        refused(volume(device, kind="ext4"), said)
        assert octets(device) == before
        assert host.files() == files
        assert not (host.tree / "srv").exists()

    apart(body)


def test_what_only_one_of_them_sees_is_refused(apart, loop, volume, tools):
    """A label with a wrong checksum: blkid passes over it, wipefs does not."""
    device = loop(16)

    def body():
        lvm(device, tools, right=False)
        assert not tools.sh("blkid", "-p", device, check=False)
        refused(volume(device), "blkid and wipefs", "LVM2_member")

    apart(body)


def test_there_is_no_switch(volume, run_module):
    import yaml

    text = (Path(__file__).parents[2] / "library/volume.py").read_text()
    options = yaml.safe_load(text.split('DOCUMENTATION = r"""')[1].split('"""')[0])["options"]
    assert sorted(options) == sorted(
        ["state", "path", "device", "fstype", "label", "options", "owner", "group", "mode", "keep", "consent", "root"])
    core = Path(__file__).parents[2] / "module_utils/ldaptune/host"
    for path in core.glob("*.py"):
        for number, line in enumerate(path.read_text().splitlines()):
            assert not ("mkfs" in line and '"-f"' in line) and '"wipefs", "-a' not in line, (path, number)


@pytest.mark.parametrize("name, script, said", [
    ("blkid", "exit 8", "exit code 8"), ("blkid", "exit 4", "exit code 4"),
    ("blkid", "echo 'I/O error' >&2; exit 2", "I/O error"),
    ("blkid", "echo TYPE=xfs; exit 0", "blkid and wipefs"), ("wipefs", "exit 1", "exit code 1"),
    ("wipefs", "echo 0x0,,,xfs", "blkid and wipefs"), ("blkid", None, "cannot be run"),
])
def test_a_failed_probe_refuses(name, script, said, apart, loop, host, volume, monkeypatch):
    device = loop(16)
    folder = host.tree / "bin"
    folder.mkdir()
    for program in ("blkid", "wipefs", "mkfs.xfs"):
        if program != name:
            (folder / program).symlink_to(shutil.which(program))
        elif script is not None:
            (folder / program).write_text("#!/bin/sh\n%s\n" % script)
            (folder / program).chmod(0o755)

    def body():
        monkeypatch.setenv("PATH", str(folder))
        before = octets(device)
        refused(volume(device), said)
        assert octets(device) == before

    apart(body)


def test_a_device_that_cannot_be_read_or_is_none_is_refused(apart, host, volume, tmp_path):
    """blkid says "nothing" of a device that is not there."""

    def body():
        (tmp_path / "file").write_bytes(bytes(1 << 20))
        os.mknod(tmp_path / "gone", 0o60600, os.makedev(7, 250))
        refused(volume(str(tmp_path / "file")), "no block device")
        refused(volume(str(tmp_path / "nothing")), "No such file")
        refused(volume(str(tmp_path / "gone")), "could not be looked at")

    apart(body)


def test_a_device_that_is_used_is_refused(apart, loop, host, volume, tools, monkeypatch):
    device = loop(16)
    number = os.path.basename(device)

    def loop_on_it():
        top = tools.sh("losetup", "-f", "--show", device)
        return lambda: tools.sh("losetup", "-d", top)

    def open_plain():
        handle = os.open(device, os.O_RDONLY)
        return lambda: os.close(handle)

    def open_elsewhere_alone():
        """As mounts of other namespaces, dm and md have it: not to be seen, and the kernel knows."""
        handle = os.open(device, os.O_RDONLY | os.O_EXCL)
        monkeypatch.setattr("ansible.module_utils.ldaptune.host.blank._openers", lambda number: [])

        def end():
            monkeypatch.undo()
            os.close(handle)

        return end

    def machine(folder):
        """A /proc and a /sys of the test's own, as this machine cannot have them."""
        sysfs = host.tree / folder / "sys"
        (sysfs / "dev/block").mkdir(parents=True)
        (sysfs / "fake/holders").mkdir(parents=True)
        status = os.stat(device).st_rdev
        (sysfs / "dev/block" / ("%d:%d" % (os.major(status), os.minor(status)))).symlink_to("../../fake")
        monkeypatch.setattr("ansible.module_utils.ldaptune.host.blank.MACHINE", str(host.tree / folder))
        return host.tree / folder

    def holder():
        """A logical volume on it."""
        top = machine("held")
        (top / "sys/fake/holders/dm-3").mkdir()
        (top / "proc").symlink_to("/proc")
        return monkeypatch.undo

    def swapped():
        (machine("swap") / "proc/self").mkdir(parents=True)
        host.put("swap/proc/self/mountinfo", "")
        host.put("swap/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n%s partition 1024 0 -2\n" % device)
        return monkeypatch.undo

    def mounted():
        """A filesystem in use whose signature someone has wiped: nothing but the mount tells."""
        point = host.tree / "mnt"
        point.mkdir()
        tools.sh("mkfs.ext4", "-q", device)
        tools.sh("mount", device, point)
        tools.sh("wipefs", "-qaf", device)

        def end():
            tools.sh("umount", point)
            tools.sh("wipefs", "-qa", device)

        return end

    def read_only():
        tools.sh("blockdev", "--setro", device)
        return lambda: tools.sh("blockdev", "--setrw", device)

    def body():
        for use, said in (
            (loop_on_it, "a loop device lies on it"),
            (open_plain, "a program has it open: pid %d" % os.getpid()),
            (open_elsewhere_alone, "the kernel does not give it to us alone: EBUSY"),
            (holder, "another device is made of it: dm-3"),
            (read_only, "it is read-only"),
            (swapped, "it is used for swap: " + device),
            (mounted, "it is mounted: %s/mnt" % host.tree),
        ):
            volume(device, check=True)  # the module's names are there, and nothing else stands against it
            end = use()
            try:
                refused(volume(device), said)
            finally:
                end()
        done(volume(device, check=True), "make", "mount", "own", "keep")
        assert number not in host.text("etc/fstab")

    apart(body)


def test_partitions(apart, loop, host, volume, tools):
    """A disk with a partition is refused, its blank partition is a device as any other."""
    tools.need("addpart", "delpart")
    device = loop(700)
    with open(device, "r+b") as stream:
        stream.seek(446)
        stream.write(bytes([0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0]) + (1_000_000).to_bytes(4, "little"))
        stream.seek(510)
        stream.write(b"\x55\xaa")
    tools.sh("addpart", device, "1", "2048", "1000000")

    def body():
        refused(volume(device), "PTTYPE dos")
        done(volume(device + "p1"), "make", "mount", "own", "keep")
        done(volume(device + "p1"))
        done(volume(state="absent"), "unmount", "forget")
        # Without its table the kernel still knows the partition.
        with open(device, "r+b") as stream:
            stream.seek(446)
            stream.write(bytes(66))
        refused(volume(device), "it has a partition: %sp1" % os.path.basename(device))

    try:
        apart(body)
    finally:
        tools.sh("delpart", device, "1")


def test_names_that_another_device_has(apart, loop, host, volume, label, tools):
    first, second, third = loop(), loop(), loop()

    def body():
        tools.sh("mkfs.xfs", "-q", "-L", label, first)
        refused(volume(second, label=label), "another device has the same name", first, label)
        made = done(volume(second, label=label + "x"), "make", "mount", "own", "keep")
        # A copy of the disk, as a snapshot in the cloud is one.
        tools.sh("dd", "if=" + second, "of=" + third, "bs=4M", "conv=sparse,nocreat")
        refused(volume(second, label=label + "x"), "another device has the same name", third)
        refused(volume(second), "another device has the same name", third, made["uuid"])
        done(volume(state="absent"), "unmount", "forget")
        refused(volume(second, label=label + "x"), "another device has the same name", third)

    apart(body)


def test_a_moved_mount_point_does_not_leave_two_mounts(apart, loop, host, volume, tools):
    device = loop()

    def body():
        done(volume(device), "make", "mount", "own", "keep")
        before = host.text("etc/fstab")
        answer = refused(volume(device, path="/srv/new"), "mounted at another place", "/srv/ldap")
        assert "named for another place" in answer["msg"]
        assert host.text("etc/fstab") == before
        assert not (host.tree / "srv/new").exists()
        done(volume(state="absent"), "unmount", "forget")
        done(volume(device, path="/srv/new"), "mount", "keep")
        assert host.text("etc/fstab").count("UUID=") == 2
        assert not mounts_of(host.tree / "srv/ldap")
        done(volume(state="absent", path="/srv/new"), "unmount", "forget")

    apart(body)


def test_what_is_at_the_place_already(apart, loop, host, volume, tools, tmp_path):
    device, other = loop(), loop()
    point = host.tree / "srv/ldap"

    def body():
        point.mkdir(parents=True)
        (point / "data.mdb").write_text("a living database")
        refused(volume(device), "files that the mount would hide")
        (point / "data.mdb").unlink()
        tools.sh("mkfs.ext4", "-q", other)
        tools.sh("mount", other, point)
        refused(volume(device), "something else is mounted here", other)
        refused(volume(state="absent"), "not a volume that ldaptune made", other)
        tools.sh("umount", point)
        host.fstab(FSTAB + "/dev/nothing /srv/ldap xfs defaults 0 0\n")
        refused(volume(device), "something else of this host mounts here", "/dev/nothing")
        host.fstab(FSTAB + "%s /srv/other xfs defaults 0 0\n" % device)
        refused(volume(device), "named for another place", "/srv/other")
        host.fstab(FSTAB)
        point.rmdir()
        point.symlink_to(tmp_path)
        refused(volume(device), "a link on the way to it")
        point.unlink()
        for path in ("srv/ldap", "/srv/../x", "/", "/srv/ldap/"):
            refused(volume(device, path=path), "no place for a volume")
        assert tools.sh("wipefs", "-n", "-p", device) == ""

    apart(body)


def test_a_filesystem_that_is_mounted_there_by_hand_is_taken_as_it_is(apart, loop, host, volume, tools):
    device, point = loop(), host.tree / "srv/ldap"

    def body():
        tools.sh("mkfs.xfs", "-q", device)
        point.mkdir(parents=True)
        tools.sh("mount", device, point)
        (point / "data.mdb").write_text("x")
        done(volume(device, mode="0755"), "keep")
        done(volume(device, mode="0755"))
        done(volume(device, mode="0711"), "own")
        done(volume(state="absent"), "unmount", "forget")
        assert point.is_dir()  # it was there before us

    apart(body)
    assert host.text("etc/fstab") == FSTAB


@pytest.mark.parametrize("kind, options, consent, said", [
    ("xfs", ["nobarrier"], ["durability"], "this kernel would refuse the mount"),
    ("ext4", ["data=writeback"], [], "costs durability"), ("ext4", ["barrier=0"], [], "costs durability"),
    ("btrfs", ["nodatacow"], [], "costs durability"), ("xfs", ["noatime nosuid"], [], "no mount option"),
])
def test_options_are_refused_before_anything_is_made(kind, options, consent, said, apart, loop, host, volume, tools):
    device = loop()

    def body():
        refused(volume(device, kind=kind, options=options, consent=consent), said)
        assert tools.sh("wipefs", "-n", "-p", device) == ""
        assert not (host.tree / "var").exists()

    apart(body)


def test_what_is_consented_to_is_mounted(apart, loop, host, volume, tools):
    device = loop()

    def body():
        made = done(volume(device, kind="ext4", options=["data=writeback", "nofail"], consent=["durability"]),
                    "make", "mount", "own", "keep")
        assert made["notes"] == ["with nofail slapd may start without its volume, on an empty directory"]
        assert "data=writeback,nofail 0 2" in host.text("etc/fstab")
        refused(volume(device, kind="ext4", options=["nosuid"]), "kept with other options", "no nosuid")
        done(volume(state="absent"), "unmount", "forget")

    apart(body)


def test_a_mount_that_fails_leaves_no_line_and_the_next_call_goes_on(apart, loop, host, volume, tools):
    device = loop()

    def body():
        answer = refused(volume(device, options=["logbsize=77"]), "a step of making a volume failed", "mount")
        assert host.text("etc/fstab") == FSTAB
        assert not (host.tree / "srv").exists()
        uuid = [line for line in tools.sh("blkid", "-p", "-o", "export", device).splitlines() if line[:5] == "UUID="][0]
        assert "the same call goes on" in answer["msg"]
        made = done(volume(device), "mount", "keep")
        assert "UUID=" + made["uuid"] == uuid
        done(volume(state="absent"), "unmount", "forget")

    apart(body)


@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_cut_off_behind_the_making_the_next_call_goes_on(kind, apart, loop, host, volume, tools, monkeypatch):
    """What was made is known as ours, though nothing after it ever ran; without it a wipe would be the only way on."""
    tools.need("mkfs." + kind)
    device, point = loop(), host.tree / "srv/ldap"
    program = host.put("bin/mkfs." + kind, '#!/bin/sh\n%s "$@"\nexit 1\n' % shutil.which("mkfs." + kind))
    program.chmod(0o755)

    def body():
        with monkeypatch.context() as patch:
            patch.setenv("PATH", str(program.parent), prepend=os.pathsep)
            refused(volume(device, kind=kind), "a step of making a volume failed")
        assert not (host.tree / "srv").exists()
        done(volume(device, kind=kind, owner="12", mode="0750"), "mount", "keep")
        assert (point.stat().st_uid, point.stat().st_mode & 0o7777) == (12, 0o750)
        if kind == "btrfs":
            assert "C" in tools.sh("lsattr", "-d", point).split()[0]
        done(volume(device, kind=kind, owner="12", mode="0750"))
        done(volume(state="absent"), "unmount", "forget")
        # Something else is there by now: that it was our place once does not make it ours.
        tools.sh("mkdir", "-p", point)
        tools.sh("mount", "-t", "tmpfs", "none", point)
        refused(volume(state="absent"), "not a volume that ldaptune made", "tmpfs")
        assert mounts_of(point)

    apart(body)


def test_a_filesystem_that_cannot_be_made_leaves_nothing(apart, loop, host, volume):
    device = loop(8)  # too small for xfs
    (host.tree / "var/lib").mkdir(parents=True)
    before = host.files()
    apart(lambda: refused(volume(device), "mkfs.xfs"))
    assert host.files() == before


def test_a_fstab_that_cannot_be_written_leaves_no_mount(apart, loop, host, volume, tools):
    device = loop()

    def body():
        (host.tree / "etc/fstab").rename(host.tree / "etc/real")
        (host.tree / "etc/fstab").symlink_to("real")
        refused(volume(device), "fstab is a link")
        assert not mounts_of(host.tree / "srv/ldap")
        assert not (host.tree / "srv").exists()
        assert host.text("etc/real") == FSTAB

    apart(body)


def test_a_busy_volume_stays_as_it_is(apart, loop, host, volume):
    device = loop()

    def body():
        done(volume(device), "make", "mount", "own", "keep")
        before = host.text("etc/fstab")
        with (host.tree / "srv/ldap/data.mdb").open("w"):
            refused(volume(state="absent"), "in use, so nothing was changed", "busy")
        assert host.text("etc/fstab") == before
        assert mounts_of(host.tree / "srv/ldap")
        done(volume(state="absent"), "unmount", "forget")

    apart(body)


@pytest.mark.parametrize("text", ["", "# no newline at the end", "a /b xfs defaults 0 0\n\n\n", None])
def test_fstab_comes_back_octet_for_octet(text, apart, loop, host, volume):
    device = loop()
    path = host.tree / "etc/fstab"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
        path.chmod(0o600)

    def body():
        done(volume(device), "make", "mount", "own", "keep")
        assert text is None or path.stat().st_mode & 0o777 == 0o600
        # The lever storage.noatime, or a person, may have changed the options meanwhile.
        path.write_text(path.read_text().replace("xfs noatime", "xfs noatime,nosuid"))
        done(volume(device))
        done(volume(state="absent"), "unmount", "forget")

    apart(body)
    assert (path.read_text() if path.exists() else None) == text


def test_lines_that_came_after_ours_stay(apart, loop, host, volume):
    device = loop()

    def body():
        host.fstab("# no newline")
        done(volume(device), "make", "mount", "own", "keep")
        host.fstab(host.text("etc/fstab") + "tmpfs /x tmpfs defaults 0 0\n")
        done(volume(state="absent"), "unmount", "forget")
        assert host.text("etc/fstab") == "# no newline\ntmpfs /x tmpfs defaults 0 0\n"

    apart(body)


def test_kept_by_a_unit(apart, loop, host, volume, monkeypatch):
    device, before = loop(), host.files()

    def body():
        monkeypatch.setattr("ansible.module_utils.ldaptune.host.unit.run", None)  # systemd does not run here
        made = done(volume(device, keep="unit", path="/srv/my-ldap"), "make", "mount", "own", "keep")
        text = host.text("etc/systemd/system/srv-my\\x2dldap.mount")
        for line in ("What=/dev/disk/by-uuid/" + made["uuid"], "Where=/srv/my-ldap", "Type=xfs", "Options=noatime"):
            assert line + "\n" in text
        assert (host.tree / "etc/systemd/system/local-fs.target.requires/srv-my\\x2dldap.mount").resolve().is_file()
        assert host.text("etc/fstab") == FSTAB
        done(volume(device, keep="unit", path="/srv/my-ldap"))
        refused(volume(device, path="/srv/my-ldap"), "something else of this host mounts here", "x2dldap.mount")
        done(volume(state="absent", path="/srv/my-ldap"), "unmount", "forget")
        done(volume(state="absent", path="/srv/my-ldap"))

    apart(body)
    after = host.files()
    assert {name for name in set(after) - set(before) if not name.startswith("var")} == set()


def test_wrong_arguments(volume, tmp_path):
    assert "needs a device" in volume()["msg"]
    assert "no owner nobody-of-that-name" in volume("/dev/null", owner="nobody-of-that-name")["msg"]
    for mode in ("u=rwx", "0899", "7", "70000"):
        assert "octal" in volume("/dev/null", mode=mode)["msg"]


def test_a_directory_that_cannot_be_made_leaves_no_mount(apart, loop, host, volume, tools):
    device = loop()

    def body():
        (host.tree / "srv").write_text("a file")
        refused(volume(device), "no directory, or a link on the way")
        (host.tree / "srv").unlink()
        (host.tree / "srv").mkdir()
        tools.sh("chattr", "+i", host.tree / "srv")
        try:
            refused(volume(device), "a volume could not be made", "Operation not permitted")
        finally:
            tools.sh("chattr", "-i", host.tree / "srv")
        assert host.text("etc/fstab") == FSTAB
        assert not mounts_of(host.tree / "srv/ldap")

    apart(body)
