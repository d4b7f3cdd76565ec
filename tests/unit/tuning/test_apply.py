# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applying a plan: record first, read back, undo in reverse, survive a crash at any point."""

from __future__ import annotations

import os
import stat

import pytest
from ldaptune.directory.errors import DirectoryUnreachable
from ldaptune.problems import LdaptuneError, problem
from ldaptune.tuning import Refused, applied, audited, reverted

WANTED = {"slapd.log_level": 32768, "slapd.idle_timeout": 300, "database.max_readers": 200, "slapd.threads": 32}


def apply(target, resolved, consent, **more):
    return applied(target, resolved, consent=consent, **more)


def test_apply_again_and_back(target, server, profile, consent):
    before = dict(server.values)
    first = apply(target, profile(WANTED), consent)
    assert first["changed"] and set(first["states"].values()) == {"applied"}
    assert {key: server.values[key] for key in WANTED} == WANTED
    again = apply(target, profile(WANTED), consent)
    assert not again["changed"] and set(again["states"].values()) == {"unchanged"}
    home = reverted(target)
    assert home["changed"] and home["complete"] and server.values == before
    assert not reverted(target)["changed"]


def test_a_refused_plan_changes_nothing_and_carries_the_plan(target, server, store, profile):
    with pytest.raises(Refused) as caught:
        apply(target, profile(WANTED), ["availability"])
    assert [item["wanted"] for item in caught.value.problems] == ["security"]
    assert len(caught.value.result["plan"]) == len(WANTED) and not caught.value.result["changed"]
    with pytest.raises(Refused) as caught:
        apply(target, profile(WANTED), ["availability"], check=True)
    assert caught.value.result["changed"], "a prediction"
    assert server.events == [] and not store.exists()


def test_check_mode_and_audit_write_nothing(target, server, store, profile, consent, tree, tmp_path):
    result = apply(target, profile(WANTED), consent, check=True)
    assert result["changed"] and set(result["states"].values()) == {"pending"}
    audited(target, profile(WANTED))
    reverted(target, check=True)
    assert server.events == [] and not store.exists()
    apply(target, profile(WANTED), consent)
    files, events = tree(tmp_path), list(server.events)
    apply(target, profile({"slapd.threads": 64}), consent, check=True)
    audited(target, profile({"slapd.threads": 64}))
    reverted(target, check=True)
    assert tree(tmp_path) == files and server.events == events


def test_nothing_to_do_leaves_nothing_behind(target, store, profile, consent):
    assert not apply(target, profile({"slapd.threads": 16}), consent)["changed"]
    assert not store.exists()


def test_the_record_is_on_the_disk_before_each_write(target, server, store, profile, consent):
    seen = []

    def look(key, value):
        entry = store.origin()["levers"][key]
        seen.append((key, entry["before"], entry["wrote"]["value"], entry["wrote"]["done"]))

    server.breaks = {"slapd.threads": look, "slapd.log_level": look}
    apply(target, profile({"slapd.threads": 32, "slapd.log_level": 0}), consent)
    assert sorted(seen) == [("slapd.log_level", 256, 0, False), ("slapd.threads", None, 32, False)]


def test_a_failure_in_the_middle_undoes_this_run_in_reverse(target, server, store, profile, consent, refuse):
    before = dict(server.values)
    server.breaks["slapd.threads"] = refuse("no threads today")
    with pytest.raises(Refused) as caught:
        apply(target, profile(WANTED), consent)
    assert server.values == before
    assert [line for line in server.events if line.startswith("restore")] == [
        "restore database.max_readers",
        "restore slapd.idle_timeout",
        "restore slapd.log_level",
    ]
    assert "no threads today" in caught.value.problems[0]["what"]
    assert "slapd.threads" in caught.value.problems[0]["where"]
    assert "undone again" in caught.value.problems[1]["what"]
    assert store.origin() is None


def test_a_value_that_does_not_take_is_a_failure(target, server, profile, consent):
    before = dict(server.values)
    server.mute.add("slapd.threads")
    with pytest.raises(Refused) as caught:
        apply(target, profile(WANTED), consent)
    assert server.values == before
    assert caught.value.problems[0]["wanted"] == "32"


def test_an_undo_goes_to_before_this_run_and_keeps_the_origin(target, server, store, profile, consent, refuse):
    apply(target, profile({"slapd.threads": 32}, "one"), consent)
    server.breaks["database.search_stack"] = refuse()
    with pytest.raises(Refused):
        apply(target, profile({"slapd.threads": 64, "database.search_stack": 32, "slapd.log_level": 0}, "two"), consent)
    assert "write slapd.threads 64" in server.events
    assert server.values["slapd.threads"] == 32 and server.values["slapd.log_level"] == 256
    assert store.origin()["levers"]["slapd.threads"]["before"] is None
    server.breaks.clear()
    assert reverted(target)["complete"]
    assert "slapd.threads" not in server.values and store.origin() is None


def test_an_undo_that_fails_says_both_and_leaves_the_way_home_open(target, server, store, profile, consent, refuse):
    def once(key, value):
        return refuse("cannot go back") if value is None else None

    server.breaks = {"slapd.idle_timeout": once, "slapd.threads": refuse("first fact")}
    with pytest.raises(Refused) as caught:
        apply(target, profile(WANTED), consent)
    text = str(caught.value)
    assert "first fact" in text and "cannot go back" in text and "rollback.yml" in text
    assert store.origin() is not None and server.values["slapd.log_level"] == 256
    server.breaks.clear()
    assert reverted(target)["complete"] and "slapd.idle_timeout" not in server.values


