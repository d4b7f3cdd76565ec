# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each worker of slapd is doing at one moment: it runs, it is idle, it waits for the log, a lock or the disk.

A worker is seen in the log when it is inside the send of a datagram, or waits for the one lock in libc's own data that
the sender holds (syslog() sends under it). An idle one waits for a condition, which is another operation of the futex
call than waiting for a lock. Both are told by system call numbers, so on machines not named here all is "other".
"""

from __future__ import annotations

import os
import platform
from typing import Dict, List, Sequence, Tuple

from . import procfs
from .process import PROC

STATES = ("running", "idle", "log", "lock", "disk", "other")
# futex, sendto, sendmsg.
_CALLS = {"x86_64": (202, 44, 46), "aarch64": (98, 206, 211), "riscv64": (98, 206, 211)}
_FUTEX_COMMAND = 0x7F
_WAIT, _WAIT_BITSET = 0, 9


class Looker:
    """Looks at the workers of one process. What it knows of sockets and mappings is read when first needed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.futex, self.sendto, self.sendmsg = _CALLS.get(platform.machine(), (-2, -2, -2))
        self.known = self.futex >= 0
        # Whether a send to the log was ever seen: before, a wait for a lock of libc's is just that.
        self.sends = 0
        self._libc = procfs.libc_memory(read("%s/%d/maps" % (PROC, pid)))
        self._sockets: Dict[int, bool] = {}

    def look(self, tids: Sequence[int]) -> Dict[str, int]:
        """Return how many of these threads are in each state now; those that have ended are in none."""
        found = dict.fromkeys(STATES, 0)
        waits = (self.futex, self.sendto, self.sendmsg)
        for tid in tids:
            place = "%s/%d/task/%d/" % (PROC, self.pid, tid)
            try:
                call = procfs.system_call(read(place + "syscall"))
                letter = "" if call[0] in waits else procfs.thread(read(place + "stat")).state
            except OSError:
                continue
            found[self.state(call, letter)] += 1
        return found

    def state(self, call: Tuple[int, Tuple[int, ...]], letter: str) -> str:
        """Return the state for a system call with its arguments and the thread's letter.

        A thread that reads a page of the mapped database from the disk is in no system call, and in state D.
        """
        number, arguments = call
        if letter == "D":
            return "disk"
        if number < 0 or len(arguments) < 2:
            return "running"
        if number == self.futex:
            return self._waits_for(arguments[0], arguments[1] & _FUTEX_COMMAND)
        if number in (self.sendto, self.sendmsg) and self._is_log(arguments[0]):
            self.sends += 1
            return "log"
        return "other"

    def _waits_for(self, address: int, command: int) -> str:
        if command == _WAIT:
            return "log" if any(low <= address < high for low, high in self._libc) else "lock"
        return "idle" if command == _WAIT_BITSET else "other"

    def _is_log(self, descriptor: int) -> bool:
        if descriptor not in self._sockets:
            try:
                target = os.readlink("%s/%d/fd/%d" % (PROC, self.pid, descriptor))
                inodes = procfs.datagram_sockets(read("%s/%d/net/unix" % (PROC, self.pid)))
            except OSError:
                return False
            self._sockets[descriptor] = target[len("socket:[") : -1] in inodes
        return self._sockets[descriptor]


def read(path: str) -> str:
    """Return a small file's text; cheaper than open(), which counts where it is done a hundred times a second."""
    handle = os.open(path, os.O_RDONLY)
    try:
        parts: List[bytes] = []
        while True:
            part = os.read(handle, 1 << 16)
            if not part:
                return b"".join(parts).decode("utf-8", "replace")
            parts.append(part)
    finally:
        os.close(handle)
