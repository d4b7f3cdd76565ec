# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients that connect for each operation: connect, TLS where asked, bind, unbind, each timed apart.

The server closes first, after the unbind, and our side answers with a reset: neither end keeps a port in TIME_WAIT, so
that one run, or one arm of a comparison, does not slow the next.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
import struct
from typing import Any, Callable, List, Tuple

from . import wire
from .answers import Lost
from .connect import CONNECT_ERRORS, Security, TlsRefused, starttls_answer
from .connection import WOULD_BLOCK, Connection
from .loop import clock
from .shots import NEVER
from .stepped import BACKOFF_NS, Client, SteppedLoop, quietly_close
from .tally import count
from .uri import Target
from .workload import Item

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_PROGRESS = (0, errno.EINPROGRESS)
_MESSAGE_ID = (1 << 16).to_bytes(3, "big")


class Connecting(Client):
    """One such client; it has at most one connection, but for those that are being closed."""

    def __init__(
        self, loop: SteppedLoop, target: Target, addresses: List[Tuple[int, Any]], security: Security
    ) -> None:
        super().__init__(loop, [])
        self.target, self.security = target, security
        self.family, self.address = addresses[0]
        self.connection: Connection | None = None
        self.sock: Any = None
        self.step: Callable[[int], None] = self._connected
        self.item: Item | None = None
        self.mark = 0
        self.rest = b""

    def act(self, item: Item, now: int) -> None:
        self.item, self.mark = item, now
        sock = socket.socket(self.family, socket.SOCK_STREAM)
        sock.setblocking(False)
        if self.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        result = sock.connect_ex(self.address)
        self.sock = sock
        if result not in _PROGRESS:
            # A local socket whose queue is full says so at once.
            self._fail("connect_queue_full" if result == errno.EAGAIN else CONNECT_ERRORS.get(result, "connect_failed"))
            return
        self.step = self._connected
        self.loop.watch(sock.fileno(), select.EPOLLIN | select.EPOLLOUT, self._event)

    def _event(self, mask: int, now: int) -> None:
        try:
            self.step(now)
        except WOULD_BLOCK:
            pass
        except Lost as lost:
            self._fail(lost.name)
        except wire.DecodeError:
            self._fail("tls")  # only the answer to StartTLS is cut outside Connection.answers
        except TlsRefused as refused:
            self.loop.tally.remark("tls", str(refused))
            self._fail("tls")

    def _wait_for(self, events: int) -> None:
        self.loop.epoll.modify(self.sock.fileno(), events)

    def _part(self, name: str, now: int) -> None:
        self.loop.tally.part(name, now - self.mark)
        self.mark = now

    def _connected(self, now: int) -> None:
        failed = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            raise Lost(CONNECT_ERRORS.get(failed, "connect_failed"))
        count(self.loop.tally.sent, "connections")
        self._part("connect", now)
        if self.security.starttls:
            self._send(wire.envelope(1, wire.starttls()))
            count(self.loop.tally.sent, "extended")
            self.rest = b""
            self._wait_for(select.EPOLLIN)
            self.step = self._starttls
        elif self.security.context is not None:
            self._wrap()
        else:
            self._bind(now)

    def _starttls(self, now: int) -> None:
        self.rest += self._receive()
        whole, rest = wire.cut(self.rest)
        if whole:
            starttls_answer(whole[0], len(whole) > 1 or bool(rest))
            self._wrap()

    def _wrap(self) -> None:
        assert self.security.context is not None
        name = self.target.host.partition("%")[0]
        # The wrapped socket takes over the descriptor; epoll knows it by that.
        self.sock = self.security.context.wrap_socket(self.sock, server_hostname=name, do_handshake_on_connect=False)
        self.step = self._handshake
        self._handshake(clock())

    def _handshake(self, now: int) -> None:
        try:
            self.sock.do_handshake()
        except ssl.SSLWantWriteError:
            self._wait_for(select.EPOLLOUT)
            return
        except ssl.SSLWantReadError:
            self._wait_for(select.EPOLLIN)
            return
        except (OSError, ValueError) as error:
            raise TlsRefused("the TLS handshake failed: %s" % error) from None
        now = clock()
        self._part("tls", now)
        self._bind(now)

    def _bind(self, now: int) -> None:
        assert self.item is not None
        self.connection = connection = Connection(self.sock)
        request = self.item.head + _MESSAGE_ID + self.item.tail
        connection.shot, connection.busy = (request, NEVER, NEVER, self.item), True
        self._send(request)
        count(self.loop.tally.sent, "bind")
        self._wait_for(select.EPOLLIN)
        self.step = self._answer

    def _answer(self, now: int) -> None:
        assert self.connection is not None
        data = self._receive()
        if not self.connection.answers(data, self.loop.tally, set()):
            return
        now = clock()
        well = self.connection.entries < 0
        self._part("bind", now)
        self._hand_over()
        self.loop.ended(self, well, now)

    def _hand_over(self) -> None:
        """Unbind, and leave the closing of the connection to a handler of its own."""
        loop, sock = self.loop, self.sock
        fd = sock.fileno()
        self._send(wire.envelope(1, wire.unbind()))
        count(loop.tally.sent, "unbind")

        def closed(mask: int, now: int) -> None:
            try:
                while sock.recv(4096):
                    pass
            except WOULD_BLOCK:
                return
            except OSError:
                pass
            loop.unwatch(fd)
            _reset(sock)

        loop.handlers[fd] = closed
        self.sock = self.connection = None

    def _send(self, data: bytes) -> None:
        """Send what a new connection has room for in any case."""
        try:
            done = self.sock.send(data)
        except WOULD_BLOCK:
            done = 0
        except OSError:
            raise Lost("reset") from None
        if done != len(data):
            raise Lost("send_blocked")

    def _receive(self) -> bytes:
        try:
            data: bytes = self.sock.recv(4096)
        except WOULD_BLOCK:
            raise
        except OSError:
            raise Lost("reset") from None
        if not data:
            raise Lost("eof")
        return data

    def _fail(self, name: str) -> None:
        """Count a failure and rest for a moment: a server that is away must not be called without a pause."""
        loop = self.loop
        loop.unwatch(self.sock.fileno())
        quietly_close(self.sock)
        self.sock = self.connection = None
        loop.tally.fail(name)
        self.busy = False
        loop.rest(self, clock() + BACKOFF_NS)

    def time_out(self, now: int) -> None:
        self._fail("op_timeout" if self.step == self._answer else "connect_timeout")

    def leave(self) -> None:
        """Drop what is under way."""
        if self.sock is not None:
            self.loop.unwatch(self.sock.fileno())
            _reset(self.sock)


def _reset(sock: Any) -> None:
    """Close so that the connection leaves no trace: the other side has closed, and is told that it is over."""
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    quietly_close(sock)
