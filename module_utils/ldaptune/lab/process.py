# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding, waiting for and ending the lab's own processes, and no others."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import List, NamedTuple

# LDAPMessage: id 1, anonymous simple bind, version 3.
ANONYMOUS_BIND = bytes.fromhex("300c020101600702010304008000")
POLL_SECONDS = 0.01


class Found(NamedTuple):
    """A process by pid and start time (clock ticks since boot), which together are never used twice."""

    pid: int
    start: int


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return b""


def start_ticks(pid: int) -> int:
    """Return the start time of `pid` in clock ticks since boot; 0 when it is gone or a zombie."""
    text = _read("/proc/%d/stat" % pid).decode("ascii", "replace")
    fields = text[text.rfind(")") + 2 :].split()
    if len(fields) < 20 or fields[0] in "ZX":
        return 0
    return int(fields[19])


def arguments(pid: int) -> List[str]:
    """Return the argument list of `pid`, empty when it is gone."""
    return [part.decode("utf-8", "replace") for part in _read("/proc/%d/cmdline" % pid).split(b"\0")[:-1]]


def _same_pid_namespace(pid: int) -> bool:
    try:
        return os.readlink("/proc/%d/ns/pid" % pid) == os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def identify(pid: int, wanted: str) -> Found | None:
    """Return `pid` as Found if it lives here and has `wanted` as one of its arguments, else None."""
    start = start_ticks(pid)
    if start and wanted in arguments(pid) and _same_pid_namespace(pid):
        return Found(pid, start)
    return None


def find(pid_file: str, wanted: str) -> Found | None:
    """Return the process that `pid_file` names, if it really is the one with `wanted` among its arguments."""
    text = _read(pid_file).strip()
    return identify(int(text), wanted) if text.isdigit() else None


def scan(wanted: str, name: str) -> List[Found]:
    """Return every process called `name` with `wanted` among its arguments: for one that lost its pid file."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and _read("/proc/%s/comm" % entry).strip() == name.encode():
            item = identify(int(entry), wanted)
            if item:
                found.append(item)
    return found


def alive(process: Found) -> bool:
    """Tell whether exactly that process still runs."""
    return start_ticks(process.pid) == process.start


def send(process: Found, number: int) -> None:
    """Signal exactly that process; one that is gone is no error."""
    if alive(process):
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


def end(process: Found, seconds: float) -> bool:
    """TERM, then KILL after `seconds`; return True when TERM was enough."""
    send(process, signal.SIGTERM)
    # A stopped process cannot act on TERM.
    send(process, signal.SIGCONT)
    if wait_gone(process, seconds):
        return True
    send(process, signal.SIGKILL)
    wait_gone(process, seconds)
    return False


def wait_gone(process: Found, seconds: float) -> bool:
    """Wait until that process is gone, at most `seconds`."""
    deadline = time.monotonic() + seconds
    while alive(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def answers(address: str, port: int, seconds: float = 2.0) -> bool:
    """Tell whether an LDAP server answers an anonymous bind there (any result counts)."""
    try:
        with socket.create_connection((address, port), timeout=seconds) as connection:
            connection.sendall(ANONYMOUS_BIND)
            return connection.recv(64)[:1] == b"\x30"
    except OSError:
        return False


def port_free(address: str, port: int) -> bool:
    """Tell whether a server could listen on that port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
