# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Listener threads: which states can be come back to."""

from __future__ import annotations

import pytest
from ldaptune.levers import listener_threads
from ldaptune.levers.registry import behaviour


@pytest.mark.parametrize(("asked", "runs"), [(1, 1), (2, 2), (3, 2), (4, 4), (15, 8), (16, 16), (0, 1)])
def test_a_number_is_rounded_down_to_a_power_of_two(asked, runs):
    assert listener_threads.round_down(asked) == runs


@pytest.mark.parametrize(
    ("stored", "running", "supported"),
    [
        ([], 1, True),
        (["1"], 1, True),
        (["2"], 1, True),
        (["2"], 2, True),
        (["3"], 2, True),
        (["3"], 3, False),
        ([], 2, False),
        (["4"], 2, False),
    ],
)
def test_a_state_that_no_start_and_no_write_gives_is_unsupported(ctx, monkeypatch, stored, running, supported):
    if stored:
        ctx.directory.entries["cn=config"]["olcListenerThreads"] = stored
    monkeypatch.setattr(listener_threads, "eventpolls", lambda pid: list(range(running)))
    found = behaviour("slapd.listener_threads").observe(ctx)
    assert found["supported"] is supported
    assert supported or "restart slapd first" in found["reason"]
    if supported:
        assert (found["record"]["values"] or []) == stored
        assert found["record"]["effective"] == running
