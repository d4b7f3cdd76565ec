# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way home: drift, remarks, named steps, failures, adoption."""

from __future__ import annotations

import os

import pytest
from ldaptune import tuning
from ldaptune.problems import LdaptuneError
from ldaptune.snapshot import Identity, Store
from ldaptune.target import Target
from ldaptune.tuning import Refused, adopted, applied, reverted

WANTED = {"slapd.log_level": 32768, "slapd.idle_timeout": 300, "database.max_readers": 200, "slapd.threads": 32}


@pytest.fixture
def tuned(target, profile, consent):
    applied(target, profile(WANTED), consent=consent)
    return target


def test_what_someone_else_changed_is_left_alone_and_named(tuned, server, store):
    server.values["slapd.threads"] = 7
    home = reverted(tuned)
    assert home["states"] == {
        "slapd.threads": "drifted",
        "database.max_readers": "applied",
        "slapd.idle_timeout": "applied",
        "slapd.log_level": "applied",
    }
    assert server.values["slapd.threads"] == 7 and not home["complete"]
    assert "cn=other at 20261130210000Z" in home["problems"][0]["where"]
    assert home["problems"][0]["found"] == "7"
    assert store.origin() is not None
    # Asked again, the same: nothing more is written.
    again = reverted(tuned)
    assert not again["changed"] and again["states"]["slapd.threads"] == "drifted"
    server.values["slapd.threads"] = 32
    assert reverted(tuned)["complete"] and "slapd.threads" not in server.values


def test_a_value_of_ours_that_we_replaced_since_is_someone_else_s(tuned, server, profile, consent):
    applied(tuned, profile({"slapd.threads": 64}, "two"), consent=consent)
    server.values["slapd.threads"] = 32
    assert reverted(tuned)["states"]["slapd.threads"] == "drifted" and server.values["slapd.threads"] == 32


def test_what_someone_else_brought_home_is_home(tuned, server):
    server.values.pop("slapd.threads")
    home = reverted(tuned)
    assert home["states"]["slapd.threads"] == "unchanged" and home["complete"]


def test_home_in_another_spelling_is_not_quite_home(target, server, profile, consent):
    server.spelling["slapd.log_level"] = "0x100"
    applied(target, profile({"slapd.log_level": 0}), consent=consent)
    server.values["slapd.log_level"] = 256
    server.spelling["slapd.log_level"] = "stats"
    assert reverted(target)["complete"]
    assert server.spelling["slapd.log_level"] == "0x100"


def test_absent_is_not_its_default(tuned, server):
    server.values["slapd.threads"] = 16
    assert reverted(tuned)["states"]["slapd.threads"] == "drifted"


def test_a_removal_cut_short_at_the_default_is_ours_and_goes_home(tuned, server, store, crash):
    # A value is removed by writing the default first; killed in between, the default is there and nobody's but ours.
    server.breaks["slapd.threads"] = lambda key, value: server.values.update({key: 16}) or crash()
    with pytest.raises(crash):
        reverted(tuned)
    server.breaks.clear()
    assert server.values["slapd.threads"] == 16
    assert reverted(tuned)["complete"]
    assert "slapd.threads" not in server.values


def test_the_order_home(tuned, server):
    server.events.clear()
    reverted(tuned)
    writes = [line.split()[1] for line in server.events if line.startswith("restore")]
    assert writes.index("slapd.threads") < writes.index("database.max_readers")


def test_restarts_and_pins_come_last_on_the_way_home_too(target, server, profile, consent):
    wanted = {"cpu.workers": [1], "slapd.listener_threads": 2, "database.search_stack": 32, "slapd.threads": 32}
    applied(target, profile(wanted), consent=consent)
    server.events.clear()
    assert reverted(target)["complete"]
    assert [line.split()[1] for line in server.events if line.startswith("restore")] == [
        "slapd.threads",
        "database.search_stack",
        "slapd.listener_threads",
        "cpu.workers",
    ]


def test_a_map_that_had_to_stay_is_said_and_is_the_end(target, server, store, profile, consent):
    applied(target, profile({"database.max_size": 1 << 31}), consent=consent)
    server.remarks["database.max_size"] = "85 % of the old size is in use: it stays"
    home = reverted(target)
    assert home["complete"] and home["lines"] == [
        "database.max_size: 2 GiB is left as it is (85 % of the old size is in use: it stays)"
    ]
    assert home["plan"][0]["state"] == "unchanged" and home["plan"][0]["after"] == 1 << 31
    assert store.origin() is None


def test_one_failure_does_not_keep_the_others(tuned, server, store, refuse):
    server.breaks["slapd.idle_timeout"] = refuse("not today")
    with pytest.raises(Refused) as caught:
        reverted(tuned)
    assert "not today" in str(caught.value)
    states = caught.value.result["states"]
    assert states.pop("slapd.idle_timeout") == "failed" and set(states.values()) == {"applied"}
    assert store.origin() is not None
    server.breaks.clear()
    assert reverted(tuned)["complete"] and store.origin() is None


def test_an_unforeseen_error_does_not_keep_the_others_either(tuned, server):
    server.breaks["slapd.idle_timeout"] = ZeroDivisionError("oops")
    with pytest.raises(Refused, match="ZeroDivisionError"):
        reverted(tuned)
    assert "database.max_readers" not in server.values


