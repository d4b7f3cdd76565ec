# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open one connection to the server, with TLS where asked; nothing secret is sent here."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import time
from typing import Any, List, NamedTuple, Tuple

from . import wire
from .uri import Target

CONNECT_ERRORS = {
    errno.ECONNREFUSED: "connect_refused",
    errno.ENOENT: "connect_no_socket",
    errno.EACCES: "connect_permission",
    errno.EMFILE: "connect_descriptors",
    errno.ENFILE: "connect_descriptors",
    errno.ECONNRESET: "reset",
    errno.ETIMEDOUT: "connect_timeout",
    errno.EADDRNOTAVAIL: "connect_no_port",
}


class ConnectFailed(Exception):
    """A connection that was not made: `name` is the failure's class, `text` what to tell."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name
        self.text = text


class TlsRefused(Exception):
    """StartTLS or the handshake did not succeed; the text says why."""


class Security(NamedTuple):
    """What protects the connection; `context` is None for clear text and ldapi."""

    context: ssl.SSLContext | None
    starttls: bool


def context(ca_file: str, insecure: bool, cert_file: str = "", key_file: str = "") -> ssl.SSLContext:
    """Return a client context: certificate and name are verified (a common name alone is not) unless `insecure`.

    `cert_file` and `key_file` (PEM; the key may stand in the first) are shown to a server that asks for them.
    Raises ConnectFailed when a file cannot be read.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.hostname_checks_common_name = False
    if cert_file:
        try:
            made.load_cert_chain(cert_file, key_file or None, lambda: b"")
        except (OSError, ssl.SSLError) as error:
            text = "cannot read the certificate %s: %s" % (cert_file, error.strerror or error)
            raise ConnectFailed("tls", text) from None
    if insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
        return made
    try:
        if ca_file:
            made.load_verify_locations(cafile=ca_file)
        else:
            made.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except (OSError, ssl.SSLError) as error:
        raise ConnectFailed("tls", "cannot read the CA file %s: %s" % (ca_file, error.strerror or error)) from None
    return made


def open_connection(
    target: Target, addresses: List[Tuple[int, Any]], security: Security, timeout: float
) -> socket.socket:
    """Return a connected socket, non-blocking, TLS finished; raises ConnectFailed.

    `timeout` (seconds) covers the whole of it.
    """
    deadline = time.monotonic() + timeout
    plain = _reach(target, addresses, deadline)
    try:
        if security.starttls:
            _ask_for_tls(plain, deadline)
        if security.context is None:
            plain.setblocking(False)
            return plain
        plain.settimeout(_left(deadline))
        try:
            wrapped = security.context.wrap_socket(plain, server_hostname=target.host.partition("%")[0])
        except socket.timeout:
            raise ConnectFailed("connect_timeout", "no TLS handshake within %.0f s" % timeout) from None
        except ssl.SSLCertVerificationError as error:
            text = "the server's certificate was not accepted for %s: %s" % (target.host, error.verify_message)
            raise ConnectFailed("tls", text) from None
        except (OSError, ValueError) as error:
            raise ConnectFailed("tls", "the TLS handshake failed: %s" % error) from None
        wrapped.setblocking(False)
        return wrapped
    except BaseException:
        plain.close()
        raise


def login(sock: socket.socket, bind: bytes, timeout: float) -> None:
    """Bind once on a new connection and wait for the answer; raises ConnectFailed for anything but success."""
    deadline = time.monotonic() + timeout
    try:
        sock.settimeout(_left(deadline))
        sock.sendall(wire.envelope(1, bind))
        answer = wire.message(_one_message(sock, deadline)[0])
        if wire.is_notice_of_disconnection(answer):
            said = wire.result(answer.body)
            raise ConnectFailed(
                "notice_of_disconnection", "server said %s: %s" % (wire.result_name(said.code), said.text)
            )
        if answer.id != 1 or answer.tag != wire.BIND_RESPONSE:
            raise ConnectFailed("decode", "the server's answer to the first bind is none")
        found = wire.result(answer.body)
    except wire.DecodeError as error:
        raise ConnectFailed("decode", "the answer to the first bind is no LDAP message: %s" % error) from None
    except socket.timeout:
        raise ConnectFailed("op_timeout", "no answer to the first bind in time") from None
    except OSError as error:
        raise ConnectFailed("reset", "the first bind failed: %s" % (error.strerror or error)) from None
    if found.code != 0:
        text = "the first bind was refused: %s %s" % (wire.result_name(found.code), found.text)
        raise ConnectFailed(wire.result_name(found.code), text.strip())
    sock.setblocking(False)


