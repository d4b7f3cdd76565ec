# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Levers of the host itself: a value in force, and a file by which the host brings it back after a reboot.

Both are written together and go back together. `configured` is what our file says (None: nothing of ours), `effective`
what is in force, read from the kernel, the unit or the process. Paths lie below `ctx.root`, so that tests have a tree.
"""

from __future__ import annotations

import os
from typing import Any

from .base import Lever, Observation
from .context import Context


def place(ctx: Context, path: str) -> str:
    """Return where a path of the host lies for us."""
    return os.path.join(ctx.root, path.lstrip("/"))


class HostLever(Lever):
    """A lever outside cn=config. Wanted is: in force, and kept."""

    def same(self, seen: Observation, wanted: Any) -> bool:
        kind = self.spec.type
        return bool(kind.equal(seen["configured"], wanted)) and bool(kind.equal(seen["effective"], wanted))

    def holds(self, seen: Observation, value: Any) -> bool:
        kind = self.spec.type
        kept = seen["configured"] is None or kind.equal(seen["configured"], value)
        return bool(kept) and bool(kind.equal(seen["effective"], value))

    def lasts(self, ctx: Context) -> bool:
        seen = self.observe(ctx)
        return seen["configured"] is not None and bool(self.spec.type.equal(seen["configured"], seen["effective"]))
