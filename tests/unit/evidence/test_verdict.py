# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict: rules and their order, requirement, exit code, action, sentence."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ldaptune.evidence.expect import normal_expect
from ldaptune.evidence.schedule import make_schedule, with_rate
from ldaptune.evidence.verdict import decide, judge, settled

FLOOR = math.log(1.03)
PLAN = with_rate(make_schedule("quick", 7, False, True), 10000.0, 1.0)
STANDARD = with_rate(make_schedule("standard", 7, False, True), 10000.0, 1.0)


def legs(changes, plan=PLAN, p99=None, cpu=None, **spoil):
    """Judged legs with these changes (ln profile / as found) in the pairs of a schedule."""
    made = []
    for due in plan["legs"][: 2 * len(changes)]:
        profile, pair = due["arm"] == "profile", due["pair"]
        made.append(
            {
                **{key: due[key] for key in ("index", "block", "position", "arm")},
                "valid": True,
                "reasons": [],
                "goodput": 10000 * math.exp(changes[pair] * profile),
                "p99_ns": 1e6 * math.exp((p99[pair] if p99 else 0) * profile),
                "cpu_per_kop": 0.05 * math.exp((cpu[pair] if cpu else 0) * profile),
                "achieved": 1.0,
                "operations": 40000,
                "errors": 0,
                "error_percent": 0.0,
                "foreign_operations": 0,
                "foreign_percent": 0.0,
                "server_operations": 40000,
                "limited_by": "server_limited",
                **spoil,
            }
        )
    return made


def around(percent, width=0.01, count=8):
    """Changes spread evenly around one."""
    return [math.log1p(percent / 100) + width * (at - (count - 1) / 2) / count for at in range(count)]


def spoilt(made, index, code="foreign_load", text="12 % foreign"):
    made[index].update(valid=False, reasons=[{"code": code, "text": text}])
    return made


def verdict(made, plan=PLAN, aa=False, broken="", **expect):
    return judge(made, plan, normal_expect(expect), aa, broken)


# word, met and exit code for each requirement
TABLE = [
    # changes, word, improved, no_regression, none
    (around(50), "improved", (True, 0), (True, 0), (True, 0)),
    (around(3.5), "improved", (True, 0), (True, 0), (True, 0)),
    (around(3, 0.1), "inconclusive", (False, 4), (True, 0), (True, 0)),
    (around(0), "equivalent", (False, 4), (True, 0), (True, 0)),
    (around(2), "equivalent", (False, 4), (True, 0), (True, 0)),
    (around(-1, 0.005), "regressed", (False, 3), (True, 0), (True, 0)),
    (around(-20), "regressed", (False, 3), (False, 3), (True, 0)),
    (around(0, 0.3), "inconclusive", (False, 4), (False, 4), (True, 0)),
    (around(10, 0.5), "inconclusive", (False, 4), (False, 4), (True, 0)),
    (around(15, 0.2), "improved", (True, 0), (True, 0), (True, 0)),
]


@pytest.mark.parametrize(("changes", "word", "improved", "no_regression", "none"), TABLE)
def test_table(changes, word, improved, no_regression, none):
    for require, (met, code) in (("improved", improved), ("no_regression", no_regression), ("none", none)):
        found = verdict(legs(changes), require=require)
        assert (found["verdict"], found["met"], found["exit_code"]) == (word, met, code), require
        assert found["action"] == ("keep" if met else "roll_back")


def test_equivalent_is_no_regression_where_the_stricter_bound_just_misses():
    changes = [-0.07, -0.05, 0.0, 0.012, 0.014, 0.014, 0.014, 0.014]
    found = verdict(legs(changes), require="no_regression", max_p99_increase_percent=None)
    assert (found["verdict"], found["met"]) == ("equivalent", True)
    assert found["goal"]["low_percent"] < -3 < found["goal"]["equivalent_low_percent"]


def test_improved_needs_the_effect_asked_for():
    assert verdict(legs(around(4)))["verdict"] == "improved"
    small = verdict(legs(around(4)), min_effect_percent=5)
    assert small["verdict"] == "equivalent"
    assert small["notes"] == ["a gain is real but smaller than the 5 % asked for"]
    assert "faster" not in small["sentence"]


