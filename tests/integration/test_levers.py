# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every lever of cn=config on a real slapd: applied, in force, unchanged the second time, back as found."""

from __future__ import annotations

import json
import os
import socket
import time

import pytest
from ldaptune.directory.openldap import connect
from ldaptune.levers.context import open_context
from ldaptune.levers.registry import behaviour
from ldaptune.load import wire
from ldaptune.problems import LdaptuneError

from .looks import settings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a private slapd is managed as root over ldapi")

MIB = 1 << 20

#: lever, wanted, value in force seen by another way (None: nothing shows it), where it is seen
PLAIN = [
    ("slapd.log_level", 32768, None, "cn=config only"),
    ("slapd.threads", 8, 8, "cn=monitor"),
    ("slapd.thread_queues", 2, None, "cn=config only"),
    ("slapd.tool_threads", 2, None, "cn=config only"),
    ("slapd.idle_timeout", 600, None, "cn=config only"),
    ("slapd.write_timeout", 30, None, "cn=config only"),
    ("database.max_size", 128 * MIB, 128 * MIB, "/proc"),
    ("database.max_size", 32 * MIB, 32 * MIB, "/proc"),
    ("database.max_readers", 300, 300, "cn=monitor"),
    ("database.env_flags", ["nordahead", "writemap"], ["nordahead", "writemap"], "/proc"),
    ("database.env_flags", [], [], "/proc"),
    ("database.checkpoint", [0, 5], None, "cn=config only"),
    ("database.search_stack", 24, None, "cn=config only"),
]
#: The same, of levers that leave the default behind where nothing was set.
STAYING = [
    ("slapd.conn_max_pending", 200, None, "cn=config only"),
    ("slapd.conn_max_pending_auth", 2000, None, "cn=config only"),
]


def until(holds, seconds=10.0):
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline


def there_and_back(lab, key, wanted, effective, source):
    """Apply, read back, find it unchanged, restore; return what was observed in between."""
    lever = behaviour(key)
    before = settings(lab)
    with open_context(lab.server) as ctx:
        found = json.loads(json.dumps(lever.observe(ctx), allow_nan=False))
        assert found["supported"], found["reason"]
        assert not lever.same(found, wanted)
        assert lever.check(ctx, found, wanted) == []
        lever.write(ctx, wanted)
        seen = lever.observe(ctx)
        assert (seen["effective"], seen["effective_source"]) == (effective, source)
        assert lever.spec.type.equal(seen["configured"], wanted)
        assert lever.same(seen, wanted)
        remarks = lever.restore(ctx, found["record"])
        assert ["slots stay in force" in remark for remark in remarks] == [True] * (key == "database.max_readers")
        again = lever.observe(ctx)
        assert again["configured"] == found["configured"]
        if key != "database.max_readers":
            assert again["effective"] == found["effective"]
        assert ctx.answers()
    assert settings(lab) == before
    return seen


@pytest.fixture(scope="module")
def bare(make_slapd_module):
    """A slapd that has only what it must have: nearly everything is absent."""
    return make_slapd_module(log_level="", max_size=64 * MIB, users=20)


@pytest.fixture(scope="module")
def explicit(make_slapd_module):
    """A slapd whose configuration states everything, oddly spelled where that is possible."""
    return make_slapd_module(
        log_level="0x100",
        max_size=64 * MIB,
        users=20,
        global_lines=[
            "olcThreads: 16", "olcThreadQueues: 1", "olcToolThreads: 1", "olcIdleTimeout: 0", "olcWriteTimeout: 0",
            "olcConnMaxPending: 100", "olcConnMaxPendingAuth: 1000", "olcListenerThreads: 1",
        ],
        database_lines=[
            "olcDbMaxReaders: 0", "olcDbCheckpoint: 512 30", "olcDbSearchStack: 16", "olcDbEnvFlags: nometasync",
        ],
    )


