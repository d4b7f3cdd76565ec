# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong when a directory is asked, each told by name."""

from __future__ import annotations

from typing import Any, Union

from ..problems import LdaptuneError, problem

_HINTS = {
    "insufficientAccessRights": "This identity may not do that: give it manage rights on cn=config by olcAccess, "
    "or set tuning_config_dn and its password file.",
    "confidentialityRequired": "The server's olcSecurity asks for more protection than this connection has "
    "(a local socket counts as olcLocalSSF, 71 unless set): use TLS, or raise olcLocalSSF.",
    "invalidCredentials": "Check tuning_config_dn and its password file; the same password is not tried again.",
    "noSuchObject": "The entry is missing, or this identity may not see it.",
}


class DirectoryUnreachable(LdaptuneError):
    """Nothing answers at the URI, or TLS could not be agreed."""


class DirectoryTimeout(LdaptuneError):
    """The server took a request and gave no answer within the client's timeout."""


class DirectoryRefused(LdaptuneError):
    """The server answered with a result code that is not success.

    `code` is the number, `name` its RFC 4511 name, `text` the server's own words, `dn` the entry asked about.
    """

    def __init__(self, code: int, name: str, text: str, dn: str, *, where: str = "", doing: str = "request") -> None:
        self.code = code
        self.name = name
        self.text = text
        self.dn = dn
        found = "result %d %s" % (code, name)
        if text:
            found += ": %s" % text
        what = "the server refused the %s of %s" % (doing, dn or "the root DSE")
        super().__init__(problem(what, where=where, found=found, do=_HINTS.get(name, "")))


def as_text(value: Union[bytes, Any]) -> Any:
    """Return a value as text, or as {"base64": ...} where its bytes are not UTF-8, so that JSON always holds it."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"base64": b64encode(value).decode("ascii")}
