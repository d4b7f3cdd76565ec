# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A measurement in progress, or one that was left behind."""

from __future__ import annotations

import fcntl
import json

from ldaptune.preflight.leftover import leftovers, strays

MARK = {"profile": "throughput", "deadline": "2026-01-01T00:00:00+00:00", "token": "t0ken", "server": {"uri": "ldapi"}}


def mark(tmp_path, text):
    folder = tmp_path / "0123abcd"
    folder.mkdir()
    (folder / "active.json").write_text(text)
    return folder


def test_an_interrupted_measurement_is_named_with_the_way_home(tmp_path):
    folder = mark(tmp_path, json.dumps(MARK))
    (found,) = leftovers(str(tmp_path))
    assert found["what"].startswith("a run was interrupted")
    assert found["where"] == str(folder / "active.json")
    assert found["found"] == "profile throughput, deadline 2026-01-01T00:00:00+00:00"
    assert "rollback.yml" in found["do"]


def test_one_that_still_runs_is_told_by_the_lock_its_watchdog_holds(tmp_path):
    known = {"owner": "20260101T000000Z-host1", "since": MARK["deadline"], "deadline": "2026-01-01T00:10:00+00:00"}
    folder = mark(tmp_path, json.dumps({**MARK, **known}))
    with open(folder / "watchdog.lock", "w") as lock:
        assert "interrupted" in leftovers(str(tmp_path))[0]["what"]
        fcntl.flock(lock, fcntl.LOCK_EX)
        (found,) = leftovers(str(tmp_path))
    assert found["what"] == "a run has this host in hand"
    assert found["found"] == (
        "run 20260101T000000Z-host1, profile throughput, since 2026-01-01T00:00:00+00:00, "
        "deadline 2026-01-01T00:10:00+00:00"
    )
    assert "rollback.yml" in found["do"]


def test_a_damaged_mark_counts(tmp_path):
    mark(tmp_path, "{")
    assert len(leftovers(str(tmp_path))) == 1


def test_none_without_a_mark(tmp_path):
    (tmp_path / "0123abcd" / "snapshots").mkdir(parents=True)
    assert leftovers(str(tmp_path)) == []
    assert leftovers(str(tmp_path / "nothing")) == []


def snapshot(tmp_path, **changes):
    folder = tmp_path / "state" / "slapd-0123" / "snapshots"
    folder.mkdir(parents=True, exist_ok=True)
    known = {"state": "open", "suffixes": ["dc=x"], "config": str(tmp_path / "old")}
    path = folder / "000001-20260101T000000Z.json"
    path.write_text(json.dumps({**known, **changes}))
    return path


def test_a_way_home_of_a_configuration_that_moved_is_named(tmp_path):
    path = snapshot(tmp_path)
    (found,) = strays(str(tmp_path / "state"), ["dc=x"], [str(tmp_path / "new")])
    assert found["where"] == str(path)
    assert found["found"] == "changed in %s, now in %s" % (tmp_path / "old", tmp_path / "new")


def test_what_is_no_stray(tmp_path):
    state, new, old = str(tmp_path / "state"), str(tmp_path / "new"), tmp_path / "old"
    assert strays(state, ["dc=x"], [new]) == []
    snapshot(tmp_path)
    assert strays(state, ["dc=x"], [new, str(old)]) == []
    assert strays(state, ["dc=y"], [new]) == []
    old.mkdir()
    (tmp_path / "link").symlink_to(old)
    assert strays(state, ["dc=x"], [str(tmp_path / "link")]) == []
    snapshot(tmp_path, state="reverted")
    assert strays(state, ["dc=x"], [new]) == []
    snapshot(tmp_path).write_text("{")
    assert strays(state, ["dc=x"], [new]) == []
