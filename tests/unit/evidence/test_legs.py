# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judging a leg: each way to spoil it gives its own reason, and a whole one gives none."""

import re

import pytest
from ldaptune.evidence.legs import foreign_difference, judge_leg


def counters(leg, end):
    return leg["server"][end]["counters"]["operations"]


def add(leg, name, number):
    counters(leg, "finish")[name] += number
    counters(leg, "finish")["total"] += number


def lever(leg, end="finish"):
    return leg["readback"][end]["levers"]["slapd.log_level"]


def set_drifted(leg):
    lever(leg).update(state="drifted", effective=0)
    leg["readback"]["finish"]["ok"] = False


def set_wrong(leg):
    lever(leg, "start").update(effective=0)
    leg["readback"]["start"]["ok"] = False


def set_phase(name, **values):
    return lambda leg: leg["probe"]["phases"][name].update(values)


def server_share(leg, share):
    """Foreign searches that make this share of everything counted (one foreign unbind is there already)."""
    total = counters(leg, "finish")["total"] - counters(leg, "start")["total"]
    add(leg, "search", round(share * total / (1 - share)))


SPOILT = [
    ("server_counted_fewer", lambda leg: add(leg, "bind", -2), "bind operations"),
    ("foreign_load", lambda leg: server_share(leg, 0.055), "at most 5 %"),
    ("not_counted", lambda leg: leg["server"]["finish"].pop("counters"), "cn=monitor"),
    ("not_counted", lambda leg: leg["server"]["start"].pop("slapd"), "process was not read"),
    ("drifted", set_drifted, "slapd.log_level was changed by someone else: found 0, wanted 256"),
    ("readback", set_wrong, r"slapd.log_level \(found 0, wanted 256\)"),
    ("readback", lambda leg: leg["readback"].pop("finish"), "not read back at the finish"),
    ("connection_lost", set_phase("settle", connections_lost=1), "1 connections lost"),
    ("connection_lost", set_phase("goal", failures={"reset": 3}), "reset 3"),
    ("connection_lost", set_phase("goal", failures={"eof_idle": 2}), "eof_idle 2"),
    ("connection_lost", set_phase("goal", failures={"connect_refused": 4}), "connect_refused 4"),
    ("connection_lost", set_phase("fixed", failures={"notice_of_disconnection": 1}), "notice_of_disconnection 1"),
    ("dropped_out", lambda leg: leg["probe"].update(dropped_out=[{"text": "g2 has no seconds"}]), "g2 has no"),
    ("generator_limited", lambda leg: leg["probe"].update(limited_by="generator_limited", limited_why="CPU"), "CPU"),
    ("server_restarted", lambda leg: leg["server"]["finish"]["slapd"].update(pid=1), "restarted within"),
    ("server_restarted", lambda leg: leg["server"]["finish"]["slapd"].update(start=100), "restarted within"),
    ("cut_short", set_phase("goal", cut_short=True), "goal was cut short"),
    ("cut_short", set_phase("goal", seconds=2.2), "ran 2.2 of 2.5 seconds"),
    ("cut_short", lambda leg: leg["probe"]["phases"].pop("fixed"), "fixed did not run"),
    ("errors", set_phase("goal", goodput=0.0), "no operation succeeded"),
    ("errors", set_phase("goal", goodput=None), "no operation succeeded"),
    ("errors", set_phase("goal", goodput=float("nan")), "no operation succeeded"),
    ("errors", set_phase("goal", errors=60, codes={"busy": 60}), "busy 60"),
]


def test_what_a_lost_generator_sent_is_not_called_foreign(sample):
    plan = sample.schedule()
    leg = sample.leg(plan, 0)
    server_share(leg, 0.4)
    leg["probe"]["dropped_out"] = [{"text": "generator g2 gave no result"}]
    judged = judge_leg(leg, plan, 0.1)
    assert [item["code"] for item in judged["reasons"]] == ["dropped_out"]


def test_a_whole_leg(sample):
    plan = sample.schedule()
    judged = judge_leg(sample.leg(plan, 0), plan, 0.1)
    assert judged["reasons"] == []
    assert judged["valid"] is True
    assert judged["goodput"] == 10000
    assert judged["p99_ns"] == 1000000
    assert judged["foreign_operations"] == 1
    assert judged["error_percent"] == 0
    assert judged["achieved"] == 1
    assert judged["cpu_per_kop"] == pytest.approx(0.05, rel=0.01)


