# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arms of a comparison and the watchdog, on a real slapd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ldaptune.directory.openldap import connect

from .looks import settings

PROFILE = {
    "schema": 1,
    "name": "quiet",
    "digest": "d" * 64,
    "levers": {
        key: {"op": "value", "value": value, "why": "a test", "when_unsupported": "skip", "from": "quiet.yml"}
        for key, value in (("slapd.log_level", 32768), ("slapd.threads", 24), ("database.max_readers", 200))
    },
    "excluded": [],
    "expect": {},
}
CONSENT = ["security", "availability"]


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


@pytest.fixture
def tune(run_module):
    return lambda lab, state="applied", check=False, **more: run_module(
        "tuning_profile", {"state": state, "server": lab.server, "consent": CONSENT, **more}, check=check
    )


@pytest.fixture
def arm(run_module):
    return lambda lab, which, phase="start", watch_seconds=0, resolved=PROFILE, **more: run_module(
        "tuning_arm",
        {
            "arm": which,
            "phase": phase,
            "watch_seconds": watch_seconds,
            "resolved": resolved,
            "server": lab.server,
            **more,
        },
    )


def config(lab, attribute, dn="cn=config"):
    with connect(lab.server) as directory:
        return (directory.read(dn, [attribute]) or {}).get(attribute)


def root(lab):
    return next(Path(lab.server["state_dir"]).glob("slapd-*"))


