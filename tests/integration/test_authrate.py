# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe against a real slapd."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time

import pytest
from ldaptune.lab.slapd import free_port
from ldaptune.load import patterns, workers
from ldaptune.load import run as run_module_
from ldaptune.load.histogram import middle_of
from ldaptune.load.prepare import prepare
from ldaptune.load.run import run
from ldaptune.problems import LdaptuneError

from .probe import difference, settings


@pytest.fixture
def cpu_quota():
    """A context in which this process and its children have so many percent of one CPU (cgroup v1 or v2)."""
    root = next((path for path in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup") if os.access(path, os.W_OK)), None)
    folder = "%s/ldaptune-test-%d" % (root, os.getpid())
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("no control groups to be made here")

    def write(path, text):
        with open(path, "w") as file:
            file.write(text)

    @contextlib.contextmanager
    def limited(percent):
        try:
            if os.path.exists(folder + "/cpu.cfs_quota_us"):
                write(folder + "/cpu.cfs_quota_us", str(1000 * percent))
            else:
                write(folder + "/cpu.max", "%d 100000" % (1000 * percent))
            write(folder + "/cgroup.procs", str(os.getpid()))
        except OSError:
            pytest.skip("no CPU quota to be set here")
        try:
            yield
        finally:
            write(root + "/cgroup.procs", str(os.getpid()))

    yield limited
    os.rmdir(folder)


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


def test_searches_find_their_entries_and_are_counted(slapd):
    ready = prepare(settings(slapd, workload="search", filter="(&(objectClass=*)(uid={user}))", base=slapd.suffix))
    result, counted, connections = difference(slapd, lambda: run(ready))
    goal = result["phases"]["goal"]
    assert goal["errors"] == 0
    assert goal["operations"] > 10
    assert result["totals"] == {"operations": counted, "connections": connections}
    assert counted["bind"] == 4  # one login a connection


def test_searches_without_a_password_are_anonymous(slapd):
    result, counted, _ = difference(slapd, lambda: run(prepare(settings(slapd, workload="search", password_file=""))))
    assert counted["bind"] == 0
    assert result["totals"]["operations"] == counted
    goal = result["phases"]["goal"]
    assert goal["codes"].get("success", 0) == goal["successes"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"filter": "(uid=nobody)"}, "wrong_result"),
        ({"filter": "(objectClass=*)"}, "wrong_result"),
        ({"filter": "(uid=user.1)", "accounts": "uid=user.[2-3],ou=people,dc=lab,dc=test"}, "wrong_result"),
    ],
)
def test_a_search_that_does_not_find_the_entry_is_no_success(slapd_module, given, name):
    result = run(prepare(settings(slapd_module, workload="search", **given)))
    goal = result["phases"]["goal"]
    assert (goal["successes"], goal["goodput"]) == (0, 0.0)
    assert goal["failures"] == {name: goal["operations"]}


def test_references_are_counted_apart_and_not_followed(make_slapd, tmp_path):
    slapd = make_slapd(users=5)
    password = tmp_path / "password"
    password.write_text(slapd.password)  # ldapadd takes a line end for a part of it
    ldif = "dn: ou=elsewhere,%s\nobjectClass: referral\nobjectClass: extensibleObject\nou: elsewhere\n" % slapd.suffix
    ldif += "ref: ldap://elsewhere.test/ou=x\n"
    subprocess.run(
        ["ldapadd", "-x", "-M", "-H", slapd.uri, "-D", slapd.admin_dn, "-y", str(password)],
        input=ldif, text=True, check=True, capture_output=True,
    )  # fmt: skip
    asked = settings(slapd, workload="search", base=slapd.suffix, filter="(uid=nobody)")
    goal = run(prepare(asked))["phases"]["goal"]
    assert goal["failures"] == {"reference": goal["operations"]}
    goal = run(prepare(asked._replace(filter="(uid={user})")))["phases"]["goal"]
    assert goal["errors"] == 0


