# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of one database that a profile may be resolved against; what is not known is None."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Sequence


def database_facts(
    database: Mapping[str, Any], figures: Mapping[str, Any], attributes: Mapping[str, Sequence[str]]
) -> Dict[str, Any]:
    """Return the facts of one database from cn=monitor's figures; without these from its entry, as configured."""
    page = figures.get("page_size")

    def pages(name: str) -> int | None:
        return figures[name] * page if page and figures.get(name) is not None else None

    def configured(name: str) -> int | None:
        value = next(iter(attributes.get(name.lower(), [])), "")
        return int(value) if value.isdigit() and int(value) else None

    return {
        "suffix": next(iter(database["suffixes"]), ""),
        "dn": database["dn"],
        "backend": database["backend"],
        "directory": database["directory"],
        "size_bytes": allocated(os.path.join(database["directory"], "data.mdb")),
        "map_size_bytes": pages("pages_max") or configured("olcDbMaxSize"),
        "used_bytes": pages("pages_used"),
        "readers_max": figures.get("readers_max") or configured("olcDbMaxReaders"),
    }


def allocated(path: str) -> int | None:
    """Return what a file takes on disk: a map is a sparse file, its length says nothing."""
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return None
