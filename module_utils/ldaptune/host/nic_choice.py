# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which network card serves the directory."""

from __future__ import annotations

import os
from typing import Any, List, Tuple

from ..problems import LdaptuneError, problem


def _default_routes(text: str) -> List[Tuple[int, str]]:
    """Return (metric, interface) of the default routes in /proc/net/route."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return sorted((int(row[6]), row[0]) for row in rows if len(row) > 7 and row[1] == row[7] == "00000000")


def directory_nic(ctx: Any) -> str:
    """Return the card that clients of this slapd come by: the only one of the host, else that of the default route.

    Raises LdaptuneError where that is no card: a bond, a bridge, several or none.
    """
    folder = os.path.join(ctx.root, "sys/class/net")
    cards = sorted(name for name in os.listdir(folder) if os.path.exists(os.path.join(folder, name, "device")))
    if len(cards) == 1:
        return cards[0]
    try:
        with open(os.path.join(ctx.root, "proc/net/route"), encoding="ascii", errors="replace") as stream:
            routes = _default_routes(stream.read())
    except OSError:
        routes = []
    if routes and routes[0][1] in cards:
        return routes[0][1]
    raise LdaptuneError(
        problem(
            "which network card serves the directory is not known",
            found="cards %s; the default route goes by %s"
            % (", ".join(cards) or "none", routes[0][1] if routes else "nothing"),
            do="Name the card in the profile in place of auto.",
        )
    )
