# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result model and its text."""

import pytest
from ldaptune.evidence.verdict import judge
from ldaptune.figures import milliseconds, share, whole
from ldaptune.report import model
from ldaptune.report.lines import leg_line
from ldaptune.report.model import make_result
from ldaptune.report.text import summary

PLAN = [
    {"lever": "slapd.log_level", "before": 256, "after": 32768, "compare": "flip", "action": "change",
     "state": "applied", "reason": ""},
    {"lever": "slapd.threads", "before": None, "after": 32, "effective": 16, "compare": "flip", "action": "change",
     "state": "live_only", "reason": ""},
    {"lever": "database.max_size", "before": None, "after": 1073741824, "compare": "hold", "action": "change",
     "state": "applied", "reason": ""},
    {"lever": "slapd.log_file", "before": None, "after": None, "compare": "flip", "action": "skip",
     "state": "unsupported", "reason": "needs slapd 2.6"},
]  # fmt: skip
FACTS = {"slapd": {"version": "2.5.13", "pid": 1}, "host": {"cpus": 2, "name": "lab1"}, "database": None}


@pytest.fixture
def result(sample):
    def make(effect=0.5, plan=PLAN, facts=FACTS, spoil=None, aa=False, expect=None, **more):
        schedule = sample.schedule()
        legs = sample.legs(schedule, effect=effect)
        if spoil is not None:
            legs[spoil]["probe"]["phases"]["goal"]["cut_short"] = True
        judged = sample.judged(schedule, legs)
        record = {"host": "lab1", "profile": "throughput", "digest": "d1", "schedule": schedule}
        verdict = judge(judged, schedule, sample.expect(**(expect or {})), aa)
        return make_result("run1", record, judged, verdict, {"plan": plan, "facts": facts}, **more)

    return make


def test_the_sentence_comes_first_and_everything_else_is_there(result):
    text = summary(result())
    lines = text.splitlines()
    assert lines[0] == "throughput on lab1, run run1"
    assert lines[1].startswith("improved: throughput is 65 % faster than as found (95 % interval")
    for part in (
        "  keep the profile\n",
        "  required: improved by at least 3 % in throughput: met\n",
        "  p99: safe, ",
        "  errors: safe, 0.00 % as found, 0.00 % with the profile\n",
        "  slapd.log_level: stats -> none [applied]\n",
        "  slapd.threads: absent (in force: 16) -> 32 [live only]\n",
        "  slapd.log_file: absent [unsupported]: needs slapd 2.6\n",
        "Set alike in both arms, not measured\n  database.max_size\n",
        "Lost at the next restart of slapd\n  slapd.threads\n",
        "Undo\n  ansible-playbook rollback.yml -l lab1\n",
        "  slapd.version: 2.5.13\n",
        "  host.cpus: 2\n",
        "  schedule: quick, seed 7, looks after 4 blocks\n",
        "  which of the levers gave which share\n",
        "  anything about levers set alike in both arms: database.max_size\n",
    ):
        assert part in text, part
    assert "Reasons" not in text
    assert text.isascii()
    assert "NOT VALID" not in text


def test_a_value_of_another_type_is_shown_as_it_is(result):
    plan = [{"lever": "no.such", "before": [1], "after": None, "action": "change"}, {**PLAN[0], "before": "odd"}]
    text = summary(result(plan=plan))
    assert "  no.such: [1] -> absent\n" in text
    assert '  slapd.log_level: "odd" -> none [applied]' in text


def test_legs_stand_in_run_order(result):
    text = summary(result())
    places = [text.index("\n  leg %2d of 16, " % number) for number in range(1, 17)]
    assert places == sorted(places)


def test_an_invalid_run_names_the_leg_and_claims_nothing(result):
    text = summary(result(spoil=4))
    assert "Reasons\n  leg 5, " in text
    assert "phase goal was cut short (cut_short)" in text
    assert "NOT VALID" in text
    assert "Goal\n" not in text
    assert "Guards\n" not in text
    assert "faster" not in text
    assert "  leg  5 of 16, " in text
    assert "roll back to as found" in text


def test_what_is_not_known_is_left_out(result):
    made = result(plan=None, facts=None)
    assert (made["levers"], made["environment"], made["lost_at_restart"]) == ([], {}, [])
    assert "Levers" not in summary(made)
    assert "Lost at the next restart of slapd\n  nothing\n" in summary(made)


def test_the_whole_answer_of_tuning_profile_is_a_plan_too(result):
    made = result(plan={"plan": PLAN, "live_only": ["cpu.workers"], "changed": True})
    assert made["lost_at_restart"] == ["cpu.workers"]
    assert len(made["levers"]) == 4
    assert result(live_only=["cpu.listener"], undo="x")["lost_at_restart"] == ["cpu.listener"]
    assert result(undo="the command")["undo"] == "the command"


def test_the_same_settings_twice(result):
    text = summary(result(effect=0.0, aa=True))
    assert "nothing: the same settings twice" in text
    assert "asked is no difference of 3 %" in text


def test_an_unproven_or_unclaimed_p99_is_said(result):
    said = result(expect={"max_p99_increase_percent": None})["not_shown"]
    assert "p99 is not claimed: no limit was asked for" in said


def test_required_words(result):
    assert "required: no regression by not more than 3 %" in summary(result(expect={"require": "no_regression"}))
    assert "nothing was required of the goal" in summary(result(expect={"require": "none"}))


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (whole(28431.6), "28,432"),
        (whole(None), "-"),
        (milliseconds(1234567), "1.23 ms"),
        (milliseconds(None), "-"),
        (share(0.126), "0.13 %"),
        (share(None), "-"),
    ],
)
def test_figures(shown, text):
    assert shown == text


def test_a_leg_without_figures_has_dashes(sample):
    plan = sample.schedule()
    leg = {**sample.leg(plan, 0), "probe": None}
    line = leg_line(sample.judged(plan, [leg])[0], 16)
    assert "as found: - operations/s, p99 -, errors -" in line
    assert "NOT VALID: " in line


def test_levers_show_the_state_they_ended_in():
    """The plan is from before the change: all of it is pending there."""
    plan = [{**PLAN[0], "state": "pending"}, {**PLAN[1], "state": "pending"}]
    applied = {"plan": [{**PLAN[0], "state": "applied"}, {**PLAN[1], "state": "live_only"}]}
    states = {
        action: [item["state"] for item in model._with_states(plan, model._levers(applied), action)]
        for action in ("keep", "roll_back", "none")
    }
    assert states["keep"] == states["none"] == ["applied", "live_only"]
    assert states["roll_back"] == ["to be taken back"] * 2
    assert [item["state"] for item in model._with_states(plan, [], "keep")] == ["pending"] * 2
