# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""bin/authrate: output, files, exit codes."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys

import pytest
from ldaptune.load import command, summary

SECRET = "kept-to-itself"


@pytest.fixture
def authrate(checkout, tmp_path):
    """Run the command: authrate(arguments...) with the password in the environment."""

    def go(*arguments, password=SECRET, start=False):
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        environment.pop(command.PASSWORD_VARIABLE, None)
        if password is not None:
            environment[command.PASSWORD_VARIABLE] = password
        line = [sys.executable, str(checkout / "bin" / "authrate"), *arguments]
        if start:
            return subprocess.Popen(
                line,
                env=environment,
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        return subprocess.run(line, check=False, env=environment, cwd=tmp_path, capture_output=True, text=True)

    return go


@pytest.fixture
def echo(fake_server, answers):
    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id))

    return fake_server(script)


def load(server, *more):
    return ["--uri", server.uri, "--accounts", "uid=u[0-9],dc=x", "--warmup", "0", "--seconds", "0.3", *more]


def test_text_json_and_csv(authrate, echo, tmp_path):
    done = authrate(
        *load(echo, "--connections", "2", "--json", "r.json", "--csv", "r.csv", "--prime", "5", "--seconds", "1.3")
    )
    assert done.returncode in (command.DONE, command.INVALID), done.stderr
    assert "goal second 1:" in done.stdout
    assert "goal: " in done.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert list(result["phases"]) == ["prime", "goal"]
    rows = list(csv.reader((tmp_path / "r.csv").open()))
    assert rows[0] == list(command.CSV_COLUMNS)
    assert [row[:2] for row in rows[1:]] == [["prime", "0"], ["goal", "0"], ["goal", "1"]]
    everything = done.stdout + done.stderr + json.dumps(result)
    assert SECRET not in everything
    assert SECRET not in (tmp_path / "r.csv").read_text()


def test_json_on_standard_output_is_alone_there(authrate, echo):
    done = authrate(*load(echo, "--json", "-", "--rate", "100"))
    assert json.loads(done.stdout)["phases"]["goal"]["mode"] == "open"
    assert "goal: " in done.stderr


