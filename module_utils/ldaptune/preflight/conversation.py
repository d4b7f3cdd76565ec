# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request after the other on one connection of the probe's own making: what a generator can really reach."""

from __future__ import annotations

import socket
from typing import Dict, List, NamedTuple

from ..load import filters, wire


class Broken(Exception):
    """The conversation ended without an answer; its text says how."""


class Answer(NamedTuple):
    """The result of a request and the attributes of the last entry before it, by name in lower case.

    `must_change` tells of a bind that nothing but a new password is allowed after it.
    """

    result: wire.Result
    attributes: Dict[str, List[str]]
    entries: int
    must_change: bool = False


class Conversation:
    """A connected socket; `sent` counts requests by the names cn=monitor uses."""

    def __init__(self, connection: socket.socket, timeout: float, starttls: bool = False) -> None:
        connection.settimeout(timeout)
        self._socket = connection
        self._timeout = timeout
        self._rest = b""
        self._whole: List[bytes] = []
        # StartTLS used 1 on this connection.
        self._ids = wire.MessageIds(2)
        self.sent: Dict[str, int] = {"extended": 1} if starttls else {}

    def bind(self, dn: str, password: bytes) -> Answer:
        """Bind by name and password, once; the password policy is asked for its say."""
        return self._ask("bind", wire.simple_bind(dn.encode("utf-8"), password), wire.ask_password_policy())

    def read(self, dn: str, *attributes: str) -> Answer:
        """Read one entry."""
        everything = filters.encode("(objectClass=*)")
        names = [name.encode("ascii") for name in attributes]
        return self._ask("search", wire.search(dn.encode("utf-8"), everything, names, scope=0))

    def close(self) -> None:
        """Say goodbye."""
        try:
            self._socket.sendall(wire.envelope(self._ids.draw(), wire.unbind()))
            self.sent["unbind"] = self.sent.get("unbind", 0) + 1
        except OSError:
            pass
        finally:
            self._socket.close()

    def _ask(self, kind: str, request: bytes, controls: bytes = b"") -> Answer:
        number = self._ids.draw()
        attributes: Dict[str, List[str]] = {}
        entries = 0
        try:
            self._socket.sendall(wire.envelope(number, request, controls))
            self.sent[kind] = self.sent.get(kind, 0) + 1
            while True:
                answer = self._next()
                if wire.is_notice_of_disconnection(answer):
                    said = wire.result(answer.body)
                    raise Broken("server said %s: %s" % (wire.result_name(said.code), said.text))
                if answer.id != number or answer.tag == wire.SEARCH_REFERENCE:
                    continue
                if answer.tag == wire.SEARCH_ENTRY:
                    attributes, entries = entry_attributes(answer.body), entries + 1
                    continue
                must_change = bool(answer.controls) and wire.must_change(answer.controls)
                return Answer(wire.result(answer.body), attributes, entries, must_change)
        except wire.DecodeError as error:
            raise Broken("the answer is no LDAP message: %s" % error) from None
        except socket.timeout:
            raise Broken("no answer within %g s" % self._timeout) from None
        except OSError as error:
            raise Broken(error.strerror or str(error)) from None

    def _next(self) -> wire.Message:
        while not self._whole:
            more = self._socket.recv(65536)
            if not more:
                raise Broken("the server closed the connection instead of answering")
            self._whole, self._rest = wire.cut(self._rest + more)
        return wire.message(self._whole.pop(0))


def entry_attributes(body: bytes) -> Dict[str, List[str]]:
    """Return the attributes of a SearchResultEntry; bytes that are no UTF-8 are replaced."""
    _tag, _start, stop = wire.element(body, 0, len(body))
    _tag, position, end = wire.element(body, stop, len(body))
    found: Dict[str, List[str]] = {}
    while position < end:
        _tag, start, position = wire.element(body, position, end)
        _tag, first, last = wire.element(body, start, position)
        _tag, inside, behind = wire.element(body, last, position)
        values = []
        while inside < behind:
            _tag, begin, inside = wire.element(body, inside, behind)
            values.append(body[begin:inside].decode("utf-8", "replace"))
        found[body[first:last].decode("utf-8", "replace").lower()] = values
    return found
