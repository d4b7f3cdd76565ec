# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arms: both by the same path, read back, counters at the right moment, drift never overwritten."""

from __future__ import annotations

import pytest
from ldaptune import tuning_leg, watchdog
from ldaptune.problems import LdaptuneError
from ldaptune.tuning import applied, reverted
from ldaptune.tuning_leg import arm_finished, arm_started

WANTED = {"slapd.log_level": 32768, "database.max_readers": 200, "slapd.threads": 32, "slapd.thread_queues": 1}
FLIPS = ["slapd.log_level", "slapd.threads", "slapd.thread_queues"]


@pytest.fixture
def resolved(profile):
    return profile(WANTED)


@pytest.fixture
def measured(target, server, resolved, consent, monkeypatch, watched):
    """A target with the profile applied, whose watchdog is only noted."""
    arm = watchdog.arm
    monkeypatch.setattr(tuning_leg, "figures", lambda slapd: server.events.append("figures") or {"pid": 1})
    monkeypatch.setattr(
        watchdog, "arm", lambda *how, **more: server.events.append("watchdog %d" % how[3]) or arm(*how, **more)
    )
    applied(target, resolved, consent=consent, watch_seconds=60)
    server.events.clear()
    return target


def written(server):
    return [line.split()[1] for line in server.events if line.split()[0] in ("write", "restore")]


def test_every_flip_is_written_in_both_arms_and_holds_in_neither(measured, server, resolved):
    for arm in ("as_found", "as_found", "profile", "profile"):
        server.events.clear()
        assert arm_started(measured, resolved, arm, 60)["readback"]["ok"]
        assert sorted(written(server)) == sorted(FLIPS)
    assert server.values["database.max_readers"] == 200


def test_what_is_as_wanted_already_restarts_nothing(target, server, profile, consent, watched):
    """Consent to a restart was not asked for, as nothing changes: then there must be none."""
    resolved = profile({"slapd.log_level": 32768, "slapd.listener_threads": 1})
    applied(target, resolved, consent=consent, watch_seconds=60)
    server.events.clear()
    for arm in ("as_found", "profile"):
        start = arm_started(target, resolved, arm, 60)
        assert start["readback"]["ok"]
        assert start["readback"]["levers"]["slapd.listener_threads"]["state"] == "unchanged"
    assert set(written(server)) == {"slapd.log_level"}


def test_the_arms_are_what_they_say(measured, server, resolved):
    start = arm_started(measured, resolved, "as_found", 60)
    assert not start["changed"] and start["arm"] == "as_found"
    assert server.values["slapd.log_level"] == 256 and "slapd.threads" not in server.values
    levers = start["readback"]["levers"]
    assert levers["slapd.threads"] == {"wanted": None, "configured": None, "effective": 16, "state": "applied"}
    assert levers["database.max_readers"]["state"] == "unchanged"
    levers = arm_started(measured, resolved, "profile", 60)["readback"]["levers"]
    assert levers["slapd.threads"] == {"wanted": 32, "configured": 32, "effective": 32, "state": "applied"}


def test_a_lever_that_is_equal_in_both_arms_goes_home_as_it_was(measured, server, resolved):
    arm_started(measured, resolved, "profile", 60)
    assert server.values.get("slapd.thread_queues") == 1
    arm_started(measured, resolved, "as_found", 60)
    assert "slapd.thread_queues" not in server.values
    arm_started(measured, resolved, "profile", 60)
    assert reverted(measured)["complete"] and "slapd.thread_queues" not in server.values


def test_counters_come_last_at_the_start_and_first_at_the_finish(measured, server, resolved, monkeypatch):
    lever = type(measured.behaviour("slapd.threads"))
    observe = lever.observe
    monkeypatch.setattr(lever, "observe", lambda self, ctx: ctx.events.append("read") or observe(self, ctx))
    arm_started(measured, resolved, "profile", 60)
    assert server.events[0:1] == ["read"] and server.events[-2:] == ["counters", "figures"]
    server.events.clear()
    arm_finished(measured, resolved, "profile")
    assert server.events[:2] == ["figures", "counters"] and set(server.events[2:]) == {"read"}


def test_the_watchdog_is_renewed_before_the_first_flip(measured, server, resolved):
    arm_started(measured, resolved, "profile", 77)
    assert server.events[0] == "watchdog 77" and server.events[1].startswith(("write", "restore"))


def test_nothing_is_flipped_without_a_watchdog(measured, server, resolved, watched):
    watched.append(measured.store)
    with pytest.raises(LdaptuneError, match="no watchdog"):
        arm_started(measured, resolved, "as_found", 0)
    assert written(server) == []


def test_a_finish_writes_nothing(measured, server, resolved, tree, tmp_path):
    arm_started(measured, resolved, "profile", 60)
    files = tree(tmp_path)
    server.events.clear()
    assert arm_finished(measured, resolved, "profile")["readback"]["ok"]
    assert written(server) == [] and tree(tmp_path) == files


@pytest.mark.parametrize("arm", ["as_found", "profile"])
def test_a_hand_change_in_a_leg_is_drift_and_stays(measured, server, resolved, arm):
    arm_started(measured, resolved, arm, 60)
    server.values["slapd.threads"] = 7
    finish = arm_finished(measured, resolved, arm)["readback"]
    assert not finish["ok"] and finish["levers"]["slapd.threads"]["state"] == "drifted"
    assert "cn=other" in finish["levers"]["slapd.threads"]["reason"]
    for other in ("profile", "as_found"):
        start = arm_started(measured, resolved, other, 60)["readback"]
        assert not start["ok"] and start["levers"]["slapd.threads"]["state"] == "drifted"
        assert start["levers"]["slapd.log_level"]["state"] == "applied"
        assert server.values["slapd.threads"] == 7


