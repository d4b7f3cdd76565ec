# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signs of a container."""

from __future__ import annotations

import os

import pytest
from ldaptune.preflight.container import Place, container_signs, in_container, place_of, root_type

OURS = Place({"pid": "pid:[1]", "user": "user:[2]"}, "0::/user.slice\n", (8, 2), "ext4")
SERVICE = OURS._replace(cgroup="0::/system.slice/slapd.service\n")


@pytest.mark.parametrize(
    ("theirs", "sign"),
    [
        (SERVICE._replace(namespaces={"pid": "pid:[9]", "user": "user:[2]"}), "a pid namespace of its own"),
        (SERVICE._replace(namespaces={"pid": "pid:[1]", "user": "user:[9]"}), "a user namespace of its own"),
        (SERVICE._replace(cgroup="0::/system.slice/docker-0123.scope\n"), "cgroup /system.slice/docker-0123.scope"),
        (SERVICE._replace(cgroup="1:name=systemd:/kubepods/pod1/x\n"), "cgroup /kubepods/pod1/x"),
        (SERVICE._replace(cgroup="0::/machine.slice/libpod-01.scope\n"), "cgroup /machine.slice/libpod-01.scope"),
        (SERVICE._replace(root=(9, 9), root_type="overlay"), "another root directory (overlay)"),
        (SERVICE._replace(root=(9, 9), root_type="ext4"), "another root directory"),
    ],
)
def test_each_sign_is_refused(theirs, sign):
    assert container_signs(OURS, theirs) == [sign]
    assert sign in in_container(7, [sign])[0]["found"]


def test_an_ordinary_service_has_none():
    assert container_signs(OURS, SERVICE) == []
    assert in_container(7, []) == []


def test_what_may_not_be_seen_is_no_sign():
    assert container_signs(OURS, Place({}, "", (0, 0), "")) == []


def test_inside_the_same_container_there_is_none_either():
    inside = OURS._replace(cgroup="0::/docker/0123\n", root_type="overlay")
    assert container_signs(inside, inside) == []


def test_the_last_mount_on_the_root_counts():
    lines = ["1 1 8:2 / / rw - ext4 sda2 rw", "2 1 0:9 / / rw shared:1 - overlay o rw", "3 2 0:5 / /proc - proc p rw"]
    assert root_type("\n".join(lines)) == "overlay"
    assert root_type("") == ""


def test_we_live_where_we_live():
    assert container_signs(place_of(os.getpid()), place_of(os.getppid())) == []
