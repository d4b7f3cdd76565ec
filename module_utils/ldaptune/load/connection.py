# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One kept connection, and the full reading of answers that are not the plain expected one."""

from __future__ import annotations

import socket
import ssl
from typing import Set

from . import wire
from .answers import Lost, open_message, take
from .shots import NEVER, Shot, message_id
from .tally import Tally, count
from .workload import Item

WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
READ = 4096

# What a connection without an operation waits for: nothing that a server could send.
IDLE: Shot = (b"", NEVER, NEVER, Item("", b"", b"", b"", ""))


class Connection:
    """A non-blocking socket with at most one operation outstanding.

    `late` has the ids whose time ran out and whose answers may still come.
    """

    __slots__ = (
        "sock", "recv", "send", "fd", "tls", "shot", "sent", "planned", "busy", "alive",
        "rest", "unsent", "late", "entries", "wrong", "references",
    )  # fmt: skip

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.recv = sock.recv
        self.send = sock.send
        self.fd = sock.fileno()
        self.tls = isinstance(sock, ssl.SSLSocket)
        self.shot = IDLE
        self.sent = 0
        self.planned = 0
        self.busy = False
        self.alive = True
        self.rest = b""
        self.unsent = b""
        self.late: Set[bytes] = set()
        self.entries = 0
        self.wrong = 0
        self.references = 0

    def read_on(self, data: bytes, asked: int) -> bytes:
        """Return `data`, for which `asked` octets were read, and whatever else has arrived."""
        pieces = [data]
        piece = data
        while piece and (self.tls or len(piece) >= asked):
            asked = READ
            try:
                piece = self.recv(READ)
            except WOULD_BLOCK:
                break
            except OSError:
                break  # told again, with nothing read, at the next event
            pieces.append(piece)
        return b"".join(pieces)

    def holds_entry(self, data: bytes) -> bool:
        """Tell whether `data` is exactly the expected entry and the end of its search, as servers write them.

        False only means that it must be read in full.
        """
        _, _, want, item = self.shot
        if not data.endswith(want) or len(data) < 32:
            return False
        start, size = 2, data[1]
        if size >= 0x80:
            start += size & 0x7F
            size = int.from_bytes(data[2:start], "big")
        if start + size + len(want) != len(data) or data[start : start + 5] != want[2:7] or data[start + 5] != 0x64:
            return False
        size = data[start + 6]
        return data.startswith(item.dn, start + 7 + (size & 0x7F if size >= 0x80 else 0))

    def answers(self, data: bytes, tally: Tally, retired: Set[bytes]) -> bool:
        """Read what came; return whether the outstanding operation has ended, with its outcome counted in `tally`.

        A success is not counted here but told by `entries` being -1, since its time is the caller's. Raises Lost when
        the connection cannot be used any more; what was outstanding is then not counted yet.
        """
        ended = False
        mine = message_id(self.shot[0]) if self.busy else b""
        try:
            whole, self.rest = wire.cut(self.rest + data)
            for content in whole:
                answer = open_message(content, tally)
                id_octets = answer.id.to_bytes(3, "big") if 32768 <= answer.id <= 8388607 else b""
                if self.busy and not ended and id_octets == mine:
                    ended = take(self, self.shot[3], answer, tally)
                elif id_octets in self.late:
                    if answer.tag not in (wire.SEARCH_ENTRY, wire.SEARCH_REFERENCE):
                        tally.late += 1
                        self.late.discard(id_octets)
                        retired.discard(id_octets)
                else:
                    count(tally.failures, "unknown_message_id")
        except wire.DecodeError as error:
            tally.remark("decode", str(error))
            raise Lost("decode") from None
        return ended
