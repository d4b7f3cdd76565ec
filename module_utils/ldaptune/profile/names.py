# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nearest known name for one that is not known."""

from __future__ import annotations

import difflib
from typing import Any, Dict, Iterable, List, Mapping


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `word`, or None when none is."""
    lower: Dict[str, str] = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(lower), n=1, cutoff=0.6)
    return lower[close[0]] if close else None


def nearest_lever(word: str, table: Mapping[str, Any]) -> str | None:
    """Return the lever meant by `word`: also by its last part alone, or by its attribute in cn=config."""
    for key, spec in table.items():
        if word.lower() in (key.split(".")[-1], spec.attribute.lower()):
            return key
    return nearest(word, table)


def advice(word: str, known: Iterable[str], guess: str | None = None) -> str:
    """Return what to write instead: the nearest name, or all that there are."""
    names: List[str] = list(known)
    guess = guess or nearest(word, names)
    return "Did you mean %s?" % guess if guess else "There are: %s" % (", ".join(names) or "none")
