# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml where nothing differs, and where several hosts are measured."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


def test_measured_against_itself_is_never_improved(make_slapd, playbooks):
    lab = make_slapd(users=200, log_level="none")
    job = playbooks(lab)
    name = job.profile("same", {"slapd.log_level": "none"})
    plain = job.tune(name)
    assert plain.code == 0, plain.text
    assert plain.recap("lab1")["changed"] == 0
    assert list(job.runs_dir.iterdir()) == []
    asked = job.tune(name, "-e", "tuning_remeasure=true")
    _, verdict, legs = job.record()
    assert verdict["aa"] is True
    assert verdict["verdict"] in ("equivalent", "inconclusive", "regressed", "invalid")
    assert {leg["arm"] for leg in legs["legs"]} == {"as_found", "profile"}
    assert asked.recap("lab1")["changed"] == 0


def test_two_hosts_and_one_generator_are_measured_one_after_the_other(make_slapd, playbooks):
    labs = [make_slapd(users=200), make_slapd(users=200)]
    job = playbooks(*labs)
    name = job.profile("both", {"slapd.log_level": "none"}, require="none")
    run = job.tune(name, "-e", "tuning_measure=all")
    assert run.code == 0, run.text
    spans = []
    for host in job.hosts:
        _, verdict, legs = job.record(host)
        assert verdict["met"] is True
        starts = [leg["started"] for leg in legs["legs"]]
        spans.append((min(starts), max(starts)))
    spans.sort()
    assert spans[0][1] < spans[1][0]
