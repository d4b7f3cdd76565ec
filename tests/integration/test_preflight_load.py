# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight of a measurement on real slapds: in service, writing on bind, in a container, not answering."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading

import pytest
from ldaptune.directory.openldap import connect
from ldaptune.host.process import find_slapds
from ldaptune.lab import process
from ldaptune.preflight.run import Preflight, Request
from ldaptune.problems import render_all

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the preflight needs root")
MDB = "olcDatabase={1}mdb,cn=config"


def look(lab, server=None, **request):
    """Run the preflight of a measurement, by default without watching; prove that the configuration stays."""
    before = lab.slapcat(0)
    asked = {"name": "lab1", "measuring": True, "allow_load": True, "watch_seconds": 0, **request}
    preflight = Preflight({**lab.server, **(server or {})}, Request(**asked))
    preflight.run()
    assert lab.slapcat(0) == before
    return preflight


def whats(preflight):
    return [item["what"] for item in preflight.problems]


def overlay(name, kind, *lines):
    return "\n".join(["dn: olcOverlay=%s,%s" % (name, MDB), "objectClass: " + kind, "olcOverlay: " + name, *lines])


LOG_DATABASE = """dn: olcDatabase={4}mdb,cn=config
objectClass: olcDatabaseConfig
objectClass: olcMdbConfig
olcDatabase: {4}mdb
olcSuffix: cn=accesslog
olcRootDN: cn=accesslog
olcDbDirectory: @ROOT@/log
"""


def accesslog(operations):
    lines = ["olcAccessLogDB: cn=accesslog", "olcAccessLogOps: " + operations]
    return overlay("{0}accesslog", "olcAccessLogConfig", *lines)


@pytest.mark.parametrize(
    ("lab", "cause"),
    [
        ({"database_lines": ["olcLastBind: TRUE"]}, "olcLastBind"),
        ({"modules": ["lastbind"], "extra_ldif": [overlay("{0}lastbind", "olcLastBindConfig")]}, "overlay lastbind"),
        ({"modules": ["ppolicy"], "extra_ldif": [overlay("{0}ppolicy", "olcPPolicyConfig")]}, "overlay ppolicy"),
        ({"modules": ["accesslog"], "extra_ldif": [LOG_DATABASE, accesslog("session")]}, "accesslog of binds"),
        ({"modules": ["accesslog"], "extra_ldif": [LOG_DATABASE, accesslog("reads")]}, "accesslog of searches"),
    ],
    ids=["olcLastBind", "lastbind", "ppolicy", "accesslog-binds", "accesslog-searches"],
)
def test_binds_that_write_need_consent(make_slapd, lab, cause):
    slapd = make_slapd(users=3, **lab)
    found = look(slapd, load_seconds=10, expected_rate=1000)
    assert whats(found) == ["measuring would write to the directory"]
    assert cause in found.problems[0]["found"]
    assert "up to 10000 writes" in found.problems[0]["do"]
    agreed = look(slapd, consent=["bind_writes"], load_seconds=10, expected_rate=1000)
    assert agreed.problems == []
    assert [item["what"] for item in agreed.facts["bind_writes"]] == [cause]
    assert look(slapd, measuring=False).problems == []


def test_an_accesslog_of_writes_alone_is_no_reason(make_slapd):
    slapd = make_slapd(users=3, modules=["accesslog"], extra_ldif=[LOG_DATABASE, accesslog("writes")])
    found = look(slapd)
    assert found.problems == []
    assert found.facts["database"]["dn"] == MDB


def test_the_database_of_the_accounts_is_looked_at(make_slapd):
    beta = LOG_DATABASE.replace("cn=accesslog", "dc=beta,dc=test") + "olcLastBind: TRUE\n"
    slapd = make_slapd(users=3, extra_ldif=[beta])
    assert look(slapd).problems == []
    (refused,) = look(slapd, bases=["uid=user.[0-9],ou=people,DC=Beta, dc=test"]).problems
    assert "olcDatabase={4}mdb" in refused["found"]


