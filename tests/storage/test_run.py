# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All storage levers through plan, change, legs and the way home, on a real filesystem."""

from __future__ import annotations

import pytest
from ldaptune.apply import carry_out
from ldaptune.arm import Arms
from ldaptune.levers.registry import behaviour
from ldaptune.revert import go_home, plan_home
from ldaptune.snapshot import Identity, Store
from ldaptune.target import Target

WANTED = {"storage.noatime": True, "storage.read_ahead": 64, "storage.scheduler": "mq-deadline"}
PROFILE = {
    "name": "p",
    "digest": "d",
    "levers": {
        key: {"op": "value", "value": value, "why": "", "when_unsupported": "fail", "from": "p"}
        for key, value in WANTED.items()
    },
    "excluded": [],
    "expect": {},
}


def states(rows):
    return {row["lever"]: row["state"] for row in rows}


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_there_and_again_legs_and_home(kind, apart, loop, host, tools, tmp_path):
    tools.need("mkfs." + kind)
    device, point = loop(), tmp_path / "m"
    host.udev(device, ID_SERIAL="disk_1")
    host.fstab("%s %s %s defaults 0 0\n" % (device, point, kind))
    before = host.files()
    store = Store(str(tmp_path / "state"), Identity("machine", "ldap1", "/etc/slapd.d", ["dc=x"]))

    def body():
        tools.sh("mkfs." + kind, "-q", device)
        point.mkdir()
        tools.sh("mount", device, point)
        (point / "db").mkdir()

        def fresh():
            return Target(host.ctx(point / "db"), store, behaviour)

        target = fresh()
        plan = target.plan(PROFILE, [], [])
        assert [item["what"] for item in plan.problems] == ["storage.read_ahead needs the consent restart"]
        plan = target.plan(PROFILE, ["restart"], [])
        assert plan.problems == []
        done = carry_out(target, plan, PROFILE, "run-1", lambda step: None)
        assert states(plan.rows) == dict.fromkeys(WANTED, "applied")
        assert [row["action"] for row in fresh().plan(PROFILE, ["restart"], []).rows] == ["none"] * 3
        for arm in ("as_found", "profile", "profile", "as_found"):
            arms = Arms(fresh(), PROFILE, done.step["id"])
            assert sorted(arms.flips) == sorted(WANTED)
            read = arms.read_back(arm, arms.set(arm))
            assert read["ok"], read
            assert (host.files() == before) == (arm == "as_found")
        late = fresh()
        home = plan_home(late)
        go_home(late, home)
        assert home.problems == []
        assert home.complete()

    apart(body)
    assert host.files() == before
