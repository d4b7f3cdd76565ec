# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A replicated cn=config: one change would reach every provider, so it is refused without an override."""

from __future__ import annotations

import re
from typing import List, Sequence

from ..problems import Problem, problem
from .entries import Entry, config_database, overlay_name, overlays

_PROVIDER = re.compile(r'provider\s*=\s*"?(ldap[is]*://[^\s"]*)', re.IGNORECASE)


def replicated_config(entries: Sequence[Entry]) -> List[Problem]:
    """Refuse olcSyncrepl, multi-provider mode or syncprov on the configuration database itself."""
    database = config_database(entries)
    if database is None:
        return []
    signs = []
    consumers = database.values("olcSyncrepl")
    if consumers:
        # The value holds credentials: only the provider's URL may be shown.
        providers = [match.group(1) for match in map(_PROVIDER.search, consumers) if match]
        signs.append("olcSyncrepl from %s" % (", ".join(providers) or "%d providers" % len(consumers)))
    signs += [name for name in ("olcMultiProvider", "olcMirrorMode") if database.true(name)]
    signs += ["overlay syncprov" for item in overlays(entries, database.dn) if overlay_name(item) == "syncprov"]
    if not signs:
        return []
    return [
        problem(
            "cn=config is replicated: one change here would reach every other provider",
            where=database.dn,
            found=", ".join(signs),
            wanted="a configuration of this host alone",
            do="There is no override. Take the configuration database out of replication on this host, or leave it be.",
        )
    ]
