# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the companion unit runs after every start of slapd: the threads pinned again, by the recipe of the levers."""

from __future__ import annotations

import os
import sys
from typing import Any, Mapping

from .. import durable
from ..host import threads
from ..host.facts import allowed_cpus
from ..problems import LdaptuneError, problem
from . import companion
from .context import Context, open_context
from .registry import behaviour

_LOCK_SECONDS = 60.0
# The listener's mask last: until then new workers inherit it.
_ORDER = ("cpu.workers", "cpu.listener")


def main() -> None:
    """Pin as the file beside this program says; ends the process, with 1 and the reason where that fails."""
    home = os.path.dirname(os.path.abspath(sys.argv[0]))
    try:
        # A leg may be pinning right now: what it has written by its end counts.
        with durable.locked(os.path.join(home, companion.LOCK), _LOCK_SECONDS):
            text = pin(durable.read_json(os.path.join(home, companion.VALUES)) or {})
    except LdaptuneError as error:
        sys.exit(str(error))
    print(text)


def pin(values: Mapping[str, Any]) -> str:
    """Pin slapd's threads as the values say, and return what was done."""
    wanted = {key: values["cpus"][key] for key in _ORDER if key in values.get("cpus", {})}
    if not wanted:
        return "no thread of slapd is to be pinned"
    with open_context(values["server"]) as ctx:
        if values.get("pinned") == [ctx.slapd.pid, ctx.slapd.start] and _pinned(ctx, wanted):
            return "the threads of slapd (pid %d) are pinned already" % ctx.slapd.pid
        for key, cpus in wanted.items():
            gone = sorted(set(cpus) - set(allowed_cpus(ctx.slapd.pid)))
            if gone:
                raise LdaptuneError(problem("slapd may not use these CPUs", where=key, found=str(gone)))
            behaviour(key).pin(ctx, cpus)  # type: ignore[attr-defined]
        return "threads of slapd (pid %d) pinned: %s" % (ctx.slapd.pid, wanted)


def _pinned(ctx: Context, wanted: Mapping[str, Any]) -> bool:
    """Return whether every thread is where it should be, seen without a question to the server."""
    parts = threads.classify(ctx.slapd.pid)
    here = {"cpu.listener": parts.listeners, "cpu.workers": [parts.main, *parts.workers]}
    return all(mask == cpus for key, cpus in wanted.items() for mask in threads.masks(here[key]).values())
