# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sampler beside a real slapd under the project's own probe."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest
from ldaptune import sampling
from ldaptune.directory.openldap import connect
from ldaptune.load.prepare import Settings, prepare
from ldaptune.load.run import run
from ldaptune.opening import open_target

# What slapd-pw-pbkdf2 stores, with so many rounds, for a password that no test knows.
SLOW = "{PBKDF2-SHA256}10000$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def sampler(run_module):
    return lambda lab, state, **more: run_module("host_sampler", {"state": state, "server": lab.server, **more})


@pytest.fixture
def quiet(make_slapd):
    return make_slapd(log_level="none")


def load(lab, seconds=2.5, connections=16):
    phases = [{"name": "goal", "mode": "closed", "seconds": seconds, "rate": 0}]
    return run(
        prepare(
            Settings(
                uri=lab.uri,
                accounts=lab.accounts,
                password_file=lab.password_file,
                connections=connections,
                phases=phases,
            )
        )
    )


def place(lab):
    return sampling.Place(str(next(Path(lab.server["state_dir"]).glob("slapd-*"))))


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def alive(pid):
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_what_is_seen_under_load_is_what_the_probe_sent(sampler, quiet):
    started = sampler(quiet, "started", seconds=60)
    assert not started["changed"] and alive(started["pid"])
    sent = load(quiet)
    result = sampler(quiet, "stopped", limited_by=sent["limited_by"])
    sample = result["sample"]
    assert not result["changed"] and not alive(started["pid"])
    # The first reading came before the probe and the last behind it. The task that ends it binds once itself, which the
    # last reading may or may not have seen.
    counted = sample["monitor"]["operations"]["bind"]
    assert counted - sent["totals"]["operations"]["bind"] in (0, 1)
    assert sum(item["monitor"]["operations"].get("bind", 0) for item in sample["series"]) == counted
    assert sample["ended"] == "stopped" and sample["loaded_intervals"] >= 1
    workers = sample["slapd"]["workers"]
    assert workers["percent_total"] > 10 and workers["count"] >= 2
    assert workers["user_percent"] + workers["system_percent"] == pytest.approx(workers["percent_total"], abs=0.5)
    assert workers["looks"]["running"] > 0 and workers["blocked_in_log_percent"] == 0
    assert [item["tid"] > quiet.pid for item in sample["slapd"]["listeners"]] == [True]
    assert sample["slapd"]["listeners"][0]["percent"] > 0
    assert [item["cpu"] for item in sample["cpus"]] and max(item["busy"] for item in sample["cpus"]) > 10
    assert sample["monitor"]["threads"]["open"] >= 2
    # Read at some of the intervals only.
    assert max(item["monitor"]["connections"] or 0 for item in sample["series"]) >= 16
    assert sample["monitor"]["database"]["readers_max"] > 0
    assert sample["own"]["search"] > 0 and sample["own"]["unbind"] == 1 and sample["own_cpu_percent"] > 0
    assert result["line"] == result["diagnosis"][0]["text"]
    json.dumps(result, allow_nan=False)


def test_operations_of_its_own_can_be_taken_off_exactly(quiet):
    with open_target(quiet.server).ctx as ctx:
        subject = sampling.Subject(ctx.slapd, ctx.server, ctx.database)
        spot = sampling.Place(os.path.join(quiet.server["state_dir"], "slapd-test"))
        started = sampling.start(spot, subject, 30, interval=0.2)
        before = ctx.directory.counters()
        started.release()
        time.sleep(1)
        raw = sampling.stop(spot)
        after = ctx.directory.counters()
    foreign = {
        kind: count
        - before["operations"].get(kind, 0)
        - (after["own"].get(kind, 0) - before["own"].get(kind, 0))
        - raw["own"].get(kind, 0)
        for kind, count in after["operations"].items()
        if kind != "total"
    }
    assert set(foreign.values()) == {0} and raw["own"]["search"] > 10


