# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `ethtool -c` prints, in any of its dialects, as {setting: bool | int | None}; None is "not for this card".

Lines of either text dialect (by netlink, with n/a, or by ioctl) may have a tab or blanks behind the colon; two lines
hold two values. What is not known is passed over, the CQE line with it: its RX and TX are another thing.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Sequence

Settings = Dict[str, Any]

#: Our name of a setting: ethtool's option and the name in its output.
OPTIONS = {
    "adaptive_rx": "adaptive-rx",
    "adaptive_tx": "adaptive-tx",
    "rx_usecs": "rx-usecs",
    "tx_usecs": "tx-usecs",
    "rx_frames": "rx-frames",
    "tx_frames": "tx-frames",
}
_KEYS = {option: key for key, option in OPTIONS.items()}
_ADAPTIVE = re.compile(r"^Adaptive RX:\s*(\S+)\s+TX:\s*(\S+)\s*$", re.IGNORECASE)
_LINE = re.compile(r"^([a-z][a-z-]*):\s*(\S+)\s*$")


def read_text(text: str) -> Settings:
    """Return the settings in the text of `ethtool -c`."""
    found: Settings = {}
    for line in text.splitlines():
        both = _ADAPTIVE.match(line.strip())
        if both:
            found["adaptive_rx"], found["adaptive_tx"] = (_switch(word) for word in both.groups())
            continue
        one = _LINE.match(line.strip())
        if one and one.group(1) in _KEYS:
            found[_KEYS[one.group(1)]] = _number(one.group(2))
    return found


def read_json(text: str) -> Settings | None:
    """Return the settings in the output of `ethtool --json -c`; None for what is no such thing (before 6.2)."""
    try:
        (card,) = json.loads(text)
    except (ValueError, TypeError):
        return None
    if not isinstance(card, dict):
        return None
    return {key: card[option] for key, option in OPTIONS.items() if isinstance(card.get(option), (bool, int))}


def shown(value: Any) -> str:
    """Return a value as ethtool takes it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def to_pairs(values: Settings) -> List[str]:
    """Return settings as words, name=value."""
    return ["%s=%s" % (key, shown(value)) for key, value in values.items()]


def from_pairs(words: Sequence[str]) -> Settings:
    """Return the settings that `to_pairs` wrote."""
    found: Settings = {}
    for name, _, value in (word.partition("=") for word in words):
        found[name] = value == "on" if value in ("on", "off") else int(value)
    return found


def _switch(word: str) -> bool | None:
    return {"on": True, "off": False}.get(word.lower())


def _number(word: str) -> int | None:
    return int(word) if word.isdigit() else None
