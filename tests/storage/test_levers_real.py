# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage levers on real filesystems: loop devices, mounted where nobody else sees them."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path

import pytest
from ldaptune.levers.registry import behaviour
from ldaptune.problems import LdaptuneError

KINDS = pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])


def mounted(tools, device, kind, folder, options):
    tools.sh("mkfs." + kind, "-q", device)
    point = folder / "data base"
    point.mkdir()
    tools.sh("mount", "-o", options, device, point)
    (point / "db").mkdir()
    return point


def line(point):
    """Return the options of the mount and of the filesystem, as findmnt shows them."""
    import subprocess

    return subprocess.run(
        ["findmnt", "-n", "-o", "VFS-OPTIONS,FS-OPTIONS", point], capture_output=True, text=True, check=True
    ).stdout.split()


@KINDS
def test_noatime_there_and_back(kind, apart, loop, host, tools, tmp_path):
    tools.need("mkfs." + kind, "findmnt")
    device = loop()
    field = str(tmp_path / "data base").replace(" ", "\\040")
    text = "# by hand\t\n\nUUID=0 /boot ext4 defaults 0 2\n%s\t%s   %s  nosuid,relatime\t0 0 # keep\nlast" % (
        device, field, kind)
    host.fstab(text).chmod(0o640)
    apart(_noatime_there_and_back, kind, device, host, tools, tmp_path)
    assert host.text("etc/fstab") == text
    assert (host.tree / "etc/fstab").stat().st_mode & 0o777 == 0o640
    assert sorted(host.files()) == ["etc/fstab"]


def _noatime_there_and_back(kind, device, host, tools, tmp_path):
    point = mounted(tools, device, kind, tmp_path, "nosuid,nodiratime")
    before, text = line(point), host.text("etc/fstab")
    lever, ctx = behaviour("storage.noatime"), host.ctx(point / "db")
    seen = lever.observe(ctx)
    assert (seen["supported"], seen["configured"], seen["effective"]) == (True, False, False)
    assert lever.check(ctx, seen, True) == []
    lever.write(ctx, True)
    now = lever.observe(ctx)
    assert lever.same(now, True)
    assert lever.lasts(ctx)
    changed = line(point)
    assert set(changed[0].split(",")) - {"noatime"} == set(before[0].split(",")) - {"relatime"}
    assert changed[1] == before[1]
    assert host.text("etc/fstab") == text.replace("nosuid,relatime", "nosuid,noatime")
    # Read for real: an access time that stays.
    probe = point / "db" / "x"
    probe.write_text("x")
    os.utime(probe, (1, 1))
    probe.read_text()
    assert probe.stat().st_atime == 1
    assert not lever.is_home(now, seen["record"])
    assert lever.restore(ctx, seen["record"]) == []
    assert line(point) == before
    assert lever.is_home(lever.observe(ctx), seen["record"])
    probe.read_text()
    assert probe.stat().st_atime > 1


def test_what_fstab_says_besides_is_not_brought_in(apart, loop, host, tools, tmp_path):
    """A plain remount takes fstab's other options along: noexec would be in force all of a sudden."""
    tools.need("mkfs.ext4", "findmnt")
    device = loop(32)
    host.fstab("%s %s ext4 noexec,strictatime 0 0\n" % (device, str(tmp_path / "data base").replace(" ", "\\040")))

    def body():
        point = mounted(tools, device, "ext4", tmp_path, "strictatime,commit=7")
        before = line(point)
        lever, ctx = behaviour("storage.noatime"), host.ctx(point / "db")
        seen = lever.observe(ctx)
        lever.write(ctx, True)
        assert line(point)[0] == "rw,noatime"
        assert line(point)[1] == before[1]
        lever.restore(ctx, seen["record"])
        assert line(point) == before

    apart(body)


def test_other_mounts_of_the_filesystem_stay(apart, loop, host, tools, tmp_path):
    """A plain remount would make the filesystem what this one mount of it is: read-only for all."""
    tools.need("mkfs.ext4", "findmnt")
    device, second = loop(32), tmp_path / "second"
    second.mkdir()
    host.fstab("%s %s ext4 bind 0 0\n" % (tmp_path / "x", second))

    def body():
        point = mounted(tools, device, "ext4", tmp_path, "defaults")
        tools.sh("mount", "--bind", point, second)
        tools.sh("mount", "-o", "remount,bind,ro,nosuid", second)
        before = line(point)
        lever, ctx = behaviour("storage.noatime"), host.ctx(second / "db")
        seen = lever.observe(ctx)
        lever.write(ctx, True)
        assert set(line(second)[0].split(",")) == {"ro", "nosuid", "noatime"}
        assert line(point) == before == ["rw,relatime", "rw"]
        lever.restore(ctx, seen["record"])
        assert set(line(second)[0].split(",")) == {"ro", "nosuid", "relatime"}

    apart(body)


