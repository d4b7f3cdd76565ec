# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both levers through plan, change, legs and the way home, as a run does it."""

from __future__ import annotations

import errno

import pytest
from ldaptune.apply import carry_out
from ldaptune.arm import Arms
from ldaptune.levers.registry import behaviour
from ldaptune.problems import LdaptuneError
from ldaptune.revert import go_home, plan_home
from ldaptune.snapshot import Identity, Store
from ldaptune.target import Target

IRQ, RPS = "nic.irq_cpus", "nic.rps_cpus"
NAMES = ["virtio2-config", "virtio2-input.0", "virtio2-output.0"]


@pytest.fixture
def card(host):
    host.systemd()
    host.irqbalance('IRQBALANCE_ARGS="--journal"\n')
    host.card("eth1", "0000:00:05.0", ["virtio5-input.0"], virtio="virtio5")
    return host.card("eth0", "0000:00:03.0", NAMES, virtio="virtio2")


@pytest.fixture
def store(tmp_path_factory):
    return Store(str(tmp_path_factory.mktemp("state")), Identity("machine", "ldap1", "/etc/slapd.d", ["dc=x"]))


def wishes(**values):
    levers = {
        key.replace("_", ".", 1): {"op": "value", "value": value, "why": "", "when_unsupported": "fail", "from": "p"}
        for key, value in values.items()
    }
    return {"name": "p", "digest": "d", "levers": levers, "excluded": [], "expect": {}}


PROFILE = wishes(nic_irq_cpus={"nic": "eth0", "cpus": "one"}, nic_rps_cpus={"nic": "eth0", "cpus": "0-2"})


def target_of(host, store):
    """A target as a fresh process has it: nothing remembered but what is on the disk."""
    return Target(host.ctx(), store, behaviour)


def states(rows):
    return {row["lever"]: (row["state"], row["reason"]) for row in rows}


def test_there_and_again_and_home(host, card, store):
    before = host.files()
    target = target_of(host, store)
    plan = target.plan(PROFILE, [], [])
    assert plan.problems == []
    assert plan.rows[0]["before"] == {"nic": "eth0", "cpus": "irqbalance"}
    carry_out(target, plan, PROFILE, "run-1")
    assert states(plan.rows) == {
        IRQ: ("applied", "irqbalance is told to leave them alone, and restarted"),
        RPS: ("applied", ""),
    }
    again = target_of(host, store).plan(PROFILE, [], [])
    assert [row["action"] for row in again.rows] == ["none", "none"]
    late = target_of(host, store)
    home = plan_home(late)
    go_home(late, home)
    assert home.problems == []
    assert home.complete()
    assert host.files() == before


def test_legs_flip_both_ways(host, card, store):
    target = target_of(host, store)
    done = carry_out(target, target.plan(PROFILE, [], []), PROFILE, "run-1", lambda step: None)
    for arm in ("as_found", "profile", "profile", "as_found"):
        target = target_of(host, store)
        arms = Arms(target, PROFILE, done.step["id"])
        assert sorted(arms.flips) == [IRQ, RPS]
        read = arms.read_back(arm, arms.set(arm))
        assert read["ok"], read
        assert Arms(target_of(host, store), PROFILE, done.step["id"]).read_back(arm)["ok"]
    # irqbalance moves them as found: that is as found, and no drift.
    host.put(str(host.tree / ("proc/irq/%d/smp_affinity_list" % card["virtio2-input.0"])), "2")
    assert Arms(target_of(host, store), PROFILE, done.step["id"]).read_back("as_found")["ok"]


def test_someone_else_s_move_is_drift_and_left_alone(host, card, store):
    target = target_of(host, store)
    carry_out(target, target.plan(PROFILE, [], []), PROFILE, "run-1")
    host.put(str(host.tree / ("proc/irq/%d/smp_affinity_list" % card["virtio2-input.0"])), "0")
    late = target_of(host, store)
    home = plan_home(late)
    go_home(late, home)
    assert {row["lever"]: row["state"] for row in home.rows} == {IRQ: "drifted", RPS: "applied"}
    assert host.asked(card["virtio2-input.0"]) == "0"
    assert home.problems[0]["found"] == "eth0: 3, in force eth0: input.0=0 output.0=3"


def test_a_card_that_was_renamed_bars_no_way_home(host, card, store):
    """The unit could not place it at this boot: that is no drift, and unit, program and lines go."""
    before, target = host.files(), target_of(host, store)
    carry_out(target, target.plan(PROFILE, [], []), PROFILE, "run-1")
    for mark in (host.tree / "run").glob("ldaptune-*"):
        mark.unlink()
    (host.tree / "sys/class/net/eth0").rename(host.tree / "sys/class/net/ens3")
    late = target_of(host, store)
    home = plan_home(late)
    go_home(late, home)
    assert home.complete(), home.problems
    assert "eth0 has no input.0, output.0 any more" in states(home.rows)[IRQ][1]
    assert host.files() == before


def test_a_host_that_got_more_cpus_goes_home(host, card, store):
    """`one` and `last` mean another CPU now; what was written then is ours all the same."""
    profile = wishes(nic_irq_cpus={"nic": "eth0", "cpus": "last"}, nic_rps_cpus={"nic": "eth0", "cpus": "1-last"})
    before, target = host.files(), target_of(host, store)
    carry_out(target, target.plan(profile, [], []), profile, "run-1")
    host.cpus = "0-7"
    assert [row["action"] for row in target_of(host, store).plan(profile, [], []).rows] == ["change", "change"]
    late = target_of(host, store)
    home = plan_home(late)
    go_home(late, home)
    assert home.complete(), home.problems
    assert host.files() == before


def test_a_failure_in_the_middle_is_undone(host, card, store):
    host.errors[card["virtio2-output.0"]] = [errno.ENOSPC]
    before, target = host.files(), target_of(host, store)
    with pytest.raises(LdaptuneError, match="no interrupt vector left") as failed:
        carry_out(target, target.plan(PROFILE, [], []), PROFILE, "run-1")
    assert "the host is as it was before this run" in str(failed.value)
    assert host.files() == before


def test_out_of_range_and_unsupported_stand_against_the_plan(host, card, store):
    profile = wishes(nic_irq_cpus={"nic": "eth0", "cpus": "4-19"}, nic_rps_cpus={"nic": "eth9", "cpus": "0"})
    problems = target_of(host, store).plan(profile, [], []).problems
    assert sorted(item["what"] for item in problems) == ["nic.rps_cpus is not supported here",
                                                         "these CPUs are not all there"]


def test_what_the_kernel_keeps_is_told_with_the_change(host, card, store):
    host.errors[card["virtio2-output.0"]] = errno.EIO
    target = target_of(host, store)
    plan = target.plan(PROFILE, [], [])
    carry_out(target, plan, PROFILE, "run-1")
    assert "left to the kernel, which manages them: output.0" in states(plan.rows)[IRQ][1]
    again = target_of(host, store).plan(PROFILE, [], [])
    assert states(again.rows)[IRQ] == ("unchanged", "left to the kernel, which manages them: output.0")
