# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab slapd: built, answering, restarted by its own command, ended without touching others."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess

import pytest
from ldaptune.lab import process
from ldaptune.lab.slapd import LabSlapd
from ldaptune.problems import LdaptuneError


def whoami(lab, dn, password_file):
    command = ["ldapwhoami", "-x", "-H", lab.uri, "-D", dn, "-y", password_file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def bare_password(lab, tmp_path):
    # ldapwhoami -y takes the whole file, a final newline included.
    path = tmp_path / "password"
    path.write_text(lab.password)
    return str(path)


def test_a_user_binds_and_a_wrong_password_does_not(slapd_module, tmp_path):
    lab = slapd_module
    assert whoami(lab, lab.user_dn(99), bare_password(lab, tmp_path)).stdout.strip() == "dn:" + lab.user_dn(99)
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    assert whoami(lab, lab.user_dn(99), str(wrong)).returncode == 49


def test_the_null_suffix_accepts_any_bind(slapd_module, tmp_path):
    anything = tmp_path / "anything"
    anything.write_text("anything")
    dn = "uid=nobody,%s" % slapd_module.null_suffix
    assert whoami(slapd_module, dn, str(anything)).returncode == 0


def test_root_manages_the_configuration_and_reads_the_monitor(slapd_module):
    for base, wanted in (("cn=config", "olcLogLevel: stats"), ("cn=Max,cn=Threads,cn=Monitor", "monitoredInfo: 16")):
        command = ["ldapsearch", "-Q", "-Y", "EXTERNAL", "-H", slapd_module.ldapi, "-s", "base", "-b", base, "+", "*"]
        assert wanted in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run slapd as another user")
def test_slapd_runs_as_the_package_s_user_and_the_password_is_private(slapd_module):
    owner = os.stat("/proc/%d" % slapd_module.pid).st_uid
    assert pwd.getpwuid(owner).pw_name in ("openldap", "ldap")
    assert stat.S_IMODE(os.stat(slapd_module.password_file).st_mode) == 0o600


def test_the_restart_command_restarts_exactly_this_one(make_slapd):
    first, second = make_slapd(users=1), make_slapd(users=1)
    before, other = first.pid, second.pid
    subprocess.run(first.restart_command, cwd="/", check=True, env={})
    assert first.pid not in (0, before)
    assert second.pid == other
    assert process.answers("127.0.0.1", first.port)


def test_a_stopped_process_is_killed_after_the_deadline(make_slapd, monkeypatch):
    lab = make_slapd(users=1)
    assert lab.stop() is True
    lab.start()
    lab.kill()
    assert lab.pid == 0
    assert not lab.healthy()
    assert lab.start().healthy()


def test_a_pid_file_naming_a_stranger_is_not_believed(make_slapd):
    lab = make_slapd(users=1)
    lab.stop()
    with open(lab.pid_file, "w", encoding="ascii") as handle:
        handle.write("%d\n" % os.getpid())
    assert lab.pid == 0
    lab.kill()
    lab.stop()
    assert lab.start().pid not in (0, os.getpid())


def test_odd_configurations_are_taken(make_slapd):
    second = """dn: olcDatabase={4}mdb,cn=config
objectClass: olcDatabaseConfig
objectClass: olcMdbConfig
olcDatabase: {4}mdb
olcSuffix: dc=second,dc=test
olcDbDirectory: @ROOT@/second
"""
    lab = make_slapd(
        users=1,
        extra_ldif=[second],
        threads=4,
        log_level="",
        global_lines=["olcIdleTimeout: 7"],
        database_lines=["olcDbMaxReaders: 200"],
        modules=["accesslog"],
    )
    text = lab.slapcat(0)
    for line in ("olcThreads: 4", "olcIdleTimeout: 7", "olcDbMaxReaders: 200", "olcSuffix: dc=second,dc=test"):
        assert line in text
    assert "olcLogLevel" not in text


def test_a_refused_configuration_says_why(short_dir):
    with pytest.raises(LdaptuneError, match="slapadd ended with .*olcNoSuchThing"):
        LabSlapd(short_dir / "lab", global_lines=["olcNoSuchThing: 1"]).build()


def test_a_slapd_that_cannot_start_says_why(make_slapd):
    lab = make_slapd(users=1, start=False, extra_uris=["ldap://192.0.2.1:1/"])
    with pytest.raises(LdaptuneError, match="(?s)slapd did not start.*Cannot assign requested address"):
        lab.start()


def test_a_configuration_slapd_may_not_read_is_named(make_slapd):
    lab = make_slapd(users=1, start=False)
    os.chown(lab.config_dir, 0, 0)
    with pytest.raises(LdaptuneError, match="Permission denied"):
        lab.start()


def test_a_slapd_conf_works_as_well(make_slapd):
    lab = make_slapd(
        users=3,
        slapd_conf="""include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile @ROOT@/run/slapd/slapd.pid
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix dc=lab,dc=test
directory @ROOT@/db
""",
    )
    assert lab.healthy()


def test_destroy_leaves_what_is_no_lab(short_dir):
    (short_dir / "precious").write_text("x")
    with pytest.raises(LdaptuneError, match="not a lab"):
        LabSlapd(short_dir).destroy()
    assert (short_dir / "precious").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a mount namespace")
def test_the_log_goes_to_the_lab_s_reader_and_nowhere_else(make_slapd, tmp_path):
    lab = make_slapd(users=1, syslog=True)
    whoami(lab, lab.user_dn(0), bare_password(lab, tmp_path))
    lab.restart()
    lines, text = lab.log_lines()
    assert lines > 3
    assert 'BIND dn="%s"' % lab.user_dn(0) in text
    assert os.readlink("/proc/%d/root/dev/log" % lab.pid) == os.path.join(lab.root, "run", "log")
    quiet = make_slapd(users=1)
    assert not os.path.lexists("/proc/%d/root/dev/log" % quiet.pid)
