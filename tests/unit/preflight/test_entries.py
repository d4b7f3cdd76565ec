# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions about cn=config entries."""

from __future__ import annotations

from ldaptune.preflight.entries import ATTRIBUTES, config_database, find, make_entry, overlay_name, overlays

CONFIG = make_entry("olcDatabase={0}config,cn=config", {"olcDatabase": ["{0}config"]})
MDB = make_entry("olcDatabase={1}mdb,cn=config", {"olcDatabase": ["{1}mdb"], "olcLastBind": ["true"]})


def overlay(name: str, database: str = MDB.dn):
    return make_entry("olcOverlay=%s,%s" % (name, database), {"olcOverlay": [name]})


def test_an_entry_is_found_whatever_its_case_and_blanks():
    assert find([CONFIG, MDB], "OLCDATABASE={1}MDB, cn=config") == MDB
    assert find([CONFIG], MDB.dn) is None
    assert config_database([MDB, CONFIG]) == CONFIG


def test_attribute_names_and_booleans_have_no_case():
    assert MDB.true("OLCLASTBIND")
    assert not MDB.true("olcReadOnly")


def test_overlays_are_told_apart_by_index_and_belong_to_their_database():
    found = overlays([overlay("{0}memberof"), MDB, overlay("{1}memberof"), overlay("{0}syncprov", CONFIG.dn)], MDB.dn)
    assert [entry.first("olcOverlay") for entry in found] == ["{0}memberof", "{1}memberof"]
    assert overlay_name(overlay("{12}LastBind")) == "lastbind"


def test_no_password_is_asked_for():
    assert not [name for name in ATTRIBUTES if "pw" in name.lower()]
