# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Coalescing of a network card, read and set by ethtool(8), and the program of the unit that sets it at boot."""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, List, Mapping, Sequence

from ..problems import LdaptuneError, problem
from .command import run
from .ethtool_text import OPTIONS, Settings, from_pairs, read_json, read_text, shown

# ethtool before 5.7 ends with it when there is nothing to change.
NOTHING_TO_CHANGE = 80
# Some drivers take a setting over at the next interrupt, some reset the link for it.
SETTLE_SECONDS = 1.0
BOOT_SECONDS = 60.0
_STEP = 0.5


def read(nic: str) -> Settings:
    """Return the settings that ethtool shows for a card, None for those it says are not for this one.

    Raises LdaptuneError where there is no ethtool, no such card, or none with coalescing.
    """
    done = run(["ethtool", "--json", "-c", nic], 10)
    found = read_json(done.text) if done.code == 0 else None
    if found is None:
        done = run(["ethtool", "-c", nic], 10)
        if done.code != 0:
            raise LdaptuneError(problem("coalescing cannot be read", where=nic, found=_last(done.text)))
        found = read_text(done.text)
    return found


def put(nic: str, wanted: Mapping[str, Any]) -> None:
    """Set in two steps, which some drivers (ice) need: numbers with adaptive moderation off, then adaptive as wanted.

    Only what differs is sent, since one setting that a card has not makes the kernel refuse all. Raises LdaptuneError.
    """
    now = read(nic)
    numbers = {key: value for key, value in wanted.items() if not isinstance(value, bool)}
    switches = {key: value for key, value in wanted.items() if isinstance(value, bool)}
    first: Dict[str, Any] = {key: value for key, value in numbers.items() if now.get(key) != value}
    if first:
        first.update((key, False) for key in switches if now.get(key))
    _send(nic, first)
    if first:
        now = read(nic)
    _send(nic, {key: value for key, value in switches.items() if now.get(key) != value})


def _send(nic: str, values: Mapping[str, Any]) -> None:
    if not values:
        return
    words: List[str] = []
    for key, value in values.items():
        words += [OPTIONS[key], shown(value)]
    done = run(["ethtool", "-C", nic, *words], 30)
    if done.code not in (0, NOTHING_TO_CHANGE):
        raise LdaptuneError(
            problem(
                "the card refuses this coalescing",
                where=nic,
                found=_last(done.text),
                wanted=" ".join(words),
                do="The reason may stand in the kernel's log (dmesg). Nothing of this request was set.",
            )
        )
    time.sleep(SETTLE_SECONDS)


def _last(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())[-300:]


def main(arguments: Sequence[str], seconds: float = BOOT_SECONDS) -> int:
    """Set at boot: KEY NIC SETTING=VALUE...; waits for the card. Returns the exit code; errors go to the journal."""
    _key, nic, *pairs = arguments
    wanted = from_pairs(pairs)
    deadline = time.monotonic() + seconds
    while True:
        try:
            put(nic, wanted)
            return 0
        except LdaptuneError as error:
            if time.monotonic() > deadline:
                sys.stderr.write("%s\n" % error)
                return 1
        time.sleep(_STEP)
