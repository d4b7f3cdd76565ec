# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Talking to a real slapd: identities, refusals by name, and counting to the operation."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
import traceback
from pathlib import Path

import pytest
from ldaptune.directory.names import normalise_dn
from ldaptune.directory.openldap import DirectoryRefused, DirectoryTimeout, DirectoryUnreachable, connect
from ldaptune.lab.slapd import free_port
from ldaptune.levers.context import open_context
from ldaptune.levers.registry import behaviour
from ldaptune.problems import LdaptuneError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a private slapd is managed as root over ldapi")

SLAPD_CONF = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile @ROOT@/run/slapd/slapd.pid
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload back_monitor
database config
access to * by dn.exact=gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth manage
database mdb
suffix dc=lab,dc=test
directory @ROOT@/db
database monitor
access to * by dn.exact=gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth manage
"""


def foreign(start, finish):
    return finish["operations"]["total"] - start["operations"]["total"] - finish["own"]["total"]


def stop(pid):
    """Stop a process; its threads do not all stop at once."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 10
    tasks = Path("/proc/%d/task" % pid)
    while any((task / "stat").read_text().rpartition(")")[2].split()[0] != "T" for task in tasks.iterdir()):
        assert time.monotonic() < deadline


def reading(server):
    with connect(server) as directory:
        return directory.counters()


def test_what_is_there(slapd_module):
    with connect(slapd_module.server) as directory:
        assert directory.whoami() == "dn:gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth"
        assert directory.version()[:2] >= (2, 4)
        assert directory.has_monitor()
        assert directory.config_source() in ("slapd.d", "")
        database = directory.database("DC=Lab, DC=Test")
        assert (database["backend"], database["suffixes"]) == ("mdb", ["dc=lab,dc=test"])
        figures = directory.monitor(database)
        assert figures["threads"]["max"] == 16
        assert figures["connections"]["current"] >= 1
        assert figures["database"]["entries"] > 100
        json.dumps(figures, allow_nan=False)


def test_a_server_without_a_configuration_directory_says_so(make_slapd):
    """What is set there is in force and gone after a restart."""
    lab = make_slapd(slapd_conf=SLAPD_CONF)
    with open_context({**lab.server, "instance": lab.ldapi}) as ctx:
        assert (ctx.slapd.config_source, ctx.directory.config_source(), ctx.config_source) == ("slapd.conf",) * 3
        threads = behaviour("slapd.threads")
        threads.write(ctx, 9)
        assert threads.observe(ctx)["effective"] == 9
        assert not threads.lasts(ctx)
        ctx.restart()
        assert threads.observe(ctx)["effective"] == 16


def test_missing_is_none_and_refused_is_not(slapd_module):
    with connect(slapd_module.server) as directory:
        assert directory.read("cn=nix,cn=config") is None
        assert directory.search("cn=nix,cn=config") == []
        with pytest.raises(DirectoryRefused) as caught:
            directory.modify("cn=config", [("replace", "olcThreads", ["1"])])
        assert (caught.value.code, caught.value.dn) == (80, "cn=config")
        with pytest.raises(DirectoryRefused) as caught:
            directory.modify("cn=config", [("replace", "olcIdleTimeout", [])])
        assert (caught.value.code, caught.value.name) == (16, "noSuchAttribute")


def test_two_readings_by_two_connections_differ_by_nothing(slapd_module):
    start = reading(slapd_module.server)
    for _unused in range(10):
        with connect(slapd_module.server) as directory:
            directory.whoami()
            directory.read("cn=config")
            finish = directory.counters()
        assert foreign(start, finish) == 0
        assert finish["connections_total"] == start["connections_total"] + 1
        start = finish


def test_two_readings_by_one_connection_differ_by_nothing(slapd_module):
    with connect(slapd_module.server) as directory:
        start = directory.counters()
        directory.version()
        finish = directory.counters()
    both = [item["operations"]["total"] - item["own"]["total"] for item in (start, finish)]
    assert both[0] == both[1]


def test_every_operation_of_others_is_counted(slapd_module):
    from ldap3 import Connection, Server

    start = reading(slapd_module.server)
    other = Connection(Server(slapd_module.uri, get_info="NO_INFO"))
    other.bind(read_server_info=False)
    for _unused in range(7):
        other.search("", "(objectClass=*)", "BASE")
    other.unbind()
    finish = reading(slapd_module.server)
    assert foreign(start, finish) == 9
    mine = {kind: finish["own"].get(kind, 0) for kind in ("bind", "search", "unbind")}
    seen = {kind: finish["operations"][kind] - start["operations"][kind] - mine[kind] for kind in mine}
    assert seen == {"bind": 1, "search": 7, "unbind": 1}


def test_a_name_and_password_instead_of_external(make_slapd, tmp_path):
    lab = make_slapd(config_password="a secret of this test")
    secret = tmp_path / "secret"
    secret.write_text("a secret of this test\n")
    server = {**lab.server, "config_dn": "cn=admin,cn=config", "config_password_file": str(secret)}
    for uri in (lab.ldapi, lab.uri):
        with connect({**server, "uri": uri}) as directory:
            assert directory.whoami() == "dn:cn=admin,cn=config"
    wrong = "wrong-%d" % os.getpid()
    secret.write_text(wrong)
    with pytest.raises(DirectoryRefused) as caught:
        connect(server)
    assert caught.value.name == "invalidCredentials"
    assert wrong not in "".join(traceback.format_exception(caught.type, caught.value, caught.tb))


