# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS of the management connection: verified by the standard library, since ldap3 takes a common name for a name.

StartTLS is done here as well: ldap3 takes what follows the answer in clear text for answers that came protected, and
stumbles over bytes that are no LDAP.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any, Tuple

from ..problems import LdaptuneError, problem
from .errors import DirectoryTimeout, DirectoryUnreachable

# RFC 4511, section 4.14.1, with message id 1.
_REQUEST = bytes.fromhex("301d02010177188016") + b"1.3.6.1.4.1.1466.20037"
_ANSWER = 0x78


def client_context(ca_file: str) -> ssl.SSLContext:
    """Return a context that verifies certificate and name; raises LdaptuneError for a CA file that cannot be read."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.hostname_checks_common_name = False
    try:
        if ca_file:
            made.load_verify_locations(cafile=ca_file)
        else:
            made.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except OSError as error:
        raise LdaptuneError(
            problem("the CA file cannot be read", where=ca_file, found=error.strerror or str(error))
        ) from None
    return made


def verifying(ldap3: Any, ca_file: str) -> Any:
    """Return ldap3's Tls object whose sockets are verified by `client_context`."""
    context = client_context(ca_file)

    class Verifying(ldap3.Tls):  # type: ignore[misc]
        def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
            host = connection.server.host.partition("%")[0]
            connection.socket = context.wrap_socket(connection.socket, server_hostname=host)

    return Verifying(validate=ssl.CERT_REQUIRED)


def start(connection: Any, uri: str, timeout: float) -> None:
    """Do StartTLS on an open ldap3 connection; raises DirectoryUnreachable where it ends in anything but TLS."""
    try:
        connection.socket.settimeout(timeout)
        _ask(connection.socket)
        connection.server.tls.wrap_socket(connection)
        connection.socket.settimeout(None)
    except socket.timeout:
        raise DirectoryTimeout(problem("no answer to StartTLS", uri, "no answer within %d s" % timeout)) from None
    except (OSError, ValueError) as error:
        raise DirectoryUnreachable(problem("StartTLS failed", uri, str(error))) from None
    connection.tls_started = True


def _ask(plain: socket.socket) -> None:
    """Ask for TLS; raises ValueError or OSError for any answer but a clean success."""
    plain.sendall(_REQUEST)
    data = b""
    while True:
        more = plain.recv(4096)
        if not more:
            raise ValueError("the server closed the connection instead of answering")
        data += more
        if data[0] != 0x30:
            raise ValueError("the answer is no LDAP message")
        end = _whole(data)
        if end and end <= len(data):
            break
    _tag, start, _end = _element(data, 0)
    _tag, number, behind = _element(data, start)
    tag, body, _end = _element(data, behind)
    _tag, code, behind = _element(data, body)
    _tag, _start, matched = _element(data, behind)
    _tag, text, text_end = _element(data, matched)
    said = data[text:text_end].decode("utf-8", "replace")
    if tag != _ANSWER or data[number : number + 1] not in (b"\x00", b"\x01"):
        raise ValueError("the answer is none to StartTLS")
    if data[code] or data[number] == 0:
        raise ValueError("the server said result %d%s" % (data[code], said and ": " + said))
    if end != len(data):
        raise ValueError("bytes in clear text follow the answer")


def _whole(data: bytes) -> int:
    """Return where the message at the front ends, 0 while its length is not there."""
    if len(data) < 2 or len(data) < 2 + (data[1] & 0x7F if data[1] >= 0x80 else 0):
        return 0
    return _element(data, 0)[2]


def _element(data: bytes, at: int) -> Tuple[int, int, int]:
    """Return (tag, first octet of the content, first octet behind) of the BER element there."""
    try:
        tag, size, start = data[at], data[at + 1], at + 2
    except IndexError:
        raise ValueError("the answer is no LDAP message") from None
    if size >= 0x80:
        octets = size & 0x7F
        start += octets
        size = int.from_bytes(data[at + 2 : start], "big")
    return tag, start, start + size
