# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who preloads a library into slapd: unit files, environment files, shell files, the loader's own file. Reads only."""

from __future__ import annotations

import glob
import os
import re
import shlex
from typing import List, Tuple

from ..host import dropin
from .context import Context
from .host_lever import place
from .unit_lever import of_process, unit_of

NAME = "LD_PRELOAD"
#: (where, what it says)
Owner = Tuple[str, str]
_SHELL = re.compile(r"^\s*(?:export\s+)?LD_PRELOAD=(.*)$", re.MULTILINE)


def words(value: str) -> List[str]:
    """Return the assignments of an Environment= line; one with an open quote is taken as blanks part it."""
    try:
        return shlex.split(value)
    except ValueError:
        return value.split()


def preloaded(value: str) -> str | None:
    """Return what an Environment= line preloads, None where it says nothing of that."""
    found = [word.partition("=")[2] for word in words(value) if word.startswith(NAME + "=")]
    return found[-1] if found else None


def of_running(ctx: Context) -> str:
    """Return what the running slapd was told to preload, "" for nothing."""
    found = [word for word in of_process(ctx, "environ").split("\0") if word.startswith(NAME + "=")]
    return found[-1].partition("=")[2] if found else ""


def owners(ctx: Context, ours: str) -> List[Owner]:
    """Return who but the drop-in at `ours` has a say in what slapd preloads, or takes our say away."""
    said = [item for item in dropin.settings(ctx.root, unit_of(ctx)) if item.path != ours]
    found: List[Owner] = []
    for item in said:
        shown = "%s=%s" % (item.key, item.value)
        if item.key == "Environment":
            after = ".d/" in item.path and os.path.basename(item.path) > os.path.basename(ours)
            if preloaded(item.value) or (after and not item.value):
                found.append((item.path, shown))
        elif item.key == "UnsetEnvironment" and NAME in item.value.split():
            found.append((item.path, shown))
        elif item.key == "EnvironmentFile" and item.value:
            found.extend(_in_files(ctx, item.value.lstrip("-")))
    service = unit_of(ctx).rpartition(".")[0]
    # Debian's boot script reads the first as shell.
    found.extend(_in_files(ctx, "/etc/default/" + service))
    found.extend(_in_files(ctx, "/etc/init.d/" + service))
    found.extend(("/etc/ld.so.preload", line) for line in _loader(ctx))
    return sorted(set(found), key=found.index)


def _in_files(ctx: Context, pattern: str) -> List[Owner]:
    found: List[Owner] = []
    for path in sorted(glob.glob(place(ctx, pattern))):
        found.extend((path, "LD_PRELOAD=" + match) for match in _SHELL.findall(_read(path)) if match.strip("'\" "))
    return found


def _loader(ctx: Context) -> List[str]:
    text = _read(place(ctx, "/etc/ld.so.preload"))
    return [word for word in text.split() if "malloc" in os.path.basename(word)]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
