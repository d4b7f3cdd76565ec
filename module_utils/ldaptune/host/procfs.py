# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What files of /proc say about CPUs, interrupts, memory, disks and threads; pure functions over their text."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

CPU_PARTS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
# The kernel counts sectors of 512 bytes, whatever the disk's own are.
SECTOR = 512
_MEMORY = {
    "MemTotal": "total",
    "MemAvailable": "available",
    "Cached": "cached",
    "Dirty": "dirty",
    "SwapFree": "swap_free",
}
# Disks that stand for others, or for memory.
_NO_DISK = re.compile(r"^(loop|ram|zram|sr|fd)\d")


class Interrupt(NamedTuple):
    """One line of /proc/interrupts: how often on each CPU column, and what is said of it."""

    counts: Tuple[int, ...]
    label: str


class Thread(NamedTuple):
    """A thread's state letter, and its CPU time in clock ticks."""

    state: str
    user: int
    system: int


class Disk(NamedTuple):
    """Counters of one block device since boot."""

    name: str
    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    busy_ms: int


def cpu_times(text: str) -> Dict[int, Tuple[int, ...]]:
    """Return the clock ticks of each CPU by CPU_PARTS; kernels that show fewer columns have 0 in the rest."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if words and words[0].startswith("cpu") and words[0][3:].isdigit():
            ticks = [int(word) for word in words[1 : 1 + len(CPU_PARTS)]]
            found[int(words[0][3:])] = tuple(ticks + [0] * (len(CPU_PARTS) - len(ticks)))
    return found


def stat_number(text: str, name: str) -> int:
    """Return one of the single figures of /proc/stat: ctxt, procs_running, procs_blocked."""
    match = re.search(r"^%s (\d+)" % name, text, re.MULTILINE)
    return int(match.group(1)) if match else 0


def interrupt_totals(text: str, numbers: Sequence[int]) -> Dict[int, int]:
    """Return the totals of some interrupts from the `intr` line of /proc/stat: the sum first, then each by number."""
    match = re.search(r"^intr (.*)$", text, re.MULTILINE)
    words = match.group(1).split(None, max(numbers) + 2) if match and numbers else []
    return {number: int(words[number + 1]) for number in numbers if number + 1 < len(words)}


def interrupts(text: str) -> Tuple[List[int], Dict[int, Interrupt]]:
    """Return the CPUs of the columns and the numbered interrupts of /proc/interrupts."""
    lines = text.splitlines()
    cpus = [int(word[3:]) for word in lines[0].split()] if lines else []
    found = {}
    for line in lines[1:]:
        number, _sep, rest = line.partition(":")
        if not number.strip().isdigit():
            continue
        words = rest.split(None, len(cpus))
        if len(words) <= len(cpus) or not all(word.isdigit() for word in words[: len(cpus)]):
            continue
        # Chip, number in the chip and kind of trigger come first; what uses it stands behind the last wide gap.
        label = re.split(r"\s{2,}", words[-1].strip())[-1]
        found[int(number)] = Interrupt(tuple(int(word) for word in words[: len(cpus)]), label)
    return cpus, found


def network_queues(
    table: Mapping[int, Interrupt], cards: Mapping[str, Mapping[str, Any]]
) -> Dict[int, Tuple[str, str]]:
    """Return {interrupt: (interface, label)} of what belongs to a network card.

    `cards` has for each interface the interrupts sysfs names ("irqs"), and where it names none the words by which
    drivers call themselves ("names": the interface, the virtio device, the PCI address).
    """
    found = {}
    for number, item in table.items():
        for card, known in cards.items():
            irqs = known.get("irqs") or ()
            words = () if irqs else known.get("names") or ()
            if number in irqs or any(_named(item.label, str(word)) for word in words):
                found[number] = (card, item.label)
                break
    return found


def _named(label: str, word: str) -> bool:
    return re.search(r"(^|[^A-Za-z0-9])%s($|[^A-Za-z0-9])" % re.escape(word), label) is not None


def memory(text: str) -> Dict[str, int]:
    """Return {total, available, cached, dirty, swap_free} in bytes; what an old kernel does not show is left out."""
    found = {}
    for line in text.splitlines():
        name, _sep, rest = line.partition(":")
        if name in _MEMORY:
            found["%s_bytes" % _MEMORY[name]] = int(rest.split()[0]) * 1024
    return found


def disks(text: str) -> Dict[str, Disk]:
    """Return the block devices by "major:minor", memory and loops left out."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 14 or _NO_DISK.match(words[2]):
            continue
        reads, read, writes, written, busy = (int(words[at]) for at in (3, 5, 7, 9, 12))
        found["%s:%s" % (words[0], words[1])] = Disk(words[2], reads, read * SECTOR, writes, written * SECTOR, busy)
    return found


def thread(text: str) -> Thread:
    """Return state and CPU time from /proc/PID/task/TID/stat; the name in it may hold anything."""
    words = text.rpartition(")")[2].split()
    return Thread(words[0], int(words[11]), int(words[12]))


def system_call(text: str) -> Tuple[int, Tuple[int, ...]]:
    """Return number and arguments from /proc/PID/task/TID/syscall; -1 where the thread runs or is in none."""
    words = text.split()
    if len(words) < 3 or not words[0].lstrip("-").isdigit():
        return -1, ()
    return int(words[0]), tuple(int(word, 16) for word in words[1:7])


def libc_memory(text: str) -> List[Tuple[int, int]]:
    """Return the address ranges of libc's zeroed data from /proc/PID/maps: the lock of its syslog() is in there.

    It is the nameless writable mapping right behind libc's own; the arenas of malloc are elsewhere.
    """
    found, end = [], -1
    for line in text.splitlines():
        words = line.split(None, 5)
        low, high = (int(word, 16) for word in words[0].split("-"))
        name = words[5] if len(words) > 5 else ""
        if not name and low == end and words[1].startswith("rw"):
            found.append((low, high))
        end = high if re.search(r"/libc([-.][^/]*)?\.so", name) else -1
    return found


def datagram_sockets(text: str) -> List[str]:
    """Return the inodes of the datagram sockets in /proc/PID/net/unix: syslog() has one, clients of slapd never."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return [row[6] for row in rows if len(row) > 6 and row[4] == "0002"]