def test_decide_at_its_edges():
    assert decide([FLOOR] * 8, 0.05, FLOOR).verdict == "improved"
    assert decide([FLOOR - 1e-9] * 8, 0.05, FLOOR).verdict == "equivalent"
    assert decide([-FLOOR] * 8, 0.05, FLOOR).verdict == "regressed"
    assert decide([0.0] * 8, 0.05, FLOOR).verdict == "equivalent"
    assert decide([0.0] * 5, 0.05, FLOOR) is None


@given(st.lists(st.floats(-2, 2, allow_nan=False), min_size=8, max_size=8))
def test_swapping_the_arms_never_keeps_a_gain(changes):
    word = decide(changes, 0.05, FLOOR).verdict
    mirrored = decide([-value for value in changes], 0.05, FLOOR).verdict
    assert (word, mirrored) != ("improved", "improved")
    assert (word == "improved") <= (mirrored == "regressed")
    assert (word == "equivalent") <= (mirrored in ("equivalent", "regressed"))


@given(
    st.lists(st.floats(-2, 2, allow_nan=False), min_size=8, max_size=8),
    st.booleans(),
    st.sampled_from(["improved", "no_regression", "none"]),
    st.sampled_from(["goodput", "p99", "cpu_per_op", "none"]),
)
@settings(max_examples=60)
def test_what_always_holds(changes, aa, require, goal):
    found = verdict(legs(changes, p99=changes, cpu=changes), aa=aa, require=require, goal=goal)
    json.dumps(found, allow_nan=False)
    assert found["met"] is (found["exit_code"] == 0)
    assert found["verdict"] != "invalid" or found["reasons"]
    for word in ("faster", "slower"):
        assert word not in found["sentence"] or found["verdict"] in ("improved", "regressed")
    if "faster" in found["sentence"]:
        assert found["verdict"] == "improved"
    if aa:
        assert found["verdict"] in ("equivalent", "inconclusive", "invalid")
        assert found["action"] == "none"
    else:
        assert found["action"] == ("keep" if found["met"] else "roll_back")
    if found["verdict"] in ("invalid", "guard_failed"):
        assert not found["met"]


@pytest.mark.parametrize("index", [0, 7, 15])
def test_one_invalid_leg_makes_all_invalid(index):
    found = verdict(spoilt(legs(around(50)), index))
    assert (found["verdict"], found["exit_code"], found["met"], found["action"]) == ("invalid", 5, False, "roll_back")
    assert found["goal"]["effect_percent"] is None
    assert found["reasons"] == [
        {"code": "foreign_load", "text": "12 % foreign", "leg": index, "arm": PLAN["legs"][index]["arm"]}
    ]
    assert "leg %d (%s): 12 %% foreign" % (index + 1, PLAN["legs"][index]["arm"].replace("_", " ")) in found["sentence"]
    assert "faster" not in found["sentence"]


def test_an_invalid_leg_after_the_last_look_counts_too():
    made = legs(around(50, count=10), STANDARD)
    assert verdict(made, STANDARD)["verdict"] == "improved"
    assert verdict(spoilt(made, 18), STANDARD)["verdict"] == "invalid"


def test_every_fault_is_told_and_the_sentence_stays_short():
    made = legs(around(50))
    for index in (1, 2, 3):
        spoilt(made, index)
    found = verdict(made)
    assert len(found["reasons"]) == 3
    assert found["sentence"].endswith("and 1 more")


@pytest.mark.parametrize("count", [0, 1, 7])
def test_too_few_pairs(count):
    found = verdict(legs(around(50, count=max(count, 1))[:count]))
    assert (found["verdict"], found["exit_code"]) == ("invalid", 5)
    assert [item["code"] for item in found["reasons"]] == ["too_few_pairs"]


def test_a_broken_run_is_invalid_whatever_it_showed():
    found = verdict(legs(around(50)), broken="slapd was killed")
    assert (found["verdict"], found["exit_code"]) == ("invalid", 5)
    assert found["reasons"][0]["code"] == "run_broken"
    assert "slapd was killed" in found["sentence"]


def test_a_long_reason_stays_one_line_in_the_sentence_and_whole_in_the_reasons():
    text = "Traceback\n  of many lines " + "x" * 300
    found = verdict(legs(around(50)), broken=text)
    assert "\n" not in found["sentence"]
    assert "Traceback of many lines x" in found["sentence"]
    assert found["sentence"].endswith("x ...")
    assert len(found["sentence"]) < 300
    assert found["reasons"][0]["text"] == text


