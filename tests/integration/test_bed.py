# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks over real ssh on hosts with systemd. They share this machine, so nothing is measured on them."""

from __future__ import annotations

import os

import pytest
import yaml
from hosts.bed import DIRECTORIES, Bed, Failed

from .conftest import Playbooks

# Not in make test yet: `make bed-test`. The hosts are one for all tests of this file, which come in this order.
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the bed needs root"),
    pytest.mark.bed,
]

# Everything of a host that a rollback must leave as it was, digests of files in it. Ansible's own folder is not ours.
INVENTORY = r"""
cd / && find etc usr/local lib/systemd usr/lib/systemd -xdev -printf '%p %y %m %U:%G %l\n' | sort
find etc usr/local lib/systemd -xdev -type f ! -path 'etc/ldap/slapd.d/*' -print0 | sort -z | xargs -0 sha256sum
sysctl -a 2>/dev/null | grep -E '^(net\.ipv4\.tcp_|vm\.swappiness|kernel\.numa)' | sort
systemctl list-unit-files --no-legend | sort
"""
# cn=config as sets of values, less what LDAP cannot restore.
CONFIG = "slapcat -n0 -o ldif-wrap=no | grep -vE '^(entryCSN|modifyTimestamp|modifiersName):' | sort"
SLOW_START = "net.ipv4.tcp_slow_start_after_idle"


class BedPlaybooks(Playbooks):
    """Runs playbooks against the bed's inventory; hosts without a measurement."""

    def __init__(self, folder, compiled, bed):
        self.folder, self.compiled = folder, compiled
        self.inventory = bed.inventory
        self.profiles, self.runs_dir = folder / "profiles", folder / "runs"
        self.profiles.mkdir()

    def go(self, playbook, profile, *arguments, **variables):
        """Run a playbook with a profile and variables."""
        every = {
            "tuning_profile": profile,
            "tuning_profile_paths": [str(self.profiles)],
            "tuning_consent": ["security", "availability", "restart"],
            "tuning_measure": "never",
            "verdict_runs_dir": str(self.runs_dir),
            **variables,
        }
        return self.run(playbook, "-e", yaml.safe_dump(every, default_flow_style=True, width=100000), *arguments)


@pytest.fixture(scope="module")
def bed():
    """The running bed."""
    made = Bed()
    try:
        made.up()
    except Failed as failed:
        made.down()
        pytest.skip("no bed here: %s" % failed)
    yield made
    made.down()


@pytest.fixture(scope="module")
def job(bed, tmp_path_factory, compiled):
    """The runner, with the profiles of these tests."""
    made = BedPlaybooks(tmp_path_factory.mktemp("bed"), compiled, bed)
    made.profile(
        "kept",
        {
            "slapd.log_level": "none",
            "database.search_stack": 32,
            "service.open_files": 2048,
            "sysctl.tcp_slow_start_after_idle": 0,
        },
    )
    # vm.* is the machine's own, which no host of the bed may set: the second write fails.
    made.profile("refused", {"slapd.idle_timeout": 300, "sysctl.swappiness": 10})
    return made


def looks(bed):
    """What each directory host is like: files, kernel settings, units, cn=config."""
    return {name: [bed.ssh(name, text).stdout.splitlines() for text in (INVENTORY, CONFIG)] for name in DIRECTORIES}


def in_force(bed, name):
    """What the kernel and the running slapd of a host say."""
    value = bed.ssh(name, "sysctl -n " + SLOW_START).stdout.strip()
    files = bed.ssh(name, "grep 'open files' /proc/$(pidof slapd)/limits").stdout.split()[3]
    level = bed.ssh(name, "ldapsearch -QLLLY EXTERNAL -H ldapi:/// -b cn=config -s base olcLogLevel").stdout
    return value, files, "olcLogLevel: none" in level


def test_tuned_rebooted_still_tuned_and_home_without_a_trace(bed, job):
    before = looks(bed)
    assert all(len(part) > 50 for host in before.values() for part in host)
    one = job.go("tune.yml", "kept", "--limit", "dir2")
    assert one.code == 0, one.text
    now = looks(bed)
    assert [name for name in DIRECTORIES if now[name] != before[name]] == ["dir2"]
    run = job.go("tune.yml", "kept", tuning_serial=1)
    assert run.code == 0, run.text
    assert [run.recap(name)["changed"] > 0 for name in DIRECTORIES] == [True, False, True]
    again = job.go("tune.yml", "kept")
    assert [again.recap(name)["changed"] for name in DIRECTORIES] == [0, 0, 0], again.text
    assert {in_force(bed, name) for name in DIRECTORIES} == {("0", "2048", True)}
    bed.reboot("dir1")
    assert in_force(bed, "dir1") == ("0", "2048", True)
    audit = job.go("audit.yml", "kept")
    assert audit.code == 0, audit.text
    assert "drifted" not in audit.text
    home = job.go("rollback.yml", "kept")
    assert home.code == 0, home.text
    after = looks(bed)
    for name in DIRECTORIES:
        for old, new in zip(before[name], after[name]):
            assert sorted(set(old) ^ set(new)) == [], name
    assert in_force(bed, "dir3")[0] == "1"


def test_a_host_that_fails_goes_home_and_stops_the_roll(bed, job):
    before = looks(bed)
    run = job.go("tune.yml", "refused", tuning_serial=1)
    assert run.code == 2, run.text
    assert "the kernel refuses this value" in run.text
    assert "Read-only file system" in run.text
    assert looks(bed) == before
    assert [run.recap(name)["failed"] for name in DIRECTORIES] == [1, 0, 0]
