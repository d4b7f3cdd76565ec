# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of the generator: the judgement, and the runs that it is made of."""

from __future__ import annotations

import json
import os
import random
import signal
import time

import pytest
from ldaptune.load import generator, generator_run, patterns
from ldaptune.load.generator import CLEAN, LIMITED, NEAR, OPEN, SKIPPED, Check, Null
from ldaptune.load.prepare import Settings, prepare
from ldaptune.problems import LdaptuneError, problem

# One process more


@pytest.mark.parametrize(
    ("gains", "found"),
    [
        ([1.031, 1.2, 1.04, 1.5], LIMITED),
        ([1.03, 1.2, 1.04, 1.5], OPEN),
        ([1.03, 1.03, 1.03, 1.5], CLEAN),
        ([0.9, 1.0, 1.01, 0.99], CLEAN),
        ([0.5, 0.6, 1.9, 2.0], OPEN),
        ([1.2, 1.2, 1.2], SKIPPED),
        ([], SKIPPED),
    ],
)
def test_the_rule_of_one_process_more(gains, found):
    assert generator.one_process_more(gains).found == found


def share(true_gain, noise, found, runs=4000):
    """Per cent of checks with this outcome, for legs with so much noise."""
    drawn = random.Random("%g/%g" % (true_gain, noise))
    times = 0
    for _ in range(runs):
        gains = [true_gain * max(0.05, drawn.gauss(1, noise)) / max(0.05, drawn.gauss(1, noise)) for _ in range(4)]
        times += generator.one_process_more(gains).found == found
    return 100 * times / runs


@pytest.mark.parametrize(("noise", "most"), [(0.01, 0.1), (0.03, 0.7), (0.05, 2), (0.08, 3.5), (0.5, 6.5)])
def test_without_a_difference_it_seldom_accuses(noise, most):
    assert share(1.0, noise, LIMITED) <= most


@pytest.mark.parametrize(
    ("gain", "noise", "least"), [(1.10, 0.01, 99), (1.30, 0.03, 99), (1.30, 0.05, 98), (1.6, 0.1, 95)]
)
def test_a_generator_at_its_limit_is_found(gain, noise, least):
    assert share(gain, noise, LIMITED) >= least


# The null responder


@pytest.mark.parametrize(
    ("null", "found"),
    [
        (Null(1500, 0.5, 0.5, 0.5), CLEAN),
        (Null(1500, 0.99, 0.5, 0.0), CLEAN),
        (Null(1499, 0.5, 0.5, 0.5), NEAR),
        (Null(1100, 0.5, 0.5, None), NEAR),
        (Null(1099, 0.5, 0.5, 0.5), LIMITED),
        (Null(900, 0.86, 0.5, 0.5), OPEN),  # the stub itself
        (Null(900, 0.5, 0.5, 0.05), OPEN),  # they took each other's CPU
        (Null(900, 0.5, 0.9, 0.05), LIMITED),  # the host is full, of the generator
        (Null(1600, 0.5, 0.5, 0.5, True), OPEN),
        (Null(1000, 0.5, 0.5, 0.5, True), LIMITED),
        (None, SKIPPED),
        (Null(0, 0.5, 0.5, 0.5), SKIPPED),
    ],
)
def test_the_rule_of_the_null_responder(null, found):
    assert generator.null_responder(1000.0, null).found == found


def test_no_real_figure():
    assert generator.null_responder(None, Null(1500, 0.5, 0.5, 0.5)).found == SKIPPED


# All of them


@pytest.mark.parametrize(
    ("own", "more", "null", "verdict", "by"),
    [
        (LIMITED, CLEAN, CLEAN, "generator_limited", "own"),
        (LIMITED, LIMITED, LIMITED, "generator_limited", "own"),
        (CLEAN, LIMITED, CLEAN, "generator_limited", "more"),
        (OPEN, LIMITED, CLEAN, "generator_limited", "more"),
        (CLEAN, CLEAN, LIMITED, "generator_limited", "null"),
        (OPEN, CLEAN, CLEAN, "undetermined", "own"),
        (CLEAN, CLEAN, CLEAN, "server_limited", "more"),
        (CLEAN, CLEAN, OPEN, "server_limited", "more"),
        (CLEAN, CLEAN, SKIPPED, "server_limited", "more"),
        (CLEAN, CLEAN, NEAR, "undetermined", "null"),
        (CLEAN, OPEN, CLEAN, "undetermined", "more"),
        (CLEAN, SKIPPED, CLEAN, "server_limited", "null"),
        (CLEAN, SKIPPED, OPEN, "undetermined", "more"),
        (CLEAN, SKIPPED, SKIPPED, "undetermined", "more"),
    ],
)
def test_the_order_of_the_checks(own, more, null, verdict, by):
    checks = [Check("own", own, "a"), Check("more", more, "b"), Check("null", null, "c")]
    found, why = generator.decide(checks)
    assert (found, why.startswith(by + ": ")) == (verdict, True)


def test_own_figures():
    found = [generator.own_figures(name, "").found for name in ("generator_limited", "server_limited", "undetermined")]
    assert found == [LIMITED, CLEAN, OPEN]


# The runs


def ready_for(uri, tmp_path, **more):
    path = tmp_path / "password"
    path.write_text("kept-to-itself")
    goal = {"name": "goal", "mode": "closed", "seconds": 0.3, "rate": 0}
    given = {"uri": uri, "accounts": "uid=u[0-9],dc=x", "password_file": str(path), "connections": 4, "phases": [goal]}
    return prepare(Settings(**{**given, "timeout": 5.0, **more}))


