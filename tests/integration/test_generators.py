# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several generators load one slapd together."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
import yaml

from .conftest import wait_for
from .looks import log_level, settings
from .probe import difference

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")

HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
PHASES = [
    {"name": "prime", "mode": "pass", "seconds": 2},
    {"name": "goal", "mode": "closed", "seconds": 2.5},
    {"name": "fixed", "mode": "open", "seconds": 1, "rate": 100},
]
# One run of the probe as the role does it, its figures in a file.
PLAY = """
- hosts: ldaphosts
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: authrate}
      vars: {authrate_phases: %s}
    - ansible.builtin.copy: {content: "{{ _authrate_run | to_json }}", dest: %s}
      delegate_to: localhost
      become: false
      vars: {ansible_become: false, ansible_python_interpreter: %s}
"""
# Stands for ssh: runs the last argument here, with another clock.
SSH = """#!/bin/sh
for last; do :; done
PATH=%(folder)s:$PATH PYTHONPATH=%(folder)s exec /bin/sh -c "$last"
"""
DATE = """#!/bin/sh
exec %(python)s -c 'import time; print("%%.9f" %% time.time())'
"""
SITE = """import time
real = time.time
time.time = lambda: real() + %(ahead)s
"""


def together(job, **generators):
    """Let these hosts (variables by name) be the generators of all directory hosts."""
    job.write(authrate_generators="all")
    path = job.inventory / "hosts.yml"
    tree = yaml.safe_load(path.read_text())
    tree["load_generators"] = {"hosts": generators}
    path.write_text(yaml.safe_dump(tree))
    return job


def play_of(job, phases):
    play = job.folder / "probe.yml"
    play.write_text(PLAY % (json.dumps(phases), job.folder / "result.json", sys.executable))
    return str(play)


def probe(job, phases=PHASES):
    """Run the role's probe once; its result is None when the play failed."""
    run = job.run(play_of(job, phases))
    path = job.folder / "result.json"
    return run, json.loads(path.read_text()) if path.exists() else None


def ssh_with_clock(folder, ahead):
    """Variables of a host whose clock is so many seconds ahead, for `date` and for Python."""
    folder.mkdir()
    known = {"folder": folder, "python": sys.executable, "ahead": ahead}
    for name, text in (("ssh", SSH), ("date", DATE), ("sitecustomize.py", SITE)):
        (folder / name).write_text(text % known)
        (folder / name).chmod(0o755)
    return {
        **HERE,
        "ansible_connection": "ssh",
        "ansible_host": "gen.test",
        "ansible_ssh_executable": str(folder / "ssh"),
        "ansible_ssh_transfer_method": "piped",
    }


def test_three_generators_are_one_whose_totals_the_server_counted(slapd, playbooks, tmp_path):
    job = together(playbooks(slapd), gen1=HERE, gen2=HERE, gen3=ssh_with_clock(tmp_path / "gen3", 40))
    (run, result), counted, connections = difference(slapd, lambda: probe(job))
    assert run.code == 0, run.text
    assert result["totals"] == {"operations": counted, "connections": connections}
    assert result["dropped_out"] == []
    goal = result["phases"]["goal"]
    assert goal["codes"] == {"success": goal["operations"]}
    assert sum(goal["histogram"].values()) == goal["latency_ns"]["count"] == goal["successes"]
    assert result["phases"]["prime"]["operations"] == 100
    assert result["phases"]["fixed"]["planned"] == 100
    assert [row["second"] for row in goal["series"]] in ([0, 1], [1])
    assert {row["generator"] for row in goal["processes"]} == {"gen1", "gen2", "gen3"}
    given = result["generators"]
    assert [given[name]["connections"] for name in sorted(given)] == [3, 3, 2]
    # Its clock is ahead, and its start was with the others: it was not late, and it would have been refused as past.
    ahead = given["gen3"]["offset_seconds"]
    assert abs(ahead - 40) <= given["gen3"]["uncertainty_seconds"] + given["gen1"]["uncertainty_seconds"]
    for name, phase in result["phases"].items():
        shares = [each["phases"][name]["operations"] for each in given.values()]
        assert phase["operations"] == sum(shares)
        assert min(shares) > 0
    assert not left_behind(slapd.password)


def left_behind(password):
    """Files with this password on the generators; other tests have theirs there."""
    found = []
    for path in Path("/run").glob("ldaptune-*/password"):
        with contextlib.suppress(FileNotFoundError):
            if password in path.read_text():
                found.append(path)
    return found


def test_a_generator_that_is_not_there_sends_nobody(slapd, playbooks):
    gone = {**HERE, "ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}
    job = together(playbooks(slapd), gen1=HERE, gen2=gone)
    (run, result), counted, _ = difference(slapd, lambda: probe(job))
    assert counted["bind"] == 0, run.text
    assert result is None or "gen2 gave no result: unreachable" in result["dropped_out"][0]["text"]


def test_a_generator_that_dies_in_a_leg_makes_it_invalid_by_name(make_slapd, playbooks):
    lab = make_slapd(users=200)
    before = settings(lab)
    job = together(playbooks(lab), gen1=HERE, gen2=HERE)
    name = job.profile("quiet", {"slapd.log_level": "none"}, require="none", max_p99_increase_percent=None)
    process = job.start("tune.yml", "-v", "-e", "tuning_profile=" + name)
    wait_for(lambda: job.text().count("Put the host into the arm") >= 2, process)
    wait_for(lambda: "Tell them" in job.text().rsplit("Put the host into the arm", 1)[1], process)
    said = job.text().rsplit("Let the probe stand ready", 1)[1]
    (pid,) = re.findall(r'"name": "gen2".*?"pid": (\d+)', said)
    os.kill(int(pid), signal.SIGKILL)
    run = job.finish(process)
    assert run.code == 2
    _, verdict, legs = job.record()
    assert verdict["verdict"] == "invalid"
    texts = [reason["text"] for reason in verdict["reasons"] if reason["code"] == "dropped_out"]
    assert texts == ["generator gen2 gave no result: its process ended without a result"]
    assert "gen2" in run.text.rsplit("PLAY RECAP", 1)[0].rsplit("fatal", 1)[1]
    assert len(legs["legs"]) == 2
    assert settings(lab) == before
    assert log_level(lab) == ["stats"]
