# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are there whole or not at all, and on the disk under their name when the call returns."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Tuple


def write(path: str, data: bytes, mode: int, owner: Tuple[int, int] | None = None) -> None:
    """Write a file, with this mode and owner (user, group), in place of what is there; raises OSError."""
    directory = os.path.dirname(path) or "."
    # mkstemp makes it 0600. The leading dot, and no known suffix: whoever reads the directory leaves it alone.
    handle, temporary = tempfile.mkstemp(prefix=".ldaptune-", dir=directory)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), mode)
            if owner is not None:
                os.fchown(stream.fileno(), *owner)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(directory)


def sync_directory(path: str) -> None:
    """Put the names in a directory on the disk; raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
