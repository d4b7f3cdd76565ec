# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pass over a host, without a slapd."""

from __future__ import annotations

import sys

import pytest
from ldaptune.preflight import run
from ldaptune.preflight.run import Preflight, Request, config_files, shown_level, used_databases

DATABASES = [
    {"dn": "one", "suffixes": ["dc=lab,dc=test"]},
    {"dn": "two", "suffixes": ["ou=x,dc=lab,dc=test", "dc=other"]},
    {"dn": "three", "suffixes": []},
]


@pytest.fixture
def nothing_runs(monkeypatch):
    monkeypatch.setattr(run, "find_slapds", list)


def look(tmp_path, **request):
    preflight = Preflight({"state_dir": str(tmp_path)}, Request(**request))
    preflight.run()
    return [item["what"] for item in preflight.problems], preflight


def test_no_slapd_and_no_root_and_no_ldap3_are_said_together(monkeypatch, nothing_runs, tmp_path):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setitem(sys.modules, "ldap3", None)
    whats, preflight = look(tmp_path)
    assert whats == ["root is needed on this host", "Python's ldap3 is missing", "no slapd is running"]
    assert preflight.facts["host"]["cpus"] >= 1
    assert preflight.facts["slapd"] == {}
    assert list(tmp_path.iterdir()) == []


def test_a_load_that_is_not_allowed_is_said_with_the_rest(monkeypatch, nothing_runs, tmp_path):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "no slapd is running" in look(tmp_path)[0]
    assert "saturating load is not allowed on this host" in look(tmp_path, measuring=True)[0]


@pytest.mark.parametrize(
    ("bases", "found"),
    [
        ([], ["one"]),
        (["uid=a,dc=lab,dc=test"], ["one"]),
        (["uid=a,OU=X, dc=lab,dc=test"], ["one", "two"]),
        (["dc=other", "uid=[0-9],dc=other"], ["one", "two"]),
        (["dc=notmylab,dc=test", ""], ["one"]),
    ],
)
def test_the_nearest_database_above_a_name(bases, found):
    assert used_databases(DATABASES, "one", bases) == found


def test_levels_in_one_spelling():
    assert shown_level(["256"]) == "stats"
    assert shown_level(["Stats", "Sync"]) == "stats sync"
    assert shown_level(["something new"]) == "something new"


def test_files_of_a_configuration_directory_that_are_not_there(tmp_path):
    (tmp_path / "cn=config.ldif").write_text("olcSecurity: ssf=1")
    assert config_files(str(tmp_path)) == ["olcSecurity: ssf=1", "", ""]
    assert config_files("") == []