def test_foreign_load_in_one_arm_only():
    made = legs(around(50))
    for leg in made:
        leg["foreign_operations"] = 1200 if leg["arm"] == "profile" else 300
    found = verdict(made)
    assert found["verdict"] == "invalid"
    assert "differs by 2.2 points" in found["reasons"][0]["text"]
    for leg in made:
        leg["foreign_operations"] = 1000 if leg["arm"] == "profile" else 300
    assert verdict(made)["verdict"] == "improved"


def test_a_goal_that_was_not_measured_is_not_divided_by():
    made = legs(around(0))
    made[3]["p99_ns"] = None
    found = verdict(made, goal="p99")
    assert (found["verdict"], found["reasons"][0]["code"]) == ("invalid", "goal_not_measured")
    assert found["reasons"][0]["text"] == "p99 latency was not measured in leg 4"
    for leg in made:
        leg["p99_ns"] = None
    assert "in every leg" in verdict(made, goal="p99")["sentence"]
    made[3]["cpu_per_kop"] = 0.0
    assert verdict(made, goal="cpu_per_op")["verdict"] == "invalid"
    assert verdict(made)["verdict"] == "equivalent"


def test_a_guard_comes_before_the_goal():
    found = verdict(legs(around(50), p99=around(30)))
    assert (found["verdict"], found["exit_code"], found["action"]) == ("guard_failed", 3, "roll_back")
    assert found["sentence"] == (
        "the profile does harm: p99 at the same rate is 30 % higher (95 % sure of +30 % or more); "
        "throughput changed by +50 % (95 % interval +50 to +50 %)"
    )
    assert verdict(legs(around(50), p99=around(30)), require="none")["verdict"] == "guard_failed"
    assert verdict(legs(around(50), p99=around(30)), max_p99_increase_percent=None)["verdict"] == "improved"


def test_errors_of_the_profile_fail_it():
    made = legs(around(50))
    for leg in made:
        leg["errors"] = 200 if leg["arm"] == "profile" else 0
    found = verdict(made)
    assert (found["verdict"], found["guards"]["errors"]["verdict"]) == ("guard_failed", "harm")
    assert "0.50 % of operations fail, as found 0.00 %" in found["sentence"]


def test_an_unproven_guard_does_not_stop_a_gain_but_is_said():
    found = verdict(legs(around(50), p99=around(0, width=1.0)))
    assert (found["verdict"], found["guards"]["p99"]["verdict"]) == ("improved", "unproven")
    assert found["sentence"].endswith("(unproven)")


@pytest.mark.parametrize("goal", ["p99", "cpu_per_op"])
def test_less_is_better(goal):
    found = verdict(legs(around(0), p99=around(-20), cpu=around(-20)), goal=goal)
    assert found["verdict"] == "improved"
    assert found["goal"]["effect_percent"] == pytest.approx(-20, abs=0.1)
    assert found["goal"]["low_percent"] < found["goal"]["effect_percent"] < found["goal"]["high_percent"] < 0
    assert "20 % lower than as found (95 % interval -20 to -20 %)" in found["sentence"]
    worse = verdict(legs(around(0), p99=around(20), cpu=around(20)), goal=goal, max_p99_increase_percent=None)
    assert worse["verdict"] == "regressed"
    assert "20 % higher" in worse["sentence"]


def test_no_goal_is_judged_by_nothing():
    found = verdict(legs(around(-20)), goal="none", require="none")
    assert (found["met"], found["exit_code"], found["action"]) == (True, 0, "keep")
    assert found["goal"]["effect_percent"] == pytest.approx(-20, abs=0.1)


@pytest.mark.parametrize(
    ("changes", "word", "met", "code", "text"),
    [
        (around(0), "equivalent", True, 0, "can resolve a change of"),
        (around(1, 0.005), "equivalent", True, 0, "can resolve a change of"),
        (around(-1, 0.005), "equivalent", True, 0, "can resolve a change of"),
        (around(8), "invalid", False, 5, "cannot be trusted"),
        (around(-8), "invalid", False, 5, "cannot be trusted"),
        (around(0, 0.3), "inconclusive", False, 4, "cannot resolve 3 %"),
    ],
)
def test_the_same_settings_twice_never_improve(changes, word, met, code, text):
    for require in ("improved", "no_regression", "none"):
        found = verdict(legs(changes), aa=True, require=require)
        assert (found["verdict"], found["met"], found["exit_code"]) == (word, met, code)
        assert text in found["sentence"]
        assert found["action"] == "none"


