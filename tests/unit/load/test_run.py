# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole runs against fake servers: settings, worker processes, interruption, death."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time

import pytest
from ldaptune.load import agreed, patterns, prepare, run, wire, workers
from ldaptune.load.prepare import Settings
from ldaptune.problems import LdaptuneError

GOAL = {"name": "goal", "mode": "closed", "seconds": 0.3, "rate": 0}


@pytest.fixture
def password_file(tmp_path):
    path = tmp_path / "password"
    path.write_text("kept-to-itself\n")
    return str(path)


@pytest.fixture
def echo(fake_server, answers):
    """A server that answers success to all binds, not too fast."""

    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id))

    return fake_server(script)


def settings(server, password_file, /, **more):
    given = {
        "uri": server.uri if hasattr(server, "uri") else server,
        "accounts": "uid=user.[0-9],dc=x",
        "password_file": password_file,
        "connections": 2,
        "phases": [GOAL],
        "timeout": 5.0,
    }
    return Settings(**{**given, **more})


def binds(server):
    return [request for request in server.requests if request.tag == wire.BIND_REQUEST]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run(echo, password_file, processes):
    phases = [{"name": "prime", "mode": "pass", "seconds": 5, "rate": 0}, GOAL]
    result = run.run(prepare.prepare(settings(echo, password_file, phases=phases, processes=processes)))
    assert list(result["phases"]) == ["prime", "goal"]
    assert result["totals"]["operations"]["bind"] == len(binds(echo))
    assert result["totals"]["operations"]["unbind"] == result["totals"]["connections"] == 2
    goal = result["phases"]["goal"]
    assert goal["operations"] == goal["successes"] == goal["codes"]["success"] == sum(goal["histogram"].values())
    assert len(goal["processes"]) == processes
    assert goal["connections"] == 2
    assert not goal["cut_short"]
    assert sum(row["operations"] for row in goal["series"]) <= goal["operations"]
    assert goal["planned"] == goal["dropped"] == 0
    assert "kept-to-itself" not in json.dumps(result, allow_nan=False)


def test_both_arms_draw_the_same_accounts_in_the_same_order(echo, password_file):
    ready = prepare.prepare(settings(echo, password_file, connections=1, seed="7", accounts="uid=u[0-999],dc=x"))
    for _ in range(2):
        run.run(ready)
    bodies = [request.body for request in echo.requests if request.tag in (wire.BIND_REQUEST, wire.UNBIND_REQUEST)]
    first = bodies[: bodies.index(b"")]
    second = bodies[len(first) + 1 : -1]
    shorter = min(len(first), len(second))
    assert shorter > 20
    assert first[:shorter] == second[:shorter]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"workload": "modify"}, "no such workload"),
        ({"connections": 0}, "connections is out of range"),
        ({"timeout": 0}, "timeout is out of range"),
        ({"phases": [{**GOAL, "mode": "fast"}]}, "no such mode"),
        ({"phases": [{**GOAL, "seconds": 0}]}, "seconds out of range"),
        ({"phases": [{**GOAL, "seconds": float("nan")}]}, "seconds out of range"),
        ({"phases": [{**GOAL, "mode": "open"}]}, "needs a rate"),
        ({"phases": [GOAL, GOAL]}, "name of its own"),
        ({"password_file": ""}, "binds need a password"),
        ({"password_file": "", "password": b""}, "empty password"),
        ({"uri": "ldaps://127.0.0.1:1", "starttls": True}, "starttls goes with"),
        ({"uri": "ldaps://127.0.0.1:1", "ca_file": "/nonexistent"}, "CA file"),
        ({"uri": "ldap://192.0.2.1"}, "clear text"),
        ({"connections": 60000, "processes": 1}, "open files|out of range"),
    ],
)
def test_what_is_refused_before_anything_is_sent(echo, password_file, more, said, monkeypatch):
    monkeypatch.setattr(prepare.resource, "getrlimit", lambda _: (64, 1024))
    with pytest.raises(LdaptuneError, match=said):
        prepare.prepare(settings(echo, password_file, **more))
    assert echo.requests == []


def test_clear_text_may_be_allowed_and_tls_needs_no_leave(password_file):
    for more in (
        {"uri": "ldap://192.0.2.1", "allow_cleartext": True},
        {"uri": "ldap://192.0.2.1", "starttls": True, "insecure": True},
        {"uri": "ldaps://192.0.2.1", "insecure": True},
        {"uri": "ldap://192.0.2.1", "workload": "search", "password_file": ""},
    ):
        prepare.prepare(settings("", password_file, **more))


def test_the_soft_limit_of_open_files_is_raised(echo, password_file, monkeypatch):
    asked = []
    monkeypatch.setattr(prepare.resource, "getrlimit", lambda _: (64, 4096))
    monkeypatch.setattr(prepare.resource, "setrlimit", lambda _, limits: asked.append(limits))
    prepare.prepare(settings(echo, password_file, connections=1100, processes=1))
    assert asked == [(1132, 4096)]


