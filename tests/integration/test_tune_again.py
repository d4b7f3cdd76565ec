# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml on a host that kept a profile before, and on one that somebody takes home meanwhile."""

from __future__ import annotations

import os

import pytest

from .looks import foreign_client, settings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


def test_a_failed_run_gives_way_to_the_profile_that_was_kept(make_slapd, playbooks):
    lab = make_slapd(users=200, syslog=True)
    job = playbooks(lab)
    before = settings(lab)
    first = job.profile("first", {"slapd.log_level": "none", "slapd.idle_timeout": 300}, goal="none", require="none")
    assert job.tune(first).code == 0
    kept = settings(lab)
    assert kept != before
    second = job.profile("second", {"slapd.log_level": "any", "slapd.threads": 24})
    process = job.start("tune.yml", "-e", "tuning_profile=" + second)
    job.in_leg(process, 2)
    # Why it fails is not the question here; a disturbed leg fails soonest.
    with foreign_client(lab):
        run = job.finish(process)
    assert run.code == 2, run.text
    assert not job.record()[1]["met"]
    assert "rolled back on lab1" in run.text and settings(lab) == kept
    assert job.tune(first).recap("lab1")["changed"] == 0
    assert job.run("rollback.yml").code == 0
    assert settings(lab) == before


def test_a_rollback_in_a_leg_ends_the_run(make_slapd, playbooks, run_module):
    lab = make_slapd(users=200)
    job = playbooks(lab)
    before = settings(lab)
    process = job.start("tune.yml", "-e", "tuning_profile=throughput")
    job.in_leg(process, 2)
    home = run_module("tuning_profile", {"state": "reverted", "server": lab.server})
    assert home["complete"] and "ended a measurement in progress" in home["notes"][0], home
    run = job.finish(process)
    assert run.code == 2 and "ended by a way home" in run.text
    assert settings(lab) == before
    assert job.record()[1]["verdict"] == "invalid"