def watchdogs(lab):
    """Pids of watchdog processes of this lab's state directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path("/proc", pid, "cmdline").read_bytes()
            state = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if lab.server["state_dir"].encode() in line and b"run.py" in line and state != "Z":
            found.append(int(pid))
    return found


def test_legs_flip_and_read_back(slapd, tune, arm):
    applied = tune(slapd, resolved=PROFILE, watch_seconds=300)
    assert applied["changed"], applied
    for which, level, threads in (("as_found", ["stats"], None), ("profile", ["none"], ["24"])):
        start = arm(slapd, which, watch_seconds=300)
        assert not start["changed"] and start["readback"]["ok"], start
        assert config(slapd, "olcLogLevel") == level
        assert config(slapd, "olcThreads") == threads
        finish = arm(slapd, which, "finish")
        assert finish["readback"]["ok"], finish
        assert finish["slapd"]["pid"] == start["slapd"]["pid"] == slapd.pid
        assert finish["slapd"]["cpu_seconds"] >= start["slapd"]["cpu_seconds"]
    assert len(watchdogs(slapd)) == 1
    kept = tune(slapd, resolved=PROFILE)
    assert not kept["changed"] and not kept.get("failed"), kept
    assert watchdogs(slapd) == []
    assert not (root(slapd) / "active.json").exists()


def test_a_quiet_leg_counts_nobody_else(slapd, tune, arm):
    tune(slapd, resolved=PROFILE, watch_seconds=300)
    start = arm(slapd, "as_found")
    finish = arm(slapd, "as_found", "finish")
    counted = finish["counters"]["operations"]["total"] - start["counters"]["operations"]["total"]
    assert counted - finish["counters"]["own"]["total"] == 0
    tune(slapd, "reverted")


def test_nobody_renews_and_the_host_goes_home(slapd, tune, arm):
    before = settings(slapd)
    tune(slapd, resolved=PROFILE, watch_seconds=300)
    assert arm(slapd, "profile", watch_seconds=1)["readback"]["ok"]
    wait_for(lambda: not watchdogs(slapd))
    assert config(slapd, "olcLogLevel") == ["stats"]
    assert config(slapd, "olcThreads") is None
    assert not (root(slapd) / "active.json").exists()
    log = (root(slapd) / "watchdog.log").read_text()
    assert "slapd.threads: 24 -> not set, set back" in log and log.rstrip().endswith("home")
    assert settings(slapd) == before
    assert tune(slapd, "reverted")["changed"] is False


def test_on_a_host_that_kept_a_profile_it_goes_back_to_that_one(slapd, tune, arm):
    before = settings(slapd)
    assert tune(slapd, resolved=PROFILE, owner="run-a")["changed"]
    kept = settings(slapd)
    levers = {
        key: dict(PROFILE["levers"]["slapd.threads"], value=value)
        for key, value in (("slapd.log_level", 256), ("slapd.threads", 12), ("slapd.idle_timeout", 60))
    }
    other = dict(PROFILE, name="other", levers=levers)
    step = tune(slapd, resolved=other, owner="run-b", watch_seconds=300)["step"]
    assert json.loads((root(slapd) / "active.json").read_text())["reference"] == step["id"]
    as_found = arm(slapd, "as_found", resolved=other, owner="run-b")["readback"]["levers"]
    assert as_found["slapd.threads"]["configured"] == 24 and config(slapd, "olcLogLevel") == ["none"]
    refused = tune(slapd, resolved=PROFILE, owner="run-c")
    assert refused["failed"] and "run run-b" in refused["msg"] and config(slapd, "olcIdleTimeout") == ["60"]
    assert arm(slapd, "profile", resolved=other, owner="run-b", watch_seconds=1)["readback"]["ok"]
    wait_for(lambda: not watchdogs(slapd))
    assert settings(slapd) == kept
    late = arm(slapd, "profile", resolved=other, owner="run-b", watch_seconds=60)
    assert late["failed"] and "ended" in late["msg"] and settings(slapd) == kept
    assert not tune(slapd, resolved=PROFILE)["changed"]
    assert tune(slapd, "reverted")["complete"] and settings(slapd) == before


def ansible(checkout, lab, module, arguments, *more):
    """Run a module as Ansible does: packed, shipped, in a process of its own that ends."""
    environment = dict(
        os.environ,
        ANSIBLE_CONFIG=str(checkout / "ansible.cfg"),
        ANSIBLE_LOCAL_TEMP=os.path.join(lab.root, "ansible"),
        ANSIBLE_REMOTE_TEMP=os.path.join(lab.root, "ansible"),
    )
    command = [sys.executable, "-m", "ansible", "adhoc", "-i", "lab1,", "lab1", "-c", "local", "-m", module]
    command += ["-e", "ansible_python_interpreter=%s" % sys.executable, "-o", "-a", json.dumps(arguments), *more]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "=>" in done.stdout, done.stdout + done.stderr
    return json.loads(done.stdout.partition("=>")[2])


def test_the_watchdog_outlives_the_shipped_module(slapd, checkout):
    arguments = {"state": "applied", "server": slapd.server, "resolved": PROFILE, "consent": CONSENT}
    result = ansible(checkout, slapd, "tuning_profile", dict(arguments, watch_seconds=300))
    assert result["changed"], result
    (pid,) = watchdogs(slapd)
    # Its own session, nothing of Ansible's temporary files, no terminal or pipe held open.
    assert os.getsid(pid) == pid or os.getsid(pid) != os.getsid(0)
    open_files = [os.readlink("/proc/%d/fd/%s" % (pid, name)) for name in os.listdir("/proc/%d/fd" % pid)]
    assert not [name for name in open_files if name.startswith("pipe:") or "ansible" in name], open_files
    leg = {"server": slapd.server, "resolved": PROFILE, "arm": "profile", "phase": "start", "watch_seconds": 1}
    assert ansible(checkout, slapd, "tuning_arm", leg)["readback"]["ok"]
    assert watchdogs(slapd) in ([pid], [])
    wait_for(lambda: not watchdogs(slapd))
    assert config(slapd, "olcLogLevel") == ["stats"]


def test_a_hand_change_in_the_middle_of_a_leg(slapd, tune, arm):
    tune(slapd, resolved=PROFILE, watch_seconds=300)
    assert arm(slapd, "profile")["readback"]["ok"]
    with connect(slapd.server) as directory:
        directory.modify("cn=config", [("replace", "olcThreads", ["9"])])
    finish = arm(slapd, "profile", "finish")["readback"]
    assert not finish["ok"] and finish["levers"]["slapd.threads"]["state"] == "drifted"
    assert finish["levers"]["slapd.log_level"]["state"] == "applied"
    start = arm(slapd, "as_found")["readback"]
    assert start["levers"]["slapd.threads"]["state"] == "drifted" and config(slapd, "olcThreads") == ["9"]
    assert arm(slapd, "as_found", watch_seconds=1)["readback"]["levers"]["slapd.log_level"]["state"] == "applied"
    wait_for(lambda: not watchdogs(slapd))
    assert config(slapd, "olcThreads") == ["9"] and config(slapd, "olcLogLevel") == ["stats"]
    assert "slapd.threads: drifted" in (root(slapd) / "watchdog.log").read_text()


def test_a_dead_watchdog_is_noticed_and_the_rollback_ends_it(slapd, tune, arm):
    tune(slapd, resolved=PROFILE, watch_seconds=300)
    arm(slapd, "profile")
    (pid,) = watchdogs(slapd)
    assert json.loads((root(slapd) / "active.json").read_text())["pid"] == pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not watchdogs(slapd))
    for state in ("audited", "applied"):
        result = tune(slapd, state, resolved=PROFILE, check=True)
        assert any("interrupted run of profile quiet" in str(text) for text in result["warnings"]), result
    lost = arm(slapd, "as_found")
    assert lost["failed"] and "watchdog" in lost["msg"]
    home = tune(slapd, "reverted")
    assert home["complete"] and "interrupted" in home["notes"][0]
    assert not (root(slapd) / "active.json").exists() and config(slapd, "olcThreads") is None


def test_a_damaged_record_bars_no_way_home(slapd, tune, arm):
    tune(slapd, resolved=PROFILE, watch_seconds=300)
    assert arm(slapd, "profile")["readback"]["ok"]
    record = root(slapd) / "active.json"
    record.write_text(record.read_text()[:40])
    assert tune(slapd, resolved=PROFILE, owner="run-b")["failed"]
    home = tune(slapd, "reverted")
    assert home["complete"] and "the record of the run in progress is damaged" in str(home["warnings"]), home
    assert config(slapd, "olcLogLevel") == ["stats"] and config(slapd, "olcThreads") is None
    assert not record.exists() and watchdogs(slapd) == []


def test_a_slapd_that_is_down_at_the_deadline_goes_home_when_it_is_back(slapd, tune, arm):
    tune(slapd, resolved=PROFILE, watch_seconds=300)
    arm(slapd, "profile", watch_seconds=1)
    slapd.kill()
    log = root(slapd) / "watchdog.log"
    wait_for(lambda: "failed: " in log.read_text())
    slapd.start()
    wait_for(lambda: not watchdogs(slapd))
    assert config(slapd, "olcLogLevel") == ["stats"] and config(slapd, "olcThreads") is None
    assert log.read_text().rstrip().endswith("home")


def test_a_lever_that_restarts_does_so_in_both_arms(slapd, tune, arm):
    resolved = dict(PROFILE, levers={"slapd.listener_threads": dict(PROFILE["levers"]["slapd.threads"], value=2)})
    tune(slapd, resolved=resolved, watch_seconds=300, consent=["restart", "availability"])
    starts = []
    for which in ("as_found", "profile", "profile", "as_found"):
        start = arm(slapd, which, resolved=resolved)
        assert start["readback"]["ok"], start
        finish = arm(slapd, which, "finish", resolved=resolved)
        assert finish["readback"]["ok"] and finish["slapd"]["start"] == start["slapd"]["start"]
        counted = finish["counters"]["operations"]["total"] - start["counters"]["operations"]["total"]
        assert counted == finish["counters"]["own"]["total"]
        starts.append(start["slapd"]["start"])
    assert len(set(starts)) == 4
    assert tune(slapd, "reverted")["complete"] and config(slapd, "olcListenerThreads") is None


def test_an_equal_value_stays_as_it_was_spelled(make_slapd, tune, arm):
    lab = make_slapd(log_level="0x100")
    resolved = dict(PROFILE, levers={"slapd.log_level": dict(PROFILE["levers"]["slapd.log_level"], value=256)})
    assert not tune(lab, resolved=resolved, watch_seconds=300)["changed"]
    for which in ("profile", "as_found", "profile"):
        assert arm(lab, which, resolved=resolved)["readback"]["ok"] and config(lab, "olcLogLevel") == ["0x100"]
    assert not tune(lab, resolved=resolved)["changed"]
    assert tune(lab, "reverted")["complete"] and config(lab, "olcLogLevel") == ["0x100"]


def test_the_module_s_return_is_plain_and_small(slapd, tune, arm):
    result = tune(slapd, resolved=PROFILE, watch_seconds=300)
    leg = arm(slapd, "profile")
    for data in (result, leg):
        assert slapd.password not in json.dumps(data, allow_nan=False)
    tune(slapd, "reverted")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_pinned_threads_flip_and_go_home(slapd, tune, arm):
    wishes = {"slapd.threads": 8, "cpu.listener": [0], "cpu.workers": [1]}
    levers = {key: dict(PROFILE["levers"]["slapd.threads"], value=value) for key, value in wishes.items()}
    resolved = dict(PROFILE, levers=levers)
    applied = tune(slapd, resolved=resolved, watch_seconds=300)
    assert applied["states"] == {
        "slapd.threads": "applied",
        "cpu.workers": "live_only",
        "cpu.listener": "live_only",
    }, applied
    for which in ("as_found", "profile", "as_found"):
        start = arm(slapd, which, resolved=resolved)["readback"]
        finish = arm(slapd, which, "finish", resolved=resolved)["readback"]
        assert start["ok"] and finish["ok"], (start, finish)
        assert (start["levers"]["cpu.workers"]["effective"] == [1]) is (which == "profile")
    assert tune(slapd, "reverted")["complete"]
    assert tune(slapd, "audited", resolved=resolved)["states"]["cpu.workers"] == "pending"