@pytest.mark.parametrize(("key", "wanted", "effective", "source"), PLAIN)
def test_from_absent_and_back(bare, key, wanted, effective, source):
    if (key, wanted) == ("database.env_flags", []):
        pytest.skip("no flags is what is there")
    there_and_back(bare, key, wanted, effective, source)


@pytest.mark.parametrize(("key", "wanted", "effective", "source"), PLAIN + STAYING)
def test_from_explicit_and_back(explicit, key, wanted, effective, source):
    there_and_back(explicit, key, wanted, effective, source)


def answered(lab, bound, requests):
    """How many searches sent in one write, on an anonymous or a bound connection, are answered."""
    with socket.create_connection(("127.0.0.1", lab.port), 10) as channel:
        if bound:
            name = "uid=user.1,ou=people," + lab.suffix
            channel.sendall(wire.envelope(1, wire.simple_bind(name.encode(), lab.password.encode())))
            assert wire.result(wire.message(wire.cut(channel.recv(4096))[0][0]).body).code == 0
        every = wire.search(lab.suffix.encode(), wire.tlv(0x87, b"objectClass"), [b"1.1"])
        channel.sendall(b"".join(wire.envelope(number + 2, every) for number in range(requests)))
        done, rest = 0, b""
        while done < requests:
            try:
                data = channel.recv(65536)
            except ConnectionResetError:
                break
            if not data:
                break
            messages, rest = wire.cut(rest + data)
            done += sum(wire.message(content).tag == 0x65 for content in messages)
        return done


@pytest.mark.parametrize(
    ("key", "attribute", "default", "bound"),
    [
        ("slapd.conn_max_pending", "olcConnMaxPending", 100, False),
        ("slapd.conn_max_pending_auth", "olcConnMaxPendingAuth", 1000, True),
    ],
)
def test_clients_that_send_ahead_survive_the_way_back(slapd, run_module, key, attribute, default, bound):
    """Removing the attribute would put 0 in force until a restart: the default is written, and that is said."""
    levers = {key: {"op": "value", "value": 300, "why": "a test", "when_unsupported": "fail", "from": "t.yml"}}
    resolved = {"schema": 1, "name": "ahead", "digest": "d" * 64, "levers": levers, "excluded": [], "expect": {}}
    arguments = {"server": slapd.server, "consent": ["availability"], "resolved": resolved}
    before = settings(slapd)
    assert answered(slapd, bound, 20) == 20
    assert run_module("tuning_profile", {"state": "applied", **arguments})["changed"]
    assert answered(slapd, bound, 20) == 20
    home = run_module("tuning_profile", {"state": "reverted", **arguments})
    assert home["complete"], home
    assert "%s: 300 -> %d, set back (the server's default stays written" % (key, default) in home["lines"][0]
    assert answered(slapd, bound, 20) == 20
    assert run_module("tuning_profile", {"state": "reverted", **arguments})["changed"] is False
    with connect(slapd.server) as directory:
        assert directory.read("cn=config", [attribute]) == {attribute: [str(default)]}
        directory.modify("cn=config", [("delete", attribute, [])])
    assert settings(slapd) == before
    found = [answered(slapd, bound, 20) for _ in range(10)]
    assert min(found) < 20, "this server puts the default in force: the exception is not needed"


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("slapd.log_level", 256),
        ("slapd.threads", 16),
        ("slapd.thread_queues", 1),
        ("slapd.idle_timeout", 0),
        ("slapd.conn_max_pending", 100),
        ("slapd.listener_threads", 1),
        ("database.max_readers", 126),
        ("database.search_stack", 16),
    ],
)
def test_the_default_is_unchanged_absent_or_explicit(bare, explicit, key, default):
    lever = behaviour(key)
    for lab in (bare, explicit):
        with open_context(lab.server) as ctx:
            found = lever.observe(ctx)
            if key == "database.max_readers":
                found["effective"] = max(found["effective"], 126)
            assert lever.same(found, default)


