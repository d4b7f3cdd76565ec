# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restarting slapd by whatever manages it on this host."""

from __future__ import annotations

import os
import time
from typing import List, Sequence

from ..problems import LdaptuneError, problem
from . import process
from .command import run
from .process import Slapd
from .unit import SYSTEMD, runs, unit_name

_SYSTEMD = SYSTEMD
_INIT = "/etc/init.d"
_STOP_SECONDS = 15.0
_STEP = 0.02


def how(slapd: Slapd, service: str, restart_command: Sequence[str] = ()) -> List[List[str]]:
    """Return the commands that restart this slapd, in order: the one given, systemd, or the boot script.

    Raises LdaptuneError where nothing manages it, or the unit of that name runs another slapd.
    """
    if restart_command:
        return [list(restart_command)]
    if os.path.isdir(_SYSTEMD):
        unit = unit_name(service)
        if not runs(unit, slapd.pid, process.PROC):
            raise LdaptuneError(
                problem(
                    "this slapd does not belong to the service",
                    where=unit,
                    found="pid %d outside of it" % slapd.pid,
                    do="Set tuning_service to its unit, or tuning_restart_command.",
                )
            )
        # The sixth restart within ten seconds would leave slapd down (start-limit-hit).
        return [["systemctl", "reset-failed", unit], ["systemctl", "restart", unit]]
    script = os.path.join(_INIT, service)
    if os.access(script, os.X_OK):
        return [[script, "restart"]]
    raise LdaptuneError(
        problem(
            "nothing on this host is known to restart slapd",
            where="tuning_service: %s" % service,
            found="neither systemd nor %s" % script,
            do="Set tuning_restart_command to the command that does.",
        )
    )


def wait_gone(slapd: Slapd, seconds: float) -> bool:
    """Wait until a process has ended; returns whether it has."""
    deadline = time.monotonic() + seconds
    while process.alive(slapd):
        if time.monotonic() > deadline:
            return False
        time.sleep(_STEP)
    return True


def kill_hung(slapd: Slapd) -> None:
    """End a slapd that no longer answers anything: it does not heed SIGTERM either. mdb survives that by design."""
    import signal

    if process.alive(slapd):
        os.kill(slapd.pid, signal.SIGKILL)
        wait_gone(slapd, _STOP_SECONDS)


def restart(slapd: Slapd, service: str, restart_command: Sequence[str] = (), seconds: float = 90.0) -> Slapd:
    """Restart this slapd and return the new process with the same configuration; who calls waits for an answer.

    Raises LdaptuneError where a command fails or no new process comes up in time.
    """
    commands = how(slapd, service, restart_command)
    for command in commands:
        done = run(command, seconds)
        if done.code != 0 and command is commands[-1]:
            raise LdaptuneError(
                problem(
                    "slapd could not be restarted",
                    where=" ".join(command),
                    found="exit code %d%s" % (done.code, ": " + done.text if done.text else ""),
                )
            )
    deadline = time.monotonic() + seconds
    while True:
        fresh = [item for item in process.find_slapds() if _successor(item, slapd) and process.here(item)]
        if len(fresh) == 1 and not process.alive(slapd):
            return fresh[0]
        if time.monotonic() > deadline:
            raise LdaptuneError(
                problem("slapd did not come back after a restart", where=" ".join(commands[-1]), wanted="a new process")
            )
        time.sleep(_STEP)


def _successor(item: Slapd, old: Slapd) -> bool:
    """Return whether a process runs the configuration of an earlier one; its URIs may have been changed meanwhile."""
    same = (item.config_dir, item.config_file) == (old.config_dir, old.config_file)
    if not (old.config_dir or old.config_file):
        same = same and item.uris == old.uris
    return same and (item.pid, item.start) != (old.pid, old.start)
