# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries of cn=Monitor turned into named figures; pure functions."""

from __future__ import annotations

import mmap
import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from .names import normalise_dn

Entry = Tuple[str, Dict[str, List[Any]]]
_THREADS = {"max": "max", "open": "open", "starting": "starting", "active": "active", "pending": "pending"}
_VERSION = re.compile(r"slapd\s+(\d+)\.(\d+)\.(\d+)")


def first(attributes: Mapping[str, Sequence[Any]], name: str) -> str | None:
    """Return an attribute's first value as text, looked up without case; None where it is absent or not text."""
    for key, values in attributes.items():
        if key.lower() == name.lower() and values:
            return values[0] if isinstance(values[0], str) else None
    return None


def number(attributes: Mapping[str, Sequence[Any]], name: str) -> int | None:
    """Return an attribute's first value as a number, or None."""
    text = first(attributes, name)
    return int(text) if text is not None and re.match(r"^-?\d+$", text) else None


def parse_version(text: str) -> Tuple[int, ...]:
    """Return (2, 5, 13) for "OpenLDAP: slapd 2.5.13+dfsg-5 (...)", or () where no version is in it."""
    match = _VERSION.search(text)
    return tuple(int(part) for part in match.groups()) if match else ()


def leaf(dn: str) -> str:
    """Return the value of a name's first RDN in lower case: "cn=Max,cn=Threads,cn=Monitor" gives "max"."""
    return normalise_dn(dn).split(",")[0].partition("=")[2]


def under(entries: Sequence[Entry], parent: str) -> Dict[str, Dict[str, List[Any]]]:
    """Return the direct children of a branch such as "cn=threads,cn=monitor", by the value of their RDN."""
    found = {}
    for dn, attributes in entries:
        rdn, _sep, rest = normalise_dn(dn).partition(",")
        if rest == parent:
            found[rdn.partition("=")[2]] = attributes
    return found


def threads(entries: Sequence[Entry]) -> Dict[str, int | None]:
    """Return the pool's figures. cn=Max shows 0 where the server's own limit of 1024 is in force: said here as 1024."""
    children = under(entries, "cn=threads,cn=monitor")
    figures = {name: number(children.get(child, {}), "monitoredInfo") for name, child in _THREADS.items()}
    if figures["max"] == 0:
        figures["max"] = 1024
    return figures


def operations(entries: Sequence[Entry]) -> Dict[str, int]:
    """Return operations the server began, by kind, with their "total".

    Begun and not completed, since an answer leaves before the operation is counted as completed, and the search that
    reads the counters is among the begun ones: both make completed figures wrong by a race.
    """
    figures = {}
    for kind, attributes in under(entries, "cn=operations,cn=monitor").items():
        value = number(attributes, "monitorOpInitiated")
        if value is not None:
            figures[kind] = value
    if figures:
        figures["total"] = sum(figures.values())
    return figures


def database(entries: Sequence[Entry], suffixes: Sequence[str], directory: str) -> Dict[str, Any]:
    """Return the figures of the mdb database with this suffix and directory; {} where the server shows none.

    pages_used is the highest page in use, free ones below it included: a map cannot be smaller. Before 2.7 the server
    does not tell its page size; the system's own is given then.
    """
    for attributes in under(entries, "cn=databases,cn=monitor").values():
        names = {normalise_dn(str(value)) for value in _all(attributes, "namingContexts")}
        place = first(attributes, "olmDbDirectory")
        if not names.intersection(suffixes) or number(attributes, "olmMDBPagesMax") is None:
            continue
        if place is not None and directory and place.rstrip("/") != directory.rstrip("/"):
            continue
        return {
            "pages_max": number(attributes, "olmMDBPagesMax"),
            "pages_used": number(attributes, "olmMDBPagesUsed"),
            "pages_free": number(attributes, "olmMDBPagesFree"),
            "readers_max": number(attributes, "olmMDBReadersMax"),
            "readers_used": number(attributes, "olmMDBReadersUsed"),
            "entries": number(attributes, "olmMDBEntries"),
            "page_size": number(attributes, "olmMDBPageSize") or mmap.PAGESIZE,
        }
    return {}


def _all(attributes: Mapping[str, Sequence[Any]], name: str) -> Sequence[Any]:
    return next((values for key, values in attributes.items() if key.lower() == name.lower()), [])
