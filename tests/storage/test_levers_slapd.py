# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage levers under a slapd that runs, its database on a filesystem of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ldaptune.lab.slapd import LabSlapd
from ldaptune.levers.context import open_context
from ldaptune.levers.registry import behaviour


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_under_a_running_slapd(kind, apart, loop, host, tools, short_dir, monkeypatch):
    tools.need("mkfs." + kind)
    device = loop()
    host.udev(device, ID_SERIAL="disk_1")
    point = short_dir / "m"
    host.fstab("%s %s %s defaults 0 0\n" % (device, point, kind))
    before = host.files()

    def body():
        tools.sh("mkfs." + kind, "-q", device)
        point.mkdir()
        tools.sh("mount", device, point)
        lab = LabSlapd(point / "lab", syslog=False)
        # A lab's slapd has mounts of its own otherwise, as it has again when it is restarted.
        monkeypatch.setattr("ldaptune.lab.launch.can_unshare", lambda: False)
        try:
            lab.build()
            lab.start()
            with open_context(lab.server) as ctx:
                ctx.root = str(host.tree)
                for key, wanted in (
                    ("storage.noatime", True), ("storage.read_ahead", 64), ("storage.scheduler", "mq-deadline"),
                ):  # fmt: skip
                    lever = behaviour(key)
                    seen = json.loads(json.dumps(lever.observe(ctx)))
                    assert seen["supported"], seen["reason"]
                    assert lever.check(ctx, seen, wanted) == []
                    process = ctx.slapd
                    lever.write(ctx, wanted)
                    assert lever.same(lever.observe(ctx), wanted)
                    assert (ctx.slapd != process) == (key == "storage.read_ahead")
                    assert ctx.answers()
                    assert lever.restore(ctx, seen["record"]) == []
                    assert lever.is_home(lever.observe(ctx), seen["record"])
                assert "has mounts of its own" in behaviour("storage.noatime").observe(ctx)["reason"]
                # What slapd has open lies on this very mount.
                assert str(point) in Path("/proc/%d/maps" % ctx.slapd.pid).read_text()
        finally:
            lab.destroy()

    apart(body)
    assert host.files() == before
