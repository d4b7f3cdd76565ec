# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that answers at once and looks nothing up: what a generator reaches against it is the generator's ceiling.

It listens on loopback or on a Unix socket in a folder of its own, in forked processes that end by themselves: at a
deadline, and when the process that started them is gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import tempfile
from typing import Dict, List, Mapping, NoReturn, Tuple

from . import uri, wire

READ = 65536
KEPT = 1048576  # octets that one client may leave unread before it is given up
SUCCESS = b"\x0a\x01\x00\x04\x00\x04\x00"
UNAVAILABLE = b"\x0a\x01\x34\x04\x00" + wire.octets(b"a null responder knows nothing of this")
EQUALITY = 0xA3
BIND_DONE = wire.tlv(wire.BIND_RESPONSE, SUCCESS)
SEARCH_DONE = wire.tlv(wire.SEARCH_DONE, SUCCESS)
# What a request of another kind is refused with: modify, add, delete, rename, compare, extended.
ANSWER_TO = {0x66: 0x67, 0x68: 0x69, 0x4A: 0x6B, 0x6C: 0x6D, 0x6E: 0x6F, wire.EXTENDED_REQUEST: wire.EXTENDED_RESPONSE}


class Leave(Exception):
    """The client is done, or sends what is no LDAP."""


class Stream:
    """What came from one client and was not answered yet."""

    def __init__(self, known: Mapping[bytes, bytes]) -> None:
        self.known = known
        self.rest = b""

    def answers(self, data: bytes) -> bytes:
        """Return the answers to all requests that are whole by now; raises Leave, perhaps with answers to send."""
        found: List[bytes] = []
        try:
            whole, self.rest = wire.cut(self.rest + data)
            for content in whole:
                found.append(answer(content, self.known))
        except (wire.DecodeError, Leave):
            raise Leave(b"".join(found)) from None
        return b"".join(found)


def answer(content: bytes, known: Mapping[bytes, bytes]) -> bytes:
    """Return the answer to one request; `known` has the encoded DN to find for whole search operations."""
    tag, start, stop = wire.element(content, 0, len(content))
    if tag != 0x02 or not 1 <= stop - start <= 4:
        raise wire.DecodeError("a message without a message id")
    head = content[:stop]
    tag = content[stop] if stop < len(content) else 0
    if tag == wire.BIND_REQUEST:
        return wire.tlv(0x30, head + BIND_DONE)
    if tag == wire.SEARCH_REQUEST:
        dn = known.get(content[stop:]) or wire.octets(sought(wire.message(content).body))
        entry = wire.tlv(wire.SEARCH_ENTRY, dn + b"\x30\x00")
        return wire.tlv(0x30, head + entry) + wire.tlv(0x30, head + SEARCH_DONE)
    if tag in ANSWER_TO:
        wire.message(content)
        return wire.tlv(0x30, head + wire.tlv(ANSWER_TO[tag], UNAVAILABLE))
    if tag == 0x50:  # abandon: no answer
        return b""
    raise Leave(b"")  # unbind, or nothing that is known


def sought(body: bytes) -> bytes:
    """Return the DN of the entry that a search most likely asks for: its base, or an equality's RDN below it."""
    end = len(body)
    _, start, stop = wire.element(body, 0, end)
    base = body[start:stop]
    _, start, stop = wire.element(body, stop, end)
    scope = body[start:stop]
    for _ in range(4):  # aliases, size, time, types only
        _, start, stop = wire.element(body, stop, end)
    tag, start, stop = wire.element(body, stop, end)
    if scope == b"\x00" or tag != EQUALITY:
        return base
    _, first, middle = wire.element(body, start, stop)
    _, second, last = wire.element(body, middle, stop)
    rdn = body[first:middle] + b"=" + body[second:last]
    return rdn + b"," + base if base else rdn


Client = Tuple[socket.socket, Stream, List[bytes]]


