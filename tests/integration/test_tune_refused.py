# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml before anything changes: check mode, refusals, what is left alone."""

from __future__ import annotations

import os
import re

import pytest

from .looks import binds, log_level, state_files

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


def tried(lab):
    """How often an account has bound; whoever looks whether slapd is up binds without a name."""
    return len(re.findall('BIND dn="uid=[^"]+" method=128', lab.log_lines()[1]))


def test_check_mode_writes_nothing_and_shows_what_would_change(make_slapd, playbooks):
    lab = make_slapd(users=200, syslog=True)
    job = playbooks(lab)
    before, seen = lab.slapcat(0), binds(lab)
    run = job.tune("throughput", "--check", "--diff")
    assert run.code == 0, run.text
    assert lab.slapcat(0) == before
    assert state_files(lab) == []
    assert list(job.runs_dir.iterdir()) == []
    assert "slapd.log_level: stats -> none" in run.text
    assert "-slapd.log_level = stats" in run.text
    assert "+slapd.log_level = none" in run.text
    assert tried(lab) == 0
    # Our own connections bind by EXTERNAL, and the log shows them.
    assert 0 < binds(lab) - seen < 10
    assert "method=163" in lab.log_lines()[1]


def test_one_bad_host_and_nothing_changes_anywhere(make_slapd, playbooks):
    labs = [make_slapd(users=200), make_slapd(users=200)]
    job = playbooks(*labs)
    untouched = [lab.slapcat(0) for lab in labs]
    labs[1].stop()
    run = job.tune("throughput", "-e", "{tuning_consent: []}")
    assert run.code == 2
    assert "needs the consent security" in run.text
    assert "is not running" in run.text or "no slapd" in run.text or "does not name" in run.text
    assert labs[0].slapcat(0) == untouched[0]
    assert state_files(labs[0]) == []


def refused(lab, playbooks, rows, *arguments):
    """Run tune.yml with a host for each (variables, what is said) row, all of them the same slapd; return the run."""
    job = playbooks(*[lab] * len(rows))
    job.write(*[variables for variables, _ in rows])
    before = lab.slapcat(0)
    run = job.run("tune.yml", *arguments)
    assert run.code == 2
    assert [host for host, (_, said) in zip(job.hosts, rows) if said not in run.refusal(host)] == [], run.text
    assert lab.slapcat(0) == before
    assert state_files(lab) == []
    return run


@pytest.mark.parametrize(
    "rows",
    [
        [
            ({"tuning_profile": ""}, "tuning_profile"),
            ({"tuning_profile": "througput"}, "throughput"),
            ({"tuning_profile": "throughput", "tuning_exclude": ["slapd.thread"]}, "slapd.threads"),
        ],
        # Refused by the argument specs, which ends the run before the others would be looked at.
        [
            ({"tuning_profile": "throughput", "tuning_measure": "sometimes"}, "canary"),
            ({"tuning_profile": "throughput", "tuning_remeasure": "perhaps"}, "tuning_remeasure"),
        ],
    ],
)
def test_what_is_wrong_is_said_before_anything_changes(slapd_module, playbooks, rows):
    refused(slapd_module, playbooks, rows)


def test_no_load_generator_is_said_with_what_to_do(make_slapd, playbooks):
    lab = make_slapd(users=200)
    job = playbooks(lab)
    job.generators = []
    job.write()
    run = job.tune("throughput")
    assert run.code == 2
    assert "load_generators" in run.text
    assert "tuning_measure=never" in run.text
    never = job.tune("throughput", "-e", "tuning_measure=never")
    assert never.code == 0, never.text
    assert log_level(lab) == ["none"]


def test_an_excluded_lever_is_left_to_its_owner(make_slapd, playbooks):
    lab = make_slapd(users=200)
    job = playbooks(lab)
    before = lab.slapcat(0)
    run = job.tune("throughput", "-e", "{tuning_exclude: [slapd.log_level]}")
    assert run.code == 0, run.text
    assert run.recap("lab1")["changed"] == 0
    assert lab.slapcat(0) == before


