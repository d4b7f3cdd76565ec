# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a bind a write."""

from __future__ import annotations

import pytest
from ldaptune.preflight.entries import make_entry
from ldaptune.preflight.writes import refuse_writes, replicates, writing_causes

MDB = "olcDatabase={1}mdb,cn=config"
OTHER = "olcDatabase={2}mdb,cn=config"
FRONTEND = "olcDatabase={-1}frontend,cn=config"


def overlay(name, parent=MDB, **attributes):
    return make_entry("olcOverlay=%s,%s" % (name, parent), {"olcOverlay": [name], **attributes})


def database(dn=MDB, **attributes):
    return make_entry(dn, {"olcDatabase": ["mdb"], **attributes})


@pytest.mark.parametrize(
    ("entries", "what", "operation"),
    [
        ([database(olcLastBind=["TRUE"])], "olcLastBind", "bind"),
        ([database(), overlay("{0}lastbind")], "overlay lastbind", "bind"),
        ([database(), overlay("{3}ppolicy")], "overlay ppolicy", "bind"),
        ([database(), overlay("{0}ppolicy", FRONTEND)], "overlay ppolicy", "bind"),
        ([database(), overlay("{0}accesslog", olcAccessLogOps=["session"])], "accesslog of binds", "bind"),
        ([database(), overlay("{0}accesslog", olcAccessLogOps=["writes bind"])], "accesslog of binds", "bind"),
        ([database(), overlay("{0}accesslog", olcAccessLogBase=["{0}add|bind dc=x"])], "accesslog of binds", "bind"),
        ([database(), overlay("{0}accesslog", olcAccessLogOps=["reads"])], "accesslog of searches", "search"),
    ],
)
def test_each_cause_is_found(entries, what, operation):
    (cause,) = writing_causes(entries, MDB)
    assert (cause.what, cause.operation) == (what, operation)


@pytest.mark.parametrize(
    "entries",
    [
        [database()],
        [database(olcLastBind=["FALSE"])],
        [database(), database(OTHER, olcLastBind=["TRUE"]), overlay("{0}lastbind", OTHER)],
        [database(), overlay("{0}memberof"), overlay("{1}memberof")],
        [database(), overlay("{0}accesslog", olcAccessLogOps=["writes"])],
    ],
)
def test_other_databases_and_other_overlays_do_not_count(entries):
    assert writing_causes(entries, MDB) == []


def test_all_causes_are_listed_at_once():
    entries = [database(olcLastBind=["TRUE"]), overlay("{0}ppolicy"), overlay("{1}accesslog", olcAccessLogOps=["all"])]
    assert [cause.what for cause in writing_causes(entries, MDB)] == [
        "olcLastBind",
        "overlay ppolicy",
        "accesslog of binds",
        "accesslog of searches",
    ]


def test_a_precision_bounds_the_writes():
    entries = [database(olcLastBind=["TRUE"], olcLastBindPrecision=["60"])]
    assert "every 60 s" in writing_causes(entries, MDB)[0].often


def test_without_consent_it_is_refused_with_an_estimate():
    causes = writing_causes([database(olcLastBind=["TRUE"])], MDB)
    (found,) = refuse_writes(causes, ["restart"], 120.0, 5000.0, False)
    assert "olcLastBind" in found["found"]
    assert found["wanted"] == "consent to bind_writes"
    assert "up to 600000 writes" in found["do"]
    assert "replicated" not in found["do"]


def test_replication_of_the_writes_is_said():
    entries = [database(olcLastBind=["TRUE"]), overlay("{0}syncprov")]
    assert replicates(entries, MDB)
    assert not replicates([database()], MDB)
    assert "replicated" in refuse_writes(writing_causes(entries, MDB), [], 0, 0, True)[0]["do"]


def test_consent_lets_it_pass():
    causes = writing_causes([database(olcLastBind=["TRUE"])], MDB)
    assert refuse_writes(causes, ["bind_writes"], 120.0, 5000.0, False) == []
    assert refuse_writes([], [], 120.0, 5000.0, False) == []
