# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run has a host in hand at a time; a person may end it, and then it is over."""

from __future__ import annotations

import copy
import os

import pytest
from ldaptune.problems import LdaptuneError
from ldaptune.tuning import Refused, adopted, applied, audited, reverted
from ldaptune.tuning_leg import arm_finished, arm_started

WANTED = {"slapd.log_level": 32768, "slapd.threads": 32}


@pytest.fixture
def before(server):
    return copy.deepcopy(server.values)


@pytest.fixture
def measured(before, target, profile, consent, watched):
    applied(target, profile(WANTED), consent=consent, owner="run-1", watch_seconds=60)
    return target


def others(target, profile, consent):
    """What another run might try."""

    def wanted():
        return profile({"slapd.threads": 64}, "other")

    return {
        "applied": lambda: applied(target, wanted(), consent=consent, owner="run-2"),
        "applied without a name": lambda: applied(target, wanted(), consent=consent),
        "applied, measuring": lambda: applied(target, wanted(), consent=consent, owner="run-2", watch_seconds=60),
        "check": lambda: applied(target, wanted(), consent=consent, check=True),
        "unchanged": lambda: applied(target, profile(WANTED), consent=consent, owner="run-2"),
        "adopted": lambda: adopted(target, owner="run-2"),
        "start": lambda: arm_started(target, wanted(), "profile", 60, owner="run-2"),
        "finish": lambda: arm_finished(target, wanted(), "profile", owner="run-2"),
    }


@pytest.mark.parametrize("what", list(others(None, None, None)))
def test_others_are_refused_with_who_since_when_and_what_to_do(measured, server, store, profile, consent, what):
    values, active, open_before = copy.deepcopy(server.values), store.active(), store.open_snapshots()
    with pytest.raises(LdaptuneError) as caught:
        others(measured, profile, consent)[what]()
    (found,) = caught.value.problems
    assert "in progress" in found["what"] and "run-1" in found["found"] and active["since"] in found["found"]
    assert "rollback.yml" in found["do"]
    assert server.values == values and store.active() == active and store.open_snapshots() == open_before


def test_a_refused_plan_is_still_told(measured, profile, consent):
    with pytest.raises(Refused) as caught:
        others(measured, profile, consent)["check"]()
    assert [row["lever"] for row in caught.value.result["plan"]] == ["slapd.threads"]


def test_the_owner_goes_on(measured, server, store, profile, consent):
    since = store.active()["since"]
    assert arm_started(measured, profile(WANTED), "as_found", 60, owner="run-1")["readback"]["ok"]
    assert store.active()["since"] == since and store.active()["owner"] == "run-1"
    assert arm_finished(measured, profile(WANTED), "as_found", owner="run-1")["readback"]["ok"]
    assert applied(measured, profile(WANTED), consent=consent, owner="run-1")["changed"]
    assert store.active() is None


def test_reading_is_for_everybody(measured, profile):
    assert audited(measured, profile(WANTED))["states"]["slapd.threads"] == "unchanged"


def test_a_dead_watchdog_holds_nobody_up(measured, store, profile, consent, watched):
    watched.append(store)
    assert applied(measured, profile({"slapd.threads": 64}), consent=consent, owner="run-2")["changed"]


@pytest.mark.parametrize(
    "phase", [lambda *how: arm_started(*how, 60, owner="run-1"), lambda *how: arm_finished(*how, owner="run-1")]
)
def test_a_person_ends_it_and_it_stays_ended(measured, before, server, store, profile, phase):
    home = reverted(measured)
    assert home["complete"] and server.values == before
    assert "ended" in home["notes"][0] and "run-1" in home["notes"][0]
    with pytest.raises(LdaptuneError) as caught:
        phase(measured, profile(WANTED), "profile")
    (found,) = caught.value.problems
    assert "ended" in found["what"] and "reverted" in found["found"]
    assert server.values == before and store.active() is None and store.open_snapshots() == []
    last = reverted(measured, owner="run-1")
    assert last["complete"] and not last["changed"] and last["notes"] == []


