# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which malloc slapd runs with: a library that the loader puts before the C library's own."""

from __future__ import annotations

import os
import platform
import re
from typing import Any, Dict, List

from ..problems import Problem, problem
from . import preload
from .base import Observation
from .context import Context
from .host_lever import place
from .unit_lever import UnitLever, of_process

# Debian's folders by machine; a library of another one would only be a warning of the loader.
_TRIPLES = {
    "x86_64": "x86_64-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "ppc64le": "powerpc64le-linux-gnu",
    "s390x": "s390x-linux-gnu",
}
_FILES = {"jemalloc": ("libjemalloc.so.2",), "tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4")}
_PACKAGES = {
    "jemalloc": "libjemalloc2 (Debian), jemalloc (EPEL)",
    "tcmalloc": "libtcmalloc-minimal4 (Debian 12), libtcmalloc-minimal4t64 (Debian 13), gperftools-libs (EPEL)",
}
_LIBRARY = re.compile(r"^lib(jemalloc|tcmalloc|mimalloc)(?:[_.-]|$)")


def candidates(name: str, machine: str) -> List[str]:
    """Return where a library may lie, the likeliest first."""
    folders = ["/usr/lib/" + _TRIPLES[machine]] if machine in _TRIPLES else []
    return ["%s/%s" % (folder, file) for folder in [*folders, "/usr/lib64"] for file in _FILES[name]]


def named(path: str) -> str:
    """Return which allocator a library is, "" for none that is known."""
    match = _LIBRARY.match(os.path.basename(path))
    return match.group(1) if match else ""


class Allocator(UnitLever):
    """LD_PRELOAD in the unit's environment. glibc is no preload of ours, so nothing of ours and glibc are the same."""

    keys: List[str] = []

    def library(self, ctx: Context, name: str) -> str:
        """Return where this host has the library, "" where it has not."""
        found = candidates(name, platform.machine())
        return next((path for path in found if os.path.isfile(place(ctx, path))), "")

    def lines(self, ctx: Context, wanted: Any) -> Dict[str, str]:
        if wanted == "glibc":
            return {}
        path = self.library(ctx, wanted) or candidates(wanted, platform.machine())[0]
        return {"Environment": "%s=%s" % (preload.NAME, path)}

    def meaning(self, found: Dict[str, str]) -> str | None:
        path = preload.preloaded(found.get("Environment", ""))
        return named(path) or path if path else None

    def in_force(self, ctx: Context) -> str | None:
        maps = of_process(ctx, "maps")
        if not maps:
            return None
        paths = (line.split(None, 5)[5].rstrip("\n") for line in maps.splitlines() if len(line.split(None, 5)) == 6)
        found = [named(path) for path in paths if named(path)]
        return found[0] if found else "glibc"

    def same(self, seen: Observation, wanted: Any) -> bool:
        # Whoever preloads it: what is there already is not written once more.
        return bool(seen["effective"] == wanted and seen["configured"] in (None, wanted))

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        found = [
            problem(
                "slapd's preload belongs to someone else",
                where=where,
                found=what,
                wanted="LD_PRELOAD of ours alone, or none",
                do="Take the line out there, or put %s into tuning_exclude." % self.key,
            )
            for where, what in preload.owners(ctx, self.file(ctx))
        ]
        running = preload.of_running(ctx)
        if not found and running and seen["configured"] is None:
            found.append(
                problem("slapd runs with a preload of someone else", where="/proc/%d/environ" % ctx.slapd.pid,
                        found="%s=%s" % (preload.NAME, running),
                        do="See who sets it, or put %s into tuning_exclude." % self.key)
            )
        if not found and not running and seen["effective"] not in (None, "glibc"):
            found.append(
                problem("this slapd is linked with an allocator of its own", where="/proc/%d/maps" % ctx.slapd.pid,
                        found=str(seen["effective"]), wanted=str(wanted),
                        do="Put %s into tuning_exclude." % self.key)
            )
        if wanted != "glibc" and not self.library(ctx, wanted):
            found.append(
                problem("the library of this allocator is not installed", where=self.key,
                        found="none of %s" % ", ".join(candidates(wanted, platform.machine())), wanted=wanted,
                        do="Install the package %s first, or put %s into tuning_exclude."
                        % (_PACKAGES[wanted], self.key))
            )
        return found
