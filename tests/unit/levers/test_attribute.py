# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Levers of one attribute: what is written, and what is not."""

from __future__ import annotations

import json

import pytest
from ldaptune.directory.errors import DirectoryRefused
from ldaptune.levers.registry import behaviour
from ldaptune.levers.table import LEVERS
from ldaptune.problems import LdaptuneError

MDB = "olcDatabase={2}mdb,cn=config"


def config(ctx, dn="cn=config"):
    return ctx.directory.entries[dn]


@pytest.mark.parametrize("key", sorted(LEVERS))
def test_every_key_has_a_behaviour(key):
    assert behaviour(key).key == key


def test_a_key_that_is_not_there_is_an_error():
    with pytest.raises(KeyError):
        behaviour("slapd.nonsense")


def test_absent_is_found_and_left_absent(ctx):
    lever = behaviour("slapd.idle_timeout")
    found = lever.observe(ctx)
    assert (found["configured"], found["record"]["values"]) == (None, None)
    lever.write(ctx, 30)
    assert config(ctx) == {"olcIdleTimeout": ["30"]}
    lever.restore(ctx, json.loads(json.dumps(found["record"])))
    assert config(ctx) == {}
    # Removing alone would leave 30 in force: the default goes first.
    assert [change for _dn, (change,) in ctx.directory.sent][-2:] == [
        ("replace", "olcIdleTimeout", ["0"]), ("delete", "olcIdleTimeout", []),
    ]


@pytest.mark.parametrize(
    ("key", "version", "value", "default", "words"),
    [
        ("slapd.conn_max_pending", (2, 5, 13), 200, "100", "closes connections"),
        ("slapd.conn_max_pending_auth", (2, 5, 13), 2000, "1000", "closes connections"),
        ("slapd.threads", (2, 4, 57), 8, "16", "keeps the number of threads"),
    ],
)
def test_the_default_stays_where_removing_does_not_put_it_in_force(ctx, key, version, value, default, words):
    lever = behaviour(key)
    ctx.version = version
    found = lever.observe(ctx)
    assert lever.restore(ctx, found["record"]) == [] and ctx.directory.sent == []
    lever.write(ctx, value)
    assert not lever.is_absent(ctx, lever.observe(ctx)["configured"])
    (remark,) = lever.restore(ctx, found["record"])
    assert words in remark
    assert config(ctx) == {lever.spec.attribute: [default]}
    assert lever.is_absent(ctx, lever.observe(ctx)["configured"])
    assert [change[0] for _dn, (change,) in ctx.directory.sent] == ["replace", "replace"]
    assert lever.restore(ctx, dict(found["record"], values=["7"])) == []
    assert config(ctx) == {lever.spec.attribute: ["7"]}


def test_nothing_is_deleted_that_is_not_there(ctx):
    lever = behaviour("slapd.idle_timeout")
    lever.restore(ctx, lever.observe(ctx)["record"])
    assert ctx.directory.sent == []


def test_no_such_attribute_is_tolerated_and_nothing_else(ctx):
    lever = behaviour("database.checkpoint")
    record = lever.observe(ctx)["record"]
    config(ctx, MDB)["olcDbCheckpoint"] = ["512 30"]
    ctx.directory.refuse[("delete", "olcDbCheckpoint")] = 16
    lever.restore(ctx, record)
    ctx.directory.refuse[("delete", "olcDbCheckpoint")] = 50
    with pytest.raises(DirectoryRefused):
        lever.restore(ctx, record)


def test_restored_as_it_was_spelled(ctx):
    lever = behaviour("slapd.log_level")
    config(ctx)["olcLogLevel"] = ["0x100", "sync"]
    record = lever.observe(ctx)["record"]
    lever.write(ctx, 32768)
    assert config(ctx)["olcLogLevel"] == ["none"]
    lever.restore(ctx, record)
    assert config(ctx)["olcLogLevel"] == ["0x100", "sync"]


@pytest.mark.parametrize(
    ("key", "values", "wanted"),
    [
        ("slapd.log_level", ["stats"], 256),
        ("slapd.log_level", ["256"], 256),
        ("slapd.log_level", ["0x100"], 256),
        ("slapd.log_level", ["stats sync"], 16640),
        ("slapd.log_level", ["stats", "sync"], 16640),
        ("slapd.log_level", ["16640"], 16640),
        ("slapd.log_level", ["none"], 32768),
        ("slapd.log_level", ["any"], -1),
        ("slapd.idle_timeout", [], 0),
        ("slapd.idle_timeout", ["0"], 0),
        ("slapd.conn_max_pending", [], 100),
        ("database.checkpoint", ["512  30"], [512, 30]),
        ("database.env_flags", ["{0}nordahead"], ["nordahead"]),
    ],
)
def test_equal_values_in_another_spelling_are_the_same(ctx, key, values, wanted):
    lever = behaviour(key)
    entry = config(ctx, MDB if key.startswith("database") else "cn=config")
    if values:
        entry[lever.spec.attribute] = values
    found = dict(lever.observe(ctx), effective=None)
    assert lever.same(found, wanted)


@pytest.mark.parametrize(("values", "wanted"), [(["none"], 0), (["0"], 32768), (["stats"], 512), ([], 0)])
def test_none_is_not_zero(ctx, values, wanted):
    if values:
        config(ctx)["olcLogLevel"] = values
    lever = behaviour("slapd.log_level")
    assert not lever.same(lever.observe(ctx), wanted)


