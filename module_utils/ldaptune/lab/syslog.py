# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's log reader: a process that receives slapd's syslog lines, counts them and keeps only the last ones."""

from __future__ import annotations

import mmap
import os
import socket
import struct
import subprocess
import time
from typing import Tuple

from ..problems import LdaptuneError, problem
from . import launch, process

KEEP_BYTES = 1 << 20
# Lines received, bytes received; the text follows as a ring.
HEAD = struct.Struct("=QQ")
LONGEST = 65536


def _ring_path(root: str) -> str:
    return os.path.join(root, "run", "log.ring")


def _mark(root: str) -> str:
    return os.path.join(root, "ctl")


def _pid_file(root: str) -> str:
    return os.path.join(root, "run", "reader.pid")


def find(root: str) -> process.Found | None:
    """Return this lab's reader process, or None."""
    return process.find(_pid_file(root), _mark(root))


def start(root: str) -> None:
    """Start the reader unless it runs; return when its socket is there."""
    if find(root):
        return
    pid_file = _pid_file(root)
    if os.path.exists(pid_file):
        os.unlink(pid_file)
    child = subprocess.Popen(
        [launch.interpreter(), _mark(root), "read-log"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    child.wait(timeout=30)
    deadline = time.monotonic() + 30
    while not find(root):
        if time.monotonic() > deadline:
            raise LdaptuneError(problem("the lab's log reader did not start", where=root))
        time.sleep(process.POLL_SECONDS)


def stop(root: str) -> None:
    """End the reader."""
    found = find(root)
    if found:
        process.end(found, 5.0)


def read(root: str) -> Tuple[int, str]:
    """Return (lines received, the last of their text: at most KEEP_BYTES); (0, "") when there was no reader."""
    try:
        with open(_ring_path(root), "rb") as handle:
            data = handle.read()
    except OSError:
        return 0, ""
    lines, total = HEAD.unpack_from(data)
    ring = data[HEAD.size :]
    end = total % KEEP_BYTES
    text = ring[:end] if total < KEEP_BYTES else ring[end:] + ring[:end]
    return lines, text.decode("utf-8", "replace")


def run(root: str) -> None:
    """Be the reader: detach, then receive one datagram at a time until TERM. Memory and disk use are fixed."""
    if os.fork():
        os._exit(0)
    os.setsid()
    path = os.path.join(root, "run", "log")
    if os.path.exists(path):
        os.unlink(path)
    inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    inbox.bind(path)
    os.chmod(path, 0o666)  # noqa: S103 - as /dev/log is
    with open(_ring_path(root), "w+b") as handle:
        handle.truncate(HEAD.size + KEEP_BYTES)
        ring = mmap.mmap(handle.fileno(), HEAD.size + KEEP_BYTES)
    launch.write_file(_pid_file(root), "%d\n" % os.getpid(), 0o644)
    receive(inbox, ring)


def receive(inbox: socket.socket, ring: mmap.mmap) -> None:
    """Receive until the socket is shut down, keeping the ring and its head up to date."""
    lines = total = 0
    recv = inbox.recv
    while True:
        line = recv(LONGEST)
        if not line:
            return
        line += b"\n"
        at = HEAD.size + total % KEEP_BYTES
        room = HEAD.size + KEEP_BYTES - at
        ring[at : at + min(len(line), room)] = line[:room]
        if len(line) > room:
            ring[HEAD.size : HEAD.size + len(line) - room] = line[room:]
        lines += 1
        total += len(line)
        HEAD.pack_into(ring, 0, lines, total)
