# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a host counts as in service."""

from __future__ import annotations

import pytest
from ldaptune.preflight.service import Sample, idle_clients, in_service, load_not_allowed, traffic


def seen(operations=0, own=0, accepted=0, current=1, seconds=10.0):
    before = Sample(100.0, 5000, 50, 700, 1)
    after = Sample(100.0 + seconds, 5000 + operations, 50 + own, 700 + accepted, current)
    return traffic(before, after, 1)


def test_a_busy_host_is_refused_in_the_words_people_know():
    (found,) = in_service("ldap1", seen(operations=3410, own=10, current=213), 1.0)
    assert found["what"] == "ldap1 is in service (212 connections, 340 op/s): drain it first"


@pytest.mark.parametrize(("operations", "refused"), [(0, False), (10, False), (11, True)])
def test_the_limit_itself_is_allowed(operations, refused):
    assert bool(in_service("ldap1", seen(operations=operations), 1.0)) is refused


def test_our_own_reads_do_not_count():
    assert in_service("ldap1", seen(operations=500, own=500), 1.0) == []


def test_clients_that_connect_and_leave_count_too():
    (found,) = in_service("ldap1", seen(accepted=50), 1.0)
    assert "5.0 new connections a second" in found["found"]


def test_a_restart_while_watching_is_named():
    (found,) = in_service("ldap1", seen(operations=-4000), 1.0)
    assert "restarted" in found["what"]


def test_silent_connections_are_a_warning():
    assert in_service("ldap1", seen(current=9), 1.0) == []
    assert "8 open client connections" in idle_clients("ldap1", seen(current=9))[0]
    assert idle_clients("ldap1", seen()) == []


def test_load_needs_permission():
    assert load_not_allowed("ldap1", True) == []
    assert "authrate_allow_load: true" in load_not_allowed("ldap1", False)[0]["wanted"]
