# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every workload against a real slapd: what it counts is what the server counted."""

from __future__ import annotations

import collections
import glob
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import ldap3
import pytest
from ldaptune.levers.context import open_context
from ldaptune.load import wire, workload
from ldaptune.load.prepare import prepare
from ldaptune.load.run import run

from .probe import difference, settings

PHASES = [
    {"name": "prime", "mode": "pass", "seconds": 20, "rate": 0},
    {"name": "goal", "mode": "closed", "seconds": 0.5, "rate": 0},
    {"name": "fixed", "mode": "open", "seconds": 0.5, "rate": 400},
]
PEOPLE = "ou=people,dc=lab,dc=test"

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "authrate.schema.json").read_text())

#: workload, settings
CASES = {
    "mixed": {"workload": "mixed", "mix": {"bind": 3, "search": 1}, "sample": 3},
    "failing binds": {"fail": {"wrong_password": 20, "unknown_user": 10}},
    "failing searches": {"workload": "search", "fail": {"no_entry": 30}},
    "failing mix": {
        "workload": "mixed",
        "mix": {"bind": 50, "search": 50},
        "fail": {"wrong_password": 10, "no_entry": 10},
    },
    "counted searches": {
        "workload": "search", "filter": "(uid=user.1[0-9])", "entries": 1, "accounts": "", "base": PEOPLE,
        "bind_dn": "uid=user.1," + PEOPLE,
    },
    "many entries": {
        "workload": "search", "filter": "(objectClass=inetOrgPerson)", "entries": 100, "base": PEOPLE, "scope": "one",
    },
    "connections of one bind": {"workload": "connect_bind", "sample": 3, "fail": {"wrong_password": 20}},
    "pairs": {"workload": "search_bind", "sample": 3, "fail": {"wrong_password": 10, "unknown_user": 10}},
    "pairs with a login": {"workload": "search_bind", "bind_dn": "uid=user.1," + PEOPLE},
    "pages": {"workload": "paged_search", "base": PEOPLE, "page_size": 30, "bind_dn": "uid=user.1," + PEOPLE},
    "a window": {"workload": "search", "window": 8},
    "thinking": {"think": 0.005},
    "base searches": {"workload": "search", "scope": "base", "filter": "(objectClass=*)"},
}  # fmt: skip


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_the_server_counts_the_same(slapd_module, name, processes):
    ready = prepare(settings(slapd_module, phases=PHASES, processes=processes, **CASES[name]))
    result, counted, connections = difference(slapd_module, lambda: run(ready))
    assert "worker_died" not in result, result["worker_died"]
    assert result["totals"] == {"operations": counted, "connections": connections}
    for phase in result["phases"].values():
        assert (phase["errors"], phase["failures"]) == (0, {}), result["remarks"]
        assert sum(phase["codes"].values()) == phase["operations"] == phase["successes"]
    assert result["phases"]["goal"]["operations"] > 20
    jsonschema.validate(result, SCHEMA)
    prime = result["phases"]["prime"]
    assert prime["codes"] == {"success": prime["operations"]}, "nobody is primed with a wrong password"


def test_shares_are_kept(slapd_module):
    given = {"workload": "mixed", "mix": {"bind": 60, "search": 40}, "fail": {"wrong_password": 10, "no_entry": 10}}
    phases = [{"name": "goal", "mode": "open", "seconds": 4, "rate": 1000}]
    result, counted, _ = difference(slapd_module, lambda: run(prepare(settings(slapd_module, phases=phases, **given))))
    goal = result["phases"]["goal"]
    assert goal["errors"] == 0
    refused = goal["codes"]["invalidCredentials"] / goal["operations"]
    assert 0.07 < refused < 0.13
    assert goal["expected"] == {"invalidCredentials": goal["codes"]["invalidCredentials"]}
    assert 0.53 < counted["bind"] / (counted["bind"] + counted["search"]) < 0.63


def test_what_was_to_fail_and_does_not_is_an_error(make_slapd):
    """A server that lets anybody in is no success."""
    lab = make_slapd(users=20)
    ready = prepare(settings(lab, fail={"wrong_password": 50}))
    first, second = ready.workload.pools
    pools = [first, second._replace(items=[item._replace(code=49) for item in first.items])]
    result = run(ready._replace(workload=ready.workload._replace(pools=pools)))
    goal = result["phases"]["goal"]
    assert goal["failures"]["unexpected_success"] == goal["errors"] > 0
    assert "invalidCredentials was wanted" in str(result["remarks"])