@pytest.mark.parametrize(("code", "spoil", "text"), SPOILT, ids=[item[2] + " " + item[0] for item in SPOILT])
def test_each_fault_has_its_reason(sample, code, spoil, text):
    plan = sample.schedule()
    leg = sample.leg(plan, 0)
    spoil(leg)
    judged = judge_leg(leg, plan, 0.1)
    assert judged["valid"] is False
    assert [item["code"] for item in judged["reasons"]] == [code]
    assert re.search(text, judged["reasons"][0]["text"])


def test_foreign_load_below_the_limit_is_let_pass(sample):
    plan = sample.schedule()
    leg = sample.leg(plan, 0)
    server_share(leg, 0.045)
    judged = judge_leg(leg, plan, 0.1)
    assert judged["valid"]
    assert judged["foreign_percent"] == pytest.approx(4.5, abs=0.1)


def test_foreign_operations_do_not_hide_that_the_server_counted_fewer(sample):
    plan = sample.schedule()
    leg = sample.leg(plan, 0)
    add(leg, "search", 500)
    add(leg, "bind", -500)
    assert judge_leg(leg, plan, 0.1)["reasons"][0]["code"] == "server_counted_fewer"


def test_a_total_alone_is_enough_to_see_fewer(sample):
    plan = sample.schedule()
    leg = sample.leg(plan, 0)
    for end in ("start", "finish"):
        leg["server"][end]["counters"]["operations"] = {"total": counters(leg, end)["total"]}
    assert judge_leg(leg, plan, 0.1)["valid"]
    leg["server"]["finish"]["counters"]["operations"]["total"] -= 100
    assert judge_leg(leg, plan, 0.1)["reasons"][0]["code"] == "server_counted_fewer"


def test_the_profile_may_err_more_for_that_is_a_guard(sample):
    plan = sample.schedule()
    index = next(leg["index"] for leg in plan["legs"] if leg["arm"] == "profile")
    judged = judge_leg(sample.leg(plan, index, errors=600), plan, 0.1)
    assert judged["valid"]
    assert judged["error_percent"] > 1


def test_counters_that_went_back_are_a_restart(sample):
    plan = sample.schedule()
    leg = sample.leg(plan, 1)
    leg["server"]["finish"]["counters"]["operations"] = {"total": 3}
    codes = [item["code"] for item in judge_leg(leg, plan, 0.1)["reasons"]]
    assert codes == ["server_restarted", "server_counted_fewer"]


def test_live_legs_share_one_process(sample):
    plan = sample.schedule()
    first, second = sample.leg(plan, 0), sample.leg(plan, 1, pid=99)
    judged = judge_leg(second, plan, 0.1, first)
    assert [item["code"] for item in judged["reasons"]] == ["server_restarted"]
    assert "since the leg before" in judged["reasons"][0]["text"]


def test_restart_legs_need_a_fresh_process(sample):
    plan = sample.schedule(restart=True)
    first, second = sample.leg(plan, 0), sample.leg(plan, 1)
    assert judge_leg(second, plan, 0.1, first)["valid"]
    for end in ("start", "finish"):
        second["server"][end]["slapd"].update(first["server"]["finish"]["slapd"])
    judged = judge_leg(second, plan, 0.1, first)
    assert [item["code"] for item in judged["reasons"]] == ["readback"]
    assert "not restarted" in judged["reasons"][0]["text"]


def test_a_leg_without_anything_is_told_apart_and_breaks_nothing(sample):
    plan = sample.schedule()
    judged = judge_leg({"index": 0, "block": 0, "position": 0, "arm": "profile", "probe": None}, plan, 0.1)
    codes = {item["code"] for item in judged["reasons"]}
    assert codes == {"readback", "not_counted", "cut_short", "errors"}
    assert judged["goodput"] is None
    assert judged["cpu_per_kop"] is None


def test_foreign_difference_between_the_arms(sample):
    plan = sample.schedule()
    made = sample.legs(plan)
    assert foreign_difference(sample.judged(plan, made)) < 0.1
    for leg in made:
        if leg["arm"] == "profile":
            server_share(leg, 0.03)
    assert foreign_difference(sample.judged(plan, made)) == pytest.approx(3, abs=0.1)
    assert foreign_difference([]) is None


def test_a_latency_that_is_the_generators_own_is_no_figure_of_the_server(sample):
    plan = sample.schedule()
    leg = sample.leg(plan, 0)
    leg["probe"]["phases"]["fixed"].update(limited_by="generator_limited", limited_why="process 1 of 1 sent late")
    judged = judge_leg(leg, plan, 0.1)
    assert judged["valid"]
    assert (judged["p99_ns"], judged["service_p99_ns"], judged["achieved"]) == (None, None, None)
    assert judged["own_latency"] == "process 1 of 1 sent late"
    assert judged["goodput"] == 10000.0
