# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml where nothing differs, and where several hosts are measured."""

from __future__ import annotations

import os

import pytest

from .looks import foreign_client

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


def test_measured_against_itself_is_never_improved(make_slapd, playbooks):
    lab = make_slapd(users=200, log_level="none")
    job = playbooks(lab)
    name = job.profile("same", {"slapd.log_level": "none"}, max_p99_increase_percent=None)
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
    name = job.profile("both", {"slapd.log_level": "none"}, require="none", max_p99_increase_percent=None)
    process = job.start("tune.yml", "-e", "tuning_profile=" + name, "-e", "tuning_measure=all")
    # All legs of the first host, then two of the second: a disturbed one ends it.
    job.in_leg(process, 18)
    with foreign_client(labs[1]):
        run = job.finish(process)
    first, second = (job.record(host) for host in job.hosts)
    assert first[1]["met"] is True, run.text
    assert second[1]["verdict"] == "invalid"
    spans = [[leg["started"] for leg in record[2]["legs"]] for record in (first, second)]
    assert [len(span) for span in spans] == [16, 2]
    assert max(spans[0]) < min(spans[1])
