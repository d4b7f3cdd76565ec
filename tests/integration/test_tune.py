# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml from end to end on a real slapd: the main job."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from .looks import binds, log_level, settings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


@pytest.mark.alone
def test_gain_is_proven_kept_found_again_and_undone(make_slapd, playbooks):
    labs = [make_slapd(users=200, syslog=True), make_slapd(users=200), make_slapd(users=200, log_level="none")]
    # The first host is as wanted already, so the second is the canary and the third follows it.
    labs = [labs[2], labs[0], labs[1]]
    job = playbooks(*labs)
    before = [settings(lab) for lab in labs]
    run = job.tune("throughput", "-vvvv")
    assert run.code == 0, run.text
    folder, verdict, legs = job.record("lab2")
    assert verdict["verdict"] == "improved"
    assert verdict["goal"]["low_percent"] > 0
    assert len(legs["legs"]) == 16
    # Nobody else is on this server: what it counted is what was sent.
    assert {leg["foreign_operations"] for leg in json.loads((folder / "result.json").read_text())["legs"]} == {0}
    assert "kept on lab2; lost at next restart: nothing; report: runs/" in run.text
    assert "lab3: profile throughput is applied and read back, not measured itself, alike lab2" in run.text
    other, no_verdict, _ = job.record("lab3")
    assert no_verdict is None
    assert json.loads((other / "snapshot.json").read_text())["content"]
    assert [log_level(lab) for lab in labs] == [["none"]] * 3
    # The third is touched only when the second has its verdict.
    assert run.text.index("kept on lab2") < run.text.index("lab3: profile throughput")
    assert "lab1 is as profile throughput wants it already" in run.text
    command = subprocess.run(["bin/ldaptune-verdict", str(folder)], capture_output=True, text=True, check=False)
    assert command.returncode == 0
    assert "faster than as found" in command.stdout
    for lab in labs:
        assert lab.password not in run.text
        assert not any(lab.password in path.read_text() for path in [*folder.iterdir(), *other.iterdir()])

    load = [binds(lab) for lab in labs]
    again = job.tune("throughput")
    assert again.code == 0, again.text
    assert [again.recap(host)["changed"] for host in job.hosts] == [0, 0, 0]
    assert all(binds(lab) - seen < 20 for lab, seen in zip(labs, load))

    audit = job.run("audit.yml", "-e", "tuning_profile=throughput")
    assert audit.code == 0, audit.text
    assert [audit.recap(host)["changed"] for host in job.hosts] == [0, 0, 0]

    home = job.run("rollback.yml")
    assert home.code == 0, home.text
    assert [home.recap(host)["changed"] for host in job.hosts] == [0, 1, 1]
    assert [settings(lab) for lab in labs] == before
    assert job.run("rollback.yml").recap("lab1")["changed"] == 0


@pytest.mark.alone
def test_worse_on_purpose_is_rolled_back_and_fails_the_host(make_slapd, playbooks):
    lab = make_slapd(users=200, log_level="none", syslog=True)
    job = playbooks(lab)
    before = settings(lab)
    run = job.tune(job.profile("worse", {"slapd.log_level": "any"}, max_p99_increase_percent=None))
    assert run.code == 2
    _, verdict, _ = job.record()
    assert verdict["verdict"] == "regressed"
    assert settings(lab) == before
    assert "slower than as found" in run.text
    assert "rolled back" in run.text
