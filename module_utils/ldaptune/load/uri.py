# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's URI: ldap://, ldaps:// with names, IPv4 and [IPv6] addresses, ldapi:// with an escaped path."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Any, List, NamedTuple, Tuple
from urllib.parse import unquote_to_bytes

from ..problems import LdaptuneError, problem

# Where `ldapi:///` means: the socket that slapd's packages make, in the order tried.
LDAPI_DEFAULTS = ("/run/slapd/ldapi", "/var/run/slapd/ldapi", "/run/ldapi", "/var/run/ldapi", "/var/run/openldap/ldapi")
# sockaddr_un.sun_path has 108 bytes, one of them for the final NUL.
LDAPI_MAX_PATH = 107
DEFAULT_PORTS = {"ldap": 389, "ldaps": 636}


class Target(NamedTuple):
    """A server to connect to; `path` is used by ldapi, the others by ldap and ldaps."""

    uri: str
    scheme: str
    host: str
    port: int
    path: bytes


def parse(uri: str) -> Target:
    """Return the parts of a URI; raises LdaptuneError for one that cannot be meant."""
    scheme, separator, rest = uri.partition("://")
    scheme = scheme.lower()
    if scheme != "ldapi" and "@" in uri:
        # Not repeated: what stands before the @ may hold a password.
        raise LdaptuneError(
            problem(
                "a URI with a name or a password in it",
                "uri",
                wanted="scheme://host:port",
                do="Name the accounts in accounts, and put the password into a file",
            )
        )
    if not separator or scheme not in ("ldap", "ldaps", "ldapi"):
        raise LdaptuneError(problem("not an LDAP URI", "uri", uri, "ldap://, ldaps:// or ldapi://"))
    authority, _, path = rest.partition("/")
    if path.strip("/?"):
        raise LdaptuneError(problem("a URI with more than a server in it", "uri", uri, "scheme://host:port"))
    if scheme == "ldapi":
        return Target(uri, scheme, "", 0, _socket_path(uri, authority))
    host, port = _host_and_port(uri, authority)
    return Target(uri, scheme, host or "localhost", DEFAULT_PORTS[scheme] if port < 0 else port, b"")


def _socket_path(uri: str, authority: str) -> bytes:
    path = unquote_to_bytes(authority)
    if not path:
        for candidate in LDAPI_DEFAULTS:
            if os.path.exists(candidate):
                return candidate.encode()
        raise LdaptuneError(
            problem(
                "no ldapi socket found",
                "uri",
                "none of " + ", ".join(LDAPI_DEFAULTS),
                do="Give the path that the server's -h argument names, as in ldapi://%2Frun%2Fslapd%2Fldapi",
            )
        )
    if not path.startswith(b"/"):
        raise LdaptuneError(problem("an ldapi path that is not absolute", "uri", uri, "ldapi://%2Fpath%2Fto%2Fsocket"))
    if len(path) > LDAPI_MAX_PATH:
        raise LdaptuneError(
            problem("the ldapi path is too long", "uri", "%d bytes" % len(path), "at most %d bytes" % LDAPI_MAX_PATH)
        )
    return path


def _host_and_port(uri: str, authority: str) -> Tuple[str, int]:
    host, port = authority, ""
    if authority.startswith("["):
        host, closed, port = authority[1:].partition("]")
        if not closed or (port and not port.startswith(":")) or not _is_address(host):
            raise LdaptuneError(problem("not an IPv6 address in brackets", "uri", uri, "ldap://[::1]:389"))
        port = port[1:]
    elif authority.count(":") > 1:
        raise LdaptuneError(problem("an IPv6 address without brackets", "uri", uri, "ldap://[::1]:389"))
    else:
        host, _, port = authority.partition(":")
    if not port:
        return host, -1
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise LdaptuneError(problem("not a port", "uri", port, "1 to 65535"))
    return host, int(port)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def resolve(target: Target) -> List[Tuple[int, Any]]:
    """Return (address family, socket address) pairs to try in order; raises LdaptuneError for an unknown name."""
    if target.scheme == "ldapi":
        return [(socket.AF_UNIX, target.path)]
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise LdaptuneError(problem("the server's name does not resolve", target.uri, str(error))) from None
    return [(family, address) for family, _, _, _, address in found]


def is_local(addresses: List[Tuple[int, Any]]) -> bool:
    """Tell whether every address leads back to this host: loopback or a Unix socket."""
    return all(
        family == socket.AF_UNIX or ipaddress.ip_address(address[0].partition("%")[0]).is_loopback
        for family, address in addresses
    )
