# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml from end to end on a real slapd: the main job."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest
from ldaptune.directory.openldap import connect

from .conftest import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")

# LDAP cannot restore these three.
STAMPS = ("entryCSN:", "modifyTimestamp:", "modifiersName:")


def settings(lab):
    """cn=config as sets of lines per entry, less the stamps."""
    entries = lab.slapcat(0).split("\n\n")
    return sorted(sorted(line for line in entry.splitlines() if not line.startswith(STAMPS)) for entry in entries)


def log_level(lab):
    """The configured log level as slapd returns it."""
    directory = connect(lab.server)
    try:
        return directory.read("cn=config", ["olcLogLevel"]).get("olcLogLevel")
    finally:
        directory.close()


def binds(lab):
    """How many binds the server has seen."""
    directory = connect(lab.server)
    try:
        return directory.counters()["operations"]["bind"]
    finally:
        directory.close()


def open_connections(lab):
    """How many clients other than this reader are connected."""
    directory = connect(lab.server)
    try:
        return directory.monitor()["connections"]["current"] - 1
    finally:
        directory.close()


def state_files(lab):
    """Everything in the host's state directory."""
    top = lab.server["state_dir"]
    return [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]


def test_check_mode_writes_nothing_and_shows_what_would_change(make_slapd, playbooks):
    lab = make_slapd(users=200)
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
    # Our own connections bind by EXTERNAL; an account would show as a bind from a network address.
    assert "method=128" not in "".join(lab.log_lines()[1:])
    assert binds(lab) - seen < 10


def test_gain_is_proven_kept_found_again_and_undone(make_slapd, playbooks):
    lab = make_slapd(users=200, syslog=True)
    job = playbooks(lab)
    before = settings(lab)
    run = job.tune("throughput", "-vvvv")
    assert run.code == 0, run.text
    folder, verdict, legs = job.record()
    assert verdict["verdict"] == "improved"
    assert verdict["goal"]["low_percent"] > 0
    assert len(legs["legs"]) == 16
    assert log_level(lab) == ["none"]
    assert "kept on lab1; lost at next restart: nothing; report: " in run.text
    # On this server nobody else is: what it counted is what was sent.
    assert {leg["foreign_operations"] for leg in verdict["legs"]} == {0} if "legs" in verdict else True
    command = subprocess.run(["bin/ldaptune-verdict", str(folder)], capture_output=True, text=True, check=False)
    assert command.returncode == 0
    assert "faster than as found" in command.stdout
    written = "".join(path.read_text() for path in folder.iterdir())
    assert lab.password not in run.text
    assert lab.password not in written

    load = binds(lab)
    again = job.tune("throughput")
    assert again.code == 0, again.text
    assert again.recap("lab1")["changed"] == 0
    assert binds(lab) - load < 20

    audit = job.run("audit.yml", "-e", "tuning_profile=throughput")
    assert audit.code == 0, audit.text
    assert audit.recap("lab1")["changed"] == 0

    home = job.run("rollback.yml")
    assert home.code == 0, home.text
    assert home.recap("lab1")["changed"] == 1
    assert settings(lab) == before
    assert job.run("rollback.yml").recap("lab1")["changed"] == 0


def test_worse_on_purpose_is_rolled_back_and_fails_the_host(make_slapd, playbooks):
    lab = make_slapd(users=200, log_level="none", syslog=True)
    job = playbooks(lab)
    before = settings(lab)
    run = job.tune(job.profile("worse", {"slapd.log_level": "any"}))
    assert run.code == 2
    _, verdict, _ = job.record()
    assert verdict["verdict"] == "regressed"
    assert settings(lab) == before
    assert "slower than as found" in run.text
    assert "rolled back" in run.text


def test_measured_against_itself_is_never_improved(make_slapd, playbooks):
    lab = make_slapd(users=200, log_level="none")
    job = playbooks(lab)
    name = job.profile("same", {"slapd.log_level": "none"})
    plain = job.tune(name)
    assert plain.code == 0, plain.text
    assert plain.recap("lab1")["changed"] == 0
    assert list(job.runs_dir.iterdir()) == []
    asked = job.tune(name, "-e", "tuning_remeasure=true")
    _, verdict, legs = job.record()
    assert verdict["aa"] is True
    assert verdict["verdict"] in ("equivalent", "inconclusive", "regressed", "invalid")
    assert {leg["arm"] for leg in legs["legs"]} == {"as_found", "profile"}
    assert asked.recap("lab1")["changed"] == 0


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
    client = subprocess.Popen(
        [
            "bin/authrate",
            "--uri",
            lab.uri,
            "--accounts",
            lab.accounts,
            "--password-file",
            str(lab.password_file),
            "--connections",
            "8",
            "--seconds",
            "20",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        run = job.finish(process)
    finally:
        client.send_signal(signal.SIGINT)
        client.wait(timeout=30)
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


def test_two_hosts_and_one_generator_are_measured_one_after_the_other(make_slapd, playbooks):
    labs = [make_slapd(users=200), make_slapd(users=200)]
    job = playbooks(*labs)
    name = job.profile("both", {"slapd.log_level": "none"}, require="none")
    run = job.tune(name, "-e", "tuning_measure=all")
    assert run.code == 0, run.text
    spans = []
    for host in job.hosts:
        _, verdict, legs = job.record(host)
        assert verdict["met"] is True
        starts = [leg["started"] for leg in legs["legs"]]
        spans.append((min(starts), max(starts)))
    spans.sort()
    assert spans[0][1] < spans[1][0]


def test_canary_first_then_the_rest_unmeasured(make_slapd, playbooks):
    labs = [make_slapd(users=200), make_slapd(users=200), make_slapd(users=200)]
    job = playbooks(*labs)
    name = job.profile("roll", {"slapd.log_level": "none"}, require="none")
    run = job.tune(name)
    assert run.code == 0, run.text
    assert [log_level(lab) for lab in labs] == [["none"]] * 3
    assert job.record("lab1")[1] is not None
    for host in ("lab2", "lab3"):
        assert job.record(host)[1] is None
        assert "%s: profile roll is applied and read back, not measured itself, alike lab1" % host in run.text
        kept = job.record(host)[0]
        assert json.loads((kept / "snapshot.json").read_text())["content"]


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-e", "tuning_profile="], "tuning_profile"),
        (["-e", "tuning_profile=througput"], "throughput"),
        (["-e", "tuning_profile=throughput", "-e", "{tuning_exclude: [slapd.thread]}"], "slapd.threads"),
        (["-e", "tuning_profile=throughput", "-e", "tuning_measure=sometimes"], "canary"),
        (["-e", "tuning_profile=throughput", "-e", "tuning_remeasure=perhaps"], "tuning_remeasure"),
        (["-e", "tuning_profile=throughput", "-e", "authrate_allow_load=false"], "authrate_allow_load"),
    ],
)
def test_what_is_wrong_is_said_before_anything_changes(make_slapd, playbooks, arguments, said):
    lab = make_slapd(users=200)
    job = playbooks(lab)
    before = lab.slapcat(0)
    run = job.run("tune.yml", *arguments)
    assert run.code == 2
    assert said in run.text
    assert lab.slapcat(0) == before
    assert state_files(lab) == []


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
