# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small private JSON files that survive a crash whole or not at all, and locks between processes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from typing import Any, Dict, Iterator

from . import atomic
from .problems import LdaptuneError, problem

CHECKSUM = "checksum"
DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
LOCK_POLL_SECONDS = 0.05


class Busy(LdaptuneError):
    """Another process holds the lock."""


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Turn an error of the file system into a refusal that names the place."""
    try:
        yield
    except OSError as error:
        raise LdaptuneError(
            problem(
                "ldaptune's records cannot be written on this host",
                where=path,
                found=os.strerror(error.errno or 0),
                do="They hold the way home. Make room, run as root, or set tuning_state_dir.",
            )
        ) from error


def make_private(path: str) -> None:
    """Create a directory and its missing parents, each 0700 and synced into its parent."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(os.path.abspath(path))
    make_private(parent)
    with _told(path):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, DIRECTORY_MODE)
        atomic.sync_directory(parent)


def digest_of(data: Any) -> str:
    """Return the sha256 hex of the canonical JSON of `data`."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def write_json(path: str, data: Dict[str, Any]) -> None:
    """Write a dict with its checksum, 0600, so that after return it is on the disk under its name."""
    body = {key: value for key, value in data.items() if key != CHECKSUM}
    body[CHECKSUM] = digest_of(body)
    text = json.dumps(body, indent=1, sort_keys=True, allow_nan=False) + "\n"
    with _told(path):
        atomic.write(path, text.encode("utf-8"), FILE_MODE)


def read_json(path: str) -> Dict[str, Any] | None:
    """Return a dict written by write_json without its checksum; None when there is no such file.

    Raises LdaptuneError for a file that is cut short or was edited.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            data = json.load(stream)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LdaptuneError(_unreadable(path, str(error))) from error
    if not isinstance(data, dict):
        raise LdaptuneError(_unreadable(path, "a JSON %s" % type(data).__name__))
    found = data.pop(CHECKSUM, None)
    if found != digest_of(data):
        raise LdaptuneError(_unreadable(path, "a content that does not match its checksum"))
    return data


def _unreadable(path: str, found: str) -> Dict[str, str]:
    return problem(
        "this record cannot be trusted, so nothing was changed",
        where=path,
        found=found,
        wanted="a whole record as ldaptune wrote it",
        do="Set the levers by hand from snapshot.json in the run directory on the controller, then move it away.",
    )


@contextlib.contextmanager
def locked(path: str, seconds: float) -> Iterator[None]:
    """Hold the lock file `path`; raises Busy when another process keeps it longer than `seconds`."""
    handle = try_lock(path)
    deadline = time.monotonic() + seconds
    while handle is None:
        if time.monotonic() >= deadline:
            raise Busy(
                problem(
                    "another ldaptune run or the watchdog is changing this host",
                    where=path,
                    wanted="one writer at a time",
                    do="Wait for it to end and run this again.",
                )
            )
        time.sleep(LOCK_POLL_SECONDS)
        handle = try_lock(path)
    try:
        yield
    finally:
        os.close(handle)


def try_lock(path: str) -> int | None:
    """Return a descriptor that holds the lock until it is closed, or None when another process has it."""
    # Descriptors made by os.open are not inherited over exec, so a started slapd never keeps the lock.
    with _told(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
