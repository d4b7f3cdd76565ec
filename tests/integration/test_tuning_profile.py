# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tuning_profile on a real slapd: apply, again, audit, check mode, undo, adopt."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ldaptune.directory.openldap import connect
from ldaptune.levers.table import LEVERS

from .looks import settings

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
    before = settings(slapd)
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
    assert settings(slapd) == before
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


def test_a_configuration_that_moved_is_said_on_the_way_home(slapd, tune):
    path = tune(slapd, resolved=PROFILE)["snapshot"]["path"]
    tuned = settings(slapd)
    folder = Path(path).parent.parent
    known = json.loads(Path(path).read_text())
    # As if slapd had run from elsewhere when it was changed: the records' own place and what they say of it.
    os.rename(folder, folder.with_name("slapd-000000000000"))
    astray = folder.with_name("slapd-000000000000") / "snapshots" / Path(path).name
    known.update(config="/etc/ldap/elsewhere")
    astray.write_text(json.dumps(known))
    for state in ("reverted", "adopted"):
        told = tune(slapd, state)
        assert told["failed"] and not told["changed"], told
        assert str(astray) in told["msg"] and "changed in /etc/ldap/elsewhere, now in " in told["msg"]
        assert "rollback.yml" in told["msg"] and "move %s away" % astray.parent.parent in told["msg"]
    assert settings(slapd) == tuned and json.loads(astray.read_text()) == known


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


def modify(lab, dn, *changes):
    with connect(lab.server) as directory:
        directory.modify(dn, changes)


def figure(lab, attribute, dn="cn=config"):
    with connect(lab.server) as directory:
        return directory.read(dn, [attribute]).get(attribute)


def test_audit_shows_wanted_configured_and_effective_of_every_lever(slapd, tune):
    before = slapd.slapcat(0)
    result = tune(slapd, "audited", resolved=PROFILE)
    assert not result["changed"] and set(result["states"]) == set(LEVERS)
    rows = {row["lever"]: row for row in result["plan"]}
    assert (rows["slapd.threads"]["after"], rows["slapd.threads"]["configured"]) == (24, None)
    assert rows["slapd.threads"]["effective"] == 16 and rows["slapd.threads"]["state"] == "pending"
    assert result["states"]["slapd.log_file"] == "unsupported"
    assert slapd.slapcat(0) == before and snapshots(slapd) == []


def test_a_missing_consent_stops_before_anything(slapd, tune):
    before = slapd.slapcat(0)
    result = tune(slapd, resolved=PROFILE, consent=["availability"])
    assert result["failed"] and [item["wanted"] for item in result["problems"]] == ["security"]
    assert "tuning_consent" in result["msg"] and result["plan"]
    assert slapd.slapcat(0) == before and snapshots(slapd) == []


def test_another_spelling_of_the_same_level_is_unchanged(make_slapd, tune):
    lab = make_slapd(log_level="0x100")
    before = lab.slapcat(0)
    result = tune(lab, resolved=resolved(slapd__log_level=256))
    assert not result["changed"] and result["states"] == {"slapd.log_level": "unchanged"}
    assert lab.slapcat(0) == before


def test_the_old_spelling_comes_back(make_slapd, tune):
    lab = make_slapd(log_level="0x100")
    before = settings(lab)
    assert tune(lab, resolved=PROFILE)["changed"]
    assert tune(lab, "reverted")["complete"]
    assert settings(lab) == before and figure(lab, "olcLogLevel") == ["0x100"]


def test_what_an_administrator_changed_since_stays_and_is_named(slapd, tune):
    tune(slapd, resolved=PROFILE)
    modify(slapd, "cn=config", ("replace", "olcThreads", ["12"]))
    home = tune(slapd, "reverted")
    assert home["states"]["slapd.threads"] == "drifted" and not home["complete"]
    assert not home.get("failed") and home["states"]["slapd.log_level"] == "applied"
    row = next(row for row in home["plan"] if row["lever"] == "slapd.threads")
    assert "cn=config at 20" in row["reason"] or "external,cn=auth at 20" in row["reason"]
    assert figure(slapd, "olcThreads") == ["12"]
    assert tune(slapd, "adopted")["changed"]
    assert not tune(slapd, "reverted")["changed"] and figure(slapd, "olcThreads") == ["12"]


def test_a_second_profile_does_not_become_the_origin(slapd, tune):
    before = settings(slapd)
    tune(slapd, resolved=PROFILE)
    second = tune(slapd, resolved=resolved(slapd__threads=48, slapd__idle_timeout=60))
    assert second["changed"] and len(snapshots(slapd)) == 2
    assert second["snapshot"]["content"]["levers"]["slapd.threads"]["before"] is None
    assert second["snapshot"]["content"]["levers"]["slapd.idle_timeout"]["before"] is None
    step = tune(slapd, "reverted", snapshot=snapshots(slapd)[1].stem)
    assert step["complete"] and figure(slapd, "olcThreads") == ["24"]
    assert tune(slapd, "reverted")["complete"] and settings(slapd) == before


