# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The face of tuning_arm."""

from __future__ import annotations

import pytest

RESOLVED = {"name": "p", "digest": "d", "levers": {}, "excluded": [], "expect": {}}
LEG = {"resolved": RESOLVED, "arm": "profile", "phase": "start", "watch_seconds": 60}


def test_check_mode_does_nothing(run_module, tmp_path):
    result = run_module("tuning_arm", {**LEG, "server": {"state_dir": str(tmp_path / "state")}}, check=True)
    assert result["skipped"] and not result["changed"] and not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("change", "word"),
    [({"arm": "b"}, "as_found, profile"), ({"phase": "middle"}, "start, finish"), ({"resolved": None}, "resolved")],
)
def test_nonsense_is_refused_by_name(run_module, change, word):
    arguments = {key: value for key, value in {**LEG, **change}.items() if value is not None}
    result = run_module("tuning_arm", arguments)
    assert result["failed"] and word in result["msg"]


@pytest.mark.parametrize("phase", ["start", "finish"])
def test_a_server_that_is_not_there_is_one_clear_problem(run_module, tmp_path, phase):
    server = {"instance": str(tmp_path), "state_dir": str(tmp_path / "state")}
    result = run_module("tuning_arm", {**LEG, "phase": phase, "server": server})
    assert result["failed"] and not result.get("changed") and len(result["problems"]) == 1
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("phase", ["start", "finish"])
def test_the_phase_chooses_the_work(run_module, monkeypatch, phase):
    run_module("refuse", {"results": []})  # makes ansible.modules see library/
    from ansible.modules import tuning_arm as module

    class Target:
        def __enter__(self):
            return self

        def __exit__(self, *unused):
            return None

    target = Target()
    target.ctx = target
    monkeypatch.setattr(module, "open_target", lambda server: target)
    for name in ("arm_started", "arm_finished"):
        monkeypatch.setattr(
            module, name, lambda *how, name=name, **more: {"changed": False, "name": name, "how": [*how[2:], more]}
        )
    result = run_module("tuning_arm", {**LEG, "phase": phase, "owner": "run-1", "sample": True})
    assert (result["name"], result["how"]) == {
        "start": ("arm_started", ["profile", 60, "run-1", {"sample": True}]),
        "finish": ("arm_finished", ["profile", "run-1", {"sample": True}]),
    }[phase]
