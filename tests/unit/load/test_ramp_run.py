# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of a ramp: what each measurement does, what is said, how it ends early."""

from __future__ import annotations

import json
import os
import signal

import pytest
from ldaptune.load import ramp_run
from ldaptune.load.prepare import Settings, prepare
from ldaptune.load.ramp import Rules
from ldaptune.problems import LdaptuneError, problem

BRIEF = ramp_run.Times(0, 0.05, 0.15)


def ready_for(uri, tmp_path, limit, **more):
    path = tmp_path / "password"
    path.write_text("kept-to-itself")
    given = {"uri": uri, "accounts": "uid=u[0-9],dc=x", "password_file": str(path), "connections": limit}
    return prepare(Settings(**{**given, **more}))


class Made:
    """Stands for run(): what it was asked, and what it answers by client count."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def __call__(self, ready):
        self.asked.append(ready)
        clients = ready.settings.connections
        given = self.answer(clients, len(self.asked))
        goal = {
            "goodput": 1000.0, "operations": 1000, "errors": 0, "error_percent": 0.0, "codes": {}, "failures": {},
            "connections": clients, "connections_lost": 0, "processes": [], "limited_by": "server_limited",
            "limited_why": "it was", "seconds": 1.0, "cut_short": False,
            "latency_ns": {"p50": 100000, "p90": 110000, "p99": None, "max": 120000},
        }  # fmt: skip
        found = {
            "phases": {"goal": {**goal, **given}},
            "totals": {"operations": {"bind": 10}, "connections": clients},
            "interrupted": False,
            "remarks": [{"what": "busy", "text": "later", "count": 2}],
        }
        found.update(given.get("run", {}))
        return found


@pytest.fixture
def climb(monkeypatch, tmp_path):
    """Run a ramp on a made-up run(): climb(answer, limit) -> (result, lines, what was asked)."""

    def go(answer, limit=64, **more):
        made = Made(answer)
        monkeypatch.setattr(ramp_run, "run", made)
        lines = []
        ready = ready_for("ldap://127.0.0.1:1", tmp_path, limit, **more)
        result = ramp_run.run_ramp(ready, Rules(limit), ramp_run.Times(3, 1, 2), lines.append)
        json.dumps(result, allow_nan=False)
        return result, lines, made.asked

    return go


def falling(clients, _):
    rates = {1: 2300, 2: 4500, 4: 8600, 8: 15000, 12: 18800, 16: 20900, 24: 22000, 32: 21300, 48: 19800}
    return {"goodput": float(rates.get(clients, 21500))}


def test_the_2007_record_in_words(climb):
    result, lines, asked = climb(falling)
    assert result["line"] == "knee 24 clients: 22000/s; peak 24 clients: 22000/s; falls to 19800/s at 48"
    assert lines[0] == "ramp 1 client: 2300 successes/s, p50 100 us, p99 -"
    assert lines[6].startswith("ramp 24 clients: 22000")
    assert len(lines) == len(asked) == len(result["ramp"]["measurements"])
    assert result["totals"]["operations"] == {"bind": 10 * len(asked)}
    assert result["remarks"] == [{"what": "busy", "text": "later", "count": 2 * len(asked)}]
    assert (result["limited_by"], result["interrupted"]) == ("server_limited", False)


def test_figures_that_do_not_agree_are_said(climb):
    def answer(clients, number):
        return {"goodput": falling(clients, number)["goodput"] * (1.5 if number > 14 else 1)}

    result, _, _ = climb(answer)
    assert result["ramp"]["spread_percent"] > 20
    assert "noisy: figures of one client count differ by up to" in result["line"]


def test_the_sample_and_the_first_pass_are_done_once(climb):
    _, _, asked = climb(falling, sample=7, processes=4)
    assert [ready.settings.sample for ready in asked[:3]] == [7, 0, 0]
    names = [[spec["name"] for spec in ready.settings.phases] for ready in asked[:2]]
    assert names == [["prime", "settle", "goal"], ["settle", "goal"]]
    assert [ready.processes for ready in asked[:4]] == [1, 2, 4, 4]


def test_where_the_generator_was_the_limit_there_is_no_peak_of_the_server(climb):
    def answer(clients, number):
        more = {"limited_by": "generator_limited", "limited_why": "used 90 % of a core"} if clients >= 16 else {}
        return {**falling(clients, number), **more}

    result, lines, _ = climb(answer)
    assert result["limited_by"] == "generator_limited"
    assert "generator limited from 16 clients on: the true peak may lie higher" in result["line"]
    assert "peak 24" not in result["line"]
    assert "used 90 % of a core" in lines[5]


def test_errors_end_it_and_are_said(climb):
    def answer(clients, number):
        return {**falling(clients, number), **({"errors": 5, "error_percent": 0.5} if clients == 12 else {})}

    result, _, _ = climb(answer)
    assert "stopped at 12 clients: 0.5 % of operations failed" in result["line"]
    assert result["ramp"]["peak"]["clients"] == 8


def test_connections_that_cannot_be_made_end_it_unless_they_are_the_first(climb):
    def refuse(first):
        def answer(clients, _):
            if clients >= first:
                raise LdaptuneError(problem("cannot connect (reset)"))
            return falling(clients, 0)

        return answer

    result, lines, _ = climb(refuse(16))
    assert "stopped at 16 clients: cannot connect" in result["line"]
    assert "ramp 16 clients: cannot connect (reset)" in lines
    with pytest.raises(LdaptuneError, match="cannot connect"):
        climb(refuse(1))


def test_an_interruption_keeps_what_there_is(climb):
    def answer(clients, number):
        return {**falling(clients, number), "run": {"interrupted": number == 5}}

    result, _, asked = climb(answer)
    assert (len(asked), result["interrupted"], result["ramp"]["cut_short"]) == (5, True, True)
    assert result["line"] == (
        "highest single figure 15000/s at 8 clients, not measured again: no peak and no knee; cut short"
    )


def test_a_signal_between_two_measurements_ends_it_too(climb):
    before = signal.getsignal(signal.SIGINT)

    def answer(clients, number):
        if number == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return falling(clients, number)

    result, _, asked = climb(answer)
    assert (len(asked), result["interrupted"]) == (3, True)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_process_that_died_makes_it_invalid(climb):
    def answer(clients, number):
        return {**falling(clients, number), "run": {"worker_died": "worker process 0 ended"} if number == 2 else {}}

    result, _, asked = climb(answer)
    assert (len(asked), result["limited_by"], result["worker_died"]) == (
        2,
        "generator_limited",
        "worker process 0 ended",
    )


def test_against_a_server(fake_server, answers, tmp_path):
    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id))

    server = fake_server(script)
    lines = []
    result = ramp_run.run_ramp(ready_for(server.uri, tmp_path, 4, sample=2), Rules(4), BRIEF, lines.append)
    found = result["ramp"]
    assert [row["clients"] for row in found["measurements"] if row["kind"] == "step"] == [1, 2, 4]
    assert found["peak"]["goodput"] > 0
    assert result["totals"]["connections"] == sum(row["clients"] for row in found["measurements"])
    assert result["sample"]["tried"] == 2
    assert "kept-to-itself" not in json.dumps(result) + "".join(lines)
