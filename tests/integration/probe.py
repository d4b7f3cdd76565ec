# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the probe against a lab slapd, set against what the server counted."""

from __future__ import annotations

import subprocess

from ldaptune.load.prepare import Settings


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
