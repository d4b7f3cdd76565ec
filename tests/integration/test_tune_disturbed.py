# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml when something goes wrong in the middle of a leg."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from ldaptune.directory.openldap import connect

from .conftest import wait_for
from .looks import foreign_client, log_level, open_connections, settings, state_files

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


def test_slapd_killed_in_a_leg_is_invalid(make_slapd, playbooks):
    lab = make_slapd(users=200)
    job = playbooks(lab)
    process = job.start("tune.yml", "-e", "tuning_profile=throughput")
    job.in_leg(process, 2)
    lab.kill()
    run = job.finish(process)
    assert run.code == 2
    folder, verdict, _ = job.record()
    assert verdict["verdict"] == "invalid"
    assert "faster" not in verdict["sentence"]
    assert "rollback.yml" in run.text
    command = subprocess.run(["bin/ldaptune-verdict", str(folder)], capture_output=True, text=True, check=False)
    assert command.returncode == 5
    # The way home is still there once slapd is back.
    lab.start()
    home = job.run("rollback.yml")
    assert home.code == 0, home.text
    assert log_level(lab) == ["stats"]


def test_foreign_client_in_a_leg_is_invalid(make_slapd, playbooks):
    lab = make_slapd(users=200)
    job = playbooks(lab)
    process = job.start("tune.yml", "-e", "tuning_profile=throughput")
    job.in_leg(process, 2)
    with foreign_client(lab):
        run = job.finish(process)
    assert run.code == 2
    _, verdict, _ = job.record()
    assert verdict["verdict"] == "invalid"
    assert any(reason["code"] == "foreign_load" for reason in verdict["reasons"])
    assert log_level(lab) == ["stats"]


def test_setting_changed_by_hand_in_a_leg_is_drifted_and_left(make_slapd, playbooks):
    lab = make_slapd(users=200)
    job = playbooks(lab)
    process = job.start("tune.yml", "-e", "tuning_profile=throughput")
    job.in_leg(process, 2)
    directory = connect(lab.server)
    directory.modify("cn=config", [("replace", "olcLogLevel", ["conns"])])
    directory.close()
    run = job.finish(process)
    assert run.code == 2
    _, verdict, _ = job.record()
    assert verdict["verdict"] == "invalid"
    assert any(reason["code"] == "drifted" for reason in verdict["reasons"])
    assert log_level(lab) == ["conns"]
    assert "drifted" in run.text


def test_controller_killed_in_a_leg_the_watchdog_brings_the_host_home(make_slapd, playbooks):
    lab = make_slapd(users=200)
    job = playbooks(lab)
    before = settings(lab)
    process = job.start("tune.yml", "-e", "tuning_profile=throughput", "-e", "tuning_watchdog_seconds=15")
    job.in_leg(process, 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    wait_for(lambda: settings(lab) == before)
    # Whatever of the load was still under way has ended by itself.
    wait_for(lambda: not open_connections(lab))


def test_canary_that_fails_stops_the_roll(make_slapd, playbooks):
    labs = [make_slapd(users=200), make_slapd(users=200)]
    job = playbooks(*labs)
    untouched = labs[1].slapcat(0)
    process = job.start("tune.yml", "-e", "tuning_profile=throughput")
    job.in_leg(process, 1)
    labs[0].kill()
    run = job.finish(process)
    assert run.code == 2
    assert labs[1].slapcat(0) == untouched
    assert state_files(labs[1]) == []