def test_external_says_who_the_connection_is(slapd_module):
    ready = prepare(
        settings(slapd_module, uri=slapd_module.ldapi, auth="external", accounts="", password_file="", phases=PHASES)
    )
    result, counted, connections = difference(slapd_module, lambda: run(ready))
    assert result["totals"] == {"operations": counted, "connections": connections}
    assert result["phases"]["goal"]["errors"] == 0
    assert result["phases"]["goal"]["operations"] > 20


def test_sasl_plain(make_slapd):
    """Cyrus SASL compares with what is stored, so that slapd must have the passwords in clear text for it."""
    if not glob.glob("/usr/lib/*/sasl2/libplain.so*"):
        pytest.skip("libsasl2-modules is not installed, so slapd knows no PLAIN")
    lab = make_slapd(
        users=10,
        global_lines=[
            "olcSaslSecProps: none",
            "olcAuthzRegexp: uid=([^,]+),cn=plain,cn=auth uid=$1,ou=people,dc=lab,dc=test",
        ],
    )
    with open_context(lab.server) as ctx:
        me = "gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth"
        ctx.directory.modify(ctx.database["dn"], [("replace", "olcRootDN", [me])])
        for number in range(10):
            ctx.directory.modify("uid=user.%d,%s" % (number, PEOPLE), [("replace", "userPassword", [lab.password])])
    ready = prepare(settings(lab, auth="plain", fail={"wrong_password": 20}, phases=PHASES))
    result, counted, connections = difference(lab, lambda: run(ready))
    assert result["totals"] == {"operations": counted, "connections": connections}
    assert result["phases"]["goal"]["errors"] == 0, result["remarks"]
    assert set(result["phases"]["goal"]["codes"]) == {"success", "invalidCredentials"}


def in_time_wait(port):
    """The connections of a port that the kernel keeps in TIME_WAIT (state 06)."""
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file][1:]
    return sum(row[3] == "06" and port in (int(row[1][-4:], 16), int(row[2][-4:], 16)) for row in rows)


def test_no_port_is_left_waiting(slapd_module):
    """The next run, or the other arm, would pay for it."""
    before = in_time_wait(slapd_module.port)
    phases = [{"name": "goal", "mode": "closed", "seconds": 0.5, "rate": 0}]
    result = run(prepare(settings(slapd_module, workload="connect_bind", phases=phases)))
    goal = result["phases"]["goal"]
    assert goal["operations"] > 100
    assert set(goal["parts_ns"]) == {"connect", "bind"}
    assert in_time_wait(slapd_module.port) - before <= 4
    assert set(goal["time_wait"]) == {"before", "after"}


def test_pages_are_whole(slapd_module):
    asked = {"workload": "paged_search", "base": PEOPLE, "scope": "one", "page_size": 30, "accounts": ""}
    asked["bind_dn"] = "uid=user.1," + PEOPLE
    phases = [{"name": "all", "mode": "pass", "seconds": 20, "rate": 0}]
    result, counted, _ = difference(slapd_module, lambda: run(prepare(settings(slapd_module, phases=phases, **asked))))
    everything = result["phases"]["all"]
    assert (everything["entries"], everything["operations"], counted["search"]) == (100, 4, 4)


def test_pages_that_meet_a_size_limit(make_slapd):
    """The last page ends with result 4 and no control: an error by its name, never an exception nor a success."""
    lab = make_slapd(users=120)
    with open_context(lab.server) as ctx:
        ctx.directory.modify("olcDatabase={-1}frontend,cn=config", [("replace", "olcSizeLimit", ["50"])])
    asked = {"workload": "paged_search", "base": PEOPLE, "scope": "one", "page_size": 20, "accounts": ""}
    asked["bind_dn"] = "uid=user.1," + PEOPLE
    phases = [{"name": "all", "mode": "pass", "seconds": 20, "rate": 0}]
    result, counted, _ = difference(lab, lambda: run(prepare(settings(lab, phases=phases, **asked))))
    everything = result["phases"]["all"]
    assert (everything["entries"], everything["operations"], counted["search"]) == (50, 3, 3)
    assert everything["codes"] == {"success": 2, "sizeLimitExceeded": 1}
    assert "a size limit applies to this identity: it came after 50 entries" in str(result["remarks"])


