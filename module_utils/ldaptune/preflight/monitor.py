# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""cn=monitor not there or not readable: what can then not be known."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence, Tuple

from ..problems import Problem, problem
from .entries import Entry

_LOST = "threads, log level, map and readers are known from cn=config only, not as they are in effect"


def no_figures(dn: str, figures: Mapping[str, Any]) -> List[str]:
    """Warn where cn=monitor is there but shows nothing of one database."""
    if figures.get("pages_max"):
        return []
    text = "cn=monitor shows no map and readers of %s: it has olcMonitoring FALSE, or slapd was not restarted since "
    return [text % dn + "cn=monitor was added. Their figures are known as configured only"]


def no_monitor(entries: Sequence[Entry], whoami: str, measuring: bool) -> Tuple[List[Problem], List[str]]:
    """Return (problems, warnings) for a slapd whose cn=monitor cannot be read.

    A measurement without the server's own counters could not tell foreign load from ours: refused. For the rest it
    is a warning.
    """
    databases = [entry for entry in entries if entry.first("olcDatabase").lower().endswith("monitor")]
    if databases:
        what = "cn=monitor cannot be read by %s" % (whoami or "this identity")
        do = "Let it read the monitor database (%s): olcAccess: to * by dn.exact=%s read by * break." % (
            databases[0].dn,
            whoami.replace("dn:", "", 1) or "IDENTITY",
        )
    else:
        what = "this slapd has no monitor database"
        do = "Load back_monitor, add olcDatabase=monitor and restart slapd: docs/preflight.md has the LDIF."
    if measuring:
        lost = "foreign load, operations lost and a host in service cannot be seen; " + _LOST
        return [problem(what, found=lost, wanted="cn=monitor, to measure at all", do=do)], []
    return [], ["%s: %s. %s" % (what, _LOST, do)]
