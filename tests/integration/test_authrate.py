"""The probe against a real slapd."""

from __future__ import annotations

import json
import subprocess

import pytest
from ldaptune.load.prepare import Settings, prepare
from ldaptune.load.run import run


def settings(slapd, **more):
    given = {
        "uri": slapd.uri,
        "accounts": slapd.accounts,
        "password_file": slapd.password_file,
        "connections": 4,
        "phases": [{"name": "goal", "mode": "closed", "seconds": 0.5, "rate": 0}],
    }
    return Settings(**{**given, **more})


def counters(slapd):
    """What the server has counted so far, as ldapsearch tells it; its own operations are found by asking twice."""
    text = subprocess.run(
        ["ldapsearch", "-LLL", "-Q", "-Y", "EXTERNAL", "-H", slapd.ldapi, "-b", "cn=monitor", "-o", "ldif-wrap=no",
         "(|(monitorOpCompleted=*)(monitorCounter=*))", "monitorOpCompleted", "monitorCounter"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found, name = {}, ""
    for line in text.splitlines():
        key, _, value = line.partition(": ")
        if key == "dn":
            name = value.split(",")[0].lower()
        elif key in ("monitorOpCompleted", "monitorCounter"):
            found[name] = int(value)
    return found


def difference(slapd, act):
    """Run `act` and return its result with what the server counted for it, our own questions taken off."""
    counters(slapd)
    first = counters(slapd)
    second = counters(slapd)
    result = act()
    third = counters(slapd)
    names = {"bind": "cn=bind", "search": "cn=search", "unbind": "cn=unbind", "extended": "cn=extended"}
    counted = {name: (third[rdn] - second[rdn]) - (second[rdn] - first[rdn]) for name, rdn in names.items()}
    connections = (third["cn=total"] - second["cn=total"]) - (second["cn=total"] - first["cn=total"])
    return result, counted, connections


@pytest.mark.parametrize("processes", [1, 2])
def test_totals_are_what_the_server_counted(slapd, processes):
    phases = [
        {"name": "prime", "mode": "pass", "seconds": 20, "rate": 0},
        {"name": "settle", "mode": "closed", "seconds": 0.2, "rate": 0},
        {"name": "goal", "mode": "closed", "seconds": 0.5, "rate": 0},
        {"name": "fixed", "mode": "open", "seconds": 0.5, "rate": 500},
    ]
    ready = prepare(settings(slapd, phases=phases, processes=processes, sample=3))
    result, counted, connections = difference(slapd, lambda: run(ready))
    assert result["totals"] == {"operations": counted, "connections": connections}
    assert result["phases"]["prime"]["operations"] == 100
    assert result["phases"]["fixed"]["planned"] == 250
    for phase in result["phases"].values():
        assert phase["errors"] == 0
        assert phase["codes"] == {"success": phase["operations"]}
    json.dumps(result, allow_nan=False)