def test_a_wrong_password_is_told_by_the_sample_and_counted_without(slapd_module, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("not-it")
    asked = settings(slapd_module, password_file=str(wrong))
    with pytest.raises(LdaptuneError, match="invalidCredentials 2 times"):
        run(prepare(asked._replace(sample=2)))
    goal = run(prepare(asked))["phases"]["goal"]
    assert goal["codes"] == {"invalidCredentials": goal["operations"]}
    assert (goal["successes"], goal["goodput"], goal["error_percent"]) == (0, 0.0, 100.0)
    assert goal["latency_ns"]["count"] == 0
    assert goal["latency_ns"]["p50"] is None


def test_the_null_suffix_and_ldapi(slapd_module):
    found = run(prepare(settings(slapd_module, uri=slapd_module.ldapi)))
    assert found["phases"]["goal"]["errors"] == 0
    pattern = "uid=user.[0-99],%s" % slapd_module.null_suffix
    found = run(prepare(settings(slapd_module, accounts=pattern)))
    assert found["phases"]["goal"]["errors"] == 0


def test_starttls_that_slapd_does_not_know_ends_the_run(slapd_module):
    asked = settings(slapd_module, starttls=True, insecure=True)
    _, counted, _ = difference(slapd_module, lambda: pytest.raises(LdaptuneError, run, prepare(asked)))
    assert counted["bind"] == 0


@pytest.fixture(scope="module")
def tls(make_slapd_module, tmp_path_factory):
    """A slapd with a certificate for 127.0.0.1: (lab, ldaps URI, CA file)."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        + ["-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"]
        + ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")],
        check=True,
        capture_output=True,
    )
    port = free_port()
    lab = make_slapd_module(
        start=False,
        users=100,
        extra_uris=["ldaps://127.0.0.1:%d/" % port],
        global_lines=["olcTLSCertificateFile: @ROOT@/cert.pem", "olcTLSCertificateKeyFile: @ROOT@/key.pem"],
    )
    for name in ("cert.pem", "key.pem"):
        shutil.copy(folder / name, lab.root)
        os.chmod(os.path.join(lab.root, name), 0o644)
    lab.start()
    return lab, "ldaps://127.0.0.1:%d" % port, str(folder / "cert.pem")


@pytest.mark.parametrize("workload", ["bind", "search", "connect_bind", "search_bind"])
@pytest.mark.parametrize("starttls", [False, True])
def test_tls_is_counted_too(tls, starttls, workload):
    slapd, ldaps, ca_file = tls
    more = {"starttls": True} if starttls else {"uri": ldaps}
    phases = [
        {"name": "goal", "mode": "closed", "seconds": 0.4, "rate": 0},
        {"name": "fixed", "mode": "open", "seconds": 0.4, "rate": 200},
    ]
    ready = prepare(settings(slapd, ca_file=ca_file, workload=workload, phases=phases, **more))
    result, counted, connections = difference(slapd, lambda: run(ready))
    assert result["totals"] == {"operations": counted, "connections": connections}
    opened = {"search_bind": 8, "connect_bind": counted["bind"]}.get(workload, 4)
    assert counted["extended"] == (opened if starttls else 0)
    assert connections == opened
    for phase in result["phases"].values():
        assert (phase["errors"], phase["failures"]) == (0, {})
        assert phase["successes"] > 10


def test_a_certificate_that_is_not_trusted_is_one_message_and_no_bind(tls):
    slapd, ldaps, ca_file = tls
    strange = prepare(settings(slapd, uri=ldaps))
    _, counted, _ = difference(slapd, lambda: pytest.raises(LdaptuneError, run, strange))
    assert counted["bind"] == 0
    with pytest.raises(LdaptuneError, match="certificate was not accepted"):
        run(prepare(settings(slapd, uri=ldaps.replace("127.0.0.1", "localhost"), ca_file=ca_file)))


def test_a_server_killed_in_the_middle_is_a_result_with_names(slapd):
    asked = settings(slapd, phases=[{"name": "goal", "mode": "closed", "seconds": 30, "rate": 0}])
    killed = []

    def kill(*_):
        if not killed:
            killed.append(True)
            slapd.kill()

    result = run(prepare(asked), kill)
    goal = result["phases"]["goal"]
    assert goal["connections_lost"] == 4
    assert goal["cut_short"]
    assert goal["seconds"] < 25
    assert set(goal["failures"]) <= {"eof", "reset"}
    assert goal["errors"] == 4


def test_a_server_that_stops_for_a_while_shows_in_the_fixed_rate(slapd):
    """What should have been sent during the hole has waited too; no figure is NaN, no second is missing."""
    phases = [{"name": "fixed", "mode": "open", "seconds": 4, "rate": 50}]
    begun = threading.Event()

    def hole():
        begun.wait(20)
        os.kill(slapd.pid, signal.SIGSTOP)
        try:
            time.sleep(0.7)
        finally:
            os.kill(slapd.pid, signal.SIGCONT)

    thread = threading.Thread(target=hole)
    thread.start()
    result = run(prepare(settings(slapd, phases=phases)), lambda *_: begun.set())
    thread.join()
    fixed = result["phases"]["fixed"]
    assert fixed["operations"] + fixed["dropped"] == fixed["planned"] == 200
    waited = sum(times for index, times in fixed["histogram"].items() if middle_of(int(index)) > 100e6)
    assert waited >= 15  # about 30 were planned during the hole, four were outstanding
    assert [row["second"] for row in fixed["series"]] == [0, 1, 2, 3]
    json.dumps(result, allow_nan=False)


def test_a_generator_beside_a_real_slapd_is_not_the_limit(slapd_module):
    phases = [{"name": "goal", "mode": "closed", "seconds": 1.5, "rate": 0}]
    result = run(prepare(settings(slapd_module, connections=16, phases=phases)))
    assert result["limited_by"] == "server_limited", result["limited_why"]


def test_a_generator_slowed_down_is_the_limit(slapd_module, monkeypatch):
    plain = patterns.drawer

    def slow(*given):
        draw = plain(*given)
        return lambda: (time.sleep(0.002), draw())[1]

    monkeypatch.setattr(patterns, "drawer", slow)
    phases = [{"name": "goal", "mode": "closed", "seconds": 1, "rate": 0}]
    result = run(prepare(settings(slapd_module, connections=16, phases=phases)))
    assert result["limited_by"] == "generator_limited", result["limited_why"]


def test_a_generator_under_a_cpu_quota_is_the_limit(slapd_module, cpu_quota):
    phases = [{"name": "goal", "mode": "closed", "seconds": 2, "rate": 0}]
    ready = prepare(settings(slapd_module, connections=16, phases=phases))
    with cpu_quota(5):
        result = run(ready)
    assert result["limited_by"] == "generator_limited", result["limited_why"]


@pytest.mark.parametrize("which", ["uri", "ldapi"])
@pytest.mark.parametrize(("stop", "go"), [(0.08, 0.02), (0.05, 0.2), (0.03, 0.27)])
def test_a_generator_stopped_now_and_then_is_the_limit(slapd_module, monkeypatch, unstolen, stop, go, which):
    made = []
    monkeypatch.setattr(run_module_, "Workers", lambda *given: made.append(workers.Workers(*given)) or made[-1])

    def hold(done):
        while not done.wait(go):
            # when it has ended it is no more this test's business
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(made[-1].hands[0].pid, signal.SIGSTOP)
                done.wait(stop)
                os.kill(made[-1].hands[0].pid, signal.SIGCONT)

    def measured():
        done = threading.Event()
        thread = threading.Thread(target=hold, args=(done,))
        ready = prepare(settings(slapd_module, uri=getattr(slapd_module, which), connections=16, phases=phases))
        made.clear()
        thread.start()
        try:
            return run(ready, lambda *_: None)
        finally:
            done.set()
            thread.join()

    phases = [{"name": "goal", "mode": "closed", "seconds": 2, "rate": 0}]
    results = []

    def caught():
        results.append(measured())
        return results[-1]["limited_by"] == "generator_limited"

    unstolen(caught, least=0.01)
    result = results[-1]
    assert result["limited_by"] == "generator_limited", (result["limited_why"], result["phases"]["goal"]["processes"])


def test_the_module_returns_the_figures(slapd_module, run_module):
    arguments = {
        "uri": slapd_module.uri,
        "accounts": slapd_module.accounts,
        "password_file": slapd_module.password_file,
        "phases": [{"name": "goal", "mode": "closed", "seconds": 0.3}],
    }
    result = run_module("authrate", arguments)
    assert not result["changed"]
    assert result["phases"]["goal"]["errors"] == 0
    assert result["line"].startswith("goal: ")
    assert slapd_module.password not in json.dumps(result)


@pytest.mark.parametrize("password", ["10", "true", "success", "goodput"])
def test_a_short_password_eats_nothing_of_the_figures(slapd_module, run_module, tmp_path, password):
    """What Ansible knows for a secret it cuts out of keys and values alike; this one it does not know."""
    path = tmp_path / "password"
    path.write_text(password)
    arguments = {
        "uri": slapd_module.uri,
        "accounts": "uid=user.[0-9],%s" % slapd_module.null_suffix,
        "password_file": str(path),
        "phases": [{"name": "goal", "mode": "closed", "seconds": 0.3}],
    }
    result = run_module("authrate", arguments)
    goal = result["phases"]["goal"]
    assert result["changed"] is False
    assert (goal["goodput"] > 0, goal["codes"]["success"], result["accounts"]) == (True, goal["successes"], 10)
    assert "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER" not in json.dumps(result)
    assert "****" not in json.dumps(result)