def test_each_code_is_the_one_that_a_plain_client_gets(make_slapd):
    """The same binds and searches one by one through ldap3, and through the probe: the same codes, as often."""
    lab = make_slapd(users=60)
    with open_context(lab.server) as ctx:
        ctx.directory.modify("olcDatabase={-1}frontend,cn=config", [("replace", "olcSizeLimit", ["50"])])
    right = lab.password.encode()
    asked = [("uid=user.%d,%s" % (number, PEOPLE), right) for number in range(5)]
    asked += [("uid=user.%d,%s" % (number, PEOPLE), b"wrong") for number in range(3)]
    asked += [("uid=nobody," + PEOPLE, right), (PEOPLE, right), ("cn=a,dc=elsewhere", right), ("no name", right)]
    looked_for = [
        (PEOPLE, "(uid=user.1)", 2), (PEOPLE, "(uid=nobody)", 2), (PEOPLE, "(objectClass=*)", 2),
        ("ou=nowhere,dc=lab,dc=test", "(uid=user.1)", 2), ("dc=elsewhere", "(uid=user.1)", 2),
        ("uid=user.1," + PEOPLE, "(objectClass=*)", 0), ("no name", "(objectClass=*)", 0), (PEOPLE, "(nonsense=1)", 2),
    ]  # fmt: skip
    server = ldap3.Server(lab.uri, get_info=ldap3.NONE)
    plain = collections.Counter()
    with ldap3.Connection(server, version=3, check_names=False) as connection:
        for base, text, scope in looked_for:
            connection.search(base, text, ("BASE", "LEVEL", "SUBTREE")[scope], attributes=["1.1"])
            plain[wire.result_name(connection.result["result"])] += 1
        for dn, password in asked:
            connection.rebind(dn, password.decode())
            plain[wire.result_name(connection.result["result"])] += 1
    binds = workload.binds(*zip(*asked))
    searches = [workload.counted_searches([text], base, ["1.1"], scope, workload.ANY)[0]
                for base, text, scope in looked_for]  # fmt: skip
    phases = [{"name": "all", "mode": "pass", "seconds": 20, "rate": 0}]
    ready = prepare(settings(lab, connections=1, phases=phases))
    made = workload.Workload("all", [workload.Pool(1, searches + binds, True)], None)
    result, counted, _ = difference(lab, lambda: run(ready._replace(workload=made)))
    found = result["phases"]["all"]
    assert found["codes"] == dict(plain)
    assert {"success", "invalidCredentials", "noSuchObject", "sizeLimitExceeded", "invalidDNSyntax"} <= set(plain)
    assert (counted["search"], counted["bind"]) == (len(looked_for), len(asked))


@pytest.mark.parametrize(
    ("more", "part"),
    [
        (["--ramp", "4", "--warmup", "0", "--seconds", "0.3"], "ramp"),
        (["--check-generator", "--warmup", "0.1", "--seconds", "0.5"], "generator_check"),
    ],
)
def test_the_ramp_and_the_check_of_the_generator_on_a_real_server(slapd_module, checkout, tmp_path, more, part):
    """Everything that they send is counted by the server, but for what went to the null responder."""
    command = [sys.executable, str(checkout / "bin" / "authrate"), "--uri", slapd_module.uri]
    command += ["--accounts", slapd_module.accounts, "--password-file", slapd_module.password_file]
    command += ["--json", str(tmp_path / "r.json"), "--quiet", *more]
    done, counted, connections = difference(
        slapd_module, lambda: subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    )
    assert done.returncode in (0, 5), done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    jsonschema.validate(result, SCHEMA)
    assert result["totals"] == {"operations": counted, "connections": connections}
    if part == "ramp":
        assert [row["clients"] for row in result["ramp"]["measurements"]][:3] == [1, 2, 4]
        assert result["ramp"]["peak"]["clients"] in (1, 2, 3, 4)
    else:
        names = [check["name"] for check in result["generator_check"]["checks"]]
        assert names == ["own figures", "one process more", "null responder"]
        assert result["generator_check"]["null"]["goodput"] > 0