def test_fstab_says_so_and_the_mount_does_not(apart, loop, host, tools, tmp_path):
    """The line has noatime and the live mount relatime: told from the kernel, and remounted."""
    tools.need("mkfs.ext4", "findmnt")
    device = loop(32)
    text = "%s %s ext4 noatime 0 0\n" % (device, str(tmp_path / "data base").replace(" ", "\\040"))
    host.fstab(text)

    def body():
        point = mounted(tools, device, "ext4", tmp_path, "defaults")
        lever, ctx = behaviour("storage.noatime"), host.ctx(point / "db")
        seen = lever.observe(ctx)
        assert (seen["configured"], seen["effective"]) == (None, False)
        assert not lever.same(seen, True)
        lever.write(ctx, True)
        assert lever.same(lever.observe(ctx), True)
        lever.restore(ctx, seen["record"])
        assert lever.holds(lever.observe(ctx), False)

    apart(body)
    assert host.text("etc/fstab") == text


def test_a_remount_that_is_refused_leaves_all_as_it_was(apart, loop, host, tools, tmp_path, monkeypatch):
    tools.need("mkfs.ext4", "findmnt")
    device = loop(32)
    text = "%s %s ext4 defaults 0 0\n" % (device, str(tmp_path / "data base").replace(" ", "\\040"))
    host.fstab(text)
    program = host.put("bin/mount", "#!/bin/sh\nexit 0\n")
    program.chmod(0o755)

    def body():
        point = mounted(tools, device, "ext4", tmp_path, "defaults")
        lever, ctx = behaviour("storage.noatime"), host.ctx(point / "db")
        # Exits 0 and does nothing.
        monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
        with pytest.raises(LdaptuneError, match="did not take its access times.*rw,relatime"):
            lever.write(ctx, True)

    apart(body)
    assert host.text("etc/fstab") == text


def test_a_slapd_with_mounts_of_its_own_is_refused(apart, loop, host, tools, tmp_path):
    tools.need("mkfs.ext4", "unshare")
    device = loop(32)
    host.fstab("%s %s ext4 defaults 0 0\n" % (device, str(tmp_path / "data base").replace(" ", "\\040")))

    def body():
        import subprocess

        point = mounted(tools, device, "ext4", tmp_path, "defaults")
        other = subprocess.Popen(["unshare", "-m", "sleep", "60"])
        try:
            deadline = time.monotonic() + 10
            ours = os.readlink("/proc/self/ns/mnt")
            while os.readlink("/proc/%d/ns/mnt" % other.pid) == ours:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            seen = behaviour("storage.noatime").observe(host.ctx(point / "db", pid=other.pid))
            assert not seen["supported"]
            assert "has mounts of its own" in seen["reason"]
            # What it reads from is the same disk all the same.
            assert behaviour("storage.read_ahead").observe(host.ctx(point / "db", pid=other.pid))["supported"]
        finally:
            other.kill()
            other.wait()

    apart(body)


@KINDS
@pytest.mark.parametrize("key, wanted, attribute", [
    ("storage.read_ahead", 64, "read_ahead_kb"), ("storage.scheduler", "mq-deadline", "scheduler"),
])
def test_devices_there_and_back(kind, key, wanted, attribute, apart, loop, host, tools, tmp_path):
    tools.need("mkfs." + kind)
    device = loop()
    host.udev(device, ID_SERIAL="disk_1", ID_FS_UUID="x")
    files = host.files()
    queue = Path("/sys/block", os.path.basename(device), "queue", attribute)
    before = queue.read_text()
    if "mq-deadline" not in Path("/sys/block", os.path.basename(device), "queue/scheduler").read_text():
        pytest.skip("loop devices have no scheduler here")

    def body():
        point = mounted(tools, device, kind, tmp_path, "defaults")
        lever, ctx = behaviour(key), host.ctx(point / "db")
        seen = lever.observe(ctx)
        if kind == "btrfs" and key == "storage.read_ahead":
            assert "btrfs reads ahead by a value of its own" in seen["reason"]
            return
        assert seen["configured"] is None
        assert lever.check(ctx, seen, wanted) == []
        lever.write(ctx, wanted)
        now = lever.observe(ctx)
        assert lever.same(now, wanted)
        assert lever.lasts(ctx)
        assert str(wanted) in queue.read_text()
        rule = host.text("etc/udev/rules.d/90-ldaptune-%s.rules" % key)
        assert 'ENV{ID_SERIAL}=="disk_1", ATTR{queue/%s}="%s"' % (attribute, wanted) in rule
        assert os.path.basename(device) not in rule
        lever.restore(ctx, seen["record"])
        assert lever.is_home(lever.observe(ctx), seen["record"])
        assert host.restarts == (2 if key == "storage.read_ahead" else 0)

    apart(body)
    assert queue.read_text() == before
    assert host.files() == files