def test_the_default_map_comes_back_in_force(make_slapd):
    """Removing olcDbMaxSize leaves the map as it is; what is in force must be the default again."""
    lab = make_slapd(max_size=0, users=20)
    seen = there_and_back(lab, "database.max_size", 64 * MIB, 64 * MIB, "/proc")
    assert seen["configured"] == 64 * MIB


def test_more_than_1024_threads_are_told_from_what_runs(slapd):
    lever = behaviour("slapd.threads")
    with open_context(slapd.server) as ctx:
        ctx.directory.modify("cn=config", [("replace", "olcThreads", ["5000"])])
        seen = lever.observe(ctx)
        assert (seen["configured"], seen["effective"]) == (5000, 1024)
        assert not lever.same(seen, 5000)


def test_a_map_smaller_than_its_content_is_told_from_what_runs(slapd):
    lever = behaviour("database.max_size")
    with open_context(slapd.server) as ctx:
        ctx.directory.modify(ctx.database["dn"], [("replace", "olcDbMaxSize", ["8192"])])
        seen = lever.observe(ctx)
        assert seen["configured"] == 8192
        assert seen["effective"] > 8192
        assert lever.check(ctx, seen, 8192) != []


def test_the_log_level_is_in_force_and_the_default_comes_back(make_slapd):
    """Nothing in the server shows the level in force; what it logs does."""
    lab = make_slapd(log_level="", users=5, syslog=True)
    lever = behaviour("slapd.log_level")

    def lines():
        """Lines that arrived during two short visits; those of an earlier one may be among them."""
        before = lab.log_lines()[0]
        with connect(lab.server) as directory:
            directory.read("cn=config", ("olcThreads",))
        with connect(lab.server) as directory:
            directory.read("cn=config", ("olcThreads",))
        return lab.log_lines()[0] - before

    with open_context(lab.server) as ctx:
        found = lever.observe(ctx)
        until(lambda: lines() > 5)
        lever.write(ctx, 32768)
        until(lambda: lines() == 0)
        lever.restore(ctx, found["record"])
        assert ctx.directory.read("cn=config", ("olcLogLevel",)) == {}
        until(lambda: lines() > 5)


def test_the_right_one_of_several_databases(make_slapd):
    lab = make_slapd(
        suffix="dc=lab,dc=test",
        users=5,
        extra_ldif=[
            """dn: olcDatabase={4}mdb,cn=config
objectClass: olcDatabaseConfig
objectClass: olcMdbConfig
olcDatabase: {4}mdb
olcSuffix: DC=Beta, DC=Test
olcDbDirectory: @ROOT@/beta
olcDbMaxSize: 33554432""",
            """dn: olcDatabase={5}mdb,cn=config
objectClass: olcDatabaseConfig
objectClass: olcMdbConfig
olcDatabase: {5}mdb
olcSuffix: cn=accesslog
olcDbDirectory: @ROOT@/log
olcDbMaxSize: 33554432""",
        ],
    )
    with pytest.raises(LdaptuneError, match="several databases match"):
        open_context({**lab.server, "suffix": ""})
    with pytest.raises(LdaptuneError, match="no database has this suffix"):
        open_context({**lab.server, "suffix": "dc=test"})
    lever = behaviour("database.max_size")
    with open_context({**lab.server, "suffix": "dc=beta , dc=test"}) as ctx:
        assert ctx.database["number"] == 4
        lever.write(ctx, 64 * MIB)
        assert lever.observe(ctx)["effective"] == 64 * MIB
    with open_context(lab.server) as ctx:
        assert lever.observe(ctx)["configured"] == 1 << 30


def test_the_log_file_is_for_newer_servers(slapd_module):
    with open_context(slapd_module.server) as ctx:
        if ctx.version >= (2, 6):
            pytest.skip("this server has it")
        assert "from OpenLDAP 2.6 on" in behaviour("slapd.log_file").observe(ctx)["reason"]
        assert "mdb has no cache" in behaviour("database.cache").observe(ctx)["reason"]
