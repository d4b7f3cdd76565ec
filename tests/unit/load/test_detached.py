# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that goes on by itself: its file has the result, or its end is seen."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from ldaptune.load.detached import collect, launch
from ldaptune.problems import LdaptuneError, problem


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "result")


def waits_for(gate, answer):
    """A run that has begun and ends when the file `gate` is there."""

    def work(begun):
        begun()
        while not os.path.exists(gate):
            time.sleep(0.01)
        return answer

    return work


def test_the_result_is_there_when_the_run_has_ended(path, tmp_path):
    pid = launch(path, waits_for(tmp_path / "gate", {"figures": [1, None]}))
    assert os.getsid(pid) != os.getsid(0)
    assert collect(path, 0)["ended"].startswith("it gave no result in")
    (tmp_path / "gate").touch()
    assert collect(path, 20) == {"result": {"figures": [1, None]}}
    assert not os.path.exists(path)


def test_a_run_that_is_killed_is_seen_at_once(path, tmp_path):
    pid = launch(path, waits_for(tmp_path / "gate", {}))
    os.kill(pid, signal.SIGKILL)
    assert collect(path, 20) == {"ended": "its process ended without a result"}


def test_the_run_is_the_last_to_let_go(path, tmp_path):
    """A process of the run that lives on holds the file: nothing is under way any more once it is collected."""

    def work(begun):
        if os.fork() == 0:
            while not os.path.exists(tmp_path / "gate"):
                time.sleep(0.01)
            os._exit(0)
        begun()
        return {}

    launch(path, work)
    assert collect(path, 0.2)["ended"].startswith("it gave no result in")
    (tmp_path / "gate").touch()
    assert collect(path, 20) == {"result": {}}


def refused(begun):
    raise LdaptuneError(problem("no such server", "uri"))


def test_what_is_wrong_before_the_run_has_begun_is_told_the_caller(path):
    with pytest.raises(LdaptuneError, match="uri: no such server"):
        launch(path, refused)
    assert not os.path.exists(path)
    with pytest.raises(LdaptuneError, match="broke off with ZeroDivisionError"):
        launch(path, lambda begun: 1 // 0)
    with pytest.raises(LdaptuneError, match="ended before it began"):
        launch(path, lambda begun: os._exit(3))


def test_what_goes_wrong_later_is_told_the_collector(path):
    def late(begun):
        begun()
        refused(begun)

    launch(path, late)
    assert collect(path, 20) == {"ended": "uri: no such server"}


def test_a_file_that_is_there_is_nobody_s_result(path):
    with open(path, "w") as file:
        file.write("old")
    with pytest.raises(LdaptuneError, match="no file for the result: File exists"):
        launch(path, refused)
    assert Path(path).read_text() == "old"
    assert collect(path + "x", 0) == {"ended": "its result is missing: No such file or directory"}
