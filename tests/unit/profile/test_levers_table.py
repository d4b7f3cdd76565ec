# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lever table is complete and consistent, and its page is up to date."""

from __future__ import annotations

import runpy

import pytest
from ldaptune.levers.table import LEVERS, in_force, risk_by_value
from ldaptune.profile.names import nearest_lever

SPECS = pytest.mark.parametrize("spec", LEVERS.values(), ids=lambda spec: spec.key)


@SPECS
def test_facts_are_complete(spec):
    for text in (spec.summary, spec.risk_why, spec.source, spec.tested, spec.effective):
        assert text.strip() == text != ""
    assert spec.entry in ("global", "database", "thread", "host")
    assert bool(spec.attribute) == (spec.entry in ("global", "database"))
    assert not spec.attribute or spec.attribute.startswith("olc")
    assert spec.cost in ("live", "restart", "link_reset")
    assert spec.risk in ("safe", "durability", "availability", "security")
    assert spec.compare in ("flip", "hold")
    assert spec.since in ((2, 4), (2, 5), (2, 6))


def test_keys_and_attributes_are_unique():
    attributes = [spec.attribute for spec in LEVERS.values() if spec.attribute]
    assert len(attributes) == len(set(attributes))
    assert [spec.key for spec in LEVERS.values()] == list(LEVERS)
    assert len(LEVERS) == 35


def test_what_is_hazardous_is_called_so():
    assert LEVERS["slapd.log_level"].risk == LEVERS["slapd.log_file"].risk == "security"
    assert (LEVERS["slapd.listener_threads"].cost, LEVERS["slapd.listener_threads"].risk) == ("restart", "availability")
    assert LEVERS["database.search_stack"].cost == "restart"
    for flag in ("nosync", "nometasync", "mapasync", "writemap"):
        assert risk_by_value("database.env_flags", [flag, "nordahead"]) == "durability"
    assert risk_by_value("database.env_flags", ["nordahead"]) == risk_by_value("database.env_flags", None) == "safe"
    for key in ("database.max_size", "database.max_readers", "slapd.idle_timeout", "slapd.write_timeout"):
        assert LEVERS[key].compare == "hold"


@pytest.mark.parametrize("key, configured, value", [
    ("database.max_readers", 0, 126), ("database.max_readers", None, 126), ("database.max_readers", 300, 300),
    ("slapd.log_level", None, 256), ("slapd.log_level", 0, 0), ("slapd.idle_timeout", None, 0),
    ("database.env_flags", None, None),
])
def test_in_force(key, configured, value):
    assert in_force(LEVERS[key], configured) == value


@pytest.mark.parametrize("word, key", [
    ("olcThreads", "slapd.threads"), ("threads", "slapd.threads"), ("olcdbmaxsize", "database.max_size"),
    ("slapd.loglevel", "slapd.log_level"), ("database.maxreaders", "database.max_readers"),
    ("cpu.worker", "cpu.workers"), ("cache", "database.cache"), ("olcDbCacheSize", "database.cache"), ("zzz", None),
])
def test_nearest_lever(word, key):
    assert nearest_lever(word, LEVERS) == key


def test_the_page_is_up_to_date(checkout):
    page = runpy.run_path(str(checkout / "docs" / "make_levers.py"))["text"]()
    assert (checkout / "docs" / "levers.md").read_text(encoding="utf-8") == page, "run make docs"


def test_no_lever_can_lock_anybody_out():
    """A profile could otherwise shut the door behind us: even root by ldapi is refused below a security factor."""
    doors = ("olcSecurity", "olcLocalSSF", "olcAccess", "olcRequires", "olcDisallows", "olcAllows", "olcReadOnly")
    assert not {spec.attribute for spec in LEVERS.values()} & {*doors, "olcRootDN", "olcRootPW", "olcRestrict"}
