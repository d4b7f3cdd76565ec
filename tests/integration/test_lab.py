# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab of a machine, through its module and its playbook: built, left alone, repaired, rebuilt, removed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from ldaptune.lab import process, syslog
from ldaptune.lab.slapd import LabSlapd, free_port

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


@pytest.fixture
def place(short_dir, run_module):
    """Call the lab module on a place of this test's own: place("up", users=5) -> result."""
    root = short_dir / "lab"
    port = free_port()

    def call(state, check=False, **changes):
        return run_module("lab", {"state": state, "root": str(root), "port": port, "users": 5, **changes}, check=check)

    call.root = root
    call.port = port
    yield call
    if (root / "lab.json").exists():
        LabSlapd.open(root).destroy()


def test_built_once_then_left_alone(place):
    first = place("up")
    assert (first["changed"], first["action"]) == (True, "built")
    lab = LabSlapd.open(place.root)
    before = lab.pid
    again = place("up")
    assert (again["changed"], again["action"], lab.pid) == (False, "none", before)
    assert lab.password not in json.dumps([first, again])


def test_check_mode_writes_nothing(place):
    assert place("up", check=True)["action"] == "built"
    assert not place.root.exists()
    place("up")
    assert place("down", check=True)["changed"] is True
    assert LabSlapd.open(place.root).healthy()


def break_slapd(lab):
    lab.kill()


def stop_slapd(lab):
    os.kill(lab.pid, signal.SIGSTOP)


def break_reader(lab):
    process.end(syslog.find(lab.root), 5)


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (break_slapd, "slapd does not run"),
        (stop_slapd, "slapd runs but does not answer"),
        (break_reader, "the log reader does not run"),
    ],
)
def test_half_dead_is_repaired_and_keeps_its_data(place, harm, reason):
    place("up")
    lab = LabSlapd.open(place.root)
    password, people = lab.password, lab.slapcat(1)
    harm(lab)
    result = place("up")
    assert (result["action"], result["reason"], result["changed"]) == ("repaired", reason, True)
    assert lab.healthy()
    assert (lab.password, lab.slapcat(1)) == (password, people)


def test_a_configuration_that_starts_no_more_is_rebuilt(place):
    place("up")
    lab = LabSlapd.open(place.root)
    lab.stop()
    (place.root / "slapd.d" / "cn=config.ldif").write_text("broken")
    result = place("up")
    assert result["action"] == "built"
    assert "a start does not help" in result["reason"]
    assert lab.healthy()


def test_other_settings_or_an_unfinished_build_are_rebuilt(place):
    place("up")
    assert place("up", users=6)["action"] == "built"
    saved = json.loads((place.root / "lab.json").read_text())
    saved["digest"] = ""
    (place.root / "lab.json").write_text(json.dumps(saved))
    assert place("up", users=6)["action"] == "built"


def test_what_is_no_lab_is_left_alone(place):
    place.root.mkdir()
    (place.root / "precious").write_text("x")
    for state in ("up", "down"):
        result = place(state)
        assert result["failed"]
        assert "no lab" in result["msg"] or "not a lab" in result["msg"]
    assert (place.root / "precious").read_text() == "x"


def test_a_taken_port_is_named(place):
    with socket.create_server(("127.0.0.1", place.port)):
        result = place("up")
    assert "port is taken" in result["msg"]
    assert not place.root.exists()


def test_down_removes_everything_and_says_what_stays(place):
    place("up")
    lab = LabSlapd.open(place.root)
    slapd, reader = process.identify(lab.pid, lab.config_dir), syslog.find(lab.root)
    result = place("down")
    assert result["removed"] == [str(place.root)]
    assert result["stays"] == ["slapd", "ldap-utils"]
    assert not place.root.exists()
    assert not process.alive(slapd)
    assert not process.alive(reader)
    assert place("down")["changed"] is False


def test_the_playbook_with_a_listed_localhost_and_become_everywhere(place, tmp_path, checkout):
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        "all:\n  hosts:\n    localhost:\n  vars:\n    ansible_become: true\n    ansible_become_user: nobody\n"
    )

    def run(state):
        words = ["lab_state=%s" % state, "lab_root=%s" % place.root, "lab_port=%d" % place.port, "lab_users=5"]
        command = [os.path.join(os.path.dirname(sys.executable), "ansible-playbook"), "-i", str(inventory)]
        command += [word for pair in words for word in ("-e", pair)]
        done = subprocess.run(
            [*command, "playbooks/lab.yml"], cwd=checkout, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "ldap://127.0.0.1:%d" % place.port in run("up")
    # The module's payload is gone by now; the lab's own command must do without it.
    subprocess.run([str(place.root / "ctl"), "restart"], cwd="/", env={}, check=True)
    assert LabSlapd.open(place.root).healthy()
    assert "changed=0" in run("up")
    assert "Stays: slapd, ldap-utils" in run("down")
    assert not place.root.exists()