def test_what_is_in_force_counts_too(ctx):
    lever = behaviour("slapd.threads")
    config(ctx)["olcThreads"] = ["5000"]
    ctx.directory.pool["max"] = 1024
    found = lever.observe(ctx)
    assert (found["configured"], found["effective"], found["effective_source"]) == (5000, 1024, "cn=monitor")
    assert not lever.same(found, 5000)
    assert not lever.same(found, 1024)


def test_without_a_monitor_nothing_is_claimed(ctx):
    ctx.directory.pool = {"max": None, "open": None}
    found = behaviour("slapd.threads").observe(ctx)
    assert (found["effective"], found["effective_source"]) == (None, "cn=config only")


@pytest.mark.parametrize(
    ("key", "version", "words"),
    [
        ("slapd.log_file", (2, 5, 13), "from OpenLDAP 2.6 on, this is 2.5.13"),
        ("slapd.thread_queues", (2, 4, 57), "comes with OpenLDAP 2.5, this is 2.4.57"),
        ("slapd.listener_threads", (2, 4, 57), "comes with OpenLDAP 2.5"),
        ("database.cache", (2, 5, 13), "mdb has no cache"),
        ("slapd.threads", (), "version is not known"),
    ],
)
def test_unsupported_says_why(ctx, key, version, words):
    ctx.version = version
    found = behaviour(key).observe(ctx)
    assert (found["supported"], found["record"]) == (False, None)
    assert words in found["reason"]


def test_levers_of_mdb_do_not_touch_hdb_and_the_cache_does(ctx):
    ctx.database["backend"] = "hdb"
    ctx.version = (2, 4, 57)
    assert "this database is hdb" in behaviour("database.max_size").observe(ctx)["reason"]
    config(ctx, MDB)["olcDbCacheSize"] = ["5000"]
    assert behaviour("database.cache").observe(ctx)["configured"] == 5000


def test_old_servers_keep_their_threads_when_the_attribute_goes(ctx):
    lever = behaviour("slapd.threads")
    record = lever.observe(ctx)["record"]
    ctx.version = (2, 4, 57)
    lever.write(ctx, 32)
    lever.restore(ctx, record)
    assert config(ctx) == {"olcThreads": ["16"]}
    ctx.version = (2, 5, 13)
    lever.restore(ctx, record)
    assert config(ctx) == {}


def test_a_lever_that_needs_a_restart_restarts_in_both_directions(ctx):
    lever = behaviour("database.search_stack")
    record = lever.observe(ctx)["record"]
    lever.write(ctx, 32)
    assert ctx.restarts == 1
    lever.restore(ctx, record)
    assert ctx.restarts == 2
    lever.restore(ctx, record)
    assert (ctx.restarts, config(ctx, MDB)) == (3, {})


def test_started_from_slapd_conf(ctx):
    ctx.config_source = "slapd.conf"
    assert not behaviour("slapd.threads").lasts(ctx)
    assert "would lose the value" in behaviour("database.search_stack").observe(ctx)["reason"]
    ctx.config_source = "slapd.d"
    assert behaviour("slapd.threads").lasts(ctx)


def test_a_record_of_another_database_is_refused(ctx):
    lever = behaviour("database.max_readers")
    record = lever.observe(ctx)["record"]
    ctx.database["suffixes"] = ["dc=other"]
    with pytest.raises(LdaptuneError, match="not of this database"):
        lever.restore(ctx, record)
    with pytest.raises(LdaptuneError, match="not of this database"):
        behaviour("slapd.threads").restore(ctx, record)


def test_an_entry_that_cannot_be_seen_is_not_taken_for_absent(ctx):
    del ctx.directory.entries[MDB]
    with pytest.raises(LdaptuneError, match="may not see it"):
        behaviour("database.checkpoint").observe(ctx)


def test_a_value_that_is_not_text_is_not_guessed_at(ctx):
    config(ctx)["olcThreads"] = [{"base64": "6Q=="}]
    found = behaviour("slapd.threads").observe(ctx)
    assert not found["supported"]
    json.dumps(found)


def test_the_default_log_level_comes_back_in_force(ctx):
    lever = behaviour("slapd.log_level")
    record = lever.observe(ctx)["record"]
    lever.write(ctx, 32768)
    lever.restore(ctx, record)
    assert config(ctx) == {}
    assert config(ctx, "cn=Log,cn=Monitor") == {"managedInfo": ["Stats"]}


def test_a_default_that_cannot_be_put_in_force_is_said(ctx):
    lever = behaviour("slapd.log_level")
    record = lever.observe(ctx)["record"]
    lever.write(ctx, 32768)
    ctx.directory.refuse[("replace", "managedInfo")] = 50
    with pytest.raises(LdaptuneError, match="without a restart"):
        lever.restore(ctx, record)
    assert config(ctx) == {"olcLogLevel": ["none"]}


def test_risk_is_that_of_the_value():
    lever = behaviour("database.env_flags")
    assert lever.risk_of([], ["nordahead"]) == "safe"
    assert lever.risk_of([], ["nordahead", "nosync"]) == "durability"
    assert behaviour("slapd.log_level").risk_of(256, 32768) == "security"
