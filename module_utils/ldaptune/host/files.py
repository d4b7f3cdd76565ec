# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are there whole or not at all, and a lock between processes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import tempfile
import time
from contextlib import suppress
from typing import Any

from ..problems import LdaptuneError, problem

_STEP = 0.05


def make_directory(path: str, mode: int = 0o700) -> None:
    """Make a directory and its parents; this mode for the ones that are made."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(os.path.abspath(path))
    make_directory(parent, mode)
    with suppress(FileExistsError):
        os.mkdir(path, mode)
    sync_directory(parent)


def sync_directory(path: str) -> None:
    """Put a directory's names on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: str, data: bytes, mode: int = 0o600) -> None:
    """Write a file so that a reader, or a crash, finds the old or the new one whole; on disk when this returns."""
    folder = os.path.dirname(os.path.abspath(path))
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    sync_directory(folder)


def write_json(path: str, content: Any, mode: int = 0o600) -> None:
    """Write JSON (no NaN, keys sorted) as `write_atomic` does."""
    text = json.dumps(content, indent=2, sort_keys=True, allow_nan=False)
    write_atomic(path, text.encode("utf-8") + b"\n", mode)


def read_json(path: str) -> Any:
    """Return a JSON file's content; None where there is no file. A broken one raises LdaptuneError."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise LdaptuneError(problem("not a JSON file", where=path, found=str(error))) from None


class Lock:
    """An exclusive lock on a file, held for a `with` block and given up with the process at the latest."""

    def __init__(self, path: str, seconds: float = 30.0) -> None:
        self._path = path
        self._seconds = seconds
        self._descriptor = -1

    def __enter__(self) -> Lock:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES) or time.monotonic() > deadline:
                    os.close(descriptor)
                    raise LdaptuneError(
                        problem(
                            "somebody else is changing this host",
                            where=self._path,
                            found="locked for more than %g s" % self._seconds,
                        )
                    ) from None
            time.sleep(_STEP)
        self._descriptor = descriptor
        return self

    def __exit__(self, *_unused: object) -> None:
        os.close(self._descriptor)
        self._descriptor = -1