class NullResponder:
    """Runs while the context lasts: `with NullResponder(60) as stub: stub.target, stub.addresses`."""

    def __init__(
        self,
        deadline: int,
        known: Mapping[bytes, bytes] | None = None,
        processes: int = 1,
        connections: int = 1024,
        unix: bool = False,
    ) -> None:
        self._folder = tempfile.mkdtemp(prefix="ldaptune-") if unix else ""
        try:
            self._listener = self._listen()
        except OSError:
            self._remove()
            raise
        self.pids: List[int] = []
        # one end stays here: when it closes, for whatever reason, the processes end
        ours, theirs = socket.socketpair()
        self._ours = ours
        share = -(-connections // processes)
        for _ in range(processes):
            pid = os.fork()
            if pid == 0:
                ours.close()
                _child(self._listener, theirs, deadline, known or {}, share)
            self.pids.append(pid)
        theirs.close()
        self._listener.close()

    def _listen(self) -> socket.socket:
        if self._folder:
            path = os.path.join(self._folder, "ldapi")
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            self.target = uri.parse("ldapi://" + path.replace("/", "%2F"))
        else:
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            self.target = uri.parse("ldap://127.0.0.1:%d" % listener.getsockname()[1])
        self.addresses = uri.resolve(self.target)
        listener.listen(4096)
        listener.setblocking(False)
        return listener

    def cpu_seconds(self) -> List[float]:
        """Return the CPU time of each process so far."""
        found = []
        for pid in self.pids:
            try:
                with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
                found.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
            except (OSError, ValueError, IndexError):
                found.append(0.0)
        return found

    def close(self) -> None:
        """End the processes and wait for them; only those that this object started."""
        self._ours.close()
        for pid in self.pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
            with contextlib.suppress(OSError):
                os.waitpid(pid, 0)
        self.pids = []
        self._remove()

    def _remove(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> NullResponder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _child(
    listener: socket.socket, line: socket.socket, deadline: int, known: Mapping[bytes, bytes], share: int
) -> NoReturn:
    try:
        for number in (signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's; the parent says when
        signal.alarm(max(1, deadline))
        _serve(listener, line, known, share)
    finally:
        os._exit(0)


def _serve(listener: socket.socket, line: socket.socket, known: Mapping[bytes, bytes], share: int) -> None:
    """Serve at most `share` clients at a time until the line closes."""
    epoll = select.epoll()
    clients: Dict[int, Client] = {}
    epoll.register(line.fileno(), select.EPOLLIN)
    epoll.register(listener.fileno(), select.EPOLLIN)
    full = False
    while True:
        for fd, events in epoll.poll():
            if fd == line.fileno():
                return
            if fd == listener.fileno():
                try:
                    sock, _ = listener.accept()
                except OSError:
                    continue
                sock.setblocking(False)
                if sock.family != socket.AF_UNIX:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[sock.fileno()] = (sock, Stream(known), [b""])
                epoll.register(sock.fileno(), select.EPOLLIN)
            elif not _talk(epoll, clients[fd], events):
                epoll.unregister(fd)
                clients.pop(fd)[0].close()
            if full != (len(clients) >= share):
                full = not full
                epoll.modify(listener.fileno(), 0 if full else select.EPOLLIN)


def _talk(epoll: select.epoll, client: Client, events: int) -> bool:
    """Read, answer, send; return whether the client stays."""
    sock, stream, unsent = client
    stays = True
    out = unsent[0]
    try:
        if events & ~select.EPOLLOUT:
            data = sock.recv(READ)
            if not data:
                return False
            try:
                out += stream.answers(data)
            except Leave as leave:
                out, stays = out + leave.args[0], False
        done = sock.send(out) if out else 0
    except BlockingIOError:
        done = 0
    except OSError:
        return False
    left = out[done:]
    if bool(left) != bool(unsent[0]):
        epoll.modify(sock.fileno(), select.EPOLLIN | (select.EPOLLOUT if left else 0))
    unsent[0] = left
    return stays and len(left) <= KEPT