def test_processes_by_themselves():
    assert [prepare.processes_for(16, cpus) for cpus in (1, 2, 4, 8, 64)] == [1, 1, 1, 2, 2]
    assert prepare.processes_for(200, 64) == 8


def test_a_sample_that_is_refused_is_tried_once_and_nothing_else_is_sent(fake_server, answers, password_file):
    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id, 49))

    server = fake_server(script)
    with pytest.raises(LdaptuneError, match="invalidCredentials 4 times") as caught:
        run.run(prepare.prepare(settings(server, password_file, sample=4, processes=2)))
    assert "uid=user.0,dc=x" in str(caught.value)
    assert len({request.body for request in binds(server)}) == len(binds(server)) == 4
    assert "kept-to-itself" not in str(caught.value)


def test_a_sample_that_works(echo, password_file):
    result = run.run(prepare.prepare(settings(echo, password_file, sample=50)))
    assert result["sample"] == {"tried": 10, "codes": {"success": 10}}
    assert result["totals"]["operations"]["bind"] == len(binds(echo))


def test_a_login_that_is_refused_is_tried_once(fake_server, answers, password_file):
    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id, 49))

    server = fake_server(script)
    asked = settings(server, password_file, workload="search", connections=8, processes=4, bind_dn="cn=reader,dc=x")
    with pytest.raises(LdaptuneError, match="invalidCredentials"):
        run.run(prepare.prepare(asked))
    assert len(binds(server)) == 1


def test_no_server(password_file):
    with pytest.raises(LdaptuneError, match="connect_refused"):
        run.run(prepare.prepare(settings("ldap://127.0.0.1:1", password_file)))


def test_a_lost_connection_is_made_again_for_the_next_phase_and_stays_counted(fake_server, answers, password_file):
    served = []

    def script(client):
        served.append(client)
        for number, request in enumerate(client.requests()):
            if len(served) == 1 and number == 5:
                return
            client.send(answers.result(request.id))

    server = fake_server(script)
    phases = [{**GOAL, "name": "settle"}, GOAL]
    result = run.run(prepare.prepare(settings(server, password_file, connections=1, phases=phases)))
    settle, goal = result["phases"]["settle"], result["phases"]["goal"]
    assert (settle["connections_lost"], settle["failures"], settle["cut_short"]) == (1, {"eof": 1}, True)
    assert (goal["connections_lost"], goal["connections"], goal["errors"]) == (0, 1, 0)
    assert result["totals"]["connections"] == 2


def test_a_server_that_went_away_is_a_result(fake_server, answers, password_file):
    def script(client):
        client.server.listener.shutdown(socket.SHUT_RDWR)
        for _ in range(5):
            client.send(answers.result(client.read().id))

    server = fake_server(script)
    phases = [{**GOAL, "name": "settle"}, GOAL]
    result = run.run(prepare.prepare(settings(server, password_file, connections=1, phases=phases)))
    goal = result["phases"]["goal"]
    assert goal["failures"] == {"connect_refused": 1}
    assert (goal["operations"], goal["goodput"], goal["connections"], goal["cut_short"]) == (0, 0.0, 0, True)
    assert goal["error_percent"] is None
    assert result["limited_by"] == "undetermined"
    json.dumps(result, allow_nan=False)


def test_an_interruption_ends_cleanly(echo, password_file):
    ready = prepare.prepare(settings(echo, password_file, phases=[{**GOAL, "seconds": 60}, {**GOAL, "name": "more"}]))
    begun = threading.Event()

    def interrupt():
        begun.wait(20)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = run.run(ready, lambda *_: begun.set())
    thread.join()
    assert result["interrupted"]
    assert list(result["phases"]) == ["goal"]
    assert result["phases"]["goal"]["cut_short"]
    assert result["phases"]["goal"]["seconds"] < 50
    assert result["totals"]["operations"]["bind"] == len(binds(echo))
    assert result["totals"]["operations"]["unbind"] == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_worker_that_dies_is_named_and_the_run_is_not_smaller(echo, password_file, monkeypatch):
    ready = prepare.prepare(settings(echo, password_file, processes=2, phases=[{**GOAL, "seconds": 60}]))
    made = []
    monkeypatch.setattr(run, "Workers", lambda *given: made.append(workers.Workers(*given)) or made[-1])
    result = run.run(ready, lambda *_: os.kill(made[0].hands[1].pid, signal.SIGKILL))
    assert "worker process 1 (pid %d) ended by signal 9" % made[0].hands[1].pid in result["worker_died"]
    assert result["limited_by"] == "generator_limited"
    assert result["phases"] == {}
    assert all(hand.ended for hand in made[0].hands)


def test_a_worker_without_its_parent_ends(echo, password_file):
    ready = prepare.prepare(settings(echo, password_file, phases=[{**GOAL, "seconds": 300}]))
    crew = workers.Workers(ready.jobs(False), 120)
    crew.connect(10)
    crew._order({"phase": {**GOAL, "seconds": 300}, "start": time.perf_counter_ns()}, crew.hands)
    crew.hands[0].line.close()
    _, status = os.waitpid(crew.hands[0].pid, 0)
    assert os.WIFEXITED(status)


