# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison in a run directory, from plan to verdict, and again from its files."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ldaptune.comparison import added, judged_again, planned, primed
from ldaptune.problems import LdaptuneError
from ldaptune.report.command import main

ABOUT = {"host": "lab1", "profile": "throughput", "digest": "d1"}
PRIMING = {"phases": {"prime": {"seconds": 1.0}, "goal": {"goodput": 10000.0}}}


@pytest.fixture
def run_dir(tmp_path):
    return str(tmp_path / "run1")


def begin(run_dir, kind="quick", expect=None, **more):
    begun = planned(run_dir, kind=kind, seed=7, restart=False, expect=expect, about=ABOUT, **more)
    assert (begun["continue"], begun["next"], begun["verdict"]) == (True, None, None)
    return primed(run_dir, PRIMING)["schedule"]


def stored(run_dir, name):
    with open(os.path.join(run_dir, name), encoding="utf-8") as stream:
        return json.load(stream)


def contents(run_dir, names):
    return {name: (Path(run_dir) / name).read_bytes() for name in names}


def add_all(run_dir, legs):
    answers = []
    for leg in legs:
        answers.append(added(run_dir, leg))
        if not answers[-1]["continue"]:
            break
    return answers


def test_a_whole_run(run_dir, sample):
    plan = begin(run_dir)
    answers = add_all(run_dir, sample.legs(plan, effect=math.log(2.82)))
    assert len(answers) == 16
    assert [answer["continue"] for answer in answers] == [True] * 15 + [False]
    assert [len(answer["next"]["legs"]) for answer in answers[:-1]] == [3, 2, 1, 4] * 3 + [3, 2, 1]
    assert answers[-1]["next"] is None
    assert all(answer["verdict"] is None for answer in answers[:-1])
    assert answers[-1]["verdict"]["verdict"] == "improved"
    assert answers[0]["line"].startswith("leg  1 of 16, block 1, as found: 10,0")
    assert stored(run_dir, "verdict.json") == answers[-1]["verdict"]
    assert stored(run_dir, "result.json")["schema_version"] == 1
    legs = stored(run_dir, "legs.json")
    assert (legs["schema"], legs["host"], legs["profile"], legs["digest"], len(legs["legs"])) == (
        1,
        "lab1",
        "throughput",
        "d1",
        16,
    )


def test_judged_again_from_its_files_says_the_same(run_dir, sample):
    plan = begin(run_dir)
    add_all(run_dir, sample.legs(plan, effect=0.5))
    names = ("verdict.json", "result.json", "summary.txt")
    before = contents(run_dir, names)
    for name in names:
        os.unlink(os.path.join(run_dir, name))
    again = judged_again(run_dir)
    assert again["verdict"]["verdict"] == "improved"
    assert again["line"] == again["verdict"]["sentence"]
    assert contents(run_dir, names) == before


def test_it_looks_only_when_planned_and_stops_when_settled(run_dir, sample):
    plan = begin(run_dir, "standard")
    answers = add_all(run_dir, sample.legs(plan, 48, effect=0.2))
    assert len(answers) == 16
    assert answers[-1]["verdict"]["verdict"] == "improved"


def test_it_goes_on_while_nothing_is_shown(run_dir, sample):
    plan = begin(run_dir, "standard")
    answers = add_all(run_dir, sample.legs(plan, 48, effect=0.0, noise=0.2))
    assert len(answers) == 48
    assert all(answer["verdict"] is None for answer in answers[:-1])
    assert answers[-1]["verdict"]["verdict"] == "inconclusive"


def test_an_invalid_leg_ends_the_run_at_once(run_dir, sample):
    plan = begin(run_dir)
    legs = sample.legs(plan)
    legs[5]["probe"]["phases"]["goal"]["cut_short"] = True
    answers = add_all(run_dir, legs)
    assert len(answers) == 6
    assert answers[-1]["verdict"]["verdict"] == "invalid"
    assert "NOT VALID: phase goal was cut short" in answers[-1]["line"]
    assert stored(run_dir, "verdict.json")["exit_code"] == 5


