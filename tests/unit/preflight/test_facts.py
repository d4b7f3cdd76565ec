# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a database, with and without cn=monitor."""

from __future__ import annotations

from ldaptune.preflight.facts import allocated, database_facts

DATABASE = {"suffixes": ["dc=x"], "dn": "olcDatabase={1}mdb,cn=config", "backend": "mdb", "directory": "/nowhere"}


def test_effective_figures_win_over_configured_ones():
    figures = {"page_size": 4096, "pages_max": 1000, "pages_used": 10, "readers_max": 126}
    found = database_facts(DATABASE, figures, {"olcdbmaxsize": ["1"], "olcdbmaxreaders": ["5"]})
    assert (found["map_size_bytes"], found["used_bytes"], found["readers_max"]) == (4096000, 40960, 126)


def test_without_a_monitor_the_configured_ones_are_given_and_the_rest_is_unknown():
    found = database_facts(DATABASE, {}, {"olcdbmaxsize": ["8192"], "olcdbmaxreaders": ["0"]})
    assert (found["map_size_bytes"], found["used_bytes"], found["readers_max"]) == (8192, None, None)
    assert found["size_bytes"] is None


def test_a_sparse_file_takes_what_it_takes(tmp_path):
    path = tmp_path / "data.mdb"
    with open(path, "wb") as stream:
        stream.truncate(1 << 30)
    assert allocated(str(path)) < 1 << 20