def test_a_lost_connection_is_connected_again_before_the_undo(target, server, profile, consent):
    server.breaks["slapd.threads"] = DirectoryUnreachable(problem("the connection failed"))
    with pytest.raises(Refused):
        apply(target, profile(WANTED), consent)
    assert server.events.index("reconnect") < server.events.index("restore slapd.idle_timeout")


@pytest.mark.parametrize("reached_server", [True, False])
def test_a_crash_between_record_and_write_is_recoverable(
    target, server, profile, consent, crash, reached_server, monkeypatch
):
    before = dict(server.values)

    def die(key, value):
        if reached_server:
            server.values[key] = value
        raise crash

    server.breaks["slapd.threads"] = die
    # A dead process undoes nothing.
    monkeypatch.setattr("ldaptune.apply._Run.undo", lambda self: [])
    with pytest.raises(LdaptuneError):
        apply(target, profile(WANTED), consent)
    server.breaks.clear()
    assert server.values != before
    home = reverted(target)
    assert home["complete"] and server.values == before


def test_a_crash_in_a_second_run_keeps_the_first_one_s_value_known(
    target, server, profile, consent, crash, monkeypatch
):
    apply(target, profile({"slapd.threads": 32}), consent)
    server.breaks["slapd.threads"] = crash()
    monkeypatch.setattr("ldaptune.apply._Run.undo", lambda self: [])
    with pytest.raises(LdaptuneError):
        apply(target, profile({"slapd.threads": 64}), consent)
    server.breaks.clear()
    assert reverted(target)["complete"] and "slapd.threads" not in server.values


@pytest.mark.parametrize("free", [0, 2, 3, 4])
def test_a_full_disk_stops_the_writing_but_not_the_way_back(target, server, profile, consent, monkeypatch, free):
    """The disk takes so many records and no more."""
    before = dict(server.values)
    sync, taken = os.fsync, []

    def full(handle):
        if stat.S_ISREG(os.fstat(handle).st_mode):
            taken.append(1)
            if len(taken) > free:
                raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LdaptuneError, match="No space left"):
        apply(target, profile(WANTED), consent)
    assert server.values == before
    assert len([line for line in server.events if line.startswith("write")]) == free // 2
    monkeypatch.undo()
    assert reverted(target)["complete"] and server.values == before
    assert apply(target, profile(WANTED), consent)["changed"]


def test_the_tuned_value_is_never_taken_for_the_original(target, server, store, profile, consent):
    apply(target, profile({"slapd.threads": 32}, "one"), consent)
    second = apply(target, profile({"slapd.threads": 64, "slapd.idle_timeout": 60}, "two"), consent)
    levers = store.origin()["levers"]
    assert levers["slapd.threads"]["before"] is None
    assert levers["slapd.idle_timeout"]["before"] is None
    assert [row["reason"] for row in second["plan"]] == ["", ""], "our own value is nobody else's"
    reverted(target)
    assert "slapd.threads" not in server.values and "slapd.idle_timeout" not in server.values


def test_live_only_is_said(target, server, profile, consent):
    server.lost.add("slapd.threads")
    result = apply(target, profile(WANTED), consent)
    assert result["states"]["slapd.threads"] == "live_only" and result["live_only"] == ["slapd.threads"]
    assert apply(target, profile(WANTED), consent)["live_only"] == ["slapd.threads"]


def test_no_profile_audits_every_lever(target, server):
    result = audited(target, {"levers": {}})
    assert "slapd.threads: wanted -, configured (not set), in force 16, not in the profile" in result["lines"]
    assert not result["changed"] and len(result["plan"]) == len(result["states"])
    server.lost.update(result["states"])
    assert audited(target, {"levers": {}})["live_only"] == []


def test_a_new_apply_says_that_it_replaces_what_someone_else_set(target, server, profile, consent):
    apply(target, profile(WANTED), consent)
    server.values["slapd.threads"] = 7
    for check in (True, False):
        result = apply(target, profile(WANTED), consent, check=check)
        line = next(line for line in result["lines"] if line.startswith("slapd.threads"))
        assert "7 -> 32" in line and "cn=other" in line
    assert server.values["slapd.threads"] == 32
    assert reverted(target)["complete"] and "slapd.threads" not in server.values


def test_audit_says_what_someone_else_changed(target, server, profile, consent):
    apply(target, profile(WANTED), consent)
    server.values["slapd.threads"] = 7
    result = audited(target, profile(WANTED))
    assert result["states"]["slapd.threads"] == "drifted"
    assert "cn=other" in next(line for line in result["lines"] if line.startswith("slapd.threads"))


def test_a_restart_that_nothing_can_do_is_known_before_anything_changes(target, server, store, profile, consent):
    server.no_restart = [problem("nothing on this host is known to restart slapd")]
    wanted = profile({"slapd.log_level": 32768, "slapd.listener_threads": 2})
    for check in (True, False):
        with pytest.raises(LdaptuneError, match="nothing on this host is known to restart slapd"):
            applied(target, wanted, consent=consent, check=check)
    assert not [event for event in server.events if event.startswith("write")]
    applied(target, profile({"slapd.log_level": 32768}), consent=consent)
