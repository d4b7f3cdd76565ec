# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths as a process with another root means them."""

from __future__ import annotations

import os

import pytest
from ldaptune.host.root import below, identity, root_of, same_file, same_root


@pytest.fixture
def root(tmp_path):
    (tmp_path / "etc" / "slapd.d").mkdir(parents=True)
    (tmp_path / "var").mkdir()
    for link, target in {
        "absolute": "/etc/slapd.d",
        "relative": "etc/slapd.d",
        "var/up": "../../../../etc/slapd.d",
        "twice": "/absolute/.",
        "loop": "/loop",
        "nowhere": "/gone",
    }.items():
        (tmp_path / link).symlink_to(target)
    return str(tmp_path)


@pytest.mark.parametrize(
    "path", ["/etc/slapd.d", "/etc//./slapd.d/", "/absolute", "/relative", "/var/up", "/twice", "/../absolute"]
)
def test_links_lead_nowhere_outside(root, path):
    assert below(root, path) == root + "/etc/slapd.d"
    assert identity(root, path) == identity("/", root + "/etc/slapd.d") is not None


@pytest.mark.parametrize("path", ["/loop", "/nowhere", "/etc/slapd.d/none"])
def test_what_is_not_there_is_no_file(root, path):
    assert identity(root, path) is None


def test_the_root_itself(root):
    assert below("/", "/") == "/" and below(root, "/") == root and below("/", "/..") == "/"


def test_own_files_are_the_same_by_any_path(root):
    pid = os.getpid()
    assert same_root(pid) and root_of(2**22 + 1) == "/"
    assert same_file(pid, root + "/relative", root + "/etc/slapd.d")
    assert not same_file(pid, root + "/etc", root + "/var")
    assert same_file(pid, root + "/gone", root + "/gone") and not same_file(pid, root + "/gone", root + "/etc")
