# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Schedules: order, phases, looks, rate, seconds."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ldaptune.evidence.schedule import make_schedule, next_legs, with_rate
from ldaptune.problems import LdaptuneError

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.sampled_from(["brief", "quick", "standard"]), st.booleans(), st.booleans())
@settings(max_examples=40)
def test_every_block_is_abba_or_baab_and_every_pair_has_both_arms(seed, kind, restart, p99):
    schedule = make_schedule(kind, seed, restart, p99)
    legs = schedule["legs"]
    assert [leg["index"] for leg in legs] == list(range(len(legs)))
    assert len(legs) == 4 * schedule["looks"][-1]
    for at in range(0, len(legs), 4):
        arms = "".join("A" if leg["arm"] == "as_found" else "B" for leg in legs[at : at + 4])
        assert arms == legs[at]["order"]
        assert arms in ("ABBA", "BAAB")
        assert [leg["position"] for leg in legs[at : at + 4]] == [0, 1, 2, 3]
        assert {leg["block"] for leg in legs[at : at + 4]} == {at // 4}
    for first, second in zip(legs[::2], legs[1::2]):
        assert first["probe_seed"] == second["probe_seed"]
        assert {first["arm"], second["arm"]} == {"as_found", "profile"}


def test_a_seed_gives_the_same_schedule_for_ever():
    schedule = make_schedule("quick", 7, False, True)
    assert schedule == make_schedule("quick", 7, False, True)
    assert [leg["order"] for leg in schedule["legs"][::4]] == ["ABBA", "ABBA", "ABBA", "ABBA"]
    assert schedule["legs"][0]["phases"][0]["seconds"] == 0.575
    assert [leg["order"] for leg in make_schedule("quick", 3, False, True)["legs"][::4]] != ["ABBA"] * 4


def test_the_coin_is_fair():
    orders = [make_schedule("quick", seed, False, False)["legs"][0]["order"] for seed in range(400)]
    assert 160 <= orders.count("ABBA") <= 240


@pytest.mark.parametrize(
    ("kind", "restart", "looks", "alpha", "settle", "goal"),
    [
        ("brief", False, [4], 0.05, (0.2, 0.4), 0.7),
        ("quick", False, [4], 0.05, (0.5, 1.0), 2.5),
        ("quick", True, [4], 0.05, (1.0, 1.5), 2.5),
        ("standard", False, [4, 8, 12], 0.0221, (4, 6), 16),
        ("standard", True, [4, 8, 12], 0.0221, (20, 25), 35),
    ],
)
def test_kinds(kind, restart, looks, alpha, settle, goal):
    schedule = make_schedule(kind, 5, restart, True)
    assert (schedule["looks"], schedule["alpha"]) == (looks, alpha)
    settles = set()
    for leg in schedule["legs"]:
        names = [item["name"] for item in leg["phases"]]
        assert names == (["prime"] if restart else []) + ["settle", "goal", "fixed"]
        phases = {item["name"]: item for item in leg["phases"]}
        assert settle[0] <= phases["settle"]["seconds"] <= settle[1]
        assert phases["goal"] == {"name": "goal", "mode": "closed", "seconds": goal, "rate": 0}
        assert phases["fixed"]["mode"] == "open"
        settles.add(phases["settle"]["seconds"])
    assert len(settles) > 10


def test_without_a_p99_there_is_no_fixed_phase():
    names = {item["name"] for leg in make_schedule("quick", 1, False, False)["legs"] for item in leg["phases"]}
    assert names == {"settle", "goal"}


def test_the_offered_rate_is_the_same_for_both_arms():
    schedule = with_rate(make_schedule("quick", 1, True, True), 20000.9, 1.5)
    fixed = {json.dumps(item) for leg in schedule["legs"] for item in leg["phases"] if item["name"] == "fixed"}
    assert fixed == {json.dumps({"name": "fixed", "mode": "open", "seconds": 1.0, "rate": 14000})}
    caps = {item["seconds"] for leg in schedule["legs"] for item in leg["phases"] if item["name"] == "prime"}
    assert caps == {5.0}
    assert schedule["fixed"] == {"rate": 14000, "seconds": 1.0, "as_found_goodput": 20000.9}


@pytest.mark.parametrize(("goodput", "seconds"), [(10000, 1.714), (5000, 3.0), (100, 3.0)])
def test_the_fixed_phase_grows_until_p99_has_its_samples(goodput, seconds):
    assert with_rate(make_schedule("quick", 1, False, True), goodput, 1.0)["fixed"]["seconds"] == seconds


@pytest.mark.parametrize("goodput", [None, 0, 0.0, 1.0])
def test_no_rate_without_goodput(goodput):
    with pytest.raises(LdaptuneError, match="answered nothing"):
        with_rate(make_schedule("quick", 1, False, True), goodput, 1.0)


def test_unknown_kind():
    with pytest.raises(LdaptuneError, match="quick or standard"):
        make_schedule("fast", 1, False, True)


def test_the_lab_schedule_fits_its_time():
    seconds = with_rate(make_schedule("quick", 1, False, True), 10000.0, 1.0)["seconds"]
    assert seconds["expected"] <= 135
    assert seconds["expected"] <= seconds["worst"] <= 180


def test_worst_counts_every_leg_and_falls_with_a_known_pass():
    before = make_schedule("standard", 1, True, True)
    after = with_rate(before, 30000.0, 2.0)
    assert before["seconds"]["worst"] > after["seconds"]["worst"] > 48 * (20 + 35 + 15)
    assert before["seconds"]["expected"] < before["seconds"]["worst"] / 3


def test_overhead_is_counted():
    plain = make_schedule("quick", 1, False, True, leg_overhead=0, leg_overhead_worst=0, run_overhead=0)["seconds"]
    more = make_schedule("quick", 1, False, True, leg_overhead=1, leg_overhead_worst=2, run_overhead=3)["seconds"]
    assert more["expected"] == pytest.approx(plain["expected"] + 16 + 3)
    assert more["worst"] == pytest.approx(plain["worst"] + 32 + 3)


@pytest.mark.parametrize(("done", "indexes"), [(0, [0, 1, 2, 3]), (1, [1, 2, 3]), (4, [4, 5, 6, 7]), (16, [])])
def test_next_legs(done, indexes):
    schedule = make_schedule("quick", 1, False, True)
    assert [leg["index"] for leg in next_legs(schedule, done)] == indexes