@pytest.mark.parametrize("how", [reverted, adopted])
def test_what_a_person_ended_is_not_kept_either(measured, server, profile, consent, how, watched):
    how(measured) if how is reverted else how(measured, owner="run-1")
    values = copy.deepcopy(server.values)
    with pytest.raises(LdaptuneError, match="ended"):
        applied(measured, profile(dict(WANTED, **{"slapd.threads": 64})), consent=consent, owner="run-1")
    assert server.values == values
    assert applied(measured, profile({"slapd.threads": 64}), consent=consent, owner="run-2")["changed"]


def test_check_mode_of_a_person_s_revert_ends_nothing(measured, store):
    active = store.active()
    assert "would end" in reverted(measured, check=True)["notes"][0]
    assert store.active() == active


def test_a_person_s_revert_that_failed_ends_it_too(measured, before, server, store, profile, refuse):
    server.breaks["slapd.threads"] = refuse("not today")
    with pytest.raises(Refused):
        reverted(measured)
    server.breaks.clear()
    with pytest.raises(LdaptuneError, match="ended"):
        arm_started(measured, profile(WANTED), "profile", 60, owner="run-1")
    assert store.active()["reference"] == store.origin()["id"], "the watchdog goes on to where the person wanted to be"
    assert server.values["slapd.threads"] == 32 and server.values["slapd.log_level"] == 256
    assert reverted(measured)["complete"] and server.values == before


def test_a_refused_run_s_own_way_back_does_not_end_the_other_s(measured, server, store):
    values, active = copy.deepcopy(server.values), store.active()
    home = reverted(measured, owner="run-2")
    assert home["complete"] and not home["changed"] and home["notes"] == []
    assert server.values == values and store.active() == active


def test_no_arm_is_set_where_nobody_measures(target, before, server, store, profile, watched):
    with pytest.raises(LdaptuneError) as caught:
        arm_started(target, profile(WANTED), "profile", 60, owner="run-1")
    assert "watch_seconds" in caught.value.problems[0]["do"] and server.values == before and not store.exists()


DAMAGED = ["", '{"owner": "run-1"}', "\xff\xfe"]


@pytest.fixture(params=DAMAGED)
def damaged(request, measured, store):
    """A measurement whose record was cut short or edited."""
    with open(store.active_path, "w", encoding="latin-1") as stream:
        stream.write(request.param)
    return measured


@pytest.mark.parametrize("way", ["oldest", "named", "own"])
def test_a_damaged_record_bars_no_way_home_and_is_told(damaged, before, server, store, way):
    name, owner = store.origin()["id"] if way == "named" else "", "run-1" if way == "own" else ""
    home = reverted(damaged, name, owner=owner)
    assert home["complete"] and home["changed"] and server.values == before
    (note,) = home["notes"]
    assert store.active_path in note and "damaged" in note
    assert not os.path.exists(store.active_path) and store.open_snapshots() == []


def test_check_mode_leaves_a_damaged_record(damaged, server, store, tree, tmp_path):
    values, files = copy.deepcopy(server.values), tree(tmp_path)
    home = reverted(damaged, check=True)
    assert home["changed"] and "damaged" in home["notes"][0]
    assert server.values == values and tree(tmp_path) == files


def test_a_damaged_record_stays_while_the_host_is_not_home(damaged, store, refuse, server):
    server.breaks["slapd.threads"] = refuse("not today")
    with pytest.raises(Refused):
        reverted(damaged)
    assert os.path.exists(store.active_path) and store.open_snapshots()
    server.breaks.clear()
    assert reverted(damaged)["complete"]


@pytest.mark.parametrize("what", [name for name in others(None, None, None) if name != "finish"])
def test_with_a_damaged_record_nothing_else_is_done(damaged, server, store, profile, consent, what):
    values = copy.deepcopy(server.values)
    with pytest.raises(LdaptuneError) as caught:
        others(damaged, profile, consent)[what]()
    (found,) = caught.value.problems
    assert "damaged" in found["what"] and found["where"] == store.active_path and "rollback.yml" in found["do"]
    assert server.values == values and os.path.exists(store.active_path)


def test_reading_is_for_everybody_with_a_damaged_record_too(damaged, profile):
    assert "damaged" in audited(damaged, profile(WANTED))["notes"][0]