def test_a_password_never_travels_in_clear(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    server = {"uri": "ldap://ldap.example.com", "config_dn": "cn=config", "config_password_file": str(secret)}
    with pytest.raises(LdaptuneError, match="in clear"):
        connect(server)


def test_external_without_manage_is_told_from_missing(make_slapd):
    lab = make_slapd(external_manages=False)
    with connect(lab.server) as directory, pytest.raises(DirectoryRefused) as caught:
        directory.modify("cn=config", [("replace", "olcIdleTimeout", ["3"])])
    assert caught.value.name == "insufficientAccessRights"
    with pytest.raises(LdaptuneError, match="that this identity may see"):
        open_context(lab.server)


def test_a_security_factor_is_explained(make_slapd):
    """Even root over ldapi is refused with 13: a local socket counts as 71."""
    lab = make_slapd(users=5)
    with connect(lab.server) as directory:
        directory.modify("cn=config", [("replace", "olcSecurity", ["ssf=128"])])
        with pytest.raises(DirectoryRefused) as caught:
            connect(lab.server).read("cn=config")
    assert (caught.value.code, caught.value.name) == (13, "confidentialityRequired")
    assert "olcLocalSSF" in str(caught.value)


@pytest.fixture
def tls_slapd(make_slapd, short_dir):
    """A slapd with a certificate for localhost, its CA and an ldaps URI."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    key, cert = short_dir / "key.pem", short_dir / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        + ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
    )
    key.chmod(0o644)
    port = free_port()
    lab = make_slapd(
        users=5,
        config_password="a secret of this test",
        extra_uris=["ldaps://127.0.0.1:%d/" % port],
        global_lines=["olcTLSCertificateFile: %s" % cert, "olcTLSCertificateKeyFile: %s" % key],
    )
    secret = short_dir / "secret"
    secret.write_text("a secret of this test")
    server = {**lab.server, "config_dn": "cn=admin,cn=config", "config_password_file": str(secret)}
    return lab, server, "ldaps://localhost:%d" % port, str(cert)


def test_tls_with_a_verified_certificate(tls_slapd):
    lab, server, ldaps, ca_file = tls_slapd
    plain = "ldap://localhost:%d" % lab.port
    for options in ({"uri": ldaps}, {"uri": plain, "starttls": True}):
        with connect({**server, **options, "ca_file": ca_file}) as directory:
            assert directory.whoami() == "dn:cn=admin,cn=config"
            before = directory.counters()
            own = before["own"]
            assert own.get("extended", 0) == (2 if "starttls" in options else 1)
        for wrong in ({}, {"ca_file": ca_file, "uri": options["uri"].replace("localhost", "127.0.0.1")}):
            with pytest.raises(LdaptuneError) as caught:
                connect({**server, **options, **wrong})
            assert "a secret" not in str(caught.value)


def test_bytes_that_are_not_utf8_come_tagged(slapd):
    from ldap3 import MODIFY_ADD, Connection, Server

    name = r"cn=Lu\C4\8Di\C4\87,ou=people,dc=lab,dc=test"
    admin = Connection(Server(slapd.uri), slapd.admin_dn, slapd.password, auto_bind=True)
    admin.modify(slapd.user_dn(1), {"jpegPhoto": [(MODIFY_ADD, [b"\xe9t\xe9"])]})
    assert admin.result["result"] == 0
    admin.add(name, ["person"], {"sn": "x"})
    assert admin.result["result"] == 0
    admin.unbind()
    with connect(slapd.server) as directory:
        entry = directory.read(slapd.user_dn(1), ("jpegPhoto", "uid"))
        assert entry == {"jpegPhoto": [{"base64": "6XTp"}], "uid": ["user.1"]}
        ((found, other),) = directory.search("ou=people,dc=lab,dc=test", "(sn=x)", ("cn",))
    assert normalise_dn(found) == normalise_dn(name)
    assert other == {"cn": ["Lučić"]}
    json.dumps([entry, found, other]).encode("utf-8")


@pytest.mark.parametrize("way", ["ldapi", "uri"])
def test_a_server_that_hangs_is_a_timeout(make_slapd, short_dir, way):
    slapd = make_slapd(users=5, config_password="a secret of this test")
    (short_dir / "secret").write_text("a secret of this test")
    server = {**slapd.server, "timeout": 1, "uri": getattr(slapd, way)}
    server.update(config_dn="cn=admin,cn=config", config_password_file=str(short_dir / "secret"))
    with connect(server) as directory:
        stop(slapd.pid)
        try:
            with pytest.raises(DirectoryTimeout, match="no answer within 1 s"):
                directory.modify("cn=config", [("replace", "olcIdleTimeout", ["3"])])
            with pytest.raises(DirectoryTimeout):
                connect(server)
        finally:
            os.kill(slapd.pid, signal.SIGCONT)
        with pytest.raises(DirectoryUnreachable):
            directory.version()


def test_a_server_that_dies_is_unreachable(slapd):
    with connect(slapd.server) as directory:
        slapd.kill()
        with pytest.raises(DirectoryUnreachable):
            directory.version()
    with pytest.raises(DirectoryUnreachable):
        connect(slapd.server)
    slapd.start()


def test_readings_stay_exact_while_clients_leave(slapd_module):
    """An unbind that is still on its way when its client has gone is waited for."""
    from ldap3 import Connection, Server

    start = reading(slapd_module.server)

    def visit():
        other = Connection(Server(slapd_module.uri, get_info="NO_INFO"))
        other.bind(read_server_info=False)
        other.unbind()

    visitors = [threading.Thread(target=visit) for _unused in range(8)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    assert foreign(start, reading(slapd_module.server)) == 16
