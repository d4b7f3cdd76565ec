# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The face of resolve_profile: what comes back, and that check mode is no other."""

from __future__ import annotations

import pytest

FACTS = {
    "host": {"name": "lab1", "cpus": 2, "online_cpus": [0, 1], "memory_bytes": 1 << 33, "numa_nodes": 1},
    "slapd": {"threads": 16},
    "database": {"size_bytes": 1, "map_size_bytes": 1 << 30, "used_bytes": 1},
}


@pytest.fixture
def call(run_module, checkout):
    def run(check=False, **arguments):
        paths = {"search_paths": [str(checkout / "roles" / ".." / "tuning_profiles")]}
        return run_module("resolve_profile", {**paths, **arguments}, check=check)

    return run


@pytest.mark.parametrize("check", [False, True])
def test_resolves(call, check):
    result = call(check=check, name="throughput", facts=FACTS, exclude=["slapd.threads"])
    assert not result.get("failed")
    assert result["changed"] is False
    assert list(result["resolved"]["levers"]) == ["slapd.log_level", "database.max_readers"]
    assert result["resolved"]["excluded"] == ["slapd.threads"]
    assert result["profile"]["excluded"] == ["slapd.threads"]
    assert result["profile"]["levers"] == ["slapd.log_level", "database.max_readers"]
    assert result["profile"]["extends"] == ["baseline"]
    assert result["consents"] == ["availability", "security"]
    assert result["problems"] == []


def test_checks_without_a_host(call):
    result = call(name="throughput")
    assert not result.get("failed")
    assert "resolved" not in result
    assert result["profile"]["levers"] == ["slapd.log_level", "slapd.threads", "database.max_readers"]
    assert result["consents"] == ["availability", "security"]


def test_unset_lists_all(call):
    result = call()
    assert result["failed"]
    assert [item["name"] for item in result["profiles"]] == ["baseline", "low_latency", "throughput"]
    assert all(item["summary"] in result["msg"] for item in result["profiles"])


def test_fails_with_every_problem(call, checkout):
    result = call(name="several", facts=FACTS, exclude=["slapd.thread"],
                  search_paths=[str(checkout / "tests" / "profiles" / "bad")])
    assert result["failed"]
    assert "resolved" not in result
    assert len(result["problems"]) == 7
    assert result["msg"].count("\n") == 6
    assert set(result["problems"][0]) == {"what", "where", "found", "wanted", "do"}


def test_a_search_path_is_needed(run_module):
    assert "search_paths" in run_module("resolve_profile", {"name": "throughput"})["msg"]
