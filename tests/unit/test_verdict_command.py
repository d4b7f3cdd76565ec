# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command ldaptune-verdict, run as people run it."""

import json
import subprocess
import sys

import pytest


@pytest.fixture
def command(checkout, tmp_path):
    def run(*arguments):
        path = str(checkout / "bin" / "ldaptune-verdict")
        # -I -S: the standard library and nothing that is installed
        command = [sys.executable, "-I", "-S", path, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=str(tmp_path))

    return run


@pytest.mark.parametrize("code", [0, 3, 4, 5])
def test_sentence_and_code(command, tmp_path, code):
    (tmp_path / "verdict.json").write_text(json.dumps({"sentence": "throughput is the same", "exit_code": code}))
    done = command(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, "throughput is the same\n", "")


def test_a_run_that_broke_off(command, tmp_path):
    (tmp_path / "legs.json").write_text("{}")
    done = command(tmp_path)
    assert (done.returncode, done.stdout) == (5, "")
    assert "broke off" in done.stderr


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"sentence": "x", "exit_code": "many"}'])
def test_a_verdict_that_cannot_be_read(command, tmp_path, text):
    (tmp_path / "verdict.json").write_text(text)
    done = command(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr


def test_no_such_run(command, tmp_path):
    assert command(tmp_path / "none").returncode == 2
    assert command(tmp_path).returncode == 2  # a directory, not a run's
    assert command().returncode == 2
    assert command(tmp_path, tmp_path).returncode == 2


def test_help_names_every_code(command):
    done = command("--help")
    assert done.returncode == 0
    assert all("\n  %d  " % code in done.stdout for code in range(6))


def test_it_can_be_run_by_its_name(checkout):
    path = checkout / "bin" / "ldaptune-verdict"
    assert path.read_text().startswith("#!/usr/bin/env python3\n")
    assert path.stat().st_mode & 0o111