def test_a_value_that_does_not_go_back_is_a_failure(tuned, server):
    server.mute.add("slapd.threads")
    with pytest.raises(Refused) as caught:
        reverted(tuned)
    assert caught.value.problems[0]["found"] == "32"


def test_a_lever_that_cannot_be_seen_any_more_is_a_failure(tuned, server, store):
    server.unsupported["slapd.threads"] = "gone"
    with pytest.raises(Refused, match="cannot be taken back"):
        reverted(tuned)
    assert store.origin() is not None and "slapd.idle_timeout" not in server.values


def test_a_named_step_is_the_state_before_that_run(tuned, server, store, profile, consent):
    applied(tuned, profile({"slapd.threads": 64, "slapd.write_timeout": 9}, "two"), consent=consent)
    applied(tuned, profile({"slapd.threads": 128, "slapd.log_level": 0}, "three"), consent=consent)
    first, second, third = store.names()
    assert reverted(tuned, second)["complete"]
    assert server.values["slapd.threads"] == 32 and server.values["slapd.log_level"] == 32768
    assert "slapd.write_timeout" not in server.values
    assert [item["id"] for item in store.open_snapshots()] == [first]
    with pytest.raises(LdaptuneError, match="closed"):
        reverted(tuned, third)
    assert reverted(tuned, first)["complete"] and "slapd.threads" not in server.values


def test_adopting_makes_the_present_the_origin(tuned, server, store, profile, consent):
    assert adopted(tuned, check=True)["changed"]
    assert store.origin() is not None
    assert adopted(tuned)["changed"] and store.origin() is None
    assert not adopted(tuned)["changed"] and not reverted(tuned)["changed"]
    assert server.values["slapd.threads"] == 32
    applied(tuned, profile({"slapd.threads": 64}), consent=consent)
    assert store.origin()["levers"]["slapd.threads"]["before"] == 32


def test_the_lines_say_what_became_of_each_lever(tuned, server, refuse):
    ahead = reverted(tuned, check=True)["lines"]
    assert "slapd.log_level: none -> stats, would be set back" in ahead
    server.values["slapd.threads"] = 7
    server.values.pop("slapd.idle_timeout")
    server.breaks["database.max_readers"] = refuse("not today")
    with pytest.raises(Refused) as caught:
        reverted(tuned)
    assert caught.value.result["lines"] == [
        "slapd.log_level: none -> stats, set back",
        "slapd.threads: drifted, 7 is left alone (its entry was last changed by cn=other at 20261130210000Z)",
        "database.max_readers: 200 -> not set, NOT set back (not today)",
    ]


def test_where_all_is_home_already_the_lines_say_so(tuned, server):
    server.values = {"slapd.log_level": 256, "database.max_size": 1 << 30}
    home = reverted(tuned)
    assert not home["changed"] and "slapd.log_level: stats, as it was" in home["lines"]
    assert "slapd.threads: not set, as it was" in home["lines"] and len(home["lines"]) == 4


def test_check_mode_of_a_revert_shows_the_way(tuned, server, store, tree, tmp_path):
    files, events = tree(tmp_path), list(server.events)
    result = reverted(tuned, check=True)
    assert result["changed"] and set(result["states"].values()) == {"pending"}
    assert "slapd.threads = (not set)\n" in result["diff"]["after"]
    assert tree(tmp_path) == files and server.events == events


@pytest.fixture
def moved(tuned, server, store, monkeypatch):
    """The same slapd, its configuration at another path now."""
    monkeypatch.setattr(tuning, "find_slapds", list)
    elsewhere = Store(os.path.dirname(store.root), Identity("machine", "host1", "/srv/slapd.d", ["dc=x"]))
    return Target(server, elsewhere, tuned.behaviour)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("way", ["oldest", "named", "adopted"])
def test_where_the_configuration_moved_the_way_home_is_named(moved, server, store, tree, tmp_path, way, check):
    name, values, files = store.origin()["id"], dict(server.values), tree(tmp_path)
    with pytest.raises(Refused) as caught:
        if way == "adopted":
            adopted(moved, check=check)
        else:
            reverted(moved, name if way == "named" else "", check=check)
    (told,) = caught.value.problems
    assert told["where"] == store.path(name)
    assert told["found"] == "changed in /etc/slapd.d, now in /srv/slapd.d"
    assert "rollback.yml" in told["do"] and store.root in told["do"]
    assert caught.value.result["changed"] is False and caught.value.result["lines"] == []
    assert server.values == values and tree(tmp_path) == files


def test_a_moved_configuration_with_a_way_home_of_its_own_goes_that_way(moved, server, store, profile, consent):
    applied(moved, profile({"slapd.threads": 64}), consent=consent)
    home = reverted(moved)
    assert home["complete"] and server.values["slapd.threads"] == 32
    assert any(store.path(store.origin()["id"]) in note for note in home["notes"])
    with pytest.raises(Refused):
        reverted(moved)


def test_a_moved_way_home_moved_away_bars_nothing(moved, store, tmp_path):
    os.rename(store.root, str(tmp_path / "kept"))
    assert reverted(moved)["lines"] == ["nothing to undo: this host was never changed from here"]


def test_a_run_s_own_way_back_does_not_ask_for_others(moved):
    assert reverted(moved, owner="run-1")["complete"]