def resident(descriptor):
    """Return how many pages are in memory after one fault in the middle of a file."""
    size = os.fstat(descriptor).st_size
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    seen = mmap.mmap(descriptor, size)
    assert seen[size // 2] == 1
    vector = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
    address = ctypes.addressof(ctypes.c_char.from_buffer(seen))
    found = [-1]
    # What is read ahead is still under way when the fault returns.
    while len(found) < 3 or found[-1] != found[-2]:
        time.sleep(0.05)
        assert ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), vector) == 0
        found.append(sum(page & 1 for page in vector))
    return found[-1]


def test_why_read_ahead_restarts_slapd(apart, loop, host, tools, tmp_path):
    """A file that is open keeps the read-ahead it was opened with: set live, it would change nothing for slapd."""
    tools.need("mkfs.ext4")
    device = loop(64)

    def body():
        point = mounted(tools, device, "ext4", tmp_path, "defaults")
        path = point / "db" / "data.mdb"
        path.write_bytes(b"\1" * (8 << 20))
        os.sync()
        lever, ctx = behaviour("storage.read_ahead"), host.ctx(point / "db")
        lever.write(ctx, 512)
        first = os.open(path, os.O_RDWR)
        lever.write(ctx, 16)
        assert host.restarts == 2
        second = os.open(path, os.O_RDWR)
        pages = mmap.PAGESIZE // 1024
        assert (resident(first), resident(second)) == (512 // pages, 16 // pages)
        assert behaviour("storage.read_ahead").spec.cost == "restart"

    apart(body)


def test_a_value_the_kernel_rounds_is_refused_before_and_told_after(apart, loop, host, tools, tmp_path):
    tools.need("mkfs.ext4")
    device = loop(32)

    def body():
        point = mounted(tools, device, "ext4", tmp_path, "defaults")
        lever, ctx = behaviour("storage.read_ahead"), host.ctx(point / "db")
        seen = lever.observe(ctx)
        odd = 4 * mmap.PAGESIZE // 1024 + 1
        assert [item["what"] for item in lever.check(ctx, seen, odd)] == ["the kernel counts read-ahead in pages"]
        with pytest.raises(LdaptuneError, match=r"found %d; wanted %d" % (odd - 1, odd)):
            lever.write(ctx, odd)
        assert host.restarts == 0

    apart(body)


def test_without_udev_it_is_live_alone(apart, loop, host, tools, tmp_path):
    tools.need("mkfs.ext4")
    device = loop(32)

    def body():
        point = mounted(tools, device, "ext4", tmp_path, "defaults")
        lever, ctx = behaviour("storage.read_ahead"), host.ctx(point / "db")
        seen = lever.observe(ctx)
        assert lever.remarks(ctx, seen, 64) == ["udev does not run here: lost at the next boot"]
        lever.write(ctx, 64)
        assert lever.same(lever.observe(ctx), 64)
        assert not lever.lasts(ctx)
        assert not (host.tree / "etc/udev").exists()

    apart(body)


def test_all_disks_of_a_btrfs_have_one_scheduler(apart, loop, host, tools, tmp_path):
    """The mount names one of them as its source."""
    tools.need("mkfs.btrfs")
    first, second = loop(), loop()
    queues = [Path("/sys/block", os.path.basename(item), "queue/scheduler") for item in (first, second)]
    if "mq-deadline" not in queues[0].read_text():
        pytest.skip("loop devices have no scheduler here")

    def body():
        tools.sh("mkfs.btrfs", "-q", "-d", "raid1", "-m", "raid1", first, second)
        point = tmp_path / "m"
        point.mkdir()
        tools.sh("mount", first, point)
        lever, ctx = behaviour("storage.scheduler"), host.ctx(point)
        lever.write(ctx, "mq-deadline")
        assert ["[mq-deadline]" in path.read_text() for path in queues] == [True, True]

    apart(body)
