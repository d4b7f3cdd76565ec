# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe's preflight against a real slapd: binds counted by the server itself, TLS with certificates of our own."""

from __future__ import annotations

import contextlib
import shutil
import subprocess

import ldap3
import pytest
from ldaptune.directory.openldap import connect
from ldaptune.lab.slapd import free_port
from ldaptune.load.prepare import Settings
from ldaptune.preflight.probe import ProbePreflight

HOSTS = ("127.0.0.1", "127.0.0.2")


@contextlib.contextmanager
def counted(lab):
    """Yield a dictionary that has, afterwards, the operations others than ourselves sent to this slapd."""
    others = {}
    with connect(lab.server) as directory:
        first = directory.counters()
        yield others
        last = directory.counters()
    for kind in last["operations"]:
        own = last["own"].get(kind, 0) - first["own"].get(kind, 0)
        others[kind] = last["operations"][kind] - first["operations"][kind] - own


def look(lab, check_mode=False, sample=2, **settings):
    asked = {"uri": lab.uri, "accounts": lab.accounts, "password_file": lab.password_file, **settings}
    preflight = ProbePreflight(Settings(**asked), sample, check_mode)
    preflight.run()
    return preflight


def test_the_server_counts_what_the_preflight_says_it_sent(slapd_module):
    with counted(slapd_module) as others:
        found = look(slapd_module)
    assert found.problems == []
    assert slapd_module.suffix in found.facts["naming_contexts"]
    assert {kind: others[kind] for kind in ("bind", "search", "unbind")} == found.facts["operations"]
    assert others["bind"] == 2


