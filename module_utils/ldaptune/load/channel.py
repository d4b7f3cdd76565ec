# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kept connection with any number of operations outstanding: for the clients that do more than one thing at a time.

The one-at-a-time path in connection.py is the fast one; here an operation costs some microseconds more.
"""

from __future__ import annotations

import select
import socket
import ssl
from typing import Any, Dict, List, Set

from . import wire
from .answers import SUCCESS, Lost, open_message, take
from .connection import READ, WOULD_BLOCK
from .tally import Tally, count
from .workload import Item

FIRST_ID, LAST_ID = 65536, 8388607


class Waiting:
    """One operation that was sent: what came for it so far, and the last message in the end."""

    __slots__ = ("item", "sent", "entries", "wrong", "references", "found", "last", "client")

    def __init__(self, item: Item, sent: int) -> None:
        self.item = item
        self.sent = sent
        self.entries = self.wrong = self.references = self.found = 0
        self.last = b""
        self.client: Any = None

    @property
    def ended_well(self) -> bool:
        """Whether the answer was the right one."""
        return self.entries == SUCCESS


class Channel:
    """A non-blocking, connected socket; `waiting` has what is outstanding, `late` the ids that ran out of time."""

    def __init__(self, sock: socket.socket, epoll: select.epoll) -> None:
        self.sock = sock
        self.recv = sock.recv
        self.send = sock.send
        self.fd = sock.fileno()
        self.epoll = epoll
        self.tls = isinstance(sock, ssl.SSLSocket)
        self.waiting: Dict[int, Waiting] = {}
        self.late: Set[int] = set()
        self.alive = True
        self.rest = b""
        self.unsent = b""
        self.blocked = False
        self.next_id = FIRST_ID

    def ask(self, item: Item, tail: bytes, now: int) -> Waiting:
        """Send an item's request with this tail; raises Lost when the connection does not take it."""
        number = self.next_id
        self.next_id = number + 1 if number < LAST_ID else FIRST_ID
        head = item.head if tail is item.tail else b"\x30" + wire.length(5 + len(tail)) + b"\x02\x03"
        data = head + number.to_bytes(3, "big") + tail
        self.waiting[number] = waiting = Waiting(item, now)
        self.unsent += data
        self.flush()
        return waiting

    def flush(self) -> None:
        """Send what is still unsent, as far as the socket takes it; raises Lost."""
        if not self.unsent:
            return
        try:
            done = self.send(self.unsent)
        except WOULD_BLOCK:
            done = 0
        except OSError:
            raise Lost("reset") from None
        self.unsent = self.unsent[done:]
        if bool(self.unsent) != self.blocked:
            self.blocked = not self.blocked
            self.epoll.modify(self.fd, select.EPOLLIN | (select.EPOLLOUT if self.blocked else 0))

    def read(self, tally: Tally) -> List[Waiting]:
        """Read what came and return the operations that ended with it; raises Lost."""
        try:
            data = self._all()
            whole, self.rest = wire.cut(self.rest + data)
            return [ended for ended in (self._one(content, tally) for content in whole) if ended is not None]
        except wire.DecodeError as error:
            tally.remark("decode", str(error))
            raise Lost("decode") from None

    def _all(self) -> bytes:
        pieces: List[bytes] = []
        while True:
            try:
                piece = self.recv(READ)
            except WOULD_BLOCK:
                break
            except OSError:
                raise Lost("reset") from None
            if not piece:
                if pieces:
                    break  # told again at the next event
                raise Lost("eof" if self.waiting else "eof_idle")
            pieces.append(piece)
            if len(piece) < READ and not self.tls:
                break
        return b"".join(pieces)

    def _one(self, content: bytes, tally: Tally) -> Waiting | None:
        answer = open_message(content, tally)
        waiting = self.waiting.get(answer.id)
        if waiting is None:
            if answer.id not in self.late:
                count(tally.failures, "unknown_message_id")
            elif answer.tag not in (wire.SEARCH_ENTRY, wire.SEARCH_REFERENCE):
                self.late.discard(answer.id)
                tally.late += 1
            return None
        waiting.found = waiting.entries
        if not take(waiting, waiting.item, answer, tally):
            return None
        waiting.last = content
        del self.waiting[answer.id]
        return waiting

    def forget(self, waiting: Waiting) -> bool:
        """Wait no longer for an operation, whose answer may still come; return whether it was one of this channel."""
        for number, other in self.waiting.items():
            if other is waiting:
                self.late.add(number)
                del self.waiting[number]
                return True
        return False
