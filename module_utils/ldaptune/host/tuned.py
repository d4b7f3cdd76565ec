# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tuned is told to do on this host: the texts of its active profiles, those they include among them."""

from __future__ import annotations

import os
import re
from typing import List, Tuple

_TOPS = ("etc/tuned", "etc/tuned/profiles", "usr/lib/tuned", "usr/lib/tuned/profiles")


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None


def profiles(root: str) -> List[Tuple[str, str]]:
    """Return (file, text) of each active profile and of all it includes; a profile of /etc hides one of /usr."""
    names = (_text(os.path.join(root, "etc/tuned/active_profile")) or "").split()
    found: List[Tuple[str, str]] = []
    seen = set()
    while names:
        name = names.pop(0)
        if name in seen:
            continue
        seen.add(name)
        for path in (os.path.join(root, top, name, "tuned.conf") for top in _TOPS):
            text = _text(path)
            if text is not None:
                found.append((path, text))
                includes = re.findall(r"^\s*include\s*=\s*(.+)", text, re.MULTILINE)
                names.extend(word for line in includes for word in re.split(r"[\s,]+", line.strip()))
                break
    return found


def says(root: str, option: str) -> List[Tuple[str, str]]:
    """Return (file, value) of each line of them that sets an option, whatever its section is called."""
    line = re.compile(r"^\s*%s\s*=\s*(\S.*?)\s*$" % re.escape(option), re.MULTILINE)
    return [(path, value) for path, text in profiles(root) for value in line.findall(text)]
