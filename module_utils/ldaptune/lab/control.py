# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of a built lab: what its `ctl` script does."""

from __future__ import annotations

import sys
from typing import List

from ..problems import LdaptuneError
from . import syslog
from .slapd import LabSlapd


def main(root: str, words: List[str]) -> int:
    """Do one of start, stop, restart (or be the log reader); return the exit code."""
    word = words[0] if len(words) == 1 else ""
    if word == "read-log":
        syslog.run(root)
        return 0
    actions = {"start": "start", "stop": "stop", "restart": "restart"}
    if word not in actions:
        sys.stderr.write("usage: ctl start|stop|restart\n")
        return 2
    try:
        getattr(LabSlapd.open(root), actions[word])()
    except LdaptuneError as error:
        sys.stderr.write("%s\n" % error)
        return 1
    return 0
