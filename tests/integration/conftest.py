# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real ansible-playbook runs against lab slapds, with an inventory that is hard on us."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
# For a condition that a person would call broken if it took longer; never a measurement.
PATIENCE = 400


class Run:
    """A finished run: exit code, text, recap by host."""

    def __init__(self, code, text):
        self.code = code
        self.text = text

    def refusal(self, host):
        """What was said when this host failed."""
        (line,) = [row for row in self.text.splitlines() if re.match(r"fatal: \[%s\b" % host, row)]
        return line

    def recap(self, host):
        """The counters of a host's recap line as a dict of int."""
        recap = self.text.rsplit("PLAY RECAP", 1)[1]
        (line,) = [row for row in recap.splitlines() if row.split(":")[0].strip() == host]
        return {key: int(value) for key, value in (item.split("=") for item in line.split(":")[1].split())}


class Playbooks:
    """Runs playbooks of this checkout against given slapds, each as a host of its own."""

    def __init__(self, folder, compiled, labs):
        self.folder = folder
        self.compiled = compiled
        self.labs = labs
        self.runs_dir = folder / "runs"
        self.runs_dir.mkdir()
        self.profiles = folder / "profiles"
        self.profiles.mkdir()
        self.inventory = folder / "inventory"
        self.inventory.mkdir()
        self.hosts = ["lab%d" % (number + 1) for number in range(len(labs))]
        self.generators = self.hosts[:1]
        self.write()

    def host_vars(self, lab):
        """What a user would write for this slapd."""
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "tuning_instance": str(lab.config_dir),
            "tuning_suffix": lab.suffix,
            "tuning_restart_command": lab.server["restart_command"],
            "tuning_state_dir": lab.server["state_dir"],
            "tuning_watch_seconds": 0.2,
            "tuning_schedule": "brief",
            "tuning_consent": ["security", "availability"],
            "tuning_profile_paths": [str(self.profiles), str(CHECKOUT / "tuning_profiles")],
            "verdict_runs_dir": str(self.runs_dir),
            "authrate_allow_load": True,
            "authrate_uri": lab.uri,
            "authrate_accounts": lab.accounts,
            "authrate_password_file": str(lab.password_file),
            "authrate_connections": 8,
        }

    def write(self, *own, **changes):
        """Write the inventory; `changes` are variables of every host, `own` those of each in turn."""
        rows = zip(self.hosts, self.labs, own or [{}] * len(self.hosts))
        hosts = {name: {**self.host_vars(lab), **changes, **mine} for name, lab, mine in rows}
        tree = {
            "all": {
                # A listed localhost and an inventory-wide become are common, and break what forgets about them.
                "hosts": {"localhost": {"ansible_connection": "local", "ansible_become_exe": "/bin/false"}},
                "vars": {"ansible_become": True, "ansible_become_method": "ansible.builtin.su"},
            },
            "ldaphosts": {"hosts": hosts},
            "load_generators": {"hosts": {name: {} for name in self.generators}},
        }
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump(tree))

    def profile(self, name, levers, **expect):
        """Write a profile; `levers` maps a key to a value."""
        text = {
            "name": name,
            "summary": "A profile of a test",
            "levers": {key: {"value": value, "why": "to try it"} for key, value in levers.items()},
            "expect": {"goal": "goodput", "require": "improved", **expect},
        }
        (self.profiles / (name + ".yml")).write_text(yaml.safe_dump(text, sort_keys=False))
        return name

    def start(self, playbook, *arguments):
        """Start a run and return the process; its output goes to a file that `text` reads."""
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(self.inventory), playbook]
        environment = {
            **os.environ,
            # The modules are compiled once for all runs; see compiled/sitecustomize.py.
            "PYTHONPATH": str(Path(__file__).with_name("compiled")),
            "LDAPTUNE_COMPILED": str(self.compiled),
            "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
            "ANSIBLE_FORCE_COLOR": "0",
            "LC_ALL": "C.UTF-8",
        }
        self.output = self.folder / "output"
        with open(self.output, "w", encoding="utf-8") as out:
            return subprocess.Popen(
                [*command, "-l", "ldaphosts", *arguments],
                cwd=CHECKOUT,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def text(self):
        """What the run has said so far."""
        return self.output.read_text(encoding="utf-8")

    def finish(self, process):
        """Wait for a started run."""
        return Run(process.wait(timeout=600), self.text())

    def run(self, playbook, *arguments):
        """Run a playbook to its end."""
        return self.finish(self.start(playbook, *arguments))

    def tune(self, profile, *arguments):
        """Run tune.yml with a profile."""
        return self.run("tune.yml", "-e", "tuning_profile=" + profile, *arguments)

    def record(self, host="lab1"):
        """The newest run of a host: folder, and verdict and legs as data (None when there are none)."""
        folder = sorted(self.runs_dir.glob("*-" + host))[-1]
        return folder, read(folder / "verdict.json"), read(folder / "legs.json")

    def in_leg(self, process, number):
        """Wait until leg `number` (from 1) is being probed."""
        wait_for(lambda: self.text().count("Put the host into the arm") >= number, process)
        wait_for(
            lambda: self.text().rsplit("Put the host into the arm", 1)[1].count("Run the probe on the gen"), process
        )


def read(path):
    """The JSON of a file, None without one."""
    return json.loads(path.read_text()) if path.exists() else None


def wait_for(condition, process=None):
    """Wait until the condition holds; a run that ended, or patience at its end, is a failure."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if process is not None and process.poll() is not None:
            raise AssertionError("the run ended too early with %d" % process.returncode)
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain")
        time.sleep(0.05)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """A folder for what Python compiles, one for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiled"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def playbooks(tmp_path, compiled):
    """Make the runner: playbooks(lab, ...) has a host lab1, lab2, ... for each slapd."""

    def make(*labs):
        folder = tmp_path / "ansible"
        folder.mkdir()
        return Playbooks(folder, compiled, labs)

    return make
