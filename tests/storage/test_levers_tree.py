# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage levers on trees of files shaped like a host's: LVM, partitions, units, others' rules."""

from __future__ import annotations

import os

import pytest
from ldaptune.levers.registry import behaviour
from ldaptune.levers.storage_device import choices

PID = 77
NOATIME, AHEAD, SCHEDULER = "storage.noatime", "storage.read_ahead", "storage.scheduler"
ROOT = "20 1 253:0 / / rw,relatime shared:1 - ext4 /dev/mapper/vg-root rw\n"
DATA = "30 20 253:1 / /srv/ldap rw,relatime shared:2 - xfs /dev/mapper/vg-ldap rw,attr2,inode64\n"


@pytest.fixture
def host(fake_host):
    """A host with LVM over two disks: sda3 and a whole nvme0n1 make vg-ldap, sda3 alone vg-root."""
    for pid in ("self", PID):
        fake_host.put("proc/%s/mountinfo" % pid, ROOT + DATA)
        (fake_host.tree / ("proc/%s/ns" % pid)).mkdir()
        (fake_host.tree / ("proc/%s/ns/mnt" % pid)).symlink_to("mnt:[4026531840]")
    disk(fake_host, "devices/pci/ata1/block/sda", "8:0", ahead=128, scheduler="[mq-deadline] none bfq")
    disk(fake_host, "devices/pci/ata1/block/sda/sda3", "8:3", partition=3)
    disk(fake_host, "devices/pci/nvme/block/nvme0n1", "259:0", ahead=256, scheduler="[none] mq-deadline kyber")
    disk(fake_host, "devices/virtual/block/dm-0", "253:0", ahead=128, slaves=["sda3"])
    disk(fake_host, "devices/virtual/block/dm-1", "253:1", ahead=4096, slaves=["nvme0n1", "sda3"])
    (fake_host.tree / "srv/ldap").mkdir(parents=True)
    lines = ("/dev/mapper/vg-root / ext4 defaults 0 1\n", "/dev/mapper/vg-ldap /srv/ldap/ xfs defaults 0 0\n")
    fake_host.put("etc/fstab", "".join(lines))
    known(fake_host, "8:0", ID_SERIAL="ATA_disk_1", ID_WWN="0x5")
    known(fake_host, "259:0", ID_SERIAL="nvme_2")
    known(fake_host, "253:1", DM_UUID="LVM-abc", ID_FS_UUID="u")
    return fake_host


def known(host, number, **properties):
    host.put("run/udev/data/b" + number, "".join("E:%s=%s\n" % item for item in properties.items()))


def disk(host, path, number, ahead=None, scheduler="", slaves=(), partition=0):
    name = os.path.basename(path)
    host.put("sys/%s/dev" % path, number + "\n")
    if partition:
        host.put("sys/%s/partition" % path, "%d\n" % partition)
    else:
        host.put("sys/%s/queue/read_ahead_kb" % path, "%d\n" % ahead)
        host.put("sys/%s/queue/scheduler" % path, (scheduler or "none") + "\n")
    for folder in ("dev/block", "class/block"):
        (host.tree / "sys" / folder).mkdir(parents=True, exist_ok=True)
    (host.tree / "sys/dev/block" / number).symlink_to("../../" + path)
    (host.tree / "sys/class/block" / name).symlink_to("../../" + path)
    for slave in slaves:
        where = host.tree / "sys" / path / "slaves" / slave
        where.parent.mkdir(exist_ok=True)
        where.symlink_to(os.path.realpath(host.tree / "sys/class/block" / slave))


def ctx_of(host, directory="/srv/ldap/db", kernel="6.1.0", **more):
    return host.ctx(directory, pid=PID, host={"kernel": kernel}, **more)


def words(items):
    return "\n".join(" ".join(str(part) for part in item.values()) for item in items)


def test_read_ahead_is_the_dm_nodes_and_not_its_legs(host):
    lever, ctx = behaviour(AHEAD), ctx_of(host)
    seen = lever.observe(ctx)
    assert seen["record"]["devices"] == {"dm-1": 4096}
    lever.write(ctx, 64)
    assert host.text("sys/devices/virtual/block/dm-1/queue/read_ahead_kb") == "64"
    assert host.text("sys/devices/pci/ata1/block/sda/queue/read_ahead_kb") == "128\n"
    assert 'ENV{DM_UUID}=="LVM-abc"' in host.text("etc/udev/rules.d/90-ldaptune-storage.read_ahead.rules")