def test_workers_that_wait_for_the_log_are_seen(sampler, make_slapd):
    lab = make_slapd(log_level="stats", syslog=True)
    reader = int((Path(lab.root) / "run" / "reader.pid").read_text())
    sampler(lab, "started", seconds=60, interval=0.2)
    process = subprocess.Popen(
        ["ldapsearch", "-x", "-LLL", "-H", lab.uri, "-b", lab.suffix, "-s", "base"], stdout=subprocess.DEVNULL
    )
    process.wait(timeout=30)
    # A reader of the log that has stopped: soon every worker with something to do waits for it.
    os.kill(reader, signal.SIGSTOP)
    try:
        clients = [
            subprocess.Popen(
                ["ldapsearch", "-x", "-LLL", "-H", lab.uri, "-b", lab.suffix, "-s", "base"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(8)
        ]
        time.sleep(2)
    finally:
        os.kill(reader, signal.SIGCONT)
    for client in clients:
        client.wait(timeout=30)
    series = sampler(lab, "stopped")["sample"]["series"]
    seen = [item["slapd"]["workers"]["looks"] for item in series]
    blocked = [looks for looks in seen if looks["log"] >= 4]
    assert blocked and max(looks["log"] for looks in blocked) > max(looks["running"] for looks in blocked)


def test_the_log_bound_are_told_from_the_others_under_load(sampler, make_slapd):
    lab = make_slapd(log_level="stats", syslog=True)
    sampler(lab, "started", seconds=60, interval=0.2)
    load(lab)
    share = sampler(lab, "stopped")["sample"]["slapd"]["workers"]["blocked_in_log_percent"]
    assert share is not None and share > 5


def test_it_ends_by_itself_and_what_it_saw_is_still_there(sampler, slapd):
    pid = sampler(slapd, "started", seconds=1, interval=0.2)["pid"]
    wait_for(lambda: not alive(pid))
    result = sampler(slapd, "stopped")
    assert result["sample"]["ended"] == "deadline" and result["sample"]["intervals"] >= 2
    again = sampler(slapd, "stopped")
    assert again["failed"] and "no sampler was running" in again["msg"]


def test_two_never_coexist(sampler, slapd):
    first = sampler(slapd, "started", seconds=30)["pid"]
    refused = sampler(slapd, "started", seconds=30)
    assert refused["failed"] and "is running" in refused["msg"] and alive(first)
    second = sampler(slapd, "started", seconds=30, replace=True)["pid"]
    assert alive(second) and not alive(first)
    assert sampler(slapd, "stopped")["sample"]["ended"] == "stopped"


def test_it_ends_when_its_file_is_gone(sampler, slapd):
    pid = sampler(slapd, "started", seconds=30, interval=0.2)["pid"]
    os.unlink(place(slapd).stop)
    wait_for(lambda: not alive(pid))
    assert sampler(slapd, "stopped")["sample"]["ended"] == "its file is gone"


def test_one_that_was_killed_left_nothing(sampler, slapd):
    pid = sampler(slapd, "started", seconds=30)["pid"]
    os.kill(pid, signal.SIGKILL)
    result = sampler(slapd, "stopped")
    assert result["failed"] and "no sampler was running" in result["msg"]
    assert "pid" in sampler(slapd, "started", seconds=30)
    sampler(slapd, "stopped")


def test_it_holds_nothing_of_its_starter_and_its_files_are_private(sampler, slapd):
    pid = sampler(slapd, "started", seconds=30, interval=0.2)["pid"]

    def foreign():
        opened = set()
        for name in os.listdir("/proc/%d/fd" % pid):
            with contextlib.suppress(FileNotFoundError):  # what it reads it has open for a moment only
                opened.add(os.readlink("/proc/%d/fd/%s" % (pid, name)))
        own = (os.devnull, "/proc/", "socket:", place(slapd).root)
        return [target for target in opened if not target.startswith(own)]

    # The pipe by which it was told to begin is closed right after.
    wait_for(lambda: not foreign())
    assert os.getsid(pid) != os.getsid(0)
    os.unlink(place(slapd).stop)
    wait_for(lambda: not alive(pid))
    assert stat.S_IMODE(os.stat(place(slapd).result).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(place(slapd).root).st_mode) == 0o700


def test_a_slapd_that_ends_meanwhile_leaves_the_hosts_figures(sampler, slapd):
    sampler(slapd, "started", seconds=30, interval=0.2)
    slapd.stop()
    time.sleep(0.6)
    slapd.start()
    sample = sampler(slapd, "stopped")["sample"]
    assert sample["series"][-1]["slapd"] is None and sample["series"][-1]["cpus"]
    assert any("cn=monitor is not read" in note for note in sample["notes"])


def test_in_one_task(sampler, slapd):
    result = sampler(slapd, "sampled", seconds=0.9, interval=0.3, series=False)
    assert 3 <= result["sample"]["intervals"] <= 5 and "series" not in result["sample"]
    assert not list(Path(slapd.server["state_dir"]).glob("slapd-*/sampler*"))


@pytest.mark.parametrize(("seconds", "interval"), [(5, 0.1), (5, 100), (0.1, 1), (99999, 1)])
def test_times_that_make_no_sense_are_refused(sampler, slapd, seconds, interval):
    result = sampler(slapd, "sampled", seconds=seconds, interval=interval)
    assert result["failed"] and "out of range" in result["msg"]


def test_schemes_of_passwords_are_told_where_they_may_be_read(sampler, make_slapd):
    lab = make_slapd(users=60)
    hidden = sampler(lab, "sampled", seconds=0.2, interval=0.2)["sample"]["passwords"]
    assert hidden == {"sampled": 50, "with_password": 0, "schemes": {}, "slow_percent": None}
    with connect(lab.server) as directory:
        name = "olcDatabase={1}mdb,cn=config"
        directory.modify(name, [("replace", "olcAccess", ["{0}to * by %s manage by * read" % external()])])
        directory.modify("uid=user.0,ou=people," + lab.suffix, [("replace", "userPassword", [SLOW])])
    result = sampler(lab, "sampled", seconds=0.2, interval=0.2)
    found = result["sample"]["passwords"]
    assert found["schemes"] == {"PBKDF2-SHA256 rounds=10000": 1, "SSHA": 47} and found["with_password"] == 48
    assert SLOW.rpartition("$")[2] not in json.dumps(result)


def external():
    return 'dn.exact="gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth"'


def test_a_leg_is_sampled_and_nothing_of_it_is_foreign_load(run_module, slapd):
    levers = {
        "slapd.threads": {"op": "value", "value": 8, "why": "a test", "when_unsupported": "skip", "from": "p.yml"}
    }
    resolved = {"schema": 1, "name": "p", "digest": "d" * 64, "levers": levers, "excluded": [], "expect": {}}
    common = {"resolved": resolved, "server": slapd.server}
    run_module("tuning_profile", {**common, "state": "applied", "watch_seconds": 120, "consent": ["availability"]})
    leg = {**common, "arm": "profile", "sample": True, "watch_seconds": 120}
    start = run_module("tuning_arm", {**leg, "phase": "start"})
    assert start["sampler"] == "started" and not start["changed"]
    sent = load(slapd, seconds=1.5)
    finish = run_module("tuning_arm", {**leg, "phase": "finish"})
    assert not finish["changed"] and finish["sample"]["ended"] == "stopped" and "series" not in finish["sample"]
    assert finish["sample"]["own"]["search"] > 0 and not sampling.running(place(slapd))
    counters = [start["counters"]["operations"], finish["counters"]["operations"]]
    own, probe = finish["counters"]["own"], sent["totals"]["operations"]
    foreign = {
        kind: counters[1][kind] - counters[0].get(kind, 0) - own.get(kind, 0) - probe.get(kind, 0)
        for kind in ("bind", "search", "unbind", "extended", "modify")
    }
    assert set(foreign.values()) == {0}
    run_module("tuning_profile", {**common, "state": "reverted"})