def test_a_harmed_guard_in_the_same_settings_speaks_against_the_host():
    found = verdict(legs(around(0), p99=around(30)), aa=True)
    assert (found["verdict"], found["reasons"][0]["code"]) == ("invalid", "aa_difference")


@pytest.mark.parametrize(
    ("changes", "require", "sentence"),
    [
        (
            around(182, 0.05),
            "improved",
            "throughput is 182 % faster than as found (95 % interval +178 to +186 %), 4 of 4 blocks agree",
        ),
        (
            around(-12, 0.01),
            "improved",
            "throughput is 12 % slower than as found (95 % interval -12 to -12 %), 4 of 4 blocks agree",
        ),
        (
            around(-1, 0.005),
            "no_regression",
            "throughput is 1.0 % slower than as found (95 % interval -1.2 to -0.8 %), 4 of 4 blocks agree, "
            "within the 3 % allowed",
        ),
        (
            around(0, 0.02),
            "improved",
            "throughput is the same as found within 3 % (90 % interval -0.5 to +0.5 %)",
        ),
        (
            around(0, 0.3),
            "improved",
            "a change of 3 % in throughput is neither shown nor ruled out (95 % interval -8.9 to +9.8 %, 4 blocks)",
        ),
        (
            around(3, 0.1),
            "no_regression",
            "a loss of 3 % in throughput is ruled out, a gain is not shown (95 % interval -0.2 to +6.3 %, 4 blocks)",
        ),
    ],
)
def test_sentences(changes, require, sentence):
    found = verdict(legs(changes), require=require, max_p99_increase_percent=None)
    assert found["sentence"] == sentence


def test_blocks_that_disagree_are_counted():
    changes = around(20)
    changes[0] = changes[1] = -0.01
    found = verdict(legs(changes))
    assert (found["goal"]["blocks_agree"], found["goal"]["blocks"]) == (3, 4)


def test_the_level_of_the_interval_is_the_true_one():
    found = verdict(legs(around(50, count=8), STANDARD), STANDARD)
    assert found["goal"]["alpha"] == 0.0221
    assert "(97.8 % interval" in found["sentence"]
    same = verdict(legs(around(0, count=8), STANDARD), STANDARD)
    assert "(95.6 % interval" in same["sentence"]


@pytest.mark.parametrize(("pairs", "used"), [(8, 8), (10, 8), (15, 8), (16, 16), (24, 24)])
def test_only_whole_looks_are_used(pairs, used):
    assert verdict(legs(around(0, 0.3, count=pairs), STANDARD), STANDARD)["goal"]["pairs"] == used


@pytest.mark.parametrize(
    ("changes", "require", "done"),
    [
        (around(50), "improved", True),
        (around(-50), "improved", True),
        (around(0), "improved", True),
        (around(0, 0.3), "improved", False),
        (around(3, 0.1), "improved", False),
        (around(3, 0.1), "no_regression", True),
        (around(0, 0.3), "none", True),
    ],
)
def test_settled(changes, require, done):
    assert settled(verdict(legs(changes), require=require)) is done


def test_power_says_what_more_would_take():
    found = verdict(legs(around(0, 0.1)))
    assert found["power"].startswith("4 blocks can show a change of ")
    assert "3 % would take " in found["power"]
    assert "would take" not in verdict(legs(around(0)))["power"]
    assert "out of reach" in verdict(legs(around(0, 2.0)))["power"]
    assert verdict(spoilt(legs(around(0)), 1))["power"] == ""


def test_an_undetermined_limit_is_noted():
    notes = verdict(legs(around(50), limited_by="undetermined"))["notes"]
    assert len(notes) == 1
    assert "understated" in notes[0]


def test_end_to_end_from_stored_legs(sample):
    for effect, word in ((0.5, "improved"), (0.0, "equivalent"), (-0.1, "regressed")):
        plan = sample.schedule()
        judged = sample.judged(plan, sample.legs(plan, effect=effect, noise=0.004))
        assert verdict(judged, plan)["verdict"] == word
