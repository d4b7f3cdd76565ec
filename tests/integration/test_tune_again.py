# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml on a host that kept a profile before, and on one that somebody takes home meanwhile."""

from __future__ import annotations

import contextlib
import os
import socket
import threading

import pytest

from .conftest import wait_for
from .looks import foreign_client, log_level, settings, state_files

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


def test_a_failed_run_gives_way_to_the_profile_that_was_kept(make_slapd, playbooks):
    lab = make_slapd(users=200, syslog=True)
    job = playbooks(lab)
    before = settings(lab)
    first = job.profile("first", {"slapd.log_level": "none", "slapd.idle_timeout": 300}, goal="none", require="none")
    assert job.tune(first).code == 0
    kept = settings(lab)
    assert kept != before
    second = job.profile("second", {"slapd.log_level": "any", "slapd.threads": 24})
    process = job.start("tune.yml", "-e", "tuning_profile=" + second)
    job.in_leg(process, 2)
    # Why it fails is not the question here; a disturbed leg fails soonest.
    with foreign_client(lab):
        run = job.finish(process)
    assert run.code == 2, run.text
    assert not job.record()[1]["met"]
    assert "rolled back on lab1" in run.text and settings(lab) == kept
    assert job.tune(first).recap("lab1")["changed"] == 0
    assert job.run("rollback.yml").code == 0
    assert settings(lab) == before


def test_a_rollback_in_a_leg_ends_the_run(make_slapd, playbooks, run_module):
    lab = make_slapd(users=200)
    job = playbooks(lab)
    before = settings(lab)
    process = job.start("tune.yml", "-e", "tuning_profile=throughput")
    job.in_leg(process, 2)
    home = run_module("tuning_profile", {"state": "reverted", "server": lab.server})
    assert home["complete"] and "ended a run in progress" in home["notes"][0], home
    run = job.finish(process)
    assert run.code == 2 and "ended by a way home" in run.text
    assert settings(lab) == before
    assert job.record()[1]["verdict"] == "invalid"


def pump(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def gate(listener, lab):
    """Pass connections on to the lab, until the profile is there."""
    held = []
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            held.append(client)
            if log_level(lab) != ["none"]:
                server = socket.create_connection(("127.0.0.1", lab.port))
                held.append(server)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()
    for sock in held:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def test_two_unmeasured_runs_are_kept_apart(make_slapd, playbooks, run_module):
    """What the first may still take back is not changed by another one, whose changes would go with it."""
    lab = make_slapd(users=200)
    job = playbooks(lab)
    before = settings(lab)
    other = {
        "op": "value",
        "value": 24,
        "why": "a test",
        "when_unsupported": "skip",
        "from": "other.yml",
    }
    resolved = {"schema": 1, "name": "other", "digest": "d", "levers": {"slapd.threads": other}, "excluded": []}
    # Lets the preflight through; after the change it takes connections and says nothing, so that the bind is under way
    # until it is closed.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        threading.Thread(target=gate, args=(silent, lab), daemon=True).start()
        job.write(authrate_uri="ldap://127.0.0.1:%d" % silent.getsockname()[1])
        process = job.start("tune.yml", "-e", "tuning_profile=throughput", "-e", "tuning_measure=never")
        wait_for(lambda: log_level(lab) == ["none"], process)
        wait_for(lambda: job.text().count("Reach the directory from the generator") == 2, process)
        second = run_module(
            "tuning_profile",
            {"server": lab.server, "resolved": resolved, "consent": ["availability"], "owner": "another-run"},
        )
        seen = run_module("directory_preflight", {"server": lab.server})
        silent.shutdown(socket.SHUT_RDWR)
    run = job.finish(process)
    assert second.get("failed") and not second["changed"], second
    (name,) = [folder.name for folder in job.runs_dir.iterdir()]
    assert "run %s" % name in second["msg"] and "in progress" in second["msg"]
    assert any(name in item["found"] and "in hand" in item["what"] for item in seen["problems"]), seen
    assert run.code == 2 and "rolled back on lab1" in run.text
    assert settings(lab) == before
    assert not [path for path in state_files(lab) if path.endswith("active.json")]