def test_the_scheduler_is_that_of_all_disks_at_the_bottom(host):
    lever, ctx, before = behaviour(SCHEDULER), ctx_of(host), host.files()
    seen = lever.observe(ctx)
    assert seen["record"]["devices"] == {"nvme0n1": "none", "sda": "mq-deadline"}
    assert seen["effective"] is None
    assert seen["reason"] == "none on nvme0n1, mq-deadline on sda"
    assert not lever.same(seen, "none")
    assert lever.check(ctx, seen, "none") == []
    assert "/ is on the same device" in lever.remarks(ctx, seen, "none")
    # What the kernel does with a word, where a file keeps it.
    lever._set = lambda ctx, values: [host.put(_queue(host, name), "[%s] x" % value) for name, value in values.items()]
    lever.write(ctx, "none")
    now = lever.observe(ctx)
    assert lever.same(now, "none")
    rule = host.text("etc/udev/rules.d/90-ldaptune-storage.scheduler.rules")
    assert rule.count('ENV{DEVTYPE}=="disk", ENV{ID_SERIAL}=="') == 2
    assert 'ENV{ID_SERIAL}=="ATA_disk_1", ATTR{queue/scheduler}="none"' in rule
    lever.restore(ctx, seen["record"])
    assert lever.is_home(lever.observe(ctx), seen["record"])
    assert host.files() == before


def _queue(host, name):
    return os.path.relpath(os.path.realpath(host.tree / "sys/class/block" / name), host.tree) + "/queue/scheduler"


def test_a_rule_that_leaves_a_disk_out_does_not_count(host):
    path = "etc/udev/rules.d/90-ldaptune-storage.scheduler.rules"
    host.put(path, 'ENV{ID_SERIAL}=="nvme_2", ATTR{queue/scheduler}="none"\n')
    assert behaviour(SCHEDULER).observe(ctx_of(host))["configured"] is None


@pytest.mark.parametrize("text, found", [
    ("none [mq-deadline] kyber bfq", ("mq-deadline", ["none", "mq-deadline", "kyber", "bfq"])),
    ("none", ("none", ["none"])), ("[none] bfq", ("none", ["none", "bfq"])), ("", ("", [])),
])
def test_the_kernels_list(text, found):
    assert choices(text) == found


def test_a_disk_without_a_scheduler_is_said(host):
    host.put("sys/devices/pci/nvme/block/nvme0n1/queue/scheduler", "none\n")
    seen = behaviour(SCHEDULER).observe(ctx_of(host))
    assert (seen["supported"], seen["reason"]) == (False, "nvme0n1 has no scheduler to choose")


def test_a_scheduler_that_is_not_there_is_refused_unless_it_can_be_loaded(host):
    lever, ctx = behaviour(SCHEDULER), ctx_of(host)
    seen = lever.observe(ctx)
    assert "sda" in words(lever.check(ctx, seen, "kyber"))
    host.put("lib/modules/6.1.0/kernel/block/kyber-iosched.ko.xz", "")
    assert lever.check(ctx, seen, "kyber") == []


def test_other_owners_are_named(host):
    lever, ctx = behaviour(SCHEDULER), ctx_of(host)
    seen = lever.observe(ctx)
    rule = 'ACTION=="add", KERNEL=="sd*", ATTR{queue/scheduler}="bfq"\n'
    host.put("usr/lib/udev/rules.d/60-block.rules", rule)
    assert lever.check(ctx, seen, "none") == []
    host.put("usr/lib/udev/rules.d/99-disks.rules", rule)
    assert "99-disks.rules bfq none" in words(lever.check(ctx, seen, "none"))
    assert lever.check(ctx, seen, "bfq")[0]["what"] == "this kernel does not offer that scheduler"  # the nvme
    # /dev/null in /etc is how an admin switches a rule off.
    host.put("etc/udev/rules.d/99-disks.rules", '# ATTR{queue/scheduler}="bfq"\nATTR{queue/scheduler}=="bfq"\n')
    assert lever.check(ctx, seen, "none") == []
    host.put("etc/tuned/active_profile", "mine\n")
    host.put("etc/tuned/mine/tuned.conf", "[main]\ninclude=throughput-performance\n")
    host.put("usr/lib/tuned/throughput-performance/tuned.conf", "[disk]\nreadahead=>4096\nelevator = none\n")
    assert "tuned's active profile" in words(lever.check(ctx, seen, "none"))
    ahead = behaviour(AHEAD)
    assert ">4096" in words(ahead.check(ctx, ahead.observe(ctx), 64))


