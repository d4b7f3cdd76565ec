# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Putting the queues of a network card onto CPUs: what the levers nic.irq_cpus and nic.rps_cpus do, and their units
at boot. A mark in /run says what was begun, what was finished, and what the kernel keeps to itself.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from typing import Any, Callable, Dict, List, Mapping, Sequence

from ..problems import LdaptuneError, problem
from . import affinity, files, irqbalance, nic_queues

Mark = Dict[str, Any]


def mark_path(root: str, key: str) -> str:
    """Return where the mark of a lever is."""
    return os.path.join(root, "run/ldaptune-%s.json" % key)


def read_mark(root: str, key: str) -> Mark | None:
    """Return {"nic", "cpus", "refused": [queues the kernel keeps to itself], "done"}; None where nothing was begun."""
    try:
        with open(mark_path(root, key), encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "done" in found else None


def write_mark(root: str, key: str, mark: Mark) -> None:
    """Write a mark: it lasts as long as what it speaks of, until the next boot."""
    files.install(mark_path(root, key), json.dumps(mark, sort_keys=True) + "\n")


def drop_mark(root: str, key: str) -> None:
    """Take a mark away: nothing of ours is in force."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(mark_path(root, key))


def _begin(root: str, key: str, nic: str, cpus: Sequence[int]) -> Mark:
    mark = {"nic": nic, "cpus": list(cpus), "refused": [], "done": False}
    write_mark(root, key, mark)
    return mark


def place_irqs(root: str, nic: str, cpus: Sequence[int], key: str = "nic.irq_cpus") -> List[str]:
    """Put all queues' interrupts of a card onto these CPUs, irqbalance told first; returns the queues left as they are.

    Raises LdaptuneError where the kernel refuses one for another reason than that it manages it, or refuses all.
    """
    found = nic_queues.queues(root, nic)
    if not found:
        raise LdaptuneError(_no_queues(nic))
    mark = _begin(root, key, nic, cpus)
    irqbalance.keep_off(root, found.values())
    refused = put_irqs(root, nic, {queue: list(cpus) for queue in found})
    if len(refused) == len(found):
        raise LdaptuneError(
            problem(
                "the kernel manages all interrupts of this card itself",
                where=nic,
                found=affinity.refusal(errno.EIO),
                do="Put nic.irq_cpus into tuning_exclude.",
            )
        )
    for queue, number in found.items():
        if queue not in refused and affinity.follows(root, number) is False:
            raise LdaptuneError(
                problem(
                    "an interrupt does not go where it was asked to, though it came since",
                    where="%s %s (IRQ %d)" % (nic, queue, number),
                    found="CPU %s" % ",".join(str(cpu) for cpu in affinity.look(root, number).effective),
                    wanted=",".join(str(cpu) for cpu in cpus),
                )
            )
    write_mark(root, key, dict(mark, refused=refused, done=True))
    return refused


def put_irqs(root: str, nic: str, cpus: Mapping[str, Sequence[int]]) -> List[str]:
    """Ask for the CPUs of each queue's interrupt; returns the queues that the kernel keeps to itself."""
    found = nic_queues.queues(root, nic)
    return _put_all(
        {
            "%s (IRQ %d)" % (queue, number): (queue, cpus[queue], _mover(root, number))
            for queue, number in found.items()
            if queue in cpus
        },
        nic,
    )


def _mover(root: str, number: int) -> Callable[[Sequence[int]], int]:
    return lambda cpus: affinity.move(root, number, cpus)


def _spreader(path: str) -> Callable[[Sequence[int]], int]:
    return lambda cpus: affinity.spread(path, cpus)


def _put_all(todo: Mapping[str, Any], nic: str) -> List[str]:
    refused = []
    for name, (queue, cpus, put) in todo.items():
        code = put(cpus)
        if code == errno.EIO:
            refused.append(queue)
        elif code:
            raise LdaptuneError(
                problem(
                    "the kernel refuses these CPUs",
                    where="%s %s" % (nic, name),
                    found=affinity.refusal(code),
                    wanted=",".join(str(cpu) for cpu in cpus) or "none",
                )
            )
    return refused


def place_receive(root: str, nic: str, cpus: Sequence[int], key: str = "nic.rps_cpus") -> List[str]:
    """Spread what all receive queues of an interface bring over these CPUs; raises LdaptuneError where refused."""
    found = nic_queues.receive_queues(root, nic)
    if not found:
        raise LdaptuneError(_no_queues(nic))
    mark = _begin(root, key, nic, cpus)
    put_receive(root, nic, {queue: list(cpus) for queue in found})
    write_mark(root, key, dict(mark, done=True))
    return []


def put_receive(root: str, nic: str, cpus: Mapping[str, Sequence[int]]) -> List[str]:
    """Write the masks of receive queues; returns []: none is left out."""
    found = nic_queues.receive_queues(root, nic)
    todo = {queue: (queue, cpus[queue], _spreader(path)) for queue, path in found.items() if queue in cpus}
    refused = _put_all(todo, nic)
    if refused:
        raise LdaptuneError(problem("the kernel refuses this mask", where="%s %s" % (nic, ", ".join(refused))))
    return []


def _no_queues(nic: str) -> Dict[str, str]:
    return problem("this interface has no queues to place", where=nic, do="Name the card that carries the directory.")
