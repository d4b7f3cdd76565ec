# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml with inventories and variables as people write them."""

from __future__ import annotations

import os
import sys

import pytest
import yaml

from .conftest import wait_for
from .looks import binds, log_level, settings, state_files

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


def rewrite(job, change):
    """Let `change(tree)` edit the inventory."""
    path = job.inventory / "hosts.yml"
    tree = yaml.safe_load(path.read_text())
    change(tree)
    path.write_text(yaml.safe_dump(tree))


def test_a_generator_outside_the_limit_still_probes(make_slapd, playbooks):
    """`-l ldaphosts` leaves it out of every play: it is reached by delegation, without facts."""
    lab = make_slapd(users=200)
    job = playbooks(lab)
    there = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    rewrite(job, lambda tree: tree.update(load_generators={"hosts": {"gen1": there}}))
    load = binds(lab)
    run = job.tune("throughput", "-e", "tuning_measure=never")
    assert run.code == 0, run.text
    assert "[lab1 -> gen1" in run.text
    assert log_level(lab) == ["none"]
    assert binds(lab) > load


def test_a_group_of_generators_that_is_not_there(make_slapd, playbooks):
    lab = make_slapd(users=200)
    job = playbooks(lab)
    rewrite(job, lambda tree: tree.pop("load_generators"))
    run = job.tune("throughput", "--check")
    assert run.code == 2
    assert "no load generator is named" in run.text
    assert "tuning_measure=never" in run.text
    assert state_files(lab) == []


NONSENSE = [
    (["tuning_install_requirements=perhaps", "tuning_config_starttls=", "tuning_timeout=long"], "tuning"),
    (["authrate_starttls=perhaps", "authrate_allow_cleartext=", "authrate_connections=many"], "authrate"),
]


@pytest.mark.parametrize(("arguments", "role"), NONSENSE)
def test_variables_of_a_wrong_type_are_all_named(slapd_module, playbooks, arguments, role):
    job = playbooks(slapd_module)
    before = slapd_module.slapcat(0)
    run = job.tune("throughput", *(part for argument in arguments for part in ("-e", argument)))
    assert run.code == 2
    told = run.text.split("PLAY RECAP")[0]
    assert [argument for argument in arguments if argument.split("=")[0] not in told] == []
    assert slapd_module.slapcat(0) == before
    assert state_files(slapd_module) == []


def test_what_the_probe_cannot_use_is_said_with_the_rest(slapd_module, playbooks):
    job = playbooks(slapd_module)
    load = binds(slapd_module)
    wrong = ["authrate_allow_load=no", "authrate_uri=ldap://192.0.2.1", "authrate_connections=0"]
    run = job.tune("throughput", "--check", *(part for argument in wrong for part in ("-e", argument)))
    assert run.code == 2
    told = run.text.split("PLAY RECAP")[0]
    for said in ("authrate_allow_load", "connections is out of range"):
        assert said in told
    assert binds(slapd_module) - load < 10


def test_a_quoted_no_is_no(slapd_module, playbooks):
    job = playbooks(slapd_module)
    run = job.tune("throughput", "--check", "-e", "{tuning_remeasure: 'no', tuning_install_requirements: 'False'}")
    assert run.code == 0, run.text
    task = run.text.split("Install what the modules need", 1)[1].split("TASK", 1)[0]
    assert "skipping: [lab1]" in task
    assert "slapd.log_level: stats -> none" in run.text


def test_a_first_host_that_is_as_wanted_does_not_silence_the_measurement(make_slapd, playbooks):
    """The canary is the first host that would change, not the first one."""
    labs = [make_slapd(users=200, log_level="none"), make_slapd(users=200)]
    job = playbooks(*labs)
    run = job.tune(job.profile("second", {"slapd.log_level": "none"}, require="none"), "--check")
    assert run.code == 0, run.text
    reached = run.text.split("Reach the directory from the generator", 1)[1].split("TASK", 1)[0]
    assert "[lab2 -> lab1" in reached
    assert "[lab1" not in reached
    assert log_level(labs[1]) == ["stats"]


SSH = """#!/bin/sh
# Stands for ssh: runs the last argument here until the line is cut.
[ ! -e "$0.cut" ] || { echo "ssh: connect to host lab port 22: No route to host" >&2; exit 255; }
for last; do :; done
exec /bin/sh -c "$last"
"""


def test_a_host_that_is_cut_off_in_a_leg_goes_home_by_itself(make_slapd, playbooks):
    """Neither rescue nor always runs for a host that became unreachable."""
    lab = make_slapd(users=200)
    job = playbooks(lab)
    before = settings(lab)
    ssh = job.folder / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    line = {
        "ansible_connection": "ssh",
        "ansible_host": "lab.test",
        "ansible_ssh_executable": str(ssh),
        "ansible_ssh_transfer_method": "piped",
        "ansible_become": False,
    }
    job.write(**line)
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    rewrite(job, lambda tree: tree.update(load_generators={"hosts": {"gen1": here}}))
    process = job.start("tune.yml", "-e", "tuning_profile=throughput", "-e", "tuning_watchdog_seconds=20")
    job.in_leg(process, 2)
    ssh.with_name("ssh.cut").touch()
    run = job.finish(process)
    assert run.code not in (0, None)
    assert "connection to the host or its generator was lost" in run.text
    assert "NOT rolled back on lab1" in run.text
    assert "rollback.yml -l lab1" in run.text
    assert "kept on" not in run.text
    assert job.record()[1]["verdict"] == "invalid"
    assert (job.record()[0] / "snapshot.json").exists()
    wait_for(lambda: settings(lab) == before)
    ssh.with_name("ssh.cut").unlink()
    home = job.run("rollback.yml")
    assert home.code == 0, home.text
    assert settings(lab) == before
