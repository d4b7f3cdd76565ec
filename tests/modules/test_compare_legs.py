# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module compare_legs: its states in order, its refusals, check mode."""

import json
import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

sample = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "unit" / "evidence" / "sample.py")))
PROBE = {"phases": {"prime": {"seconds": 1.0}, "goal": {"goodput": 10000.0}}}


@pytest.fixture
def compare(run_module, tmp_path):
    run_dir = tmp_path / "runs" / "run1"

    def run(state, check=False, **arguments):
        return run_module("compare_legs", {"state": state, "run_dir": str(run_dir), **arguments}, check=check)

    run.dir = run_dir
    return run


def test_from_plan_to_verdict(compare):
    begun = compare("planned", schedule="quick", seed=7, host="lab1", profile="throughput", digest="d1")
    assert (begun["changed"], begun["continue"], begun["next"], begun["legs_done"]) == (False, True, None, 0)
    assert [item["name"] for item in begun["prime"]] == ["prime", "settle", "goal"]
    assert begun["line"].startswith("quick schedule: 16 legs to the first look, about 117 s; at most 16 legs, ")
    primed = compare("primed", probe=PROBE)
    assert [leg["index"] for leg in primed["next"]["legs"]] == [0, 1, 2, 3]
    assert primed["schedule"]["fixed"]["rate"] == 7000
    for leg in sample.legs(primed["schedule"], effect=math.log(1.5)):
        answer = compare("added", leg=leg)
        assert answer["changed"] is False
        assert answer["judged"]["valid"]
    assert (answer["continue"], answer["next"], answer["legs_done"]) == (False, None, 16)
    assert answer["verdict"]["verdict"] == "improved"
    assert json.loads((compare.dir / "verdict.json").read_text()) == answer["verdict"]
    again = compare("judged", undo="the way home", live_only=["slapd.threads"])
    assert again["verdict"] == answer["verdict"]
    assert "  the way home\n" in (compare.dir / "summary.txt").read_text()
    closed = compare("judged", outcome="kept on lab1", live_only=["cpu.workers"])
    tail = ", kept on lab1; lost at next restart: cpu.workers; report: %s/%s" % (
        compare.dir.parent.name,
        compare.dir.name,
    )
    assert closed["line"] == answer["verdict"]["sentence"] + tail
    assert compare("judged")["line"] == closed["line"]
    assert compare("judged", broken="unreachable")["verdict"]["exit_code"] == 5


def test_expectations_and_overhead_arrive(compare):
    begun = compare(
        "planned",
        schedule="standard",
        restart=True,
        aa=True,
        expect={"goal": "cpu_per_op", "max_p99_increase_percent": None},
        overhead={"leg_overhead": 1.0},
    )
    record = json.loads((compare.dir / "legs.json").read_text())
    assert record["aa"] is True
    assert record["expect"]["goal"] == "cpu_per_op"
    assert (record["schedule"]["restart"], record["schedule"]["p99"]) == (True, False)
    assert record["schedule"]["overhead"] == {"leg": 1.0, "leg_worst": 5.0, "run": 10.0}
    assert begun["schedule"]["looks"] == [4, 8, 12]


def test_a_seed_is_drawn_and_stored(compare):
    seeds = {compare("planned", schedule="quick")["schedule"]["seed"] for _ in range(3)}
    assert len(seeds) == 3
    assert json.loads((compare.dir / "legs.json").read_text())["schedule"]["seed"] in seeds


@pytest.mark.parametrize(
    ("state", "arguments", "text"),
    [
        ("planned", {"expect": {"goal": "speed"}}, "expect.goal"),
        ("primed", {}, "probe"),
        ("primed", {"probe": PROBE}, "no such run"),
        ("added", {}, "leg"),
        ("added", {"leg": {"index": 0}}, "no such run"),
        ("judged", {}, "no such run"),
        ("finished", {}, "value of state must be one of"),
    ],
)
def test_refusals(compare, state, arguments, text):
    answer = compare(state, **arguments)
    assert answer["failed"]
    assert text in answer["msg"]


def test_problems_come_as_data(compare):
    assert compare("judged")["problems"][0]["what"] == "no such run"


def test_a_run_directory_that_cannot_be_made(compare):
    compare.dir.parent.parent.joinpath("runs").write_text("a file")
    answer = compare("planned", schedule="quick")
    assert answer["failed"]
    assert "run directory" in answer["msg"] or "cannot be read" in answer["msg"]


def test_check_mode_writes_nothing(compare):
    assert compare("planned", check=True, schedule="quick")["schedule"]["kind"] == "quick"
    assert not compare.dir.parent.exists()
    compare("planned", schedule="quick", seed=7)
    plan = compare("primed", probe=PROBE)["schedule"]
    before = {path.name: path.read_bytes() for path in compare.dir.iterdir()}
    assert compare("added", check=True, leg=sample.leg(plan, 0))["judged"]["valid"]
    compare("judged", check=True, broken="x")
    assert {path.name: path.read_bytes() for path in compare.dir.iterdir()} == before
