# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log volume against free space."""

from __future__ import annotations

import os

import pytest
from ldaptune.preflight.logvolume import Space, log_directories, log_volume, logs_operations, refuse_volume, spaces


@pytest.mark.parametrize(
    ("levels", "answer"),
    [
        ([], True),
        (["stats"], True),
        (["256"], True),
        (["0x100"], True),
        (["none", "stats2"], True),
        (["any"], True),
        (["-1"], True),
        (["nonsense"], True),
        (["none"], False),
        (["0"], False),
        (["sync"], False),
        (["none sync config"], False),
    ],
)
def test_levels_that_write_for_every_operation(levels, answer):
    assert logs_operations(levels) is answer


def test_a_run_that_would_fill_the_volume_is_refused_with_the_figures():
    volume = log_volume(100.0, 10000.0)
    assert volume == 800_000_000
    tight, wide = Space("/var/log", 1, 2 * volume - 1), Space("/data", 2, 2 * volume)
    (found,) = refuse_volume(volume, [tight, wide])
    assert found["where"] == "/var/log"
    assert "762 MiB expected" in found["wanted"]
    assert refuse_volume(0, [tight]) == []


def test_where_the_log_goes():
    assert log_directories("", False) == ["/var/log", "/var/log/journal"]
    assert log_directories("/data/slapd/log", True) == ["/data/slapd"]
    assert "/var/log" in log_directories("/data/slapd/log", False)


def test_a_filesystem_counts_once_and_a_missing_directory_not_at_all(tmp_path):
    (tmp_path / "sub").mkdir()
    found = spaces([str(tmp_path), str(tmp_path / "sub"), str(tmp_path / "not there")])
    assert [space.path for space in found] == [str(tmp_path)]
    assert found[0].device == os.stat(str(tmp_path)).st_dev
    assert found[0].free > 0
