# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings, on a tree of files shaped like a host's."""

from __future__ import annotations

import types

import pytest
from ldaptune.levers.registry import behaviour
from ldaptune.levers.sysctl import read_order, settings
from ldaptune.problems import LdaptuneError


@pytest.fixture
def ctx(tmp_path):
    for name, value in (("swappiness", 60), ("dirty_background_bytes", 0), ("dirty_background_ratio", 10)):
        path = tmp_path / "proc/sys/vm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("%d\n" % value)
    return types.SimpleNamespace(root=str(tmp_path), tree=tmp_path)


def tree_of(path):
    return {
        str(item.relative_to(path)): item.read_bytes() if item.is_file() else None for item in sorted(path.rglob("*"))
    }


def test_written_kept_and_put_back_without_a_trace(ctx):
    lever, before = behaviour("sysctl.swappiness"), tree_of(ctx.tree)
    seen = lever.observe(ctx)
    assert (seen["configured"], seen["effective"]) == (None, 60)
    assert lever.holds(seen, 60)
    assert not lever.same(seen, 60)  # in force, but nothing of ours keeps it
    lever.write(ctx, 10)
    now = lever.observe(ctx)
    assert lever.same(now, 10)
    assert lever.lasts(ctx)
    assert "vm.swappiness = 10" in (ctx.tree / "etc/sysctl.d/90-ldaptune-swappiness.conf").read_text()
    lever.restore(ctx, seen["record"])
    after = tree_of(ctx.tree)
    assert {name: text and text.strip() for name, text in after.items()} == {
        name: text and text.strip() for name, text in before.items()
    }


def test_a_file_that_was_there_comes_back_octet_by_octet(ctx):
    path = ctx.tree / "etc/sysctl.d/90-ldaptune-swappiness.conf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"# \xff by hand\nvm.swappiness=30")
    path.chmod(0o640)
    lever = behaviour("sysctl.swappiness")
    seen = lever.observe(ctx)
    assert seen["configured"] == 30
    lever.write(ctx, 1)
    lever.restore(ctx, seen["record"])
    assert path.read_bytes() == b"# \xff by hand\nvm.swappiness=30"
    assert path.stat().st_mode & 0o7777 == 0o640
    assert lever.is_home(lever.observe(ctx), seen["record"])


def test_of_a_pair_the_other_one_comes_back(ctx):
    """Setting bytes makes the kernel forget the ratio; going back to bytes 0 must set the ratio again."""
    lever = behaviour("sysctl.dirty_background_bytes")
    seen = lever.observe(ctx)
    lever.write(ctx, 64 << 20)
    (ctx.tree / "proc/sys/vm/dirty_background_ratio").write_text("0\n")  # what the kernel does
    lever.restore(ctx, seen["record"])
    assert (ctx.tree / "proc/sys/vm/dirty_background_ratio").read_text() == "10"


def test_a_file_that_would_win_is_named(ctx):
    lever = behaviour("sysctl.swappiness")
    last = ctx.tree / "etc/sysctl.conf"
    last.parent.mkdir(parents=True)
    last.write_text("vm.swappiness = 40\n")
    early = ctx.tree / "usr/lib/sysctl.d/10-default.conf"
    early.parent.mkdir(parents=True)
    early.write_text("vm.swappiness = 50\n")
    found = lever.check(ctx, lever.observe(ctx), 10)
    assert [item["where"] for item in found] == [str(last)]
    assert found[0]["found"] == "vm.swappiness = 40"
    assert lever.check(ctx, lever.observe(ctx), 40) == []
    last.write_text("# vm.swappiness = 40\n")
    assert lever.check(ctx, lever.observe(ctx), 10) == []


def test_a_name_in_a_heavier_folder_hides_the_other(ctx):
    for folder in ("etc", "usr/lib"):
        path = ctx.tree / folder / "sysctl.d/99-x.conf"
        path.parent.mkdir(parents=True)
        path.write_text("vm.swappiness = 1\n")
    assert [path for path in read_order(ctx.root) if path.endswith("99-x.conf")] == [
        str(ctx.tree / "etc/sysctl.d/99-x.conf")
    ]


def test_what_the_kernel_does_not_have_or_refuses(ctx):
    assert not behaviour("sysctl.numa_balancing").observe(ctx)["supported"]
    (ctx.tree / "proc/sys/vm/swappiness").unlink()
    (ctx.tree / "proc/sys/vm/swappiness").mkdir()
    with pytest.raises(LdaptuneError, match="the kernel refuses this value"):
        behaviour("sysctl.swappiness").write(ctx, 10)
    assert not (ctx.tree / "etc").exists()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("vm.swappiness=1", "vm.swappiness"),
        ("-vm.swappiness = 1", "vm.swappiness"),
        ("vm/swappiness = 1", "vm.swappiness"),
        ("net/ipv4/conf/eth0.1/forwarding = 1", "net.ipv4.conf.eth0/1.forwarding"),
    ],
)
def test_spellings(line, name):
    assert settings("# a\n; b = 2\n\n%s\nnonsense\n" % line) == {name: "1"}
