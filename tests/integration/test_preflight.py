# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight on real slapds that are wrong on purpose; each look leaves the configuration as it was."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from ldaptune.directory.openldap import connect
from ldaptune.preflight.run import Preflight, Request, shown_level
from ldaptune.problems import render_all

ROOT = "dn:gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the preflight needs root")


def fingerprint(lab):
    """The configuration as slapcat prints it, and every file below it with its content and time."""
    files = sorted(Path(lab.config_dir).rglob("*"))
    state = [(str(path), path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in files]
    text = "" if lab.slapd_conf else lab.slapcat(0)
    return hashlib.sha256(repr((text, state)).encode()).hexdigest()


def look(lab, server=None, **request):
    """Run the preflight; prove that it changed nothing."""
    before = fingerprint(lab)
    preflight = Preflight({**lab.server, **(server or {})}, Request(**request))
    preflight.run()
    assert fingerprint(lab) == before
    return preflight


def whats(preflight):
    return [item["what"] for item in preflight.problems]


def test_a_healthy_lab_has_no_problem_and_all_facts(slapd_module):
    found = look(slapd_module, name="lab1")
    assert found.problems == []
    assert found.warnings == []
    assert set(found.facts["host"]) == {
        "name",
        "machine_id",
        "cpus",
        "online_cpus",
        "allowed_cpus",
        "memory_bytes",
        "numa_nodes",
        "kernel",
        "os",
        "python",
    }
    server = found.facts["slapd"]
    assert server["pid"] == slapd_module.pid
    assert server["version"].startswith("2.")
    assert server["whoami"] == ROOT
    assert server["config_source"] == "slapd.d"
    assert server["config_dir"] == slapd_module.config_dir
    assert server["threads"] == 16
    assert server["log_level"] == "stats"
    database = found.facts["database"]
    assert database["suffix"] == slapd_module.suffix
    assert database["backend"] == "mdb"
    assert database["map_size_bytes"] == 1 << 30
    assert 0 < database["used_bytes"] < database["map_size_bytes"]
    assert database["size_bytes"] > 0
    assert database["readers_max"] == 126


def test_started_from_slapd_conf(make_slapd):
    conf = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile @ROOT@/run/slapd/slapd.pid
modulepath /usr/lib/ldap
moduleload back_mdb
database config
access to * by dn.exact="gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth" manage by * none
database mdb
suffix "dc=lab,dc=test"
directory @ROOT@/db
"""
    lab = make_slapd(slapd_conf=conf, users=3)
    found = look(lab, {"instance": lab.pid_file})
    assert found.facts["slapd"]["config_source"] == "slapd.conf"
    assert len(found.problems) == 1
    assert "changes would vanish" in found.problems[0]["what"]
    assert found.problems[0]["where"].endswith("slapd.conf")


def test_external_without_any_right(make_slapd):
    lab = make_slapd(external_manages=False, users=3)
    found = look(lab)
    (refused,) = [item for item in found.problems if "manage" in item["what"]]
    assert refused["what"] == ROOT + " may not manage the configuration"
    assert "result 50" in refused["found"]
    assert "result 32" in refused["found"]
    assert "no such" not in render_all(found.problems)


def test_a_password_is_another_way_in(make_slapd, tmp_path):
    lab = make_slapd(external_manages=False, users=3, config_password="only for this test")
    secret = tmp_path / "secret"
    secret.write_text("only for this test\n")
    found = look(lab, {"config_dn": "cn=admin,cn=config", "config_password_file": str(secret)})
    assert found.problems == []
    assert found.facts["slapd"]["whoami"] == "dn:cn=admin,cn=config"


def test_reading_alone_is_not_enough(make_slapd):
    lab = make_slapd(users=3)
    modify(lab, "olcDatabase={-1}frontend,cn=config", "olcAccess", "{0}to * by * read")
    modify(lab, "olcDatabase={0}config,cn=config", "olcAccess", '{0}to * by dn.exact="%s" read by * none' % ROOT[3:])
    found = look(lab)
    assert whats(found) == [ROOT + " may not manage the configuration"]
    assert "result 32" not in found.problems[0]["found"]


def test_a_read_only_configuration(make_slapd):
    lab = make_slapd(users=3)
    modify(lab, "olcDatabase={0}config,cn=config", "olcReadOnly", "TRUE")
    assert whats(look(lab)) == ["the configuration is read-only"]


def test_a_security_factor_that_locks_everyone_out(make_slapd):
    lab = make_slapd(users=3, global_lines=["olcSecurity: ssf=128"])
    (refused,) = look(lab).problems
    assert "requires more confidentiality" in refused["what"]
    assert "ssf=71" in refused["found"]
    assert refused["wanted"] == "ssf=128"


SYNCPROV = """dn: olcOverlay={0}syncprov,olcDatabase={0}config,cn=config
objectClass: olcOverlayConfig
objectClass: olcSyncProvConfig
olcOverlay: {0}syncprov
"""


def test_a_replicated_configuration(make_slapd):
    lab = make_slapd(users=3, modules=["syncprov"], extra_ldif=[SYNCPROV])
    found = look(lab, consent=["bind_writes", "restart"])
    assert whats(found) == ["cn=config is replicated: one change here would reach every other provider"]
    assert found.problems[0]["found"] == "overlay syncprov"


def test_a_consumer_of_its_configuration(make_slapd):
    lab = make_slapd(users=3)
    line = "{0}rid=001 provider=ldap://127.0.0.1:9 searchbase=cn=config bindmethod=simple credentials=not-shown-ever"
    modify(lab, "olcDatabase={0}config,cn=config", "olcSyncrepl", line + " type=refreshOnly interval=01:00:00:00")
    found = look(lab)
    # Its own refusal of every change (result 53) is not told as a second problem.
    assert len(found.problems) == 1
    assert "olcSyncrepl from ldap://127.0.0.1:9" in found.problems[0]["found"]
    assert "not-shown-ever" not in repr((found.problems, found.facts, found.warnings))


def test_two_instances(make_slapd):
    first, second = make_slapd(users=3), make_slapd(users=3)
    preflight = Preflight({**first.server, "instance": "", "uri": ""}, Request())
    preflight.run()
    (refused,) = [item for item in preflight.problems if "several slapds" in item["what"]]
    assert first.config_dir in refused["found"]
    assert second.config_dir in refused["found"]
    assert "tuning_instance" in refused["do"]
    for instance in (second.config_dir, second.pid_file, second.ldapi):
        assert look(second, {"instance": instance, "uri": ""}).facts["slapd"]["pid"] == second.pid


def test_no_ldapi(make_slapd, tmp_path):
    lab = make_slapd(users=3, with_ldapi=False, config_password="for no ldapi")
    found = look(lab, {"uri": ""})
    assert whats(found) == ["slapd has no ldapi listener"]
    secret = tmp_path / "secret"
    secret.write_text("for no ldapi")
    other_way = {"uri": lab.uri, "config_dn": "cn=admin,cn=config", "config_password_file": str(secret)}
    assert look(lab, other_way).problems == []


SECOND_DATABASE = """dn: olcDatabase={4}mdb,cn=config
objectClass: olcDatabaseConfig
objectClass: olcMdbConfig
olcDatabase: {4}mdb
olcSuffix: DC=Beta, DC=Test
olcDbDirectory: @ROOT@/beta
"""


def test_two_databases_need_a_suffix(make_slapd):
    lab = make_slapd(users=3, extra_ldif=[SECOND_DATABASE])
    (refused,) = look(lab, {"suffix": ""}).problems
    assert refused["what"] == "several databases match"
    assert "dc=beta,dc=test" in refused["found"]
    chosen = look(lab, {"suffix": "dc=beta, DC=test"})
    assert chosen.problems == []
    assert chosen.facts["database"]["dn"] == "olcDatabase={4}mdb,cn=config"
    (missing,) = look(lab, {"suffix": "dc=gamma,dc=test"}).problems
    assert missing["what"] == "no database has this suffix"


def test_no_monitor_is_a_warning_and_to_measure_a_problem(make_slapd):
    lab = make_slapd(users=3)
    forget_monitor(lab)
    found = look(lab)
    assert found.problems == []
    assert "no monitor database" in found.warnings[0]
    assert found.facts["slapd"]["version"].startswith("2.")
    assert found.facts["database"]["map_size_bytes"] == 1 << 30
    assert found.facts["database"]["used_bytes"] is None
    measured = look(lab, measuring=True, allow_load=True)
    assert whats(measured) == ["this slapd has no monitor database"]


def test_a_monitor_that_hides_from_us(make_slapd):
    lab = make_slapd(users=3)
    modify(lab, "olcDatabase={2}monitor,cn=config", "olcAccess", "{0}to * by dn.exact=cn=someone read by * none")
    found = look(lab, measuring=True, allow_load=True)
    assert whats(found) == ["cn=monitor cannot be read by %s" % ROOT]


def test_everything_is_said_at_once(make_slapd):
    lab = make_slapd(
        users=3,
        modules=["syncprov"],
        extra_ldif=[SYNCPROV, SECOND_DATABASE],
        database_lines=["olcLastBind: TRUE"],
    )
    mark = Path(lab.state_dir) / "one" / "active.json"
    mark.parent.mkdir(mode=0o700)
    mark.write_text('{"pid": 0, "deadline": "2026-01-01T00:00:00+00:00"}')
    forget_monitor(lab)
    found = look(lab, {"suffix": ""}, measuring=True, bases=[lab.user_dn(0)], name="lab1")
    text = render_all(found.problems)
    for part in (
        "run was interrupted",
        "saturating load is not allowed",
        "no monitor database",
        "cn=config is replicated",
        "several databases match",
        "measuring would write",
    ):
        assert part in text
    assert len(found.problems) == 6


def modify(lab, dn, attribute, value, **way):
    """Change a lab's configuration, as its owner could have done."""
    with connect({**lab.server, **way}) as directory:
        directory.modify(dn, [("replace", attribute, [value])])


def forget_monitor(lab):
    """Take the monitor database out, which slapd cannot do alive."""
    lab.stop()
    for path in Path(lab.config_dir).rglob("olcDatabase={2}monitor.ldif"):
        path.unlink()
    lab.start()


DEFAULT_SOCKET = """
import json, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from ldaptune.lab import process
from ldaptune.preflight.run import Preflight, Request, shown_level
command, server, port = json.loads(sys.argv[2])
slapd = subprocess.Popen(command)
try:
    while not process.answers("127.0.0.1", port):
        assert slapd.poll() is None
        time.sleep(0.02)
    found = []
    for uri in ("", "ldapi:///"):
        preflight = Preflight(dict(server, uri=uri), Request())
        preflight.run()
        found.append([preflight.problems, preflight.facts["slapd"]["whoami"]])
    print(json.dumps(found))
finally:
    slapd.kill()
    slapd.wait()
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
def test_the_socket_that_ldapi_alone_means(make_slapd, checkout):
    # In a mount namespace with a /run of its own, as the path is built into slapd.
    lab = make_slapd(users=3, start=False)
    command = ["slapd", "-d", "0", "-h", "%s/ ldapi:///" % lab.uri, "-F", lab.config_dir, "-u", "openldap"]
    given = json.dumps([command, lab.server, lab.port])
    prepare = 'mount -t tmpfs tmpfs /run && mkdir -p /run/slapd /run/openldap && chown openldap /run/* && exec "$@"'
    script = [sys.executable, "-c", DEFAULT_SOCKET, str(checkout / "module_utils"), given]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", prepare, "sh", *script], stdout=subprocess.PIPE, timeout=60, check=True
    )
    assert json.loads(done.stdout) == [[[], ROOT], [[], ROOT]]


@pytest.mark.parametrize(("configured", "level"), [(["none"], "none"), (["conns", "sync"], None), ([], "stats")])
def test_the_log_level_is_the_configured_one_whatever_cn_log_says(slapd, configured, level):
    with connect(slapd.server) as directory:
        directory.modify("cn=Log,cn=Monitor", [("replace", "managedInfo", ["Args"])])
        directory.modify("cn=config", [("replace", "olcLogLevel", configured)])
    preflight = Preflight(slapd.server, Request())
    preflight.run()
    assert preflight.facts["slapd"]["log_level"] == (level or shown_level(configured))


def test_ldapi_paths_that_cannot_be(slapd_module):
    whats_of = {}
    for path in ("/tmp/no-such-socket", "/tmp/" + "x" * 120):
        preflight = Preflight({**slapd_module.server, "uri": "ldapi://" + quote(path, safe="")}, Request())
        preflight.run()
        whats_of[len(path)] = whats(preflight)
    assert whats_of == {19: ["no such socket"], 125: ["the ldapi path is too long"]}


def test_a_configuration_that_moved_leaves_its_way_home_behind(slapd):
    state = Path(slapd.server["state_dir"]) / "slapd-000000000000" / "snapshots"
    state.mkdir(parents=True)
    known = {"state": "open", "suffixes": [slapd.suffix], "config": "/etc/ldap/elsewhere"}
    (state / "000001-20260101T000000Z.json").write_text(json.dumps(known))
    assert any("its configuration lay elsewhere" in what for what in whats(look(slapd)))
    known["config"] = os.path.realpath(slapd.config_dir)
    (state / "000001-20260101T000000Z.json").write_text(json.dumps(known))
    assert whats(look(slapd)) == []
