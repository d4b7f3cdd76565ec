# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd unit that runs a process: its name, whether systemd is here at all, and what it says of a unit."""

from __future__ import annotations

import os
from typing import Dict, List, Sequence

from ..problems import LdaptuneError, problem
from .command import run

#: There exactly where systemd is PID 1 (sd_booted(3)).
SYSTEMD = "/run/systemd/system"


def unit_name(service: str) -> str:
    """Return the unit of a service as people name it: "slapd" is slapd.service."""
    return service if service.endswith(".service") else service + ".service"


def here(root: str = "/") -> bool:
    """Return whether systemd runs this host."""
    return os.path.isdir(os.path.join(root, SYSTEMD.lstrip("/")))


def control_groups(pid: int, proc: str = "/proc") -> Dict[str, str]:
    """Return {controllers: path} of a process; the key "" is cgroup v2. {} where it is gone."""
    found: Dict[str, str] = {}
    try:
        with open("%s/%d/cgroup" % (proc, pid), encoding="utf-8") as stream:
            for line in stream:
                _number, controllers, path = line.rstrip("\n").split(":", 2)
                found[controllers] = path
    except OSError:
        return {}
    return found


def runs(unit: str, pid: int, proc: str = "/proc") -> bool:
    """Return whether a process belongs to a unit; MainPID is 0 for units made from a boot script."""
    return any(part == unit for path in control_groups(pid, proc).values() for part in path.split("/"))


def systemctl(*arguments: str) -> str:
    """Run systemctl and return what it printed; raises LdaptuneError where it fails."""
    done = run(["systemctl", *arguments])
    if done.code != 0:
        raise LdaptuneError(
            problem(
                "systemctl failed",
                where="systemctl " + " ".join(arguments),
                found="exit code %d%s" % (done.code, ": " + done.text if done.text else ""),
            )
        )
    return done.text


def reload() -> None:
    """Make systemd read its files again."""
    systemctl("daemon-reload")


def properties(unit: str, names: Sequence[str]) -> Dict[str, str]:
    """Return what systemd has loaded of a unit, {name: text}; a name it does not know is absent."""
    options: List[str] = [word for name in names for word in ("-p", name)]
    lines = systemctl("show", *options, unit).splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}