def test_names_that_do_not_last_are_no_key(host):
    known(host, "253:1", ID_PATH="pci-1", ID_SERIAL="a*b")
    seen = behaviour(AHEAD).observe(ctx_of(host))
    assert seen["record"]["keys"] == []
    assert seen["reason"] == "udev knows no lasting name of it: lost at the next boot"
    known(host, "253:1", ID_SERIAL="a*b", ID_FS_UUID="u-1")
    assert behaviour(AHEAD).observe(ctx_of(host))["record"]["keys"] == [["ID_FS_UUID", "u-1"]]


def test_a_disk_that_is_gone_on_the_way_home_is_said(host):
    lever, ctx = behaviour(AHEAD), ctx_of(host)
    seen = lever.observe(ctx)
    lever.write(ctx, 64)
    (host.tree / "sys/class/block/dm-1").unlink()
    assert lever.restore(ctx, seen["record"]) == ["dm-1 is no more, so nothing of it was set back"]
    assert not (host.tree / "etc/udev").exists()


@pytest.mark.parametrize("kind, source, said", [
    ("overlay", "overlay", "it lies in overlay, a layer"), ("tmpfs", "tmpfs", "is memory"),
    ("zfs", "tank/ldap", "record size"),
])
@pytest.mark.parametrize("key", [NOATIME, AHEAD, SCHEDULER])
def test_what_has_no_disk_of_its_own_is_unsupported(kind, source, said, key, host):
    host.put("proc/%d/mountinfo" % PID, ROOT + "30 20 0:50 / /srv/ldap rw,relatime - %s %s rw\n" % (kind, source))
    seen = behaviour(key).observe(ctx_of(host))
    assert not seen["supported"]
    assert said in seen["reason"]


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "ceph", "fuse.glusterfs", "9p", "fuse"])
@pytest.mark.parametrize("key, wanted", [(NOATIME, True), (AHEAD, 64), (SCHEDULER, "none")])
def test_mdb_on_a_remote_filesystem_is_a_problem_by_name(kind, key, wanted, host):
    host.put("proc/%d/mountinfo" % PID, ROOT + "30 20 0:50 / /srv/ldap rw,noatime - %s nas:/x rw\n" % kind)
    lever, ctx = behaviour(key), ctx_of(host)
    seen = lever.observe(ctx)
    assert seen["supported"]
    assert not lever.same(seen, wanted)
    assert "mdb must not lie on this filesystem" in words(lever.check(ctx, seen, wanted))
    assert "%s on /srv/ldap" % kind in words(lever.check(ctx, seen, wanted))


def test_noatime_on_the_root_filesystem_and_beside_others_is_refused(host):
    lever, ctx = behaviour(NOATIME), ctx_of(host, "/var/lib/ldap")
    seen = lever.observe(ctx)
    assert "the root filesystem" in words(lever.check(ctx, seen, True))
    assert lever.check(ctx, seen, False) == []
    var = "30 20 253:1 / /var rw,relatime - xfs /dev/x rw\n"
    for path in ("var/tmp", "tmp", "home"):
        (host.tree / path).mkdir(parents=True)
    host.put("proc/%d/mountinfo" % PID, ROOT + var)
    host.put("etc/fstab", "/dev/x /var xfs defaults 0 0\n")
    found = lever.check(ctx, lever.observe(ctx), True)
    assert [item["found"] for item in found] == ["/var/tmp"]
    host.put("proc/%d/mountinfo" % PID, ROOT + var + "31 30 0:9 / /var/tmp rw - tmpfs tmpfs rw\n")
    assert lever.check(ctx, lever.observe(ctx), True) == []


def test_a_line_that_stops_the_next_boot_is_refused(host):
    host.put("etc/fstab", "/dev/mapper/vg-ldap /srv/ldap xfs noatime,nobarrier 0 0\n")
    lever = behaviour(NOATIME)
    for kernel, count in (("5.14.0-70.el9", 1), ("4.18.0-553.el8", 0), ("6.1.0", 1)):
        ctx = ctx_of(host, kernel=kernel)
        found = lever.check(ctx, lever.observe(ctx), True)
        assert len(found) == count, kernel
        assert not count or "xfs takes no nobarrier from Linux 4.19 on" in words(found)