@pytest.fixture
def checked(monkeypatch, tmp_path):
    """Run the checks on a made-up run(): checked(answer) -> (result, lines, what was asked)."""

    def go(answer, **more):
        asked = []

        def made(ready, *_):
            asked.append(ready)
            given = answer(ready, len(asked))
            goal = {
                "mode": "closed", "goodput": 1000.0, "errors": 0, "limited_by": "server_limited",
                "processes": [{"cpu_seconds": 0.4, "wall_seconds": 1.0}],
            }  # fmt: skip
            found = {
                "phases": {"goal": {**goal, **given}},
                "totals": {"operations": {"bind": 10}, "connections": 4},
                "limited_by": "server_limited",
                "limited_why": "it was",
                "interrupted": False,
                "remarks": [],
            }
            found.update(given.get("run", {}))
            return found

        monkeypatch.setattr(generator_run, "run", made)
        lines = []
        times = generator_run.Times(0.1, 0.2)
        result = generator_run.run_checked(ready_for("ldap://127.0.0.1:1", tmp_path, **more), None, lines.append, times)
        json.dumps(result, allow_nan=False)
        return result, lines, asked

    return go


def null(ready):
    return ready.target.port != 1


def test_a_server_that_is_the_limit(checked):
    result, lines, asked = checked(lambda ready, _: {"goodput": 3000.0 if null(ready) else 1000.0}, sample=3)
    assert result["limited_by"] == "server_limited"
    assert "share this host" in result["limited_why"]
    check = result["generator_check"]
    assert [item["found"] for item in check["checks"]] == [CLEAN, CLEAN, CLEAN]
    assert check["null"]["goodput"] == 3000.0
    assert len(check["legs"]) == 9
    assert [ready.settings.sample for ready in asked] == [3] + [0] * 9
    # what went to the server of our own is not counted as sent to theirs
    assert result["totals"] == {"operations": {"bind": 90}, "connections": 36}
    assert lines[-1].startswith("check null responder: clean")


def test_pairs_have_both_and_their_order_is_drawn(checked):
    orders = set()
    for seed in "12345":
        _, _, asked = checked(lambda *_: {}, seed=seed, processes=2)
        order = tuple(ready.processes for ready in asked[1:9])
        assert all({order[place], order[place + 1]} == {2, 3} for place in (0, 2, 4, 6))
        assert {ready.settings.connections for ready in asked} == {4}
        orders.add(order)
    assert len(orders) > 1


def test_one_process_more_that_does_more(checked):
    result, _, _ = checked(lambda ready, _: {"goodput": (3000.0 if null(ready) else 1000.0) * ready.processes})
    assert result["limited_by"] == "generator_limited"
    assert "rose in each of 4 pairs" in result["limited_why"]


def test_a_ceiling_that_is_too_near(checked):
    result, _, _ = checked(lambda ready, _: {"goodput": 1300.0 if null(ready) else 1000.0})
    assert result["generator_check"]["checks"][2]["found"] in (NEAR, OPEN)  # open where this host is full just now


def test_one_connection_a_process(checked):
    result, _, asked = checked(lambda ready, _: {"goodput": 3000.0 if null(ready) else 1000.0}, connections=1)
    assert result["generator_check"]["checks"][1]["found"] == SKIPPED
    assert (result["limited_by"], len(asked)) == ("server_limited", 2)


def test_a_server_that_takes_no_more_is_said(checked):
    def answer(ready, number):
        if number == 4:
            raise LdaptuneError(problem("cannot connect (reset)"))
        return {}

    result, _, _ = checked(answer)
    assert "cannot connect (reset)" in result["generator_check"]["checks"][1]["why"]


@pytest.mark.parametrize("when", [1, 3, 10])
def test_an_interruption_is_no_verdict(checked, when):
    result, _, asked = checked(lambda ready, number: {"run": {"interrupted": number == when}})
    assert (result["interrupted"], len(asked)) == (True, when)
    if when > 1:
        assert result["limited_by"] == "undetermined"


def test_a_signal_between_two_runs(checked):
    def answer(ready, number):
        if number == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return {}

    result, _, asked = checked(answer)
    assert (result["interrupted"], len(asked)) == (True, 3)


@pytest.fixture
def echo(fake_server, answers):
    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id))

    return fake_server(script)


def test_a_generator_that_sleeps_is_caught_by_the_run_and_by_the_stub(echo, tmp_path, monkeypatch):
    plain = patterns.drawer

    def slow(*given):
        draw = plain(*given)
        return lambda: (time.sleep(0.004), draw())[1]

    monkeypatch.setattr(patterns, "drawer", slow)
    times = generator_run.Times(0.1, 0.4)
    result = generator_run.run_checked(ready_for(echo.uri, tmp_path), None, None, times)
    checks = {item["name"]: item["found"] for item in result["generator_check"]["checks"]}
    assert result["limited_by"] == "generator_limited"
    assert checks["own figures"] == LIMITED
    # the sleep is the generator's, so it is as slow against a server that does nothing, and two are twice as fast
    assert checks["one process more"] == LIMITED, result["generator_check"]
    assert "kept-to-itself" not in json.dumps(result)


@pytest.mark.parametrize("workload", ["bind", "search"])
def test_the_stub_gives_the_right_answers_to_every_workload(tmp_path, workload):
    """The null responder against the probe itself: no operation fails."""
    from ldaptune.load.null_responder import NullResponder

    with NullResponder(60, processes=2, connections=4) as stub:
        ready = ready_for(stub.target.uri, tmp_path, workload=workload, processes=2, sample=2)
        result = generator_run.run_checked(ready, None, None, generator_run.Times(0.1, 0.1))
    goal = result["phases"]["goal"]
    assert (goal["errors"], goal["failures"], goal["connections_lost"]) == (0, {}, 0)
    assert goal["successes"] > 10
    assert [leg["errors"] for leg in result["generator_check"]["legs"]] == [0] * 9
