# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which database a suffix means; pure functions over the olcDatabase entries of cn=config."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ..problems import LdaptuneError, problem
from .monitor import first
from .names import normalise_dn, split_order

Entry = Tuple[str, Dict[str, List[Any]]]
Database = Dict[str, Any]
_STORES = ("mdb", "hdb", "bdb")


def parse(entries: Sequence[Entry]) -> List[Database]:
    """Return the databases as {dn, number, backend, suffixes (normalised), directory, accesslog}.

    `accesslog` is true where an accesslog overlay of another database writes into it, or its suffix is cn=accesslog.
    """
    found: List[Database] = []
    logs = set()
    for dn, attributes in entries:
        target = first(attributes, "olcAccessLogDB")
        if target is not None:
            logs.add(normalise_dn(target))
        name = first(attributes, "olcDatabase")
        if name is None:
            continue
        index, backend = split_order(name)
        suffixes = next((values for key, values in attributes.items() if key.lower() == "olcsuffix"), [])
        found.append(
            {
                "dn": dn,
                "number": index,
                "backend": backend,
                "suffixes": [normalise_dn(str(value)) for value in suffixes],
                "directory": first(attributes, "olcDbDirectory") or "",
            }
        )
    for item in found:
        item["accesslog"] = bool(logs.intersection(item["suffixes"])) or "cn=accesslog" in item["suffixes"]
    return found


def choose(databases: Sequence[Database], suffix: str) -> Database:
    """Return the one database with exactly this suffix, or without a suffix the only one that holds client data.

    Never config, monitor, frontend or an access log by accident; none or several matches raise before any write.
    """
    stores = [item for item in databases if item["backend"] in _STORES]
    if suffix:
        wanted = normalise_dn(suffix)
        matches = [item for item in stores if wanted in item["suffixes"]]
    else:
        matches = [item for item in stores if not item["accesslog"]]
    if len(matches) == 1:
        return matches[0]
    shown = ", ".join(
        "{%s}%s %s" % (item["number"], item["backend"], " ".join(item["suffixes"]) or "(no suffix)")
        for item in databases
    )
    what = "no database has this suffix" if suffix else "no database to tune"
    if matches:
        what = "several databases match"
    raise LdaptuneError(
        problem(
            what,
            where="tuning_suffix",
            found=shown or "no olcDatabase entry that this identity may see",
            wanted=suffix or "one mdb database",
            do="Set tuning_suffix to the suffix of the database that is meant.",
        )
    )
