# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many descriptors slapd may have open: connections, files of the database, its own."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List

from ..problems import Problem, problem
from .base import Observation
from .context import Context
from .host_lever import place
from .unit_lever import UnitLever, of_process, unit_of

#: Seen on 2.5.13: it allocates its table of connections for all descriptors at start.
BYTES_EACH = 704
#: More of the host's memory than this is not spent on that table.
SHARE_PERCENT = 5
_LIMIT = re.compile(r"^Max open files\s+(\S+)", re.MULTILINE)
_ULIMIT = re.compile(r"^[^#\n]*\bulimit\s+(?:-[A-Za-z]+\s+)*-[A-Za-z]*n[A-Za-z]*\s+\S+", re.MULTILINE)


def shell_limits(text: str) -> str:
    """Return the line of a shell file that sets the limit of descriptors, or ""."""
    match = _ULIMIT.search(text)
    return match.group(0).strip() if match else ""


class OpenFiles(UnitLever):
    """LimitNOFILE of the unit. In force is the soft limit of the running process: what slapd sizes its table by."""

    keys = ["LimitNOFILE"]

    def lines(self, ctx: Context, wanted: Any) -> Dict[str, str]:
        return {"LimitNOFILE": str(wanted)}

    def meaning(self, found: Dict[str, str]) -> int | None:
        soft = found.get("LimitNOFILE", "").partition(":")[0]
        return int(soft) if soft.isdigit() else None

    def in_force(self, ctx: Context) -> int | None:
        match = _LIMIT.search(of_process(ctx, "limits"))
        return int(match.group(1)) if match and match.group(1).isdigit() else None

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        return [
            *super().check(ctx, seen, wanted),
            *self._memory(ctx, wanted),
            *self._ceiling(ctx, wanted),
            *self._in_use(ctx, wanted),
            *self._shell(ctx),
        ]

    def remarks(self, ctx: Context, seen: Observation, wanted: Any) -> List[str]:
        return ["slapd's table of connections takes about %s at start" % _mib(wanted * BYTES_EACH)]

    def _memory(self, ctx: Context, wanted: int) -> List[Problem]:
        most = int(ctx.host["memory_bytes"]) * SHARE_PERCENT // 100
        if wanted * BYTES_EACH <= most:
            return []
        return [
            problem(
                "so many descriptors would cost slapd too much memory",
                where=self.key,
                found="%d x %d bytes = %s, allocated at start" % (wanted, BYTES_EACH, _mib(wanted * BYTES_EACH)),
                wanted="at most %d %% of this host's memory (%s): %d" % (SHARE_PERCENT, _mib(most), most // BYTES_EACH),
                do="Count the connections expected at once, a fifth more, and some for files.",
            )
        ]

    def _ceiling(self, ctx: Context, wanted: int) -> List[Problem]:
        try:
            with open(place(ctx, "/proc/sys/fs/nr_open"), encoding="ascii") as stream:
                most = int(stream.read())
        except (OSError, ValueError):
            return []
        if wanted <= most:
            return []
        return [problem("the kernel allows no process so many descriptors", where="fs.nr_open", found=str(most),
                        wanted=str(wanted))]

    def _in_use(self, ctx: Context, wanted: int) -> List[Problem]:
        try:
            used = len(os.listdir(place(ctx, "/proc/%d/fd" % ctx.slapd.pid)))
        except OSError:
            return []
        if used < wanted:
            return []
        return [
            problem("slapd has more descriptors open now than it would be allowed", where=self.key, found=str(used),
                    wanted=str(wanted), do="Clients would be turned away.")
        ]

    def _shell(self, ctx: Context) -> List[Problem]:
        """Name a boot script's own limit: it comes after the unit's."""
        service = unit_of(ctx).rpartition(".")[0]
        found = []
        for path in ("/etc/default/" + service, "/etc/init.d/" + service):
            try:
                with open(place(ctx, path), encoding="utf-8", errors="replace") as stream:
                    line = shell_limits(stream.read())
            except OSError:
                continue
            if line:
                found.append(
                    problem("a shell file sets this limit after the unit", where=path, found=line,
                            do="Take the line out of that file, or put %s into tuning_exclude." % self.key)
                )
        return found


def _mib(count: int) -> str:
    return "%.1f MiB" % (count / (1 << 20))