def _one_message(sock: socket.socket, deadline: float) -> Tuple[bytes, bool]:
    """Read up to the end of one message; return its content and whether more came with it."""
    data = b""
    while True:
        whole, rest = wire.cut(data)
        if whole:
            return whole[0], len(whole) > 1 or bool(rest)
        sock.settimeout(_left(deadline))
        more = sock.recv(4096)
        if not more:
            raise ConnectFailed("eof", "the server closed the connection instead of answering")
        data += more


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise ConnectFailed("connect_timeout", "no connection in time")
    return left


def _reach(target: Target, addresses: List[Tuple[int, Any]], deadline: float) -> socket.socket:
    failed = ConnectFailed("connect_failed", "no address")
    for family, address in addresses:
        made: socket.socket | None = None
        try:
            made = socket.socket(family, socket.SOCK_STREAM)
            made.settimeout(_left(deadline))
            made.connect(address)
            if family != socket.AF_UNIX:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        except socket.timeout:
            failed = ConnectFailed("connect_timeout", "%s: no answer to the connection" % target.uri)
        except OSError as error:
            failed = ConnectFailed(CONNECT_ERRORS.get(error.errno or 0, "connect_failed"), _why(target, error))
        if made is not None:
            made.close()
    raise failed


def _why(target: Target, error: OSError) -> str:
    if target.scheme == "ldapi":
        path = os.fsdecode(target.path)
        if error.errno == errno.ENOENT:
            return "%s: no such socket" % path
        if error.errno == errno.EACCES:
            return "%s: permission denied" % path
        return "%s: %s" % (path, error.strerror)
    return "%s: %s" % (target.uri, error.strerror or error)


def _ask_for_tls(plain: socket.socket, deadline: float) -> None:
    """Do StartTLS up to the handshake; anything but a clean success ends here, before a password could be sent."""
    try:
        plain.settimeout(_left(deadline))
        plain.sendall(wire.envelope(1, wire.starttls()))
        starttls_answer(*_one_message(plain, deadline))
    except TlsRefused as refused:
        raise ConnectFailed("tls", str(refused)) from None
    except wire.DecodeError as error:
        raise ConnectFailed("tls", "the answer to StartTLS is no LDAP message: %s" % error) from None
    except socket.timeout:
        raise ConnectFailed("connect_timeout", "no answer to StartTLS in time") from None
    except OSError as error:
        raise ConnectFailed("tls", "StartTLS failed: %s" % (error.strerror or error)) from None


def starttls_answer(content: bytes, more: bool) -> None:
    """Raise TlsRefused unless this message is the server's yes to StartTLS, with nothing (`more`) behind it."""
    try:
        answer = wire.message(content)
        if wire.is_notice_of_disconnection(answer):
            said = wire.result(answer.body)
            raise TlsRefused("server said %s: %s" % (wire.result_name(said.code), said.text))
        if answer.id != 1 or answer.tag != wire.EXTENDED_RESPONSE:
            raise TlsRefused("the server's answer to StartTLS is none")
        found = wire.result(answer.body)
    except wire.DecodeError as error:
        raise TlsRefused("the answer to StartTLS is no LDAP message: %s" % error) from None
    if found.code != 0:
        said_text = ": %s" % found.text if found.text else ""
        raise TlsRefused("StartTLS refused: %s%s" % (wire.result_name(found.code), said_text))
    if more:
        raise TlsRefused("bytes in clear text follow the answer to StartTLS")
