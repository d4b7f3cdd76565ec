# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a bind (or a search) write to the directory, so that a measurement would change data."""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Sequence

from ..problems import Problem, problem
from .entries import Entry, find, overlay_name, overlays

FRONTEND = "olcDatabase={-1}frontend,cn=config"
CONSENT = "bind_writes"
_BINDS = {"all", "session", "bind"}
_SEARCHES = {"all", "reads", "search"}


class Cause(NamedTuple):
    """One reason why operations write: where it is set, which operation, and how often at most."""

    what: str
    where: str
    operation: str
    often: str

    def text(self) -> str:
        """Return the cause for people."""
        return "%s on %s (%s)" % (self.what, self.where, self.often)


def _lastbind(entry: Entry, name: str) -> Cause:
    precision = entry.first("olcLastBindPrecision")
    often = "one write for every successful bind"
    if name == "olcLastBind":
        # slapd's own stamp has whole seconds and is not written twice (bind.c, fe_op_lastbind).
        often += ", at most one an account and second"
    if precision.isdigit() and int(precision) > 0:
        often = "at most one write an account every %s s" % precision
    return Cause(name, entry.dn, "bind", often)


def _logged(entry: Entry) -> List[str]:
    words = " ".join(entry.values("olcAccessLogOps"))
    # olcAccessLogBase is `{n}operations base`: the operations come first, joined by |.
    words += " " + " ".join(re.sub(r"^\{\d+\}", "", value).split(" ")[0] for value in entry.values("olcAccessLogBase"))
    return [word for word in re.split(r"[|\s]+", words.lower()) if word]


def _accesslog(entry: Entry) -> List[Cause]:
    words = set(_logged(entry))
    found = []
    if words & _BINDS:
        found.append(Cause("accesslog of binds", entry.dn, "bind", "one write for every bind"))
    if words & _SEARCHES:
        found.append(Cause("accesslog of searches", entry.dn, "search", "one write for every search"))
    return found


def writing_causes(entries: Sequence[Entry], database_dn: str) -> List[Cause]:
    """Return what makes binds or searches in one database write, overlays of the frontend included."""
    found: List[Cause] = []
    database = find(entries, database_dn)
    if database is not None and database.true("olcLastBind"):
        found.append(_lastbind(database, "olcLastBind"))
    for entry in [*overlays(entries, database_dn), *overlays(entries, FRONTEND)]:
        name = overlay_name(entry)
        if name == "lastbind":
            found.append(_lastbind(entry, "overlay lastbind"))
        elif name == "ppolicy":
            often = "a write for every failed bind, and for the next good one of an account with failures; it may lock"
            found.append(Cause("overlay ppolicy", entry.dn, "bind", often))
        elif name == "accesslog":
            found += _accesslog(entry)
    return found


def replicates(entries: Sequence[Entry], database_dn: str) -> bool:
    """Tell whether what is written in that database goes to other servers."""
    database = find(entries, database_dn)
    consumer = database is not None and bool(database.values("olcSyncrepl"))
    return consumer or any(overlay_name(entry) == "syncprov" for entry in overlays(entries, database_dn))


def estimated_writes(seconds: float, rate: float) -> int:
    """Return the most writes a load of that length and rate (binds a second) can cause: one a bind."""
    return int(round(seconds * rate))


def refuse_writes(
    causes: Sequence[Cause], consent: Sequence[str], seconds: float, rate: float, replicated: bool
) -> List[Problem]:
    """Refuse to measure where the load writes and nobody agreed to it."""
    if not causes or CONSENT in consent:
        return []
    return [
        problem(
            "measuring would write to the directory",
            found="; ".join(cause.text() for cause in causes),
            wanted="consent to %s" % CONSENT,
            do="%s Add %s to tuning_consent, or measure where binds do not write."
            % (estimate_text(seconds, rate, replicated), CONSENT),
        )
    ]


def estimate_text(seconds: float, rate: float, replicated: bool) -> str:
    """Return the estimate as a sentence."""
    writes = estimated_writes(seconds, rate)
    text = "Expect up to %d writes (one an operation)" % writes if writes else "Expect up to one write an operation"
    return text + (", each of them replicated." if replicated else ".")


def as_data(causes: Sequence[Cause]) -> List[Dict[str, str]]:
    """Return the causes as JSON-able data."""
    return [dict(cause._asdict()) for cause in causes]