def test_a_worker_that_breaks_says_where(echo, password_file, monkeypatch):
    def broken(*_):
        raise RuntimeError("kept-to-itself")

    monkeypatch.setattr(patterns, "drawer", broken)
    result = run.run(prepare.prepare(settings(echo, password_file)))
    assert "RuntimeError at line" in result["worker_died"]
    assert "kept-to-itself" not in json.dumps(result)


def test_a_delay_in_each_operation_is_seen_as_the_generators(echo, password_file, monkeypatch):
    plain = patterns.drawer

    def slow(*given):
        draw = plain(*given)
        return lambda: (time.sleep(0.005), draw())[1]

    monkeypatch.setattr(patterns, "drawer", slow)
    for connections in (1, 8):
        result = run.run(prepare.prepare(settings(echo, password_file, connections=connections)))
        assert result["limited_by"] == "generator_limited", result["limited_why"]
        assert "generator limited" in result["line"]


def test_each_phase_is_judged_and_the_goal_does_not_speak_for_a_fixed_rate(echo, password_file, monkeypatch):
    plain = patterns.drawer

    def slow_when_fixed(items, seed, *rest):
        draw = plain(items, seed, *rest)
        return (lambda: (time.sleep(0.05), draw())[1]) if "/fixed/" in seed else draw

    monkeypatch.setattr(patterns, "drawer", slow_when_fixed)
    fixed = {"name": "fixed", "mode": "open", "seconds": 0.5, "rate": 100}
    result = run.run(prepare.prepare(settings(echo, password_file, phases=[GOAL, fixed])))
    assert result["phases"]["goal"]["limited_by"] == result["limited_by"] != "generator_limited"
    assert result["phases"]["fixed"]["limited_by"] == "generator_limited", result["phases"]["fixed"]["limited_why"]


def test_the_first_step_that_the_generator_limited_speaks_for_all_steps():
    specs = [{"name": "settle", "mode": "open"}, {"name": "a", "mode": "open"}, {"name": "b", "mode": "open"}]
    well, ill = ("server_limited", "fine"), ("generator_limited", "late")
    assert run.judged_by(specs, {"settle": ill, "a": well, "b": ("undetermined", "?")}) == ("undetermined", "?")
    assert run.judged_by(specs, {"settle": well, "a": ill, "b": well}) == ("generator_limited", "a: late")
    assert run.judged_by(specs, {"settle": ill}) == ill
    assert run.judged_by(specs, {})[0] == "undetermined"


def test_parts_are_whole_together_however_many_processes_each_has(echo, password_file):
    """Each account of a pass goes out once, and a rate is shared."""
    asked = []
    for part, processes in enumerate((1, 3)):
        more = {"part": part, "parts": 2, "processes": processes, "connections": 3, "accounts": "uid=user.[0-9],dc=x"}
        jobs = prepare.prepare(settings(echo, password_file, **more)).jobs(False)
        asked += [item.name for job in jobs for item in job.workload.regular[job.number :: job.processes]]
        assert sum(1 / job.processes for job in jobs) == pytest.approx(0.5)
    assert sorted(asked) == ["uid=user.%d,dc=x" % number for number in range(10)]


def test_a_part_tries_no_sample_of_its_own_and_keeps_what_merging_needs(echo, password_file):
    result = run.run(prepare.prepare(settings(echo, password_file, part=1, parts=2, sample=2)))
    assert "sample" not in result
    assert [state["connections"] for state in result["phases"]["goal"]["states"]] == [2]
    whole = run.run(prepare.prepare(settings(echo, password_file, sample=2)))
    assert whole["sample"]["tried"] == 2
    assert "states" not in whole["phases"]["goal"]


def test_phases_begin_when_they_were_agreed_to(echo, password_file):
    phases = [{**GOAL, "name": "first", "seconds": 0.1}, GOAL]
    start = time.time() + 0.7
    begun = []
    ready = prepare.prepare(settings(echo, password_file, phases=phases, start_at=start))
    result = run.run(ready, begun=lambda: begun.append(time.time()))
    assert begun[0] < start
    assert time.time() > start + 0.1 + agreed.GAP_SECONDS + 0.3
    assert all(phase["started_late_seconds"] >= 0 for phase in result["phases"].values())


def test_without_the_folder_of_whoever_asked_no_phase_begins(echo, password_file, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    ready = prepare.prepare(settings(echo, password_file, start_at=time.time() + 60, folder=str(folder)))
    result = run.run(ready, begun=folder.rmdir)
    assert result["interrupted"] is True
    assert result["phases"] == {}


@pytest.mark.parametrize(
    ("more", "said"),
    [({"parts": 0}, "parts"), ({"part": 2, "parts": 2}, "part is out of range"), ({"start_at": 5.0}, "cannot be kept")],
)
def test_parts_and_starts_that_cannot_be(echo, password_file, more, said):
    with pytest.raises(LdaptuneError, match=said):
        prepare.prepare(settings(echo, password_file, **more))
