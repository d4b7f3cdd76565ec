# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a lever, as data."""

from __future__ import annotations

from typing import Any, NamedTuple, Tuple

from ..profile.values import ValueType


class LeverSpec(NamedTuple):
    """The facts of one lever.

    key: its name in profiles. attribute: its cn=config name, or "". entry: where that lives: global, database, or
    without an attribute thread or host. cost: what taking effect needs (live, restart, link_reset). risk: safe,
    durability, availability or security, at its worst value (see `risk_by_value`). compare: flip (changed at every
    leg) or hold (set once, equal in both arms). since: first version, (major, minor). default: the server's own
    (normal form; None: unset). effective: where the value in force is seen. zero_is_default: a stored 0 means the
    default. removal: what removing the attribute does instead of putting the default in force; "" where it does
    that. kernel: the name of a sysctl. persistence: what brings the value back after a restart of slapd or a
    reboot; "" for cn=config itself.
    """

    key: str
    type: ValueType
    unit: str
    attribute: str
    entry: str
    cost: str
    risk: str
    compare: str
    since: Tuple[int, ...]
    default: Any
    effective: str
    summary: str
    risk_why: str
    source: str
    tested: str
    zero_is_default: bool = False
    removal: str = ""
    kernel: str = ""
    persistence: str = ""
