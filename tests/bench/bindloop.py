# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same as bindloop.c in Python, and nothing more: what of the probe's cost is the interpreter's.

    bindloop.py ADDRESS PORT CONNECTIONS SECONDS FILE
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import select
import socket
import struct
import sys
import time

EXPECTED = bytes.fromhex("300c02010161070a010004000400")


def requests_of(path: str) -> list[bytes]:
    """Read the requests, each behind its length."""
    with open(path, "rb") as file:
        data = file.read()
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def main(address: str, port: str, connections: str, seconds: str, path: str) -> None:
    """Print operations, seconds and CPU seconds of the loop."""
    requests, epoll, socks = requests_of(path), select.epoll(), []
    for _ in range(int(connections)):
        sock = socket.create_connection((address, int(port)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        epoll.register(sock.fileno(), select.EPOLLIN)
        socks.append(sock)
    chosen = iter(lambda: random.choices(requests, k=256), [])  # noqa: S311 - accounts, not secrets
    draw = itertools.chain.from_iterable(chosen).__next__
    read, write, poll, clock = os.read, os.write, epoll.poll, time.monotonic
    done, many, size = 0, len(socks) + 1, len(EXPECTED) + 1
    gc.disable()
    begun, cpu = clock(), time.process_time()
    for sock in socks:
        write(sock.fileno(), draw())
    while clock() < begun + float(seconds):
        for fd, _ in poll(0.05, many):
            if read(fd, size) != EXPECTED:
                sys.exit("an answer is not the expected one")
            done += 1
            write(fd, draw())
    print(done, clock() - begun, time.process_time() - cpu)


main(*sys.argv[1:])
