# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings in several folders at once, as systemd, sysctl and udev have them: one of a name hides the next one's."""

from __future__ import annotations

import os
from typing import Dict, Sequence


def merged(root: str, folders: Sequence[str], suffix: str) -> Dict[str, str]:
    """Return {name: path} of the files that count, in the order in which they are read; earlier folders weigh more."""
    found: Dict[str, str] = {}
    for folder in folders:
        here = os.path.join(root, folder.lstrip("/"))
        for name in os.listdir(here) if os.path.isdir(here) else ():
            if name.endswith(suffix):
                found.setdefault(name, os.path.join(here, name))
    return {name: found[name] for name in sorted(found)}
