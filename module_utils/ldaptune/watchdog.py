# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the host home when the controller is gone: a process of its own on the host, renewed by a file.

active.json: {"schema", "token", "pid", "profile", "owner", "reference", "since", "ended", "deadline" (ISO),
"deadline_monotonic" (s), "seconds", "server"}. `owner` is the run, `reference` the snapshot to go back
to, `ended` says when a person asked for the way home: then no arm is set any more.
The process holds watchdog.lock as long as it lives, so "alive" is a question to the kernel, and two never coexist.
It ends when active.json is gone or bears another token.
"""

from __future__ import annotations

import datetime
import os
import secrets
import shutil
import subprocess
import sys
import time
from typing import Any, Callable, Mapping, Tuple

from . import durable
from .problems import LdaptuneError, Problem, problem
from .snapshot import Store, now_text

SCHEMA = 1
START_SECONDS = 20.0

_LAUNCHER = """\
import json, os, sys
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "watchdog.json")) as stream:
    how = json.load(stream)
if os.fork():
    os._exit(0)
os.setsid()
sys.path[:0] = how["path"]
from ldaptune.%s import main
main(how)
"""


def alive(store: Store) -> bool:
    """Return whether a watchdog of this slapd is running."""
    path = store.watchdog_lock
    if not os.path.exists(path):
        return False
    handle = durable.try_lock(path)
    if handle is None:
        return True
    os.close(handle)
    return False


def interrupted(store: Store) -> Problem | None:
    """Return a problem when a run was left unfinished and nobody is there to end it (a reboot, a kill)."""
    try:
        active = store.active()
    except LdaptuneError as damaged:
        return damaged.problems[0]
    if active is None or alive(store):
        return None
    origin = store.origin()
    changed = [key for key, entry in origin["levers"].items() if entry["wrote"]] if origin else []
    return problem(
        "an interrupted run of profile %s left %s as it was at that moment"
        % (active.get("profile", ""), ", ".join(changed) or "nothing changed"),
        where=store.active_path,
        found="its watchdog is gone (deadline %s)" % active.get("deadline", ""),
        do="Run rollback.yml to bring the host home.",
    )


def arm(
    store: Store, server: Mapping[str, Any], profile: str, seconds: int, *, owner: str = "", reference: str = ""
) -> None:
    """Start a watchdog, or renew the one that runs; the caller holds the store's lock.

    Raises LdaptuneError when it does not come up: then nothing may be flipped.
    """
    running = alive(store)
    active = store.active() if running else None
    token = active["token"] if active else secrets.token_hex(8)
    deadline = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    mark = {
        "schema": SCHEMA,
        "token": token,
        "pid": active["pid"] if active else 0,
        "profile": profile,
        "owner": owner,
        "reference": reference,
        "since": active["since"] if active else now_text(),
        "ended": "",
        "deadline": deadline.isoformat(timespec="seconds"),
        "deadline_monotonic": time.monotonic() + seconds,
        "seconds": seconds,
        "server": dict(server),
    }
    store.set_active(mark)
    if active is None:
        store.set_active(dict(mark, pid=_start(store, token)))


def _start(store: Store, token: str) -> int:
    """Start the process and return its pid once it holds its lock."""
    # Each leg only renews it: what starts it is imported here.
    from . import payload, watchdog_process

    home = os.path.join(store.root, "watchdog")
    shutil.rmtree(home, ignore_errors=True)
    durable.make_private(home)
    payload.unpack(home)
    log = store.watchdog_log
    how = {
        "path": [home] + payload.library_paths(),
        "state_dir": os.path.dirname(store.root),
        "identity": store.identity.as_dict(),
        "token": token,
    }
    durable.write_json(os.path.join(home, "watchdog.json"), how)
    script = os.path.join(home, "run.py")
    with open(os.open(script, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, durable.FILE_MODE), "w") as stream:
        stream.write(_LAUNCHER % watchdog_process.__name__.rsplit(".", 1)[-1])
    failure = ""
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, durable.FILE_MODE), "ab") as errors:
        try:
            subprocess.run(
                [sys.executable or "python3", script],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                cwd="/",
                env={
                    "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
                    "LC_ALL": "C",
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                timeout=START_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            failure = str(error)
    if failure or not wait_until(lambda: _holder(store)[0] == token, START_SECONDS):
        store.set_active(None)
        raise LdaptuneError(
            problem(
                "the watchdog did not start, so nothing is flipped",
                where=log,
                found=failure or _last_line(log),
                do="Without it a lost controller would leave this host in a test arm. See its log.",
            )
        )
    return _holder(store)[1]


def _holder(store: Store) -> Tuple[str, int]:
    """Return token and pid of the watchdog that holds the lock."""
    try:
        with open(store.watchdog_lock, encoding="ascii") as stream:
            token, _, pid = stream.read().strip().partition(" ")
    except FileNotFoundError:
        return "", 0
    return (token, int(pid)) if pid and alive(store) else ("", 0)


def _last_line(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = stream.read().strip().splitlines()
    return lines[-1] if lines else ""


def disarm(store: Store) -> None:
    """End the watchdog and wait until it has gone; the caller holds the store's lock."""
    store.set_active(None)
    wait_until(lambda: not alive(store), START_SECONDS)
    shutil.rmtree(os.path.join(store.root, "watchdog"), ignore_errors=True)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True
