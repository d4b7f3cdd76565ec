# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one lab of a machine, at its fixed place: brought up, repaired or taken down as needed."""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict, List

from ..problems import LdaptuneError, problem
from . import process, syslog
from .settings import ADDRESS
from .slapd import PATH, LabSlapd

ROOT = "/var/lib/ldaptune-lab"
PORT = 10139
USERS = 10000
# Programs that tell which of the packages we may have asked for are there.
PACKAGES = {"slapd": "slapd", "ldap-utils": "ldapsearch"}


def fresh(root: str, port: int, users: int) -> LabSlapd:
    """Return the lab as it would be built there: upstream's log level, logging to a reader of its own."""
    return LabSlapd(root, users=users, port=port, syslog=True)


def state(wanted: LabSlapd) -> Dict[str, str]:
    """Return {"state": absent|foreign|other|broken|healthy, "reason": text} of what is at the lab's place."""
    root = wanted.root
    if not os.path.isdir(root) or not os.listdir(root):
        return {"state": "absent", "reason": "nothing at %s" % root}
    try:
        there = LabSlapd.open(root)
    except LdaptuneError:
        return {"state": "foreign", "reason": "%s is not empty and no lab" % root}
    if there.saved_digest != wanted.digest():
        return {"state": "other", "reason": "unfinished, or built with other settings"}
    reason = _fault(there)
    return {"state": "broken", "reason": reason} if reason else {"state": "healthy", "reason": "runs and answers"}


def _fault(lab: LabSlapd) -> str:
    if not lab.pid:
        return "slapd does not run"
    if not process.answers(ADDRESS, lab.port):
        return "slapd runs but does not answer"
    if lab.syslog and not syslog.find(lab.root):
        return "the log reader does not run"
    return ""


def _repair(lab: LabSlapd) -> None:
    if lab.pid and process.answers(ADDRESS, lab.port):
        # Only the reader is missing; slapd finds its new socket by itself.
        syslog.start(lab.root)
    else:
        lab.restart()


def up(root: str, port: int, users: int, check: bool) -> Dict[str, Any]:
    """Make the lab run; return {"changed", "action": none|repaired|built, "reason", ...what()}."""
    lab = fresh(root, port, users)
    found = state(lab)
    kind = found["state"]
    if kind == "foreign":
        raise LdaptuneError(
            problem(found["reason"], where=lab.root, do="Look at what it is and move it away; it is left alone")
        )
    action = {"healthy": "none", "broken": "repaired"}.get(kind, "built")
    if not check and kind == "broken":
        lab = LabSlapd.open(root)
        try:
            _repair(lab)
        except LdaptuneError as error:
            found["reason"] = "%s, and a start does not help: %s" % (found["reason"], error)
            kind, action, lab = "other", "built", fresh(root, port, users)
    if not check and kind in ("absent", "other"):
        lab.destroy()
        if not process.port_free(ADDRESS, port):
            raise LdaptuneError(
                problem(
                    "the lab's port is taken by another process",
                    where=lab.root,
                    found="a listener on %s:%d" % (ADDRESS, port),
                    do="Stop it, or choose another port",
                )
            )
        lab.build().start()
    return {"changed": action != "none", "action": action, "reason": found["reason"], **what(lab)}


def what(lab: LabSlapd) -> Dict[str, Any]:
    """Return how to reach the lab; the password itself is only in its file."""
    return {
        "root": lab.root,
        "uri": lab.uri,
        "suffix": lab.suffix,
        "null_suffix": lab.null_suffix,
        "accounts": lab.accounts,
        "admin_dn": lab.admin_dn,
        "password_file": lab.password_file,
        "server": lab.server,
    }


def packages_there() -> List[str]:
    """Return those of the lab's packages that are installed; they stay when the lab goes."""
    return [name for name, program in PACKAGES.items() if shutil.which(program, path=PATH)]


def down(root: str, check: bool) -> Dict[str, Any]:
    """Stop the lab and remove its files; return {"changed", "action": none|removed, "removed", "stays"}."""
    there = os.path.isdir(root)
    if there and not check:
        LabSlapd(root).destroy()
    return {
        "changed": there,
        "action": "removed" if there else "none",
        "removed": [root] if there else [],
        "stays": packages_there(),
    }
