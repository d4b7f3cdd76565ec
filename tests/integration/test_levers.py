# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every lever of cn=config on a real slapd: applied, in force, unchanged the second time, back as found."""

from __future__ import annotations

import json
import os
import time

import pytest
from ldaptune.directory.openldap import connect
from ldaptune.levers.context import open_context
from ldaptune.levers.registry import behaviour
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
    ("slapd.conn_max_pending", 200, None, "cn=config only"),
    ("slapd.conn_max_pending_auth", 2000, None, "cn=config only"),
    ("database.max_size", 128 * MIB, 128 * MIB, "/proc"),
    ("database.max_size", 32 * MIB, 32 * MIB, "/proc"),
    ("database.max_readers", 300, 300, "cn=monitor"),
    ("database.env_flags", ["nordahead", "writemap"], ["nordahead", "writemap"], "/proc"),
    ("database.env_flags", [], [], "/proc"),
    ("database.checkpoint", [0, 5], None, "cn=config only"),
    ("database.search_stack", 24, None, "cn=config only"),
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
        assert lever.restore(ctx, found["record"]) == []
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


@pytest.mark.parametrize(("key", "wanted", "effective", "source"), PLAIN)
def test_from_explicit_and_back(explicit, key, wanted, effective, source):
    there_and_back(explicit, key, wanted, effective, source)


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
