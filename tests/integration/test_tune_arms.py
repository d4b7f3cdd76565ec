# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml where nothing differs, and where several hosts are measured: one run for both, as legs take their time."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


def test_two_hosts_one_after_the_other_the_second_against_itself(make_slapd, playbooks):
    labs = [make_slapd(users=200), make_slapd(users=200, log_level="none")]
    job = playbooks(*labs)
    mixed = {"authrate_workload": "mixed", "authrate_mix": {"bind": 70, "search": 30}}
    job.write({}, mixed)
    name = job.profile("both", {"slapd.log_level": "none"}, require="none", max_p99_increase_percent=None)
    run = job.tune(name, "-e", "tuning_measure=all", "-e", "tuning_remeasure=true")
    first, second = (job.record(host) for host in job.hosts)
    assert first[1]["met"] is True, run.text
    assert second[1]["aa"] is True, run.text
    assert second[1]["verdict"] in ("equivalent", "inconclusive", "regressed", "invalid")
    assert run.recap("lab2")["changed"] == 0
    spans = [[leg["started"] for leg in record[2]["legs"]] for record in (first, second)]
    # The second may end early, as invalid, where other tests take the CPU from it.
    assert len(spans[0]) == 16
    assert len(spans[1]) == 16 or (second[1]["verdict"] == "invalid" and spans[1])
    assert len({leg["arm"] for leg in second[2]["legs"]}) == min(2, len(spans[1]))
    assert max(spans[0]) < min(spans[1])
