# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""As found is as found by this run: a host that kept profile A is measured against A, and goes back to A."""

from __future__ import annotations

import contextlib
import copy

import pytest
from ldaptune import durable, watchdog_process
from ldaptune.problems import LdaptuneError
from ldaptune.tuning import Refused, applied, audited, reverted
from ldaptune.tuning_leg import arm_finished, arm_started
from ldaptune.watchdog_process import Watchdog

A = {"slapd.log_level": 32768, "slapd.threads": 32, "slapd.idle_timeout": 300}
B = {"slapd.log_level": 0, "slapd.threads": 64, "slapd.write_timeout": 9, "slapd.thread_queues": 1}


@pytest.fixture
def virgin(server):
    return copy.deepcopy(server.values)


@pytest.fixture
def kept(virgin, target, server, profile, consent, watched):
    """A host that kept profile A; the values it has since."""
    server.spelling["slapd.threads"] = "as it was spelled"
    applied(target, profile(A, "a"), consent=consent, owner="run-a")
    return copy.deepcopy(server.values)


@pytest.fixture
def measured(kept, target, server, profile, consent):
    """Profile B is applied and being measured."""
    return applied(target, profile(B, "b"), consent=consent, owner="run-b", watch_seconds=60)


def test_the_first_arm_is_the_kept_profile(measured, kept, target, server, profile):
    start = arm_started(target, profile(B, "b"), "as_found", 60, owner="run-b")["readback"]
    assert start["ok"] and server.values == dict(kept, **{"slapd.write_timeout": 9}), "held levers stay as applied"
    assert start["levers"]["slapd.threads"]["wanted"] == 32
    assert arm_finished(target, profile(B, "b"), "as_found", owner="run-b")["readback"]["ok"]
    assert arm_started(target, profile(B, "b"), "profile", 60, owner="run-b")["readback"]["ok"]
    assert {key: server.values[key] for key in B} == B and server.values["slapd.idle_timeout"] == 300


def test_at_least_looks_at_the_kept_profile(kept, target, server, profile, consent):
    wanted = profile({"slapd.threads": ("at_least", 24)}, "b")
    applied(target, wanted, consent=consent, owner="run-b", watch_seconds=60)
    for arm in ("profile", "as_found", "profile"):
        assert arm_started(target, wanted, arm, 60, owner="run-b")["readback"]["ok"]
        assert server.values["slapd.threads"] == 32


@pytest.mark.parametrize("arm", [None, "as_found", "profile"])
def test_a_failed_run_goes_back_to_the_kept_profile(
    measured, kept, virgin, target, server, store, profile, consent, arm
):
    if arm:
        arm_started(target, profile(B, "b"), arm, 60, owner="run-b")
    home = reverted(target, owner="run-b")
    assert home["complete"] and server.values == kept and store.active() is None
    # The way home from A is what it was.
    (origin,) = store.open_snapshots()
    assert origin["profile"]["name"] == "a" and origin["applied"]["name"] == "a"
    assert set(A) == {key for key, entry in origin["levers"].items() if entry["wrote"]}
    again = applied(target, profile(A, "a"), consent=consent)
    assert not again["changed"] and set(again["states"].values()) == {"unchanged"}
    assert "drifted" not in audited(target, profile(A, "a"))["states"].values()
    assert reverted(target)["complete"] and server.values == virgin and store.origin() is None


def test_the_step_is_told_and_leads_there_by_name_too(measured, kept, target, server, store):
    assert measured["step"]["id"] == store.names()[1] and measured["step"]["path"].endswith(".json")
    assert measured["snapshot"]["id"] == store.names()[0]
    assert reverted(target, measured["step"]["id"])["complete"] and server.values == kept


def test_rollback_without_a_name_goes_to_before_all(measured, virgin, target, server, store):
    assert reverted(target)["complete"] and server.values == virgin and store.open_snapshots() == []


