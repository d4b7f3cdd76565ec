# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""By what a slapd is restarted."""

from __future__ import annotations

import os
import sys

import pytest
from ldaptune.host import process, service
from ldaptune.host.command import run
from ldaptune.host.process import Slapd
from ldaptune.problems import LdaptuneError

SLAPD = Slapd(4242, 1, 0, ("slapd",), ("ldapi:///",), "/a", "", "")


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A host with a /proc, a systemd directory and boot scripts of its own."""
    (tmp_path / "proc" / "4242").mkdir(parents=True)
    (tmp_path / "init.d").mkdir()
    monkeypatch.setattr(process, "PROC", str(tmp_path / "proc"))
    monkeypatch.setattr(service, "_SYSTEMD", str(tmp_path / "systemd"))
    monkeypatch.setattr(service, "_INIT", str(tmp_path / "init.d"))
    return tmp_path


def in_group(host, group):
    (host / "systemd").mkdir()
    (host / "proc" / "4242" / "cgroup").write_text("0::%s\n" % group)


def test_the_command_given_wins(host):
    assert service.how(SLAPD, "slapd", ["/x/restart", "now"]) == [["/x/restart", "now"]]


def test_systemd_forgets_earlier_restarts_first(host):
    in_group(host, "/system.slice/slapd.service")
    assert service.how(SLAPD, "slapd") == [
        ["systemctl", "reset-failed", "slapd.service"], ["systemctl", "restart", "slapd.service"],
    ]


def test_a_unit_that_runs_another_slapd_is_not_restarted(host):
    in_group(host, "/user.slice/session-1.scope")
    with pytest.raises(LdaptuneError, match="does not belong to the service"):
        service.how(SLAPD, "slapd")


def test_a_boot_script_where_there_is_no_systemd(host):
    script = host / "init.d" / "slapd"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(LdaptuneError, match="nothing on this host"):
        service.how(SLAPD, "slapd")
    script.chmod(0o755)
    assert service.how(SLAPD, "slapd") == [[str(script), "restart"]]


def test_a_command_that_fails_is_told_with_its_words():
    command = [sys.executable, "-c", "print('no such thing'); raise SystemExit(3)"]
    with pytest.raises(LdaptuneError, match="exit code 3: no such thing"):
        service.restart(SLAPD, "slapd", command)


def test_no_new_process_in_time_is_told():
    with pytest.raises(LdaptuneError, match="did not come back"):
        service.restart(SLAPD, "slapd", ["true"], seconds=0.05)


def test_a_command_that_does_not_end_is_ended():
    with pytest.raises(LdaptuneError, match="did not end in time"):
        run([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)


def test_a_daemon_that_keeps_the_output_open_holds_nobody_up():
    code = "import subprocess, sys; print('up', flush=True); print(subprocess.Popen(['sleep', '60']).pid)"
    done = run([sys.executable, "-c", code], 20)
    assert (done.code, done.text.split()[0]) == (0, "up")
    os.kill(int(done.text.split()[1]), 15)


def test_a_missing_command_is_told():
    with pytest.raises(LdaptuneError, match="cannot be run"):
        run(["/nonexistent/restart"])
