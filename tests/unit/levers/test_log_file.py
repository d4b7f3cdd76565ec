# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""slapd's own log file: checked as the service's user would find it, set as one."""

from __future__ import annotations

import os

import pytest
from ldaptune.levers.log_file import identity, may, obstacle
from ldaptune.levers.registry import behaviour

NOBODY = 65534


def wanted(path, layout=None, rotate=None, only=True):
    return {"path": str(path), "only": only, "rotate": rotate, "format": layout}


@pytest.fixture
def new(ctx):
    """A 2.6.12."""
    ctx.version = (2, 6, 12)
    return ctx


def test_the_folder_must_be_there_and_open_to_the_service(tmp_path, short_dir):
    assert "no such folder" in obstacle(str(short_dir / "none" / "log"), NOBODY, set())
    assert "may not write in" in obstacle(str(short_dir / "log"), NOBODY, set())
    short_dir.chmod(0o777)
    assert obstacle(str(short_dir / "log"), NOBODY, set()) == ""
    (short_dir / "log").write_text("")
    (short_dir / "log").chmod(0o644)
    assert "may not write" in obstacle(str(short_dir / "log"), NOBODY, set())
    assert obstacle(str(short_dir / "log"), 0, set()) == ""
    (short_dir / "inner").mkdir(mode=0o777)
    short_dir.chmod(0o700)
    assert "may not enter" in obstacle(str(short_dir / "inner" / "log"), NOBODY, set())
    assert "not a plain file" in obstacle(str(short_dir / "inner"), 0, set())


@pytest.mark.parametrize(
    ("mode", "user", "groups", "wanted"),
    [
        (0o200, "own", set(), True),
        (0o022, "own", set(), False),
        (0o020, "other", {"own"}, True),
        (0o202, "other", {"own"}, False),
        (0o002, "other", set(), True),
        (0o000, "root", set(), True),
    ],
)
def test_rights_by_mode(tmp_path, mode, user, groups, wanted):
    path = tmp_path / "file"
    path.write_text("")
    path.chmod(mode)
    state = path.stat()
    os.chown(path, 1234, 1234) if state.st_uid == 0 else None
    state = path.stat()
    number = {"own": state.st_uid, "other": state.st_uid + 1, "root": 0}[user]
    assert may(str(path), number, {state.st_gid for _unused in groups}, 2) is wanted


def test_own_identity():
    user, groups = identity(os.getpid())
    assert user == os.geteuid()
    assert os.getegid() in groups


def test_set_together_and_taken_away_together(new, tmp_path):
    lever = behaviour("slapd.log_file")
    record = lever.observe(new)["record"]
    lever.write(new, wanted(tmp_path / "log", "syslog-utc", [3, 10, 0]))
    assert new.directory.entries["cn=config"] == {
        "olcLogFile": [str(tmp_path / "log")], "olcLogFileOnly": ["TRUE"],
        "olcLogFileRotate": ["3 10 0"], "olcLogFileFormat": ["syslog-utc"],
    }
    lever.write(new, wanted(tmp_path / "log2"))
    assert sorted(new.directory.entries["cn=config"]) == ["olcLogFile", "olcLogFileOnly"]
    lever.restore(new, record)
    assert new.directory.entries["cn=config"] == {}
    assert len(new.directory.sent) == 3
    lever.restore(new, record)
    assert len(new.directory.sent) == 3


def test_in_force_only_while_slapd_has_the_file_open(new, tmp_path):
    lever = behaviour("slapd.log_file")
    value = wanted(tmp_path / "log")
    lever.write(new, value)
    assert not lever.same(lever.observe(new), value)
    with (tmp_path / "log").open("a"):
        found = lever.observe(new)
        assert (found["effective"], found["effective_source"]) == (value, "/proc")
        assert lever.same(found, value)


@pytest.mark.parametrize(
    ("version", "layout", "refused"),
    [
        ((2, 6, 0), "debug", True),
        ((2, 6, 1), "debug", False),
        ((2, 6, 9), "rfc3339-utc", True),
        ((2, 6, 10), "rfc3339-utc", False),
        ((2, 6, 0), None, False),
    ],
)
def test_formats_by_version(ctx, short_dir, version, layout, refused):
    ctx.version = version
    lever = behaviour("slapd.log_file")
    assert bool(lever.check(ctx, lever.observe(ctx), wanted(short_dir / "log", layout))) is refused


def test_a_missing_folder_is_refused_before_slapd_is_asked(new, tmp_path):
    lever = behaviour("slapd.log_file")
    (told,) = lever.check(new, lever.observe(new), wanted(tmp_path / "none" / "log"))
    assert "no such folder" in told["found"]
    assert new.directory.sent == []
