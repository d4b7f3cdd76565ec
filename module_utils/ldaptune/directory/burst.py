# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bursts of pipelined searches of the root DSE: what makes slapd create all of its worker threads.

A few bytes of BER are written by hand here: a client library waits for each answer, and a pool only grows while
requests queue up.
"""

from __future__ import annotations

import selectors
import socket
import time
from typing import Dict, List, Tuple
from urllib.parse import urlsplit

from ..problems import LdaptuneError, problem
from .ldapi import socket_path

_SEARCH_DONE = 0x65
_UNBIND = b"\x30\x06\x02\x02\x7f\xff\x42\x00"
_BODY = bytes.fromhex("04000a01000a0100020100020100010100870b") + b"objectClass" + b"\x30\x05\x04\x031.1"


def search_request(number: int) -> bytes:
    """Return a base search of the root DSE for no attributes as one LDAP message; number from 1 to 32767."""
    operation = bytes([0x63, len(_BODY)]) + _BODY
    message = b"\x02\x02" + number.to_bytes(2, "big") + operation
    return bytes([0x30, len(message)]) + message


def take_messages(data: bytes) -> Tuple[List[int], bytes]:
    """Return the operation tags of the whole messages in data, and the rest that is not a whole one yet."""
    tags: List[int] = []
    while True:
        outer = _header(data)
        if outer is None or len(data) < outer[0] + outer[1]:
            return tags, data
        inner = _header(data[outer[0] :])
        if inner is not None:
            tags.append(data[outer[0] + inner[0] + inner[1]])
        data = data[outer[0] + outer[1] :]


def _header(data: bytes) -> Tuple[int, int] | None:
    """Return the bytes of tag and length, and the length of what follows; None where they are not complete."""
    if len(data) < 2:
        return None
    if data[1] < 0x80:
        return 2, data[1]
    size = 2 + (data[1] & 0x7F)
    return None if len(data) < size else (size, int.from_bytes(data[2:size], "big"))


def _open(uri: str, seconds: float) -> socket.socket:
    parts = urlsplit(uri)
    if parts.scheme == "ldapi":
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        channel.settimeout(seconds)
        channel.connect(socket_path(uri))
        return channel
    return socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 389), seconds)


def burst(uri: str, connections: int, requests: int, seconds: float) -> Dict[str, int]:
    """Send requests on each of some connections in one write each, and wait for all the answers.

    Returns the operations sent, by kind. uri is ldapi:// or ldap://, anonymous; any answer will do. Raises
    LdaptuneError where connections fail or answers are missing after this many seconds.
    """
    payload = b"".join(search_request(number) for number in range(1, requests + 1))
    channels: List[socket.socket] = []
    missing: Dict[socket.socket, int] = {}
    try:
        for _unused in range(connections):
            channels.append(_open(uri, seconds))
        for channel in channels:
            channel.sendall(payload)
            missing[channel] = requests
        _collect(missing, time.monotonic() + seconds)
        for channel in channels:
            channel.sendall(_UNBIND)
    except OSError as error:
        raise LdaptuneError(problem("the thread pool cannot be filled", where=uri, found=str(error))) from None
    finally:
        for channel in channels:
            channel.close()
    return {"search": connections * requests, "unbind": connections}


def _collect(missing: Dict[socket.socket, int], deadline: float) -> None:
    """Read until every connection has had all its answers."""
    rest: Dict[socket.socket, bytes] = dict.fromkeys(missing, b"")
    with selectors.DefaultSelector() as selector:
        for channel in missing:
            selector.register(channel, selectors.EVENT_READ, channel)
        while any(missing.values()):
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise OSError("%d answers are missing" % sum(missing.values()))
            for key, _events in ready:
                channel = key.data
                data = channel.recv(65536)
                if not data:
                    raise OSError("the server closed a connection with %d answers missing" % missing[channel])
                tags, rest[channel] = take_messages(rest[channel] + data)
                missing[channel] -= tags.count(_SEARCH_DONE)
                if missing[channel] <= 0:
                    selector.unregister(channel)
