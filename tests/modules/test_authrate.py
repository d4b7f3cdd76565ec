# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""library/authrate.py: arguments in, figures or refusals out."""

from __future__ import annotations

import json
import socket

import pytest

PHASES = [{"name": "goal", "mode": "closed", "seconds": 0.2}]


@pytest.fixture
def password_file(tmp_path):
    path = tmp_path / "password"
    path.write_text("kept-to-itself")
    return str(path)


@pytest.fixture
def nobody():
    """A port of loopback where connections would be noticed, but are never accepted."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0)
        yield listener


def test_check_mode_sends_nothing(run_module, password_file, nobody):
    uri = "ldap://127.0.0.1:%d" % nobody.getsockname()[1]
    arguments = {"uri": uri, "accounts": "cn=a", "password_file": password_file, "phases": PHASES}
    result = run_module("authrate", arguments, check=True)
    assert (result["changed"], result["skipped"]) == (False, True)
    with pytest.raises(BlockingIOError):
        nobody.accept()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "connect_refused"),
        ({"phases": [{"name": "fixed", "mode": "open", "seconds": 1}]}, "needs a rate"),
        ({"accounts": "uid=[a-z]"}, "bracket"),
        ({"uri": "ldap://192.0.2.1"}, "allow_cleartext"),
        ({"phases": [{"name": "goal", "mode": "sample", "seconds": 1}]}, "value of mode"),
    ],
)
def test_refusals(run_module, password_file, more, said):
    arguments = {"uri": "ldap://127.0.0.1:1", "accounts": "cn=a", "password_file": password_file, "phases": PHASES}
    result = run_module("authrate", {**arguments, **more})
    assert result["failed"]
    assert said in result["msg"]
    assert "kept-to-itself" not in json.dumps(result)


def test_a_failed_file_names_the_row(run_module, tmp_path):
    path = tmp_path / "rows"
    path.write_text("cn=a\tkept-to-itself\ncn=b\t\n")
    result = run_module("authrate", {"uri": "ldap://127.0.0.1:1", "password_file": str(path), "phases": PHASES})
    assert "row 2" in result["msg"]
    assert result["problems"][0]["where"] == str(path)
    assert "kept-to-itself" not in json.dumps(result)


def test_a_run_that_goes_on_by_itself_is_refused_like_any_other(run_module, password_file, tmp_path):
    path = tmp_path / "result"
    arguments = {"uri": "ldap://127.0.0.1:1", "accounts": "cn=a", "password_file": password_file, "phases": PHASES}
    result = run_module("authrate", {**arguments, "result_file": str(path)})
    assert "connect_refused" in result["msg"]
    assert not path.exists()
    found = run_module("authrate_result", {"result_file": str(path), "seconds": 0})
    assert found["ended"].startswith("its result is missing")
    assert run_module("authrate_result", {"result_file": str(path), "seconds": 0}, check=True)["skipped"] is True


def test_generators_share_agree_and_merge(run_module):
    folders = [{"item": "g1", "path": "/run/a"}, {"item": "g2", "msg": "no room"}]
    shared = run_module("generators", {"state": "shared", "folders": folders, "phases": PHASES})
    assert shared["orders"] == []
    agreed = run_module("generators", {"state": "agreed", "asked": shared["asked"]})
    assert agreed["starts"] == []
    merged = run_module("generators", {"state": "merged", "asked": agreed["asked"]})
    assert merged["dropped_out"][0]["text"] == "generator g2 gave no result: no private folder (no room)"
    refused = run_module("generators", {"state": "shared", "folders": folders, "connections": 1})
    assert refused["failed"] is True