def test_what_nothing_keeps_is_unsupported_and_what_two_keep_is_refused(host):
    lever, ctx = behaviour(NOATIME), ctx_of(host)
    host.put("etc/fstab", "# /dev/x /srv/ldap xfs defaults 0 0\n")
    assert "neither fstab nor a unit makes the mount /srv/ldap" in lever.observe(ctx)["reason"]
    host.put("etc/fstab", "/dev/x /srv/ldap xfs defaults 0 0\n/dev/y /srv/ldap xfs noatime 0 0\n")
    assert "2 lines for /srv/ldap" in words(lever.check(ctx, lever.observe(ctx), True))
    (host.tree / "etc/fstab").rename(host.tree / "etc/real")
    (host.tree / "etc/fstab").symlink_to("real")
    host.put("etc/real", "/dev/x /srv/ldap xfs defaults 0 0\n")
    assert "it is a link" in words(lever.check(ctx, lever.observe(ctx), True))


@pytest.fixture
def remounted(monkeypatch, host):
    """Let a remount show in the tree's mountinfo, and note the commands."""
    from ldaptune.host import command

    ran = []

    def run(words, seconds=90.0):
        ran.append(list(words))
        if words[0] == "mount":
            access = words[3].split(",")[-1]
            text = host.text("proc/%d/mountinfo" % PID)
            for word in ("relatime", "noatime"):
                text = text.replace("/srv/ldap rw,%s " % word, "/srv/ldap rw,%s " % access)
            host.put("proc/%d/mountinfo" % PID, text)
        return command.Done(0, "")

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr("ldaptune.host.unit.run", run)
    return ran


def test_an_admins_unit_gets_a_drop_in_and_the_line_stays(host, remounted):
    (host.tree / "run/systemd/system").mkdir(parents=True)
    unit = "[Mount]\nWhat=/dev/mapper/vg-ldap\nWhere=/srv/ldap\nType=xfs\nOptions=nosuid,relatime\n"
    host.put("etc/systemd/system/srv-ldap.mount", unit)
    before = host.files()
    lever, ctx = behaviour(NOATIME), ctx_of(host)
    seen = lever.observe(ctx)
    lever.write(ctx, True)
    assert ["systemctl", "daemon-reload"] in remounted
    drop_in = "etc/systemd/system/srv-ldap.mount.d/90-ldaptune-storage.noatime.conf"
    assert host.text(drop_in).endswith("[Mount]\nOptions=nosuid,noatime\n")
    assert set(host.files()) - set(before) == {drop_in, os.path.dirname(drop_in)}
    assert lever.same(lever.observe(ctx), True)
    lever.restore(ctx, seen["record"])
    assert host.files() == before
    assert lever.is_home(lever.observe(ctx), seen["record"])
    host.put("etc/systemd/system/srv-ldap.mount.d/99-mine.conf", "[Mount]\nOptions=ro\n")
    assert "99-mine.conf says Options=ro after ours" in words(lever.check(ctx, lever.observe(ctx), True))


def test_a_unit_made_of_fstab_is_edited_as_its_line(host, remounted):
    (host.tree / "run/systemd/system").mkdir(parents=True)
    host.put("run/systemd/generator/srv-ldap.mount", "[Mount]\nWhere=/srv/ldap\nOptions=defaults\n")
    lever, ctx = behaviour(NOATIME), ctx_of(host, switching=True)
    lever.write(ctx, True)
    assert "/srv/ldap/ xfs defaults,noatime 0 0\n" in host.text("etc/fstab")
    # A leg does without telling systemd.
    assert [words[0] for words in remounted] == ["mount"]


def test_what_someone_else_wrote_into_the_line_stays(host, remounted):
    lever, ctx = behaviour(NOATIME), ctx_of(host)
    seen = lever.observe(ctx)
    lever.write(ctx, True)
    host.put("etc/fstab", host.text("etc/fstab").replace("defaults,noatime", "defaults,noatime,nosuid") + "new line\n")
    said = lever.restore(ctx, seen["record"])
    assert said == ["someone changed the options of /srv/ldap in /etc/fstab since: theirs stay"]
    assert host.text("etc/fstab").endswith("/srv/ldap/ xfs defaults,relatime,nosuid 0 0\nnew line\n")
    host.put("etc/fstab", "# empty\n")
    assert lever.restore(ctx, seen["record"]) == ["the line of /etc/fstab for /srv/ldap is gone, and stays so"]
