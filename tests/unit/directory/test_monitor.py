# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures read out of entries of cn=Monitor."""

from __future__ import annotations

import mmap

import pytest
from ldaptune.directory import monitor


def test_the_pool_with_no_limit_has_1024_threads():
    entries = [
        ("cn=Max,cn=Threads,cn=Monitor", {"monitoredInfo": ["0"]}),
        ("cn=Open,cn=Threads,cn=Monitor", {"monitoredInfo": ["7"]}),
        ("cn=State,cn=Threads,cn=Monitor", {"monitoredInfo": ["unknown"]}),
    ]
    figures = monitor.threads(entries)
    assert (figures["max"], figures["open"], figures["active"]) == (1024, 7, None)


def test_operations_are_those_begun_and_their_sum():
    entries = [
        ("cn=Operations,cn=Monitor", {"monitorOpInitiated": ["99"]}),
        ("cn=Bind,cn=Operations,cn=Monitor", {"monitorOpInitiated": ["3"], "monitorOpCompleted": ["1"]}),
        ("cn=Search,cn=Operations,cn=Monitor", {"monitorOpInitiated": ["4"], "monitorOpCompleted": ["4"]}),
    ]
    assert monitor.operations(entries) == {"bind": 3, "search": 4, "total": 7}
    assert monitor.operations([]) == {}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("OpenLDAP: slapd 2.5.13+dfsg-5 (Feb  8 2023 01:56:12)", (2, 5, 13)),
        ("OpenLDAP: slapd 2.4.57 (x)", (2, 4, 57)),
        ("something else", ()),
        ("", ()),
    ],
)
def test_version(text, wanted):
    assert monitor.parse_version(text) == wanted


FIGURES = {"olmMDBPagesMax": ["10"], "olmMDBPagesUsed": ["4"], "olmMDBReadersMax": ["126"]}


def databases(**first):
    return [
        ("cn=Frontend,cn=Databases,cn=Monitor", {"namingContexts": [""]}),
        ("cn=Database 1,cn=Databases,cn=Monitor", {"namingContexts": ["dc=other"], **FIGURES}),
        ("cn=Database 2,cn=Databases,cn=Monitor", {"namingContexts": ["DC=Lab, DC=Test"], **FIGURES, **first}),
    ]


def test_a_database_is_found_by_suffix_and_directory():
    found = monitor.database(databases(olmDbDirectory=["/db/"], olmMDBPagesMax=["20"]), ["dc=lab,dc=test"], "/db")
    assert (found["pages_max"], found["pages_used"], found["page_size"]) == (20, 4, mmap.PAGESIZE)
    assert monitor.database(databases(olmDbDirectory=["/else/"]), ["dc=lab,dc=test"], "/db") == {}


def test_the_servers_own_page_size_wins():
    assert monitor.database(databases(olmMDBPageSize=["65536"]), ["dc=lab,dc=test"], "")["page_size"] == 65536


def test_a_database_that_is_no_mdb_has_no_figures():
    entries = [("cn=Database 1,cn=Databases,cn=Monitor", {"namingContexts": ["dc=x"]})]
    assert monitor.database(entries, ["dc=x"], "") == {}
