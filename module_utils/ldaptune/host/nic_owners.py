# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else sets a card's coalescing on this host; files are read, nothing is asked of any service."""

from __future__ import annotations

import glob
import os
import re
from typing import List, Tuple

from . import tuned

_NETWORKD = re.compile(
    r"^\s*(?:(?:Rx|Tx)(?:Max)?Coales\w*|UseAdaptive(?:Rx|Tx)Coalesce)\s*=", re.MULTILINE | re.IGNORECASE
)
_IFUPDOWN = re.compile(r"^\s*(?:ethtool-coalesce-\S+|(?:pre-up|up|post-up)\s+.*\bethtool\s+-C)\b", re.MULTILINE)
_MANAGER = re.compile(r"^\s*coalesce-[\w-]+\s*=", re.MULTILINE)


def owners(root: str, nic: str) -> List[Tuple[str, str]]:
    """Return (who, file) of each that sets coalescing of this card, or of all cards, by files of its own."""
    found: List[Tuple[str, str]] = []
    for path, text in _files(root, *("%s/NetworkManager/system-connections/*" % top for top in ("etc", "run"))):
        if _MANAGER.search(text) and _named(text, nic, r"^\s*interface-name\s*=\s*(\S+)"):
            found.append(("NetworkManager", path))
    for path, text in _files(root, *("%s/systemd/network/*.link*" % top for top in ("etc", "run", "usr/lib"))):
        if _NETWORKD.search(text) and _named(text, nic, r"^\s*(?:OriginalName|Name)\s*=\s*(.+)"):
            found.append(("systemd", path))
    for path, text in _files(root, "etc/network/interfaces", "etc/network/interfaces.d/*"):
        if _IFUPDOWN.search(_stanza(text, nic)):
            found.append(("ifupdown", path))
    return found + [("tuned", path) for path, _value in tuned.says(root, "coalesce")]


def _files(root: str, *patterns: str) -> List[Tuple[str, str]]:
    found = []
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(root, pattern)) + glob.glob(os.path.join(root, pattern, "*.conf"))):
            try:
                with open(path, encoding="utf-8", errors="replace") as stream:
                    found.append((path, stream.read()))
            except OSError:
                continue
    return found


def _named(text: str, nic: str, pattern: str) -> bool:
    """Return whether a file is for this card by name, or may be for any."""
    names = re.findall(pattern, text, re.MULTILINE)
    return not names or any(nic in name.split() or "*" in name for name in names)


def _stanza(text: str, nic: str) -> str:
    """Return the lines of ifupdown's iface stanzas of a card."""
    kept, mine = [], False
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in ("iface", "auto", "mapping", "source") or line.startswith("allow-"):
            mine = words[:2] == ["iface", nic]
        if mine:
            kept.append(line)
    return "\n".join(kept)