def test_the_watchdog_goes_back_to_the_kept_profile(measured, kept, target, server, store, monkeypatch):
    monkeypatch.setattr(watchdog_process, "POLL_SECONDS", 0.01)
    store.set_active(dict(store.active(), deadline_monotonic=0))
    Watchdog(store, store.active()["token"], lambda how: target).run()
    assert server.values == kept and store.active() is None
    assert store.origin()["profile"]["name"] == "a" and len(store.open_snapshots()) == 1
    home = reverted(target, owner="run-b")
    assert home["complete"] and not home["changed"] and "reverted" in home["lines"][0] and server.values == kept


def test_a_failure_while_applying_goes_back_to_the_kept_profile(kept, target, server, store, profile, consent, refuse):
    server.breaks["slapd.threads"] = refuse("no threads today")
    with pytest.raises(Refused):
        applied(target, profile(B, "b"), consent=consent, owner="run-b", watch_seconds=60)
    assert server.values == kept and store.active() is None
    server.breaks.clear()
    home = reverted(target, owner="run-b")
    assert home["complete"] and not home["changed"] and server.values == kept
    assert [item["profile"]["name"] for item in store.open_snapshots()] == ["a"]


def test_a_run_that_changed_nothing_takes_nothing_back(kept, target, server):
    home = reverted(target, owner="run-b")
    assert home["complete"] and not home["changed"] and server.values == kept
    assert home["lines"] == ["nothing to undo: this run changed nothing here"]


def test_a_first_run_that_goes_back_closes_the_origin(virgin, target, server, store, profile, consent, watched):
    applied(target, profile(A, "a"), consent=consent, owner="run-a", watch_seconds=60)
    arm_started(target, profile(A, "a"), "profile", 60, owner="run-a")
    assert reverted(target, owner="run-a")["complete"]
    assert server.values == virgin and store.open_snapshots() == []


def test_keeping_after_an_as_found_leg_is_the_same_step(measured, kept, target, server, store, profile, consent):
    arm_started(target, profile(B, "b"), "as_found", 60, owner="run-b")
    last = applied(target, profile(B, "b"), consent=consent, owner="run-b")
    assert last["changed"] and last["step"]["id"] == measured["step"]["id"] and len(store.names()) == 2
    assert server.values["slapd.threads"] == 64 and store.active() is None
    assert reverted(target, owner="run-b")["complete"] and server.values == kept


def test_a_run_without_a_name_renews_what_it_found(kept, target, server, store, profile, consent):
    for _ in range(2):
        applied(target, profile(B, "b"), consent=consent, watch_seconds=60)
        arm_started(target, profile(B, "b"), "profile", 60)
    arm_started(target, profile(B, "b"), "as_found", 60)
    assert server.values["slapd.threads"] == 32
    applied(target, profile(B, "b"), consent=consent)
    assert len(store.names()) == 2 and reverted(target, store.names()[1])["complete"] and server.values == kept


def test_a_failure_while_keeping_leaves_the_step_for_the_way_back(
    measured, kept, target, server, store, profile, consent, refuse
):
    arm_started(target, profile(B, "b"), "as_found", 60, owner="run-b")
    server.values["slapd.write_timeout"] = 9
    server.breaks["slapd.threads"] = lambda key, value: refuse() if value == 64 else None
    with pytest.raises(Refused):
        applied(target, profile(B, "b"), consent=consent, owner="run-b")
    assert store.active() is not None, "the watchdog stays until the host is home"
    assert reverted(target, owner="run-b")["complete"] and server.values == kept


def test_measured_against_itself_both_arms_are_the_kept_profile(kept, target, server, store, profile, consent):
    result = applied(target, profile(A, "a"), consent=consent, owner="run-2", watch_seconds=60)
    assert not result["changed"]
    for arm in ("as_found", "profile", "as_found"):
        assert arm_started(target, profile(A, "a"), arm, 60, owner="run-2")["readback"]["ok"]
        assert server.values == kept
    assert reverted(target, owner="run-2")["complete"] and server.values == kept
    assert len(store.open_snapshots()) == 1


