# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A unit of our own that sets something at every boot, with its program beside it: three files, gone without a trace.

/etc/systemd/system/ldaptune-KEY.service, its link in multi-user.target.wants, and /usr/local/sbin/ldaptune-KEY, a
Python program in one file. systemd reads them at boot; it need not be told of them before.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Dict, List, Mapping, Sequence

from . import files

_UNITS = "etc/systemd/system"
_PROGRAMS = "usr/local/sbin"
_UNIT = """\
# Written by ldaptune; rollback.yml takes it away.
[Unit]
Description=%(what)s, as ldaptune set them
After=network.target network-online.target %(after)s

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=%(command)s

[Install]
WantedBy=multi-user.target
"""


def _unit(root: str, key: str) -> str:
    return os.path.join(root, _UNITS, "ldaptune-%s.service" % key)


def _program(root: str, key: str) -> str:
    return os.path.join(root, _PROGRAMS, "ldaptune-%s" % key)


def _wants(root: str, key: str) -> str:
    return os.path.join(root, _UNITS, "multi-user.target.wants", "ldaptune-%s.service" % key)


def arguments(root: str, key: str) -> List[str]:
    """Return what the unit gives its program after the key; [] where it, its link or its program is not there."""
    if not os.path.lexists(_wants(root, key)) or not os.path.isfile(_program(root, key)):
        return []
    text = files.text_of(files.record(_unit(root, key))) or ""
    lines = [line.partition("=")[2].split() for line in text.splitlines() if line.startswith("ExecStart=")]
    return lines[-1][lines[-1].index(key) + 1 :] if lines and key in lines[-1] else []


def install(root: str, key: str, program: bytes, given: Sequence[str], *, what: str, after: str = "") -> None:
    """Write program, unit and link; the program is called with the key and what is given."""
    files.install(_program(root, key), program.decode("utf-8", "surrogateescape"), 0o755)
    # -I: nothing of root's environment or home is looked at. The path is the host's, whatever the root here.
    words = [sys.executable or "/usr/bin/python3", "-I", "/%s/ldaptune-%s" % (_PROGRAMS, key), key, *given]
    text = _UNIT % {"what": what, "after": after, "command": " ".join(word.replace("%", "%%") for word in words)}
    files.install(_unit(root, key), text.replace(" \n", "\n"))
    link = _wants(root, key)
    if not os.path.lexists(link):
        files.link(link, os.path.join("..", os.path.basename(link)))


def record(root: str, key: str) -> Dict[str, Any]:
    """Return {"unit", "program": records of files, "link": its target or null, "wants": is its directory there}."""
    link = _wants(root, key)
    return {
        "unit": files.record(_unit(root, key)),
        "program": files.record(_program(root, key)),
        "link": os.readlink(link) if os.path.islink(link) else None,
        "wants": os.path.isdir(os.path.dirname(link)),
    }


def put_back(root: str, key: str, found: Mapping[str, Any]) -> None:
    """Leave what a record says: the same three, or none of them nor the directories they needed."""
    link = _wants(root, key)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(link)
    if found["link"] is not None:
        files.link(link, found["link"])
    elif not found["wants"]:
        with contextlib.suppress(OSError):  # somebody else's link is in it
            os.rmdir(os.path.dirname(link))
    files.put_back(found["unit"])
    files.put_back(found["program"])
