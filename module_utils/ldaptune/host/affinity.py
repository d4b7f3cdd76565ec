# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPUs an interrupt may go to and goes to, and the masks of receive queues. Compared as sets, never as texts:
the kernel pads and groups its masks as it likes.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Iterable, List, NamedTuple, Sequence

from .facts import parse_cpu_list

# What the kernel means by it when it refuses /proc/irq/N/smp_affinity_list.
REFUSALS = {
    errno.EIO: "the kernel manages this interrupt itself",
    errno.EINVAL: "none of these CPUs is online",
    errno.EOVERFLOW: "a CPU that this host cannot have",
    errno.ENOSPC: "these CPUs have no interrupt vector left",
    errno.EBUSY: "the interrupt is still being moved",
    errno.EAGAIN: "the interrupt is still being moved",
    errno.EROFS: "/proc and /sys are read-only here, as in a container",
    errno.EACCES: "not allowed",
}
_AGAIN = (errno.EBUSY, errno.EAGAIN)
_TRIES = 20
_STEP = 0.05


class Irq(NamedTuple):
    """An interrupt: the CPUs asked for, those it goes to (on x86 one of them), and whether nobody may move it."""

    requested: List[int]
    effective: List[int]
    fixed: bool


def _put(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as stream:
        stream.write(text)


def _get(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as stream:
        return stream.read().strip()


def _path(root: str, number: int, name: str) -> str:
    return os.path.join(root, "proc/irq", str(number), name)


def look(root: str, number: int) -> Irq:
    """Return what is asked for and in force; OSError where there is no such interrupt (any more).

    Kernels without effective_affinity_list have the mask alone. Newer ones show by the file's mode what is fixed.
    """
    path = _path(root, number, "smp_affinity_list")
    requested = parse_cpu_list(_get(path))
    try:
        effective = parse_cpu_list(_get(_path(root, number, "effective_affinity_list")))
    except OSError:
        effective = []
    return Irq(requested, effective or requested, not os.stat(path).st_mode & 0o200)


def move(root: str, number: int, cpus: Iterable[int]) -> int:
    """Ask that an interrupt goes to these CPUs; returns 0, or the errno of the refusal after some tries."""
    return _written(_path(root, number, "smp_affinity_list"), ",".join(str(cpu) for cpu in sorted(cpus)))


def spread(path: str, cpus: Sequence[int]) -> int:
    """Write the mask of a receive queue (rps_cpus); returns 0 or the errno of the refusal."""
    return _written(path, mask(cpus))


def _written(path: str, text: str) -> int:
    code = 0
    for turn in range(_TRIES):
        if turn:
            time.sleep(_STEP)
        try:
            _put(path, text)
            return 0
        except OSError as error:
            code = error.errno or errno.EIO
        if code not in _AGAIN:
            break
    return code


def refusal(code: int) -> str:
    """Return an errno in words."""
    return "%s (%s)" % (REFUSALS[code], errno.errorcode[code]) if code in REFUSALS else os.strerror(code)


def mask(cpus: Iterable[int]) -> str:
    """Return CPUs as the kernel's bitmap: hexadecimal words of 32 bits, the highest first."""
    number = sum(1 << cpu for cpu in set(cpus))
    words: List[str] = []
    while number or not words:
        words.append("%08x" % (number & 0xFFFFFFFF))
        number >>= 32
    return ",".join(reversed(words))


def unmask(text: str) -> List[int]:
    """Return the CPUs of a bitmap, whatever its padding; a group that is short stands for 32 bits all the same."""
    words = [int(word, 16) for word in text.strip().split(",") if word]
    number = 0
    for word in words:
        number = number << 32 | word
    return [cpu for cpu in range(number.bit_length()) if number >> cpu & 1]


def spread_over(path: str) -> List[int]:
    """Return the CPUs a receive queue is spread over."""
    return unmask(_get(path))


def came(root: str, number: int) -> int:
    """Return how often an interrupt came, on all CPUs together."""
    head = "%d:" % number
    for line in _get(os.path.join(root, "proc/interrupts")).splitlines():
        words = line.split()
        if words and words[0] == head:
            total = 0
            for word in words[1:]:
                if not word.isdigit():
                    break
                total += int(word)
            return total
    return 0


def follows(root: str, number: int, seconds: float = 0.2) -> bool | None:
    """Return whether an interrupt goes where it was asked to; None: not yet, as it has not come since.

    IO-APIC lines, and MSI without interrupt remapping, move when they come next; until then the old CPU is shown.
    """

    def there() -> bool:
        now = look(root, number)
        return set(now.effective) <= set(now.requested)

    if there():
        return True
    before, deadline = came(root, number), time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(_STEP)
        if there():
            return True
    return None if came(root, number) == before else there()