def test_a_leg_is_on_disk_before_it_is_judged(run_dir, sample, monkeypatch):
    plan = begin(run_dir)
    monkeypatch.setattr("ldaptune.comparison.judge_legs", lambda record: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        added(run_dir, sample.leg(plan, 0))
    assert len(stored(run_dir, "legs.json")["legs"]) == 1


def test_nan_from_a_probe_becomes_null(run_dir, sample):
    plan = begin(run_dir)
    leg = sample.leg(plan, 0)
    leg["probe"]["phases"]["goal"]["goodput"] = float("nan")
    answer = added(run_dir, leg)
    assert answer["verdict"]["verdict"] == "invalid"
    assert stored(run_dir, "legs.json")["legs"][0]["probe"]["phases"]["goal"]["goodput"] is None


def test_no_success_as_found_is_invalid_and_no_logarithm_of_nothing(run_dir, sample):
    plan = begin(run_dir)
    answer = added(run_dir, sample.leg(plan, 0, goodput=0.0))
    assert answer["verdict"]["verdict"] == "invalid"
    assert "no operation succeeded" in answer["verdict"]["sentence"]


@pytest.mark.parametrize(("key", "value"), [("index", 1), ("index", "0"), ("arm", "profile"), ("arm", None)])
def test_only_the_leg_that_is_due(run_dir, sample, key, value):
    plan = begin(run_dir)
    with pytest.raises(LdaptuneError, match="leg that is due"):
        added(run_dir, {**sample.leg(plan, 0), key: value})
    assert stored(run_dir, "legs.json")["legs"] == []


def test_no_leg_after_the_last(run_dir, sample):
    plan = begin(run_dir)
    legs = sample.legs(plan)
    add_all(run_dir, legs)
    with pytest.raises(LdaptuneError, match="all legs"):
        added(run_dir, legs[-1])


def test_a_run_is_not_begun_twice(run_dir, sample):
    plan = begin(run_dir)
    begin(run_dir)  # without legs it is
    added(run_dir, sample.leg(plan, 0))
    with pytest.raises(LdaptuneError, match="already has legs"):
        begin(run_dir)


def test_no_run_and_a_run_of_another_schema(tmp_path):
    with pytest.raises(LdaptuneError, match="no such run"):
        judged_again(str(tmp_path))
    (tmp_path / "legs.json").write_text('{"schema": 2}')
    with pytest.raises(LdaptuneError, match="another schema"):
        judged_again(str(tmp_path))


def test_priming_that_fails_is_refused(run_dir):
    planned(run_dir, kind="quick", seed=7, restart=False, expect=None, about=ABOUT)
    for probe in ({}, {"phases": {"goal": {"goodput": float("nan")}}}, {"phases": {"goal": {"goodput": 0}}}):
        with pytest.raises(LdaptuneError, match="answered nothing"):
            primed(run_dir, probe)


def test_a_broken_run_stays_broken(run_dir, sample):
    plan = begin(run_dir)
    add_all(run_dir, sample.legs(plan, effect=0.5))
    assert judged_again(run_dir, broken="the host became unreachable")["verdict"]["verdict"] == "invalid"
    assert judged_again(run_dir)["verdict"]["verdict"] == "invalid"


def test_unwritten_when_told_so(run_dir, sample, tmp_path):
    planned(run_dir, kind="quick", seed=7, restart=False, expect=None, about=ABOUT, write=False)
    assert list(tmp_path.iterdir()) == []
    plan = begin(run_dir)
    before = {name: os.stat(os.path.join(run_dir, name)).st_mtime_ns for name in os.listdir(run_dir)}
    primed(run_dir, PRIMING, write=False)
    added(run_dir, sample.leg(plan, 0), write=False)
    judged_again(run_dir, "broken", write=False)
    assert {name: os.stat(os.path.join(run_dir, name)).st_mtime_ns for name in os.listdir(run_dir)} == before


def test_the_same_settings_twice(run_dir, sample):
    plan = begin(run_dir, aa=True)
    answers = add_all(run_dir, sample.legs(plan, effect=0.5))
    assert answers[-1]["verdict"]["verdict"] == "invalid"
    assert "cannot be trusted" in answers[-1]["verdict"]["sentence"]


@pytest.mark.parametrize(
    ("effect", "spoil", "code"),
    [(0.5, None, 0), (-0.1, None, 3), (0.0, None, 4), (0.5, 3, 5)],
    ids=["better", "worse", "same", "spoilt"],
)
def test_the_gate_can_fail(run_dir, sample, capsys, effect, spoil, code):
    plan = begin(run_dir)
    legs = sample.legs(plan, effect=effect, noise=0.004)
    if spoil is not None:
        legs[spoil]["probe"]["limited_by"] = "generator_limited"
    verdict = add_all(run_dir, legs)[-1]["verdict"]
    assert main([run_dir]) == code
    assert capsys.readouterr().out == verdict["sentence"] + "\n"


AGAIN = "import sys; from ldaptune.comparison import judged_again; judged_again(sys.argv[1])"


def test_byte_equal_under_another_locale_and_time_zone(run_dir, sample, checkout):
    plan = begin(run_dir)
    add_all(run_dir, sample.legs(plan, effect=0.5))
    seen = []
    for number, place in enumerate(({"LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Kolkata"}, {"LC_ALL": "C", "TZ": "UTC"})):
        environment = {**os.environ, **place, "PYTHONHASHSEED": str(number + 1)}
        environment["PYTHONPATH"] = str(checkout / "module_utils")
        subprocess.run([sys.executable, "-c", AGAIN, run_dir], env=environment, check=True)
        seen.append(contents(run_dir, os.listdir(run_dir)))
    assert seen[0] == seen[1]
    assert b"1,5 ms" not in seen[0]["summary.txt"]


def test_what_was_at_its_limit_is_said_by_leg_and_by_arm(run_dir, sample):
    plan = begin(run_dir)
    legs = sample.legs(plan, effect=math.log(2.82))
    text = "the listener thread is at %d %%"
    for number, leg in enumerate(legs):
        listener = 91.0 + number // 2 if leg["arm"] == "profile" else 10.0
        busy = {"cpu": 0, "busy": 50.0, "softirq": 0.0, "irq": 0.0, "iowait": 0.0, "steal": 0.0}
        slapd = {"listeners": [{"tid": 2, "percent": listener}], "workers": {}}
        leg["sample"] = {"loaded_intervals": 1, "cpus": [busy], "slapd": slapd, "disks": []}
        if number == 0:
            leg["sample"] = {"reason": "no room"}
    answers = add_all(run_dir, legs)
    assert "; what the limit was is not known: no room" in answers[0]["line"]
    said = [text % (91 + number // 2) in answer["line"] for number, answer in enumerate(answers)]
    assert said == [leg["arm"] == "profile" for leg in legs]
    # The latest of them speaks for all.
    text %= 91 + max(leg["index"] for leg in legs if leg["arm"] == "profile") // 2
    result = stored(run_dir, "result.json")
    assert result["diagnosis"]["profile"] == {"code": "listener_saturated", "text": text, "legs": 8, "of": 8}
    assert (result["diagnosis"]["as_found"]["code"], result["diagnosis"]["as_found"]["legs"]) == ("nothing_found", 7)
    summary = (Path(run_dir) / "summary.txt").read_text(encoding="utf-8")
    assert "What was at its limit\n  as found  no limit was found" in summary
    assert "  profile   %s (listener_saturated in 8 of 8 legs)\n" % text in summary
    # What is stored judges the same again.
    judged_again(run_dir)
    assert stored(run_dir, "result.json")["diagnosis"] == result["diagnosis"]


def test_legs_without_samples_have_no_diagnosis(run_dir, sample):
    answers = add_all(run_dir, sample.legs(begin(run_dir), effect=math.log(2.82)))
    assert answers[0]["judged"]["diagnosis"] == [] and answers[0]["line"].endswith("foreign 1")
    assert stored(run_dir, "result.json")["diagnosis"] == {}
    assert "at its limit" not in (Path(run_dir) / "summary.txt").read_text(encoding="utf-8")


def test_a_load_that_was_not_whole_primes_nothing(run_dir):
    planned(run_dir, kind="quick", seed=7, restart=False, expect=None, about=ABOUT)
    with pytest.raises(LdaptuneError, match="generator g2 gave no result"):
        primed(run_dir, {**PRIMING, "dropped_out": [{"text": "generator g2 gave no result"}]})