def test_a_quiet_host_passes_even_with_no_tolerance_at_all(slapd_module):
    found = look(slapd_module, watch_seconds=0.3, max_foreign_rate=0)
    assert found.problems == []
    assert found.warnings == []
    assert found.facts["traffic"]["operations_per_second"] == 0


def test_a_host_in_service_is_refused(make_slapd):
    slapd = make_slapd(users=3)
    stop, first = threading.Event(), threading.Event()

    def client():
        with connect(slapd.server) as directory:
            while not stop.is_set():
                directory.read("", ("objectClass",))
                first.set()

    thread = threading.Thread(target=client)
    thread.start()
    try:
        assert first.wait(30)
        found = look(slapd, watch_seconds=1)
    finally:
        stop.set()
        thread.join()
    (what,) = whats(found)
    assert what.startswith("lab1 is in service (1 connections, ")
    assert what.endswith(" op/s): drain it first")
    assert found.facts["traffic"]["operations_per_second"] > 1


def test_without_permission_it_is_watched_all_the_same(slapd_module):
    found = look(slapd_module, allow_load=False, watch_seconds=0.1)
    assert whats(found) == ["saturating load is not allowed on this host"]
    assert "traffic" in found.facts


def test_clients_that_only_sit_there_are_a_warning(make_slapd):
    slapd = make_slapd(users=3)
    with connect(slapd.server):
        found = look(slapd, watch_seconds=0.1)
    assert found.problems == []
    assert found.warnings == ["lab1 has 1 open client connections: a restart or a saturating load will disturb them"]


def test_a_log_that_would_fill_the_disk(make_slapd):
    slapd = make_slapd(users=3)
    found = look(slapd, load_seconds=3600, expected_rate=1e9)
    assert set(whats(found)) == {"the log of the measurement may fill its filesystem"}
    assert found.problems[0]["where"].startswith("/var/log")
    with connect(slapd.server) as directory:
        directory.modify("cn=config", [("replace", "olcLogLevel", ["none"])])
    assert look(slapd, load_seconds=3600, expected_rate=1e9).problems == []
    assert look(slapd, load_seconds=3600, expected_rate=1e9, log_level="32768").problems == []
    assert look(slapd, load_seconds=3600, expected_rate=1e9, log_level="256").problems != []


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
def test_a_slapd_in_another_pid_namespace(make_slapd):
    slapd = make_slapd(users=3, start=False)
    command = ["slapd", "-d", "0", "-h", "%s/ %s/" % (slapd.uri, slapd.ldapi), "-F", slapd.config_dir]
    command += ["-u", "openldap", "-g", "openldap"]
    holder = subprocess.Popen(["unshare", "--pid", "--fork", *command])
    try:
        deadline = threading.Event()
        while not process.answers("127.0.0.1", slapd.port):
            assert holder.poll() is None
            deadline.wait(0.02)
        found = look(slapd)
    finally:
        # Killing unshare would leave slapd behind: its change of user forgets whose child it is.
        for item in find_slapds():
            if item.config_dir == slapd.config_dir:
                os.kill(item.pid, signal.SIGKILL)
        holder.wait()
    (what,) = whats(found)
    assert "container" in what
    assert "a pid namespace of its own" in found.problems[0]["found"]
    assert found.facts["slapd"]["whoami"] == ""


def test_a_slapd_that_does_not_answer(make_slapd):
    slapd = make_slapd(users=3)
    os.kill(slapd.pid, signal.SIGSTOP)
    try:
        found = look(slapd, {"timeout": 1})
    finally:
        os.kill(slapd.pid, signal.SIGCONT)
    assert "no answer" in render_all(found.problems)


def test_no_slapd_at_all(make_slapd):
    slapd = make_slapd(users=3, start=False)
    (refused,) = look(slapd).problems
    assert "tuning_instance" in refused["what"] or refused["what"] == "no slapd is running"


def test_a_database_without_figures_is_a_warning(make_slapd):
    slapd = make_slapd(users=3, database_lines=["olcMonitoring: FALSE"])
    found = look(slapd, measuring=False)
    assert found.problems == []
    assert MDB in found.warnings[0]
    assert found.facts["database"]["used_bytes"] is None
    assert found.facts["database"]["map_size_bytes"] == 1 << 30
