# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Makefile's tune and the CI script: what they say last and how they exit, with stand-ins for what they run."""

from __future__ import annotations

import shutil
import subprocess

import pytest

PLAYBOOK = """#!/bin/sh
mkdir -p runs/old runs/%(run)s
%(verdict)s
exit %(exit)d
"""
SENTENCE = """#!/bin/sh
# Stands for: python bin/ldaptune-verdict RUN
echo "the sentence of $2"
exit %d
"""


@pytest.fixture
def tune(tmp_path, checkout):
    """Run make tune with stand-ins: tune(verdict=True, playbook=0, code=0) -> finished process."""

    def run(verdict, playbook, code):
        shutil.copy(checkout / "Makefile", tmp_path)
        tools = tmp_path / ".venv" / "bin"
        tools.mkdir(parents=True)
        old = tmp_path / "runs" / "old"
        old.mkdir(parents=True)
        (old / "verdict.json").write_text("{}")
        written = "touch -d '+1 second' runs/new/verdict.json" if verdict else ""
        text = PLAYBOOK % {"run": "new", "verdict": written, "exit": playbook}
        for name, script in (("ansible-playbook", text), ("python", SENTENCE % code)):
            (tools / name).write_text(script)
            (tools / name).chmod(0o755)
        command = ["make", "-s", "-o", "setup", "-o", "lab", "tune"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize(
    ("verdict", "playbook", "code", "succeeds", "sentence"),
    [
        (True, 0, 0, True, True),
        (True, 2, 1, False, True),
        (True, 0, 3, False, True),
        (True, 2, 0, False, True),
        (False, 0, 0, True, False),
        (False, 2, 0, False, False),
    ],
)
def test_tune_ends_with_the_new_run_s_sentence_and_its_code(tune, verdict, playbook, code, succeeds, sentence):
    done = tune(verdict, playbook, code)
    assert (done.returncode == 0) is succeeds, done.stderr
    # An older run's verdict is never shown.
    assert done.stdout.splitlines() == (["the sentence of runs/new"] if sentence else [])
    if code:
        assert "Error %d" % code in done.stderr


@pytest.mark.parametrize(
    ("code", "line"), [(0, "===== 3 passed in 0.10s ====="), (1, "== 1 failed, 2 passed in 9.99s ==")]
)
def test_ci_ends_with_the_runner_s_closing_line(tmp_path, checkout, code, line):
    (tmp_path / ".ci").mkdir()
    shutil.copy(checkout / ".ci" / "run", tmp_path / ".ci")
    (tmp_path / "Makefile").write_text("test:\n\t@echo '%s'; echo more; exit %d\n" % (line, code))
    done = subprocess.run(["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (code == 0)
    assert done.stdout.splitlines()[-1] == line