def test_what_a_person_set_before_the_run_is_found_and_stays_theirs(kept, target, server, profile, consent):
    server.values["slapd.threads"] = 7
    applied(target, profile(B, "b"), consent=consent, owner="run-b")
    assert reverted(target, owner="run-b")["complete"] and server.values["slapd.threads"] == 7
    home = reverted(target)
    assert home["states"]["slapd.threads"] == "drifted" and server.values["slapd.threads"] == 7


def test_a_lever_the_run_gave_back_is_found_afresh_by_the_next(kept, virgin, target, server, profile, consent):
    applied(target, profile(B, "b"), consent=consent, owner="run-b")
    reverted(target, owner="run-b")
    server.values["slapd.write_timeout"] = 5
    applied(target, profile(B, "b"), consent=consent, owner="run-c")
    assert reverted(target)["complete"]
    assert server.values == dict(virgin, **{"slapd.write_timeout": 5})


def test_a_map_that_had_to_stay_is_still_ours(kept, target, server, store, profile, consent):
    applied(target, profile({"database.max_size": 1 << 31}, "b"), consent=consent, owner="run-b")
    server.remarks["database.max_size"] = "it stays"
    home = reverted(target, owner="run-b")
    assert home["complete"] and "it stays" in home["lines"][0]
    server.remarks.clear()
    assert reverted(target)["complete"] and server.values["database.max_size"] == 1 << 30


def test_a_person_s_change_in_the_run_is_left_alone_and_keeps_the_step(measured, target, server, store):
    server.values["slapd.threads"] = 7
    home = reverted(target, owner="run-b")
    assert home["states"]["slapd.threads"] == "drifted" and not home["complete"]
    assert server.values["slapd.log_level"] == 32768 and len(store.open_snapshots()) == 2
    server.values["slapd.threads"] = 64
    assert reverted(target, owner="run-b")["complete"] and server.values["slapd.threads"] == 32


@pytest.mark.parametrize("reached_server", [True, False])
@pytest.mark.parametrize("arm", ["as_found", "profile"])
def test_a_crash_in_a_leg_is_recoverable(measured, kept, target, server, profile, crash, arm, reached_server):
    def die(key, value):
        if reached_server:
            server.values[key] = value
        raise crash

    server.breaks["slapd.threads"] = die
    with pytest.raises(crash):
        arm_started(target, profile(B, "b"), arm, 60, owner="run-b")
    server.breaks.clear()
    assert reverted(target, owner="run-b")["complete"] and server.values == kept


@pytest.mark.parametrize("moment", range(12))
def test_a_crash_on_the_way_back_is_recoverable(
    measured, kept, virgin, target, server, store, profile, consent, crash, moment, monkeypatch
):
    """The process ends at each of its records in turn."""
    write, left = durable.write_json, [moment]

    def die(path, data):
        if not left[0]:
            raise crash
        left[0] -= 1
        write(path, data)

    monkeypatch.setattr(durable, "write_json", die)
    with contextlib.suppress(crash):
        reverted(target, owner="run-b")
    monkeypatch.setattr(durable, "write_json", write)
    assert reverted(target, owner="run-b")["complete"] and server.values == kept
    assert not applied(target, profile(A, "a"), consent=consent)["changed"]
    assert reverted(target)["complete"] and server.values == virgin


def test_a_watchdog_that_does_not_start_leaves_no_step(
    kept, target, server, store, profile, consent, monkeypatch, refuse
):
    def fail(store, token):
        store.set_active(None)
        raise refuse("the watchdog did not start")

    monkeypatch.setattr("ldaptune.watchdog._start", fail)
    with pytest.raises(LdaptuneError, match="did not start"):
        applied(target, profile(B, "b"), consent=consent, owner="run-b", watch_seconds=60)
    assert server.values == kept and len(store.open_snapshots()) == 1


def test_the_way_back_is_on_the_disk_before_the_watchdog_is(kept, target, store, profile, consent, monkeypatch):
    seen = []
    monkeypatch.setattr("ldaptune.watchdog._start", lambda store, token: seen.append(store.active()) or 4711)
    applied(target, profile(B, "b"), consent=consent, owner="run-b", watch_seconds=60)
    assert seen[0]["reference"] == store.names()[1] and seen[0]["owner"] == "run-b" and seen[0]["since"]
