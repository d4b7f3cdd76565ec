# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a process lives in a container, as far as this process can see."""

from __future__ import annotations

import os
import re

from . import process

_MARKS = (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))
_GROUPS = re.compile(r"(docker|libpod|kubepods|crio|lxc|containerd)")
_NAMESPACES = ("pid", "net")


def _namespace(pid: int | str, kind: str) -> str:
    try:
        return os.readlink("%s/%s/ns/%s" % (process.PROC, pid, kind))
    except OSError:
        return ""


def _by_cgroup(pid: int | str) -> str:
    try:
        with open("%s/%s/cgroup" % (process.PROC, pid), encoding="utf-8", errors="replace") as stream:
            match = _GROUPS.search(stream.read())
    except OSError:
        return ""
    return match.group(1) if match else ""


def own_container() -> str:
    """Return the kind of container this process itself is in ("docker", "podman", "lxc", ...), or ""."""
    for path, name in _MARKS:
        if os.path.exists(path):
            return name
    try:
        return process.environment(1).get("container", "")
    except OSError:
        return ""


def foreign_container(pid: int) -> str:
    """Return why a process counts as being in a container that this one is not in, or "".

    A mount namespace of its own does not count: services have them too (PrivateTmp).
    """
    for kind in _NAMESPACES:
        theirs, ours = _namespace(pid, kind), _namespace("self", kind)
        if theirs and ours and theirs != ours:
            return "it has a %s namespace of its own" % kind
    group = _by_cgroup(pid)
    if group and group != _by_cgroup("self"):
        return "its control group is one of %s" % group
    return ""