def test_failed_operations_have_an_exit_code(authrate, fake_server, answers):
    def script(client):
        for number, request in enumerate(client.requests()):
            client.send(answers.result(request.id, 0 if number else 51, text=b"later"))

    done = authrate(*load(fake_server(script), "--connections", "1", "--sample", "0"))
    assert done.returncode in (command.FAILURES, command.INVALID)
    assert "1 errors (busy 1)" in done.stdout
    assert "busy, 1 times: later" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "password", "code", "said"),
    [
        (["--uri", "ldap://127.0.0.1:1", "--accounts", "cn=a"], SECRET, command.NOT_MEASURED, "Connection refused"),
        (["--uri", "ldap://127.0.0.1:1", "--accounts", "cn=a"], None, command.USAGE, "password file"),
        (["--uri", "ldap://127.0.0.1:1", "--accounts", "cn=a"], "", command.USAGE, "empty password"),
        (["--uri", "ldap://192.0.2.1", "--accounts", "cn=a"], SECRET, command.USAGE, "clear text"),
        (["--uri", "ldap://127.0.0.1:1", "--password", SECRET], None, command.USAGE, "unrecognized"),
        (["--accounts", "cn=a"], SECRET, command.USAGE, "--uri"),
        (["--uri", "ldap://127.0.0.1:1", "--accounts", "cn=a", "--conn", "3"], SECRET, command.USAGE, "unrecognized"),
    ],
)
def test_what_is_wrong_is_said(authrate, arguments, password, code, said):
    done = authrate(*arguments, password=password)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_help_has_examples(authrate):
    done = authrate("--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout
    assert "exit codes:" in done.stdout


def test_control_c(authrate, echo):
    process = authrate(*load(echo, "--seconds", "60"), start=True)
    process.stdout.readline()  # a second has passed
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the worker processes get it too
    out, err = process.communicate(timeout=30)
    assert process.returncode == command.INTERRUPTED
    assert "cut short" in out
    assert err == ""


def test_a_table_on_a_terminal():
    class Terminal:
        text = ""

        def isatty(self):
            return True

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    terminal = Terminal()
    table = command.Table(terminal, 16)
    from ldaptune.load.histogram import Histogram

    histogram = Histogram()
    histogram.add([400000, 500000])
    for second in range(2):
        row = {"second": second, "errors": 1, "codes": {"busy": 1}, "failures": {}, "histogram": histogram.state()}
        table.show({"name": "goal"}, [row] * 2)
    lines = terminal.text.splitlines()
    head = "phase second clients attempts/s goodput/s errors/s p50 p99 max"
    assert lines[0].replace("\033[1m", "").replace("\033[0m", "").split() == head.split()
    assert " ".join(lines[1].split()) == "goal 1 16 6 4 2 400 us 500 us 500 us"
    assert len(lines) == 3


def test_each_second_has_its_codes(authrate, fake_server, answers, tmp_path):
    """Refusals, failures and successes of one second add up to its attempts."""

    def script(client):
        for number, request in enumerate(client.requests()):
            client.send(answers.result(request.id, 51 if number % 10 == 5 else 0))

    asked = ["--connections", "2", "--csv", "r.csv", "--sample", "0", "--warmup", "0", "--seconds", "1.3"]
    assert authrate(*load(fake_server(script), *asked)).returncode == command.FAILURES
    rows = list(csv.DictReader((tmp_path / "r.csv").open()))
    assert [row["second"] for row in rows] == ["0", "1"]
    for row in rows:
        codes = dict(pair.split("=") for pair in row["codes"].split())
        assert set(codes) == {"success", "busy"}
        assert sum(map(int, codes.values())) == int(row["attempts"])
        assert (int(codes["success"]), int(codes["busy"])) == (int(row["goodput"]), int(row["errors"]))
        assert float(row["p50_ns"]) <= float(row["p90_ns"]) <= float(row["p999_ns"]) <= float(row["max_ns"]) * 1.01


def test_times_and_rates_as_text():
    assert [summary.duration(value) for value in (None, 5, 1500, 2500000, 3e9)] == [
        "-",
        "5 ns",
        "1.5 us",
        "2.5 ms",
        "3 s",
    ]
    assert [summary.rate(value) for value in (None, 0.0, 12.34, 54700.4)] == ["-", "0.0", "12.3", "54700"]


def test_a_ramp(authrate, echo, tmp_path):
    line = ["--uri", echo.uri, "--accounts", "uid=u[0-9],dc=x", "--warmup", "0", "--seconds", "0.2"]
    done = authrate(*line, "--ramp", "3", "--json", "r.json")
    assert done.returncode in (command.DONE, command.INVALID), done.stderr
    assert "ramp 1 client: " in done.stdout
    assert "again " in done.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["line"] == done.stdout.splitlines()[-1]
    assert result["ramp"]["peak"]["clients"] in (1, 2, 3)
    assert SECRET not in done.stdout + done.stderr + json.dumps(result)


def test_control_c_in_a_ramp(authrate, echo):
    line = ["--uri", echo.uri, "--accounts", "uid=u[0-9],dc=x", "--warmup", "0", "--seconds", "0.5"]
    process = authrate(*line, "--ramp", "500", start=True)
    process.stdout.readline()  # one step is done
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == command.INTERRUPTED
    assert out.splitlines()[-1].endswith("no peak and no knee; cut short")
    assert err == ""


@pytest.mark.parametrize("more", [["--rate", "5"], ["--csv", "x"]])
def test_what_does_not_go_with_a_ramp(authrate, more):
    done = authrate("--uri", "ldap://127.0.0.1:1", "--accounts", "cn=a", "--ramp", "4", *more)
    assert (done.returncode, more[0] in done.stderr) == (command.USAGE, True)


def test_the_check_of_the_generator(authrate, echo, tmp_path):
    done = authrate(*load(echo, "--connections", "2", "--check-generator", "--json", "r.json"))
    assert done.returncode in (command.DONE, command.INVALID), done.stderr
    found = json.loads((tmp_path / "r.json").read_text())
    names = ["own figures", "one process more", "null responder"]
    assert [item["name"] for item in found["generator_check"]["checks"]] == names
    assert (done.returncode == command.INVALID) == (found["limited_by"] == "generator_limited")
    assert all("check %s: " % name in done.stdout for name in names)
    assert SECRET not in done.stdout + done.stderr + json.dumps(found)


@pytest.mark.parametrize("more", [["--rate", "5"], ["--ramp", "5"]])
def test_what_does_not_go_with_the_check(authrate, more):
    done = authrate("--uri", "ldap://127.0.0.1:1", "--accounts", "cn=a", "--check-generator", *more)
    assert (done.returncode, more[0] in done.stderr) == (command.USAGE, True)


def test_a_schedule_of_rates_has_a_phase_for_each(authrate, echo, tmp_path):
    done = authrate(*load(echo, "--schedule", "100:0.5,200:0.5,100:0.5", "--warmup", "0.2", "--json", "r.json"))
    assert done.returncode in (command.DONE, command.INVALID), done.stderr
    phases = json.loads((tmp_path / "r.json").read_text())["phases"]
    assert list(phases) == ["settle", "step 1 at 100/s", "step 2 at 200/s", "step 3 at 100/s"]
    assert [phases[name]["planned"] for name in phases] == [20, 50, 100, 50]
    assert "step 2 at 200/s: " in done.stdout


@pytest.mark.parametrize(
    "more", [["--rate", "5"], ["--ramp", "4"], ["--check-generator"], ["--schedule", "5"], ["--schedule", "a:b"]]
)
def test_what_does_not_go_with_a_schedule(authrate, echo, more):
    done = authrate(*load(echo, "--schedule", "5:1", *more))
    assert done.returncode == command.USAGE
    assert "--schedule" in done.stderr
    assert "Traceback" not in done.stderr
