# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""cn=config as plain entries: what the checks read, and small questions about it."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence

from ..directory.names import normalise_dn, split_order

# Named one by one so that no password (olcRootPW) ever leaves the server.
ATTRIBUTES = (
    "olcDatabase",
    "olcOverlay",
    "olcSuffix",
    "olcDbDirectory",
    "olcDbMaxSize",
    "olcDbMaxReaders",
    "olcAccessLogDB",
    "olcConfigDir",
    "olcConfigFile",
    "olcPidFile",
    "olcLogLevel",
    "olcLogFile",
    "olcLogFileOnly",
    "olcThreads",
    "olcReadOnly",
    "olcSecurity",
    "olcLocalSSF",
    "olcSyncrepl",
    "olcMultiProvider",
    "olcMirrorMode",
    "olcLastBind",
    "olcLastBindPrecision",
    "olcAccessLogOps",
    "olcAccessLogBase",
)


class Entry(NamedTuple):
    """One entry; attribute names in lower case."""

    dn: str
    attributes: Dict[str, List[str]]

    def values(self, name: str) -> List[str]:
        """Return the values of an attribute, empty when it is absent."""
        return self.attributes.get(name.lower(), [])

    def first(self, name: str) -> str:
        """Return the first value of an attribute or an empty text."""
        return next(iter(self.values(name)), "")

    def true(self, name: str) -> bool:
        """Tell whether a boolean attribute is there and TRUE."""
        return self.first(name).strip().upper() == "TRUE"


def make_entry(dn: str, attributes: Dict[str, List[str]]) -> Entry:
    """Return an entry as the checks read it."""
    return Entry(dn, {name.lower(): [str(value) for value in values] for name, values in attributes.items()})


def find(entries: Sequence[Entry], dn: str) -> Entry | None:
    """Return the entry of that name, None when it is not there."""
    wanted = normalise_dn(dn)
    return next((entry for entry in entries if normalise_dn(entry.dn) == wanted), None)


def overlays(entries: Sequence[Entry], database_dn: str) -> List[Entry]:
    """Return the overlays of one database in their order."""
    parent = "," + normalise_dn(database_dn)
    found = [entry for entry in entries if entry.values("olcOverlay") and normalise_dn(entry.dn).endswith(parent)]
    return [entry for entry in found if "," not in normalise_dn(entry.dn)[: -len(parent)]]


def overlay_name(entry: Entry) -> str:
    """Return an overlay's name without its index and path: `{0}syncprov` is `syncprov`."""
    return split_order(entry.first("olcOverlay"))[1].strip().lower()


def config_database(entries: Sequence[Entry]) -> Entry | None:
    """Return the entry of the configuration database."""
    return next((entry for entry in entries if normalise_dn(entry.dn) == "olcdatabase={0}config,cn=config"), None)
