# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the units that place a card's queues at boot: LEVER NIC CPUS [ROOT]; names become numbers here."""

from __future__ import annotations

import sys
import time
from typing import Sequence

from ..problems import LdaptuneError
from . import nic_place, nic_queues
from .facts import parse_cpu_list

# Many drivers ask for their interrupts when the interface comes up, which may be late.
SECONDS = 60.0
_STEP = 0.5


def main(arguments: Sequence[str], seconds: float = SECONDS) -> int:
    """Place them; returns the exit code, what went wrong stands in the journal."""
    key, nic, cpus, root = (*arguments, "/")[:4]
    irq = key == "nic.irq_cpus"
    find = nic_queues.queues if irq else nic_queues.receive_queues
    deadline = time.monotonic() + seconds
    while not find(root, nic) and time.monotonic() < deadline:
        time.sleep(_STEP)
    try:
        place = nic_place.place_irqs if irq else nic_place.place_receive
        refused = place(root, nic, parse_cpu_list(cpus))
    except LdaptuneError as error:
        sys.stderr.write("%s\n" % error)
        return 1
    if refused:
        sys.stdout.write("left to the kernel, which manages them: %s\n" % ", ".join(refused))
    return 0