def test_only_the_database_meant_is_changed(make_slapd, tune):
    other = (
        "dn: olcDatabase=mdb,cn=config\nobjectClass: olcMdbConfig\nolcDatabase: mdb\n"
        "olcSuffix: DC=Beta, DC=Test\nolcDbDirectory: @ROOT@/beta\nolcDbMaxSize: 10485760\n"
    )
    lab = make_slapd(extra_ldif=[other])
    before = settings(lab)
    wanted = resolved(database__max_readers=200)
    several = tune(lab, resolved=wanted, server=dict(server(lab), suffix=""))
    assert several["failed"] and "dc=beta,dc=test" in several["msg"]
    options = dict(server(lab), suffix="dc=beta,dc=test")
    assert tune(lab, resolved=wanted, server=options)["changed"]
    (changed,) = [entry for entry in settings(lab) if entry not in before]
    assert "olcSuffix: DC=Beta, DC=Test" in changed
    wrong = tune(lab, "reverted", server=dict(server(lab), suffix=lab.suffix))
    assert wrong["failed"] and "another directory" in wrong["msg"]
    assert tune(lab, "reverted", server=options)["complete"] and settings(lab) == before


def test_a_refusal_in_the_middle_leaves_the_host_as_it_was(slapd, tune, monkeypatch):
    import ansible.module_utils.ldaptune.levers.server as levers
    from ansible.module_utils.ldaptune.problems import LdaptuneError, problem

    def refuse(self, ctx, wanted):
        raise LdaptuneError(problem("no threads today"))

    monkeypatch.setattr(levers.Threads, "write", refuse)
    before = settings(slapd)
    result = tune(slapd, resolved=PROFILE)
    assert result["failed"] and "no threads today" in result["msg"] and "undone again" in result["msg"]
    assert settings(slapd) == before
    assert not tune(slapd, "reverted")["changed"]


def test_slapd_killed_while_it_is_changed(slapd, tune, monkeypatch):
    import ansible.module_utils.ldaptune.apply as applying
    import ansible.module_utils.ldaptune.levers.server as levers

    write = levers.Threads.write
    before = settings(slapd)

    def kill(self, ctx, wanted):
        slapd.kill()
        write(self, ctx, wanted)

    monkeypatch.setattr(levers.Threads, "write", kill)
    monkeypatch.setattr(applying, "RECONNECT_SECONDS", 0.2)
    result = tune(slapd, resolved=PROFILE)
    assert result["failed"] and "rollback.yml" in result["msg"], result["msg"]
    assert "slapd.log_level could not be taken back" in result["msg"]
    down = tune(slapd, "reverted")
    assert down["failed"] and "running" in down["msg"]
    slapd.start()
    assert figure(slapd, "olcLogLevel") == ["none"]
    home = tune(slapd, "reverted")
    assert home["complete"] and settings(slapd) == before


def test_slapd_that_comes_back_in_time_is_taken_home_at_once(slapd, tune, monkeypatch):
    import ansible.module_utils.ldaptune.levers.server as levers

    write = levers.Threads.write
    before = settings(slapd)

    def restart(self, ctx, wanted):
        if not made:
            made.append(1)
            slapd.restart()
        write(self, ctx, wanted)

    made = []
    monkeypatch.setattr(levers.Threads, "write", restart)
    result = tune(slapd, resolved=PROFILE)
    assert result["failed"] and "undone again" in result["msg"]
    assert settings(slapd) == before and not tune(slapd, "reverted")["changed"]


CRASH = """
import json, os, signal, sys
sys.path.insert(0, sys.argv[1])
from ldaptune.levers import server
from ldaptune.opening import open_target
from ldaptune.tuning import applied
write = server.Threads.write
def die(self, ctx, wanted):
    if sys.argv[3] == "after":
        write(self, ctx, wanted)
    os.kill(os.getpid(), signal.SIGKILL)
server.Threads.write = die
how = json.load(sys.stdin)
applied(open_target(how["server"]), how["resolved"], consent=how["consent"])
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_module_killed_at_a_write_leaves_a_way_home(slapd, tune, checkout, moment):
    before = settings(slapd)
    how = {"server": server(slapd), "resolved": PROFILE, "consent": ALL}
    command = [sys.executable, "-c", CRASH, str(checkout / "module_utils"), "-", moment]
    done = subprocess.run(command, input=json.dumps(how), text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert figure(slapd, "olcLogLevel") == ["none"]
    assert figure(slapd, "olcThreads") == (["24"] if moment == "after" else None)
    home = tune(slapd, "reverted")
    assert home["complete"] and home["states"]["slapd.threads"] == ("applied" if moment == "after" else "unchanged")
    assert settings(slapd) == before


def test_a_map_that_is_full_by_its_old_size_stays(slapd, tune):
    with connect(slapd.server) as directory:
        database = directory.database(slapd.suffix)
        figures = directory.database_figures(database)
        nearly = int(figures["pages_used"] / 0.9 + 1) * figures["page_size"]
        directory.modify(database["dn"], [("replace", "olcDbMaxSize", [str(nearly)])])
    assert tune(slapd, resolved=resolved(database__max_size=1 << 24))["changed"]
    home = tune(slapd, "reverted")
    assert home["complete"] and not home.get("failed") and "80" in home["lines"][0], home
    assert figure(slapd, "olcDbMaxSize", database["dn"]) == [str(1 << 24)]
    assert not tune(slapd, "reverted")["changed"]