def test_a_hand_change_of_a_held_lever_is_drift(measured, server, resolved):
    arm_started(measured, resolved, "profile", 60)
    server.values["database.max_readers"] = 150
    levers = arm_finished(measured, resolved, "profile")["readback"]["levers"]
    assert levers["database.max_readers"]["state"] == "drifted"


def test_the_other_arms_value_set_by_hand_in_a_leg_is_drift(measured, server, resolved):
    arm_started(measured, resolved, "profile", 60)
    server.values["slapd.log_level"] = 256
    assert arm_finished(measured, resolved, "profile")["readback"]["levers"]["slapd.log_level"]["state"] == "drifted"


def test_a_value_that_does_not_take_is_failed(measured, server, resolved):
    server.mute.add("slapd.threads")
    start = arm_started(measured, resolved, "as_found", 60)["readback"]
    assert not start["ok"] and start["levers"]["slapd.threads"]["state"] == "failed"


def test_live_only_and_unsupported_leave_a_leg_valid(measured, server, resolved):
    server.lost.add("slapd.log_level")
    server.unsupported["slapd.thread_queues"] = "not here"
    start = arm_started(measured, resolved, "profile", 60)["readback"]
    assert start["ok"]
    assert start["levers"]["slapd.log_level"]["state"] == "live_only"
    assert start["levers"]["slapd.thread_queues"]["reason"] == "not here"


def test_at_least_looks_at_what_was_found_in_either_arm(measured, server, profile, consent):
    wanted = profile({"slapd.threads": ("at_least", 8), "slapd.log_level": 32768})
    reverted(measured)
    server.values["slapd.threads"] = 20
    applied(measured, wanted, consent=consent, watch_seconds=60)
    for arm in ("as_found", "profile", "as_found"):
        assert arm_started(measured, wanted, arm, 60)["readback"]["levers"]["slapd.threads"]["wanted"] == 20
        assert server.values["slapd.threads"] == 20


def test_at_least_does_not_take_the_profile_s_value_for_what_was_found(measured, server, profile, consent):
    wanted = profile({"slapd.threads": ("at_least", 32)})
    reverted(measured)
    applied(measured, wanted, consent=consent, watch_seconds=60)
    for arm, value in (("profile", 32), ("profile", 32), ("as_found", None), ("profile", 32)):
        assert arm_started(measured, wanted, arm, 60)["readback"]["levers"]["slapd.threads"]["wanted"] == value
        assert server.values.get("slapd.threads") == value


def test_a_leg_cannot_finish_on_a_host_that_was_brought_home(measured, resolved):
    arm_started(measured, resolved, "profile", 60)
    reverted(measured)
    with pytest.raises(LdaptuneError, match="brought home"):
        arm_finished(measured, resolved, "profile")


def test_excluded_levers_are_not_touched(measured, server, resolved):
    resolved["excluded"] = ["slapd.threads"]
    start = arm_started(measured, resolved, "as_found", 60)
    assert "slapd.threads" not in start["readback"]["levers"] and server.values["slapd.threads"] == 32


class Sampler:
    """What a started sampler is to the leg."""

    def __init__(self, events):
        self.events = events

    def release(self):
        self.events.append("sampler begins")


def test_the_sampler_is_ready_before_the_counters_and_begins_behind_them(measured, server, resolved, monkeypatch):
    events = server.events

    def begin(target, seconds):
        events.append("sampler ready for %d s" % seconds)
        return Sampler(events), ""

    monkeypatch.setattr(tuning_leg.leg_sampler, "begin", begin)
    start = arm_started(measured, resolved, "profile", 60, sample=True)
    assert events[-4:] == ["sampler ready for 60 s", "counters", "figures", "sampler begins"]
    assert start["sampler"] == "started"
    events.clear()
    monkeypatch.setattr(tuning_leg.leg_sampler, "finish", lambda target: events.append("sampler ends") or {"schema": 1})
    finish = arm_finished(measured, resolved, "profile", sample=True)
    # slapd's CPU time is read first, and what the sampler sent is known before the counters are.
    assert events[:3] == ["figures", "sampler ends", "counters"] and finish["sample"] == {"schema": 1}


def test_a_leg_that_could_not_be_sampled_is_a_leg(measured, resolved, monkeypatch):
    def refuse(*how, **more):
        raise LdaptuneError({"what": "no room"})

    for name in ("Subject", "start", "stop"):
        monkeypatch.setattr(tuning_leg.leg_sampler, name, refuse)
    start = arm_started(measured, resolved, "profile", 60, sample=True)
    assert start["readback"]["ok"] and start["sampler"] == "no room"
    finish = arm_finished(measured, resolved, "profile", sample=True)
    assert finish["readback"]["ok"] and finish["sample"] == {"reason": "no room"}


def test_nobody_is_sampled_unasked(measured, resolved, monkeypatch):
    monkeypatch.setattr(tuning_leg, "leg_sampler", None)
    for result in (arm_started(measured, resolved, "profile", 60), arm_finished(measured, resolved, "profile")):
        assert "sampler" not in result and "sample" not in result