def test_a_wrong_password_is_sent_once(slapd_module, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("not the password\n")
    with counted(slapd_module) as others:
        found = look(slapd_module, password_file=str(wrong), sample=10)
    assert [item["what"] for item in found.problems] == ["a sample account cannot bind"]
    assert others["bind"] == 1


def test_a_range_that_is_too_long_shows_at_its_end(slapd_module):
    found = look(slapd_module, accounts="uid=user.[0-%d],ou=people,%s" % (slapd_module.users, slapd_module.suffix))
    assert [item["result"] for item in found.facts["tried"]] == ["success", "invalidCredentials"]


def test_check_mode_sends_no_bind(slapd_module):
    with counted(slapd_module) as others:
        found = look(slapd_module, check_mode=True)
    assert found.problems == []
    assert others["bind"] == 0
    assert others["search"] == 1


def test_a_placeholder_is_no_such_base_and_binds_nobody(slapd_module):
    with counted(slapd_module) as others:
        found = look(slapd_module, accounts="uid=user.[0-9],ou=people,dc=example,dc=com")
    assert [item["what"] for item in found.problems] == ["no such base on this server"]
    assert others["bind"] == 0


def test_the_base_of_a_search_must_be_there(slapd_module):
    found = look(slapd_module, workload="search", base="ou=nowhere,%s" % slapd_module.suffix)
    assert "search base is not there" in found.problems[0]["what"]
    assert look(slapd_module, workload="search", base=slapd_module.suffix).problems == []


def test_each_workload_is_tried_as_it_will_go(slapd_module):
    lab = slapd_module
    tried = {
        "bind": (2, {}),
        "connect_bind": (2, {}),
        "mixed": (2, {"mix": {"bind": 70, "search": 30}}),
        "search_bind": (2, {}),
        "search": (1, {}),
    }
    for workload, (accounts, more) in tried.items():
        found = look(lab, workload=workload, **more)
        assert found.problems == [], workload
        assert len(found.facts["tried"]) == accounts, workload
    found = look(lab, workload="search_bind", bind_dn=lab.user_dn(7))
    assert [item["dn"] for item in found.facts["tried"]][0] == lab.user_dn(7)
    for workload in ("search_bind", "mixed"):
        (refused,) = look(lab, workload=workload, base="ou=nowhere," + lab.suffix, **tried[workload][1]).problems
        assert "search base is not there" in refused["what"]
    assert "a mix needs a share of each" in look(lab, workload="mixed").problems[0]["what"]


PPOLICY = """dn: olcOverlay={0}ppolicy,olcDatabase={1}mdb,cn=config
objectClass: olcOverlayConfig
objectClass: olcPPolicyConfig
olcOverlay: {0}ppolicy
olcPPolicyDefault: cn=policy,dc=lab,dc=test
"""


def test_an_account_that_must_change_its_password_cannot_search(make_slapd):
    lab = make_slapd(users=3, modules=["ppolicy"], extra_ldif=[PPOLICY])
    policy = {"objectClass": ["device", "pwdPolicy"], "pwdAttribute": ["userPassword"], "pwdMustChange": ["TRUE"]}
    admin = ldap3.Connection(lab.uri, lab.admin_dn, lab.password, auto_bind=True)
    assert admin.add("cn=policy,%s" % lab.suffix, attributes=policy)
    assert admin.modify(lab.user_dn(0), {"pwdReset": [("MODIFY_REPLACE", ["TRUE"])]})
    admin.unbind()
    for workload in ("search", "bind", "search_bind"):
        found = look(lab, workload=workload)
        assert found.facts["tried"] == [{"dn": lab.user_dn(0), "result": "success"}]
        (refused,) = found.problems
        assert "must change its password" in refused["what"]
        assert refused["where"] == lab.user_dn(0)


@pytest.mark.parametrize("check", [False, True])
def test_the_module(run_module, slapd_module, check):
    arguments = {
        "uri": slapd_module.uri,
        "accounts": slapd_module.accounts,
        "password_file": slapd_module.password_file,
    }
    result = run_module("probe_preflight", arguments, check=check)
    assert not result.get("failed")
    assert result["changed"] is False
    assert result["problems"] == []
    assert len(result["facts"]["tried"]) == (0 if check else 2)
    assert slapd_module.password not in repr(result)
    refused = run_module("probe_preflight", {**arguments, "accounts": "uid=x,dc=nowhere", "fail": True}, check=check)
    assert refused["failed"]
    assert "no such base" in refused["msg"]


@pytest.fixture(scope="module")
def tls(make_slapd_module, tmp_path_factory):
    """A lab with a certificate for 127.0.0.1 and localhost by a CA of its own: (lab, CA file, ldaps port)."""
    if not shutil.which("openssl"):
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    names = folder / "names"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test CA", "-days", "2")
    openssl("req", *new_key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=test server")
    signed_by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
    openssl("x509", "-req", "-in", "request.pem", *signed_by, "-out", "cert.pem")
    port = free_port()
    # The certificate does not know the second one.
    lab = make_slapd_module(start=False, users=3, extra_uris=["ldaps://%s:%d/" % (host, port) for host in HOSTS])
    for name in ("cert.pem", "key.pem"):
        shutil.copy(folder / name, lab.root)
        (folder / name).chmod(0o644)
        subprocess.run(["chmod", "0644", "%s/%s" % (lab.root, name)], check=True)
    lab.start()
    with connect(lab.server) as directory:
        files = {"olcTLSCertificateFile": "cert.pem", "olcTLSCertificateKeyFile": "key.pem"}
        directory.modify("cn=config", [("add", name, ["%s/%s" % (lab.root, file)]) for name, file in files.items()])
    lab.restart()
    return lab, str(folder / "ca.pem"), port


def test_tls_that_verifies(tls):
    lab, ca_file, port = tls
    for host in ("127.0.0.1", "localhost"):
        found = look(lab, uri="ldaps://%s:%d" % (host, port), ca_file=ca_file)
        assert found.problems == []
        assert found.facts["tls"].startswith("TLSv1")
    found = look(lab, starttls=True, ca_file=ca_file)
    assert found.problems == []
    assert found.facts["operations"]["extended"] == 1


@pytest.mark.parametrize("how", ["unknown CA", "wrong name", "no CA file"])
def test_tls_that_does_not_verify_is_one_message_and_no_bind(tls, how, tmp_path):
    lab, ca_file, port = tls
    settings = {
        "unknown CA": {"uri": "ldaps://127.0.0.1:%d" % port},
        "wrong name": {"uri": "ldaps://127.0.0.2:%d" % port, "ca_file": ca_file},
        "no CA file": {"uri": "ldaps://127.0.0.1:%d" % port, "ca_file": str(tmp_path / "none")},
    }[how]
    with counted(lab) as others:
        found = look(lab, **settings)
    (refused,) = found.problems
    told = {"unknown CA": "unable to get", "wrong name": "IP address mismatch", "no CA file": "CA file"}
    assert told[how] in repr(refused)
    assert others["bind"] == 0


def test_starttls_on_a_server_without_a_certificate(slapd_module):
    with counted(slapd_module) as others:
        found = look(slapd_module, starttls=True)
    assert "StartTLS refused" in found.problems[0]["found"]
    assert others["bind"] == 0
