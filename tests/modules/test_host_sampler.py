# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The face of host_sampler."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("state", ["started", "stopped", "sampled"])
def test_check_mode_does_nothing(run_module, tmp_path, state):
    server = {"state_dir": str(tmp_path / "state")}
    result = run_module("host_sampler", {"state": state, "seconds": 5, "server": server}, check=True)
    assert result["skipped"] and not result["changed"] and not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"state": "begun"}, "started, stopped, sampled"),
        ({"state": "started"}, "seconds"),
        ({"state": "sampled"}, "seconds"),
        ({"state": "stopped", "limited_by": "nobody"}, "generator_limited"),
    ],
)
def test_nonsense_is_refused_by_name(run_module, arguments, word):
    result = run_module("host_sampler", arguments)
    assert result["failed"] and word in result["msg"]


@pytest.mark.parametrize("state", ["started", "stopped", "sampled"])
def test_a_server_that_is_not_there_is_one_clear_problem(run_module, tmp_path, state):
    server = {"instance": str(tmp_path), "state_dir": str(tmp_path / "state")}
    result = run_module("host_sampler", {"state": state, "seconds": 5, "server": server})
    assert result["failed"] and not result.get("changed") and len(result["problems"]) == 1
    assert not (tmp_path / "state").exists()
