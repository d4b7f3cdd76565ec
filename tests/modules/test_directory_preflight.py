# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module's face: what it returns, and that a problem alone is no failure."""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the preflight needs root")


@pytest.mark.parametrize("check", [False, True])
def test_facts_are_returned_and_nothing_changes(run_module, slapd_module, check):
    result = run_module("directory_preflight", {"server": slapd_module.server, "name": "lab1"}, check=check)
    assert not result.get("failed")
    assert result["changed"] is False
    assert result["problems"] == []
    assert result["warnings_text"] == []
    assert result["facts"]["database"]["suffix"] == slapd_module.suffix
    assert "deprecations" not in result


def test_a_problem_is_returned_and_fails_only_when_told(run_module, slapd_module):
    arguments = {"server": {**slapd_module.server, "suffix": "dc=nowhere"}}
    result = run_module("directory_preflight", arguments)
    assert not result.get("failed")
    assert [item["what"] for item in result["problems"]] == ["no database has this suffix"]
    told = run_module("directory_preflight", {**arguments, "fail": True})
    assert told["failed"]
    assert told["problems"] == result["problems"]
    assert "no database has this suffix" in told["msg"]


def test_the_password_is_in_no_result(run_module, slapd_module, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("not-this-password")
    server = {**slapd_module.server, "config_dn": "cn=admin,cn=config", "config_password_file": str(secret)}
    result = run_module("directory_preflight", {"server": server})
    assert [item["found"] for item in result["problems"]] == ["result 49 invalidCredentials"]
    assert "not-this-password" not in repr(result)


def test_a_password_in_the_uri_is_refused_and_in_no_result(run_module, slapd_module):
    server = {**slapd_module.server, "uri": "ldap://cn=admin:s3cret@" + slapd_module.uri.rpartition("/")[2]}
    result = run_module("directory_preflight", {"server": server})
    assert [item["what"] for item in result["problems"]] == ["a URI with a name or a password in it"]
    # What the module was called with is shown with -vvv alone, and is the inventory's own text.
    result.pop("invocation")
    assert "s3cret" not in repr(result)


def test_a_warning_is_shown_and_returned(run_module, make_slapd):
    lab = make_slapd(users=3, database_lines=["olcLastBind: TRUE"])
    arguments = {
        "server": lab.server,
        "measuring": True,
        "allow_load": True,
        "watch_seconds": 0,
        "load_seconds": 100,
        "expected_rate": 50,
    }
    result = run_module("directory_preflight", arguments)
    assert "up to 5000 writes" in result["problems"][0]["do"]
    agreed = run_module("directory_preflight", {**arguments, "consent": ["bind_writes"]})
    assert agreed["problems"] == []
    assert [cause["what"] for cause in agreed["facts"]["bind_writes"]] == ["olcLastBind"]
    assert "up to 5000 writes" in agreed["warnings_text"][0]