def test_a_password_that_cannot_be_is_said_before_anything_changes(slapd_module, playbooks):
    rows = [
        ({"authrate_password_file": ""}, "neither is set"),
        ({"authrate_password_file": "/no/such/file"}, "there is no file /no/such/file"),
        ({"authrate_password_file": "", "authrate_password": 10}, "quote it"),
    ]
    arguments = ["-e", "tuning_profile=throughput", "-e", "tuning_measure=all", "-e", "{tuning_consent: []}"]
    run = refused(slapd_module, playbooks, rows, *arguments)
    # Together with what else is wrong.
    assert ["needs the consent security" in run.refusal(host) for host in ("lab1", "lab2", "lab3")] == [True] * 3


@pytest.mark.parametrize(
    ("changes", "binds_tried", "said"),
    [
        ({}, [1, 1], []),
        # Replicas of one directory would count three failures against one account.
        ({"authrate_password": "not-this-one"}, [1, 0], ["a sample account cannot bind"]),
        # What the first host cannot tell of the password, the others do not try all at once.
        ({"authrate_uri": "ldap://127.0.0.1:9"}, [0, 0], ["the generator cannot reach the directory"] * 2),
    ],
)
def test_a_wrong_password_is_tried_on_one_host_alone(make_slapd, playbooks, changes, binds_tried, said):
    labs = [make_slapd(users=200, syslog=True) for _ in range(2)]
    job = playbooks(*labs)
    job.write(**changes)
    # Without consent it ends after the preflight in any case.
    run = job.tune("throughput", "-e", "tuning_measure=all", "-e", "{tuning_consent: []}")
    assert run.code == 2
    assert "needs the consent security" in run.text
    assert [tried(lab) for lab in labs] == binds_tried
    for text in set(said):
        assert sum(text in line for line in run.text.splitlines() if line.startswith("fatal: ")) == len(said)


def test_what_a_measurement_needs_is_said_beside_what_bars_a_plan(make_slapd, playbooks):
    lab = make_slapd(users=200)
    job = playbooks(lab)
    job.write(tuning_suffix="dc=elsewhere,dc=test", authrate_allow_load=False)
    run = job.tune("throughput")
    assert run.code == 2
    assert "dc=elsewhere,dc=test" in run.text
    assert "authrate_allow_load" in run.text


@pytest.mark.parametrize(
    ("playbook", "part"),
    [
        ("tune.yml", ["--tags", "tune"]),
        ("tune.yml", ["--tags", "always"]),
        ("tune.yml", ["--skip-tags", "untagged"]),
        ("rollback.yml", ["--tags", "tune"]),
        ("audit.yml", ["--tags", "tune"]),
    ],
)
def test_a_part_of_a_run_is_no_success(slapd_module, playbooks, playbook, part):
    """Nothing bears a tag, so that asking for one does nothing; an exit code of 0 would say that all is well."""
    run = playbooks(slapd_module).run(playbook, "-e", "tuning_profile=throughput", *part)
    assert run.code == 2, run.text
    assert "lab1: nothing was looked at and nothing was done" in run.text
    assert "without --tags and --skip-tags" in run.text


def test_tags_that_leave_the_whole_are_welcome(slapd_module, playbooks):
    run = playbooks(slapd_module).tune("throughput", "--check", "--tags", "untagged", "--skip-tags", "other")
    assert run.code == 0, run.text
    assert "slapd.log_level: stats -> none" in run.text


def test_where_binds_write_nobody_is_bound_without_consent(make_slapd, playbooks):
    lab = make_slapd(users=200, syslog=True, database_lines=["olcLastBind: TRUE"])
    before = lab.slapcat(1)
    run = playbooks(lab).tune("throughput")
    assert run.code == 2
    assert "measuring would write to the directory" in run.text
    assert tried(lab) == 0
    assert lab.slapcat(1) == before


def test_what_bars_the_bind_of_an_unmeasured_host_is_known_before_the_change(make_slapd, playbooks):
    lab = make_slapd(users=200, syslog=True)
    job = playbooks(lab)
    job.write(authrate_password_file="/no/such/file")
    before = lab.slapcat(0)
    run = job.tune("throughput", "-e", "tuning_measure=never")
    assert run.code == 2
    assert "there is no file /no/such/file" in run.text
    assert (tried(lab), state_files(lab)) == (0, [])
    assert lab.slapcat(0) == before
