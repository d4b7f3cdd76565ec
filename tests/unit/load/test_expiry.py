# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of a password goes away by itself, and only that folder."""

from __future__ import annotations

import os
import time

import pytest
from ldaptune.load import expiry


class Clock:
    """A clock that a pause moves on; `at` maps a time to what happens then."""

    def __init__(self, at=None):
        self.now = 100.0
        self.at = at or {}

    def __call__(self):
        return self.now

    def pause(self, seconds):
        self.now += seconds
        self.at.pop(self.now, lambda: None)()


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "ldaptune-x"
    path.mkdir(mode=0o700)
    (path / "password").write_text("secret")
    return path


def test_it_goes_when_nobody_renews_it(folder):
    clock = Clock()
    expiry.watch(str(folder), 30, clock, clock.pause)
    assert clock.now == 130
    assert not folder.exists()


def test_each_probe_puts_it_off(folder):
    clock = Clock({120.0: lambda: expiry.renew(str(folder / "password"))})
    os.utime(folder, (1, 1))  # a wall clock far off is none of its business
    expiry.watch(str(folder), 30, clock, clock.pause)
    assert clock.now == 150
    assert not folder.exists()


def test_it_leaves_alone_what_is_not_its_own(folder):
    def other():
        folder.rename(folder.with_name("away"))
        folder.mkdir()

    clock = Clock({101.0: other})
    expiry.watch(str(folder), 30, clock, clock.pause)
    assert clock.now == 101
    assert folder.exists()


def test_a_link_in_it_is_removed_and_not_followed(folder, tmp_path):
    (tmp_path / "kept").write_text("x")
    (folder / "link").symlink_to(tmp_path / "kept")
    expiry.remove(str(folder))
    assert (tmp_path / "kept").exists()
    assert not folder.exists()


def test_a_password_file_elsewhere_is_not_touched(tmp_path):
    os.utime(tmp_path, (1, 1))
    expiry.renew(str(tmp_path / "password"))
    assert tmp_path.stat().st_mtime == 1


def test_the_module_leaves_a_watcher_that_outlives_it(run_module, tmp_path, checkout):
    made = run_module("private_folder", {"parent": str(tmp_path), "seconds": 1})
    assert not made["changed"]
    assert os.stat(made["path"]).st_mode & 0o777 == 0o700
    deadline = time.monotonic() + 60
    while os.path.exists(made["path"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert run_module("private_folder", {"parent": str(tmp_path), "seconds": 1}, check=True)["skipped"]
    assert list(tmp_path.iterdir()) == []


def test_the_module_refuses_nonsense(run_module, tmp_path):
    assert "at least 1" in run_module("private_folder", {"parent": str(tmp_path), "seconds": 0})["msg"]
    assert "nowhere" in run_module("private_folder", {"parent": str(tmp_path / "nowhere"), "seconds": 1})["msg"]
