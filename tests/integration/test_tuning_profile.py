# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tuning_profile on a real slapd: apply, again, audit, check mode, undo, adopt."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

ALL = ["security", "availability", "durability", "restart"]


def resolved(when_unsupported="skip", **levers):
    """A resolved profile: keys with __ for the dot, values as {"value": ..} or plain."""
    wishes = {}
    for key, value in levers.items():
        wish = value if isinstance(value, dict) and "op" in value else {"op": "value", "value": value}
        wishes[key.replace("__", ".")] = {
            "why": "a test",
            "when_unsupported": when_unsupported,
            "from": "test.yml",
            **wish,
        }
    return {"schema": 1, "name": "test", "digest": "d" * 64, "levers": wishes, "excluded": [], "expect": {}}


PROFILE = resolved(slapd__log_level=32768, slapd__threads=24, database__max_readers={"op": "at_least", "value": 200})


def entries(lab):
    """cn=config as {dn: {attribute: set of values}} without what LDAP cannot restore."""
    found, current = {}, {}
    for line in lab.slapcat(0).replace("\n ", "").splitlines():
        name, _, value = line.partition(":")
        if name == "dn":
            current = found.setdefault(value.strip(), {})
        elif name and name not in ("entryCSN", "modifyTimestamp", "modifiersName"):
            current.setdefault(name, set()).add(value.strip())
    return found


def server(lab):
    """The server options, with a state directory that does not exist yet."""
    return dict(lab.server, state_dir=os.path.join(lab.root, "ldaptune"))


@pytest.fixture
def tune(run_module):
    def run(lab, state="applied", check=False, **options):
        options.setdefault("consent", ALL)
        arguments = {"state": state, "server": server(lab), **options}
        return run_module("tuning_profile", arguments, check=check, diff=True)

    return run


def snapshots(lab):
    return sorted(Path(server(lab)["state_dir"]).glob("*/snapshots/*.json"))


def test_apply_again_revert(slapd, tune):
    before = entries(slapd)
    first = tune(slapd, resolved=PROFILE)
    assert first["changed"] and not first.get("failed"), first
    assert set(first["states"].values()) == {"applied"}
    assert [row["lever"] for row in first["plan"]] == ["slapd.log_level", "database.max_readers", "slapd.threads"]
    # No monitor entry shows the log level in force.
    assert {row["lever"]: row["effective"] for row in first["plan"]} == {
        "slapd.log_level": None,
        "slapd.threads": 24,
        "database.max_readers": 200,
    }
    assert "slapd.threads = 24\n" in first["diff"]["after"]
    assert first["live_only"] == []

    again = tune(slapd, resolved=PROFILE)
    assert not again["changed"]
    assert set(again["states"].values()) == {"unchanged"}
    assert len(snapshots(slapd)) == 1

    home = tune(slapd, "reverted")
    assert home["changed"] and home["complete"], home
    assert entries(slapd) == before
    assert not tune(slapd, "reverted")["changed"]


def test_the_snapshot_is_private_and_holds_absence_as_absence(slapd, tune):
    result = tune(slapd, resolved=PROFILE)
    path = Path(result["snapshot"]["path"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    levers = result["snapshot"]["content"]["levers"]
    assert levers["slapd.threads"]["before"] is None
    assert levers["slapd.log_level"]["before"] == 256
    assert json.loads(path.read_text())["levers"] == levers


def test_check_mode_writes_nothing(slapd, tune):
    before = slapd.slapcat(0)
    result = tune(slapd, resolved=PROFILE, check=True)
    assert result["changed"]
    assert set(result["states"].values()) == {"pending"}
    assert result["diff"]["before"] != result["diff"]["after"]
    assert slapd.slapcat(0) == before
    assert not os.path.exists(server(slapd)["state_dir"])
    for state in ("audited", "reverted", "adopted"):
        assert not tune(slapd, state, check=True)["changed"]
    assert slapd.slapcat(0) == before
    assert not os.path.exists(server(slapd)["state_dir"])
