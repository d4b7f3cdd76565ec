# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mount tables, fstab and options as text."""

from __future__ import annotations

import pytest
from ldaptune.host import fstab, mount_keep, mount_options, mounts

TABLE = """20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
21 20 0:5 / /proc rw - proc proc rw
25 20 8:2 / /var rw,noatime shared:7 master:2 - xfs /dev/sda2 rw,attr2
26 25 8:3 / /var/lib/ldap rw,nosuid - ext4 /dev/sda3 rw
27 20 8:4 /sub /srv/my\\040data rw,relatime - btrfs /dev/sda4 rw,subvol=/sub
"""


def at(path, text=TABLE):
    found = mounts.holding(mounts.parse(text), path)
    return found and found.id


@pytest.mark.parametrize("path, mount", [
    ("/", 20), ("/etc", 20), ("/var", 25), ("/variable", 20), ("/var/lib", 25), ("/var/lib/ldap", 26),
    ("/var/lib/ldap/db", 26), ("/var/lib/ldap2", 25), ("/srv/my data/x", 27),
])
def test_the_mount_of_a_path(path, mount):
    assert at(path) == mount


def test_a_mount_that_another_hides_is_not_the_one():
    # Mounted on /var after /var/lib/ldap was: its point fits less well, and it is the one that is seen.
    assert at("/var/lib/ldap/db", TABLE + "40 25 8:9 / /var rw - xfs /dev/sda9 rw\n") == 40
    # Two on one point: the later one.
    assert at("/var/lib/ldap/db", TABLE + "41 26 8:9 / /var/lib/ldap rw - xfs /dev/sda9 rw\n") == 41
    assert at("/x", "") is None


def test_the_fields_of_a_mount():
    found = mounts.parse(TABLE)[-1]
    assert (found.device, found.root, found.point, found.kind) == ("8:4", "/sub", "/srv/my data", "btrfs")
    assert found.super_options == ("rw", "subvol=/sub")
    assert mounts.parse("nonsense\n1 2 3\n") == []


FSTAB = "# comment with /srv/x\n\x0c\nUUID=1\t/srv/my\\040data/ ext4\tdefaults,rw  0 2 # /srv/x\n/dev/sdb /srv/x xfs ro"


def test_one_field_is_edited_and_all_else_stays():
    entry = fstab.of_point(FSTAB, "/srv/my data")[0]
    assert (entry.source, entry.kind, entry.options) == ("UUID=1", "ext4", "defaults,rw")
    assert fstab.with_options(FSTAB, entry, "noatime") == FSTAB.replace("defaults,rw", "noatime")
    assert fstab.with_options(FSTAB, entry, entry.options) == FSTAB
    last = fstab.of_point(FSTAB, "/srv/x/")
    assert [item.options for item in last] == ["ro"]
    assert fstab.with_options(FSTAB, last[0], "rw") == FSTAB[:-2] + "rw"


def test_a_line_without_options_is_nobodys():
    assert fstab.entries("/dev/sdb /srv xfs\n#/dev/sdb /srv xfs ro 0 0\n") == []


@pytest.mark.parametrize("path", ["/srv/a b", "/srv/a\\b", "/srv/a\tb#", "/srv/\u00e4"])
def test_a_path_comes_back_from_its_field(path):
    line = "x %s xfs defaults 0 0\n" % fstab.escaped(path)
    assert fstab.of_point(line, path)


@pytest.mark.parametrize("text, on, off", [
    ("defaults", "defaults,noatime", "defaults"),
    ("noatime", "noatime", "relatime"),
    ("defaults,relatime,x=1", "defaults,noatime,x=1", "defaults,relatime,x=1"),
    ("strictatime,ro", "noatime,ro", "strictatime,ro"),
    ("noatime,relatime", "noatime", "noatime,relatime"),
    ('context="u:r,c1",nosuid', 'context="u:r,c1",nosuid,noatime', 'context="u:r,c1",nosuid'),
    ("", "noatime", ""),
])
def test_noatime_in_an_options_field(text, on, off):
    assert mount_options.with_noatime(text, True) == on
    assert mount_options.with_noatime(text, False) == off
    assert mount_options.is_noatime(on.split(","))
    assert not mount_options.is_noatime(off.split(","))


@pytest.mark.parametrize("kind, option, kernel, refused", [
    ("xfs", "nobarrier", "4.19.0", True), ("xfs", "barrier", "5.14.0-1.el9", True),
    ("xfs", "nobarrier", "4.18.0", False), ("xfs", "delaylog", "4.18.0", True),
    ("ext4", "nobarrier", "6.1.0", False), ("btrfs", "inode_cache", "5.10.9", False),
    ("btrfs", "inode_cache", "5.11.0", True), ("xfs", "logbsize=256k", "6.18.1", False),
    ("xfs", "nobarrier", "?", False),
])
def test_what_a_kernel_no_longer_takes(kind, option, kernel, refused):
    assert bool(mount_options.gone(kind, ["rw", option], kernel)) is refused


@pytest.mark.parametrize("kind, option, risky", [
    ("ext4", "data=writeback", True), ("ext4", "barrier=0", True), ("ext3", "data=writeback", True),
    ("ext4", "data=journal", False), ("ext4", "barrier=1", False), ("btrfs", "nodatacow", True),
    ("xfs", "noatime", False),
])
def test_what_costs_durability(kind, option, risky):
    assert bool(mount_options.risks(kind, [option])) is risky


@pytest.mark.parametrize("point, name", [
    ("/var/lib/ldap", "var-lib-ldap.mount"), ("/", "-.mount"), ("/srv/my data/", "srv-my\\x20data.mount"),
    ("/srv/a-b", "srv-a\\x2db.mount"), ("/.hidden/x.y", "\\x2ehidden-x.y.mount"), ("//a//b", "a-b.mount"),
])
def test_unit_names(point, name):
    assert mount_keep.unit_name(point) == name
