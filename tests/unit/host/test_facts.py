# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is."""

from __future__ import annotations

import json
import os

import pytest
from ldaptune.host.facts import allowed_cpus, host_facts, online_cpus, parse_cpu_list


@pytest.mark.parametrize(
    ("text", "wanted"), [("0-2,5", [0, 1, 2, 5]), ("0\n", [0]), ("", []), ("3,1-2", [1, 2, 3])]
)
def test_cpu_lists(text, wanted):
    assert parse_cpu_list(text) == wanted


def test_facts_are_json_and_hang_together():
    facts = host_facts()
    json.dumps(facts, allow_nan=False)
    processors = {"allowed_cpus", "cpus", "numa_nodes", "online_cpus"}
    assert set(facts) == processors | {"kernel", "machine_id", "memory_bytes", "name", "os", "python"}
    assert facts["cpus"] == len(facts["allowed_cpus"]) >= 1
    assert set(facts["allowed_cpus"]) <= set(facts["online_cpus"])


def test_a_pinned_process_keeps_its_ceiling():
    own = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(own)})
        assert set(allowed_cpus()) >= own & set(online_cpus())
    finally:
        os.sched_setaffinity(0, own)
