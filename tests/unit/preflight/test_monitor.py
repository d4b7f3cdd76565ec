# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A slapd whose cn=monitor cannot be read."""

from __future__ import annotations

from ldaptune.preflight.entries import make_entry
from ldaptune.preflight.monitor import no_figures, no_monitor

MONITOR = make_entry("olcDatabase={2}monitor,cn=config", {"olcDatabase": ["{2}monitor"]})


def test_without_a_measurement_it_is_a_warning_that_says_what_is_lost():
    problems, (warning,) = no_monitor([], "dn:cn=config", False)
    assert problems == []
    assert "no monitor database" in warning
    assert "map and readers" in warning


def test_with_a_measurement_it_is_refused():
    (found,), warnings = no_monitor([], "dn:cn=config", True)
    assert warnings == []
    assert "foreign load" in found["found"]


def test_hidden_is_told_from_absent():
    (found,), _warnings = no_monitor([MONITOR], "dn:cn=config", True)
    assert found["what"] == "cn=monitor cannot be read by dn:cn=config"
    assert "{2}monitor" in found["do"]
    assert "dn.exact=cn=config read" in found["do"]


def test_a_database_that_the_monitor_says_nothing_of():
    assert no_figures("olcDatabase={1}mdb,cn=config", {"pages_max": 10}) == []
    assert "olcMonitoring" in no_figures("olcDatabase={1}mdb,cn=config", {})[0]
