# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the host's own conventions (drop-ins, sysctl.d): written whole, put back byte for byte, or not at all."""

from __future__ import annotations

import base64
import contextlib
import os
from typing import Any, Dict, Iterator, List, Tuple

from .. import atomic
from ..problems import LdaptuneError, problem

#: {"path", "content" (base64; None: no such file), "mode", "uid", "gid", "missing": parent directories not there}
FileRecord = Dict[str, Any]


@contextlib.contextmanager
def _told(path: str, what: str = "a file of this host cannot be written") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LdaptuneError(problem(what, where=path, found=os.strerror(error.errno or 0))) from error


def record(path: str) -> FileRecord:
    """Return what is at `path`, enough to put it back; raises LdaptuneError for what is no plain file."""
    found: FileRecord = {"path": path, "content": None, "mode": 0, "uid": 0, "gid": 0, "missing": _missing(path)}
    try:
        with open(path, "rb") as stream:
            data, status = stream.read(), os.fstat(stream.fileno())
    except FileNotFoundError:
        return found
    except OSError as error:
        raise LdaptuneError(
            problem("a file of this host cannot be read", where=path, found=os.strerror(error.errno or 0))
        ) from error
    found.update(content=base64.b64encode(data).decode("ascii"), mode=status.st_mode & 0o7777)
    found.update(uid=status.st_uid, gid=status.st_gid)
    return found


def text_of(found: FileRecord) -> str | None:
    """Return the text of a recorded file; None where there was none."""
    if found["content"] is None:
        return None
    return base64.b64decode(found["content"]).decode("utf-8", "surrogateescape")


def install(path: str, text: str, mode: int = 0o644) -> None:
    """Write a file whole and through to the disk, with the parents it lacks (0755)."""
    _write(path, text.encode("utf-8", "surrogateescape"), mode)


def rewrite(found: FileRecord, text: str) -> None:
    """Write another text over a recorded file that is there, with its owner and mode."""
    _write(found["path"], text.encode("utf-8", "surrogateescape"), found["mode"], (found["uid"], found["gid"]))


def link(path: str, target: str) -> None:
    """Make a symbolic link where there is none, with the parents it lacks (0755); raises LdaptuneError."""
    with _told(path, "a link of this host cannot be made"):
        _make_parents(path)
        os.symlink(target, path)


def same(left: FileRecord, right: FileRecord) -> bool:
    """Return whether two records are of the same file, or of none; the directories around it may differ by now."""
    return all(left[part] == right[part] for part in ("content", "mode", "uid", "gid"))


def put_back(found: FileRecord) -> None:
    """Leave what the record says: the same octets, owner and mode; or no file, nor the directories it needed."""
    path = found["path"]
    if found["content"] is not None:
        _write(path, base64.b64decode(found["content"]), found["mode"], (found["uid"], found["gid"]))
        return
    with _told(path):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        for directory in reversed(found["missing"]):
            with contextlib.suppress(OSError):  # somebody else's file is in it
                os.rmdir(directory)


def _missing(path: str) -> List[str]:
    found: List[str] = []
    parent = os.path.dirname(path)
    while parent not in ("", "/") and not os.path.isdir(parent):
        found.insert(0, parent)
        parent = os.path.dirname(parent)
    return found


def _make_parents(path: str) -> None:
    for name in _missing(path):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name)
            os.chmod(name, 0o755)  # noqa: S103 - as all of /etc is


def _write(path: str, data: bytes, mode: int, owner: Tuple[int, int] | None = None) -> None:
    with _told(path):
        _make_parents(path)
        atomic.write(path, data, mode, owner)
