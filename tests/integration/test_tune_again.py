# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml on a host that kept a profile before, and on one that somebody takes home meanwhile."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")

# LDAP cannot restore these three.
STAMPS = ("entryCSN:", "modifyTimestamp:", "modifiersName:")


def settings(lab):
    """cn=config as sets of lines per entry, less the stamps."""
    entries = lab.slapcat(0).split("\n\n")
    return sorted(sorted(line for line in entry.splitlines() if not line.startswith(STAMPS)) for entry in entries)


def test_a_worse_profile_gives_way_to_the_one_that_was_kept(make_slapd, playbooks):
    lab = make_slapd(users=200, syslog=True)
    job = playbooks(lab)
    before = settings(lab)
    first = job.profile("first", {"slapd.log_level": "none", "slapd.idle_timeout": 300}, goal="none", require="none")
    assert job.tune(first).code == 0
    kept = settings(lab)
    assert kept != before
    run = job.tune(job.profile("worse", {"slapd.log_level": "any", "slapd.threads": 24}))
    assert run.code == 2, run.text
    _, verdict, _ = job.record()
    # Slower, or its p99 harmed: which of them comes first is not the question here.
    assert not verdict["met"]
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
