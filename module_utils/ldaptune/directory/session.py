# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One LDAP connection by ldap3: every request has a timeout, and each one sent is counted by kind."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Sequence, Tuple
from urllib.parse import quote, urlsplit

from ..problems import LdaptuneError, problem
from .errors import DirectoryRefused, DirectoryTimeout, DirectoryUnreachable, as_text
from .ldapi import socket_path

Entry = Tuple[str, Dict[str, List[Any]]]
Change = Tuple[str, str, Sequence[str]]
# What sockaddr_un.sun_path holds beside its final NUL.
_LDAPI_MAX_PATH = 107
_SCOPES = {"base": "BASE", "one": "LEVEL", "sub": "SUBTREE"}
# Time, size and administrative limit exceeded.
_LIMITS = (3, 4, 11)
_OPS = {"add": "MODIFY_ADD", "delete": "MODIFY_DELETE", "replace": "MODIFY_REPLACE"}


def _ldap3() -> Any:
    try:
        import ldap3
    except ImportError:
        raise LdaptuneError(
            problem(
                "the Python module ldap3 is missing",
                where="this host",
                do="Install python3-ldap3 (Debian, Ubuntu, Fedora, EPEL), or pip install ldap3 for the interpreter "
                "that Ansible uses on this host.",
            )
        ) from None
    return ldap3


def read_password(path: str) -> str:
    """Return the first line of a password file; the file's content is in no error text."""
    try:
        with open(path, encoding="utf-8") as stream:
            password = stream.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "not UTF-8 text"
        raise LdaptuneError(problem("the password file cannot be read", where=path, found=reason)) from None
    if not password:
        raise LdaptuneError(
            problem("the password file is empty", where=path, do="An empty password would be an anonymous bind.")
        )
    return password


class Session:
    """An authenticated connection; `own_operations` counts what it sent, by the names cn=monitor uses."""

    def __init__(self, uri: str, timeout: int = 10, ca_file: str = "", starttls: bool = False) -> None:
        self.uri = uri
        self.timeout = max(1, int(timeout))
        self.own_operations: Dict[str, int] = {}
        self._connection: Any = None
        self._starttls = starttls and uri.startswith("ldap:")
        self._server = self._make_server(ca_file)

    def _make_server(self, ca_file: str) -> Any:
        ldap3 = _ldap3()
        if "@" in self.uri and not self.uri.lower().startswith("ldapi:"):
            # Not repeated: what stands before the @ may hold a password.
            raise LdaptuneError(
                problem(
                    "a URI with a name or a password in it",
                    where="tuning_config_uri",
                    wanted="scheme://host:port",
                    do="Name who binds in tuning_config_dn, and the password's file in tuning_config_password_file.",
                )
            )
        parts = urlsplit(self.uri)
        if parts.scheme not in ("ldap", "ldaps", "ldapi"):
            raise LdaptuneError(
                problem(
                    "not an LDAP URI",
                    where="tuning_config_uri",
                    found=self.uri,
                    wanted="ldap://, ldaps:// or ldapi://",
                )
            )
        if parts.scheme == "ldapi":
            path = socket_path(self.uri)
            if len(os.fsencode(path)) > _LDAPI_MAX_PATH:
                raise LdaptuneError(
                    problem(
                        "the ldapi path is too long",
                        where=self.uri,
                        found="%d bytes" % len(os.fsencode(path)),
                        wanted="at most %d bytes" % _LDAPI_MAX_PATH,
                    )
                )
            if not os.path.exists(path):
                raise DirectoryUnreachable(problem("no such socket", where=self.uri, found=path))
            # ldap3 refuses a path that it takes for a host name; it wants the percent-encoded form.
            encoded = "ldapi://" + quote(path, safe="")
            return ldap3.Server(encoded, get_info=ldap3.NONE, connect_timeout=self.timeout)
        # Not for ldapi, which is nearly every connection.
        from . import tls

        return ldap3.Server(
            parts.hostname or "127.0.0.1",
            port=parts.port or (636 if parts.scheme == "ldaps" else 389),
            use_ssl=parts.scheme == "ldaps",
            tls=tls.verifying(ldap3, ca_file) if parts.scheme == "ldaps" or self._starttls else None,
            get_info=ldap3.NONE,
            connect_timeout=self.timeout,
        )

    def _connect(self, **how: Any) -> None:
        ldap3 = _ldap3()
        self._connection = ldap3.Connection(
            self._server,
            auto_referrals=False,
            check_names=False,
            receive_timeout=self.timeout,
            return_empty_attributes=False,
            raise_exceptions=False,
            **how,
        )
        self._guarded("connect", "", self._connection.open)
        if self._starttls:
            self._count("extended")
            from . import tls

            try:
                tls.start(self._connection, self.uri, self.timeout)
            except LdaptuneError:
                self._drop()
                raise

    def bind_external(self) -> None:
        """Bind as the operating system's user by SASL EXTERNAL."""
        ldap3 = _ldap3()
        self._connect(authentication=ldap3.SASL, sasl_mechanism="EXTERNAL", sasl_credentials="")
        self._bind("SASL EXTERNAL")

    def bind_simple(self, dn: str, password: str) -> None:
        """Bind by name and password; neither an error nor a traceback holds the password."""
        ldap3 = _ldap3()
        self._connect(user=dn, password=password, authentication=ldap3.SIMPLE)
        self._bind(dn)

    def _bind(self, name: str) -> None:
        self._count("bind")
        self._guarded("bind", name, lambda: self._connection.bind(read_server_info=False))
        self._check("bind", name)

    def _count(self, kind: str) -> None:
        self.own_operations[kind] = self.own_operations.get(kind, 0) + 1

    def _guarded(self, doing: str, dn: str, call: Callable[[], Any]) -> Any:
        """Run one ldap3 call; its many exceptions become two: no answer in time, or no connection.

        Those that are not its own come from bytes that are no LDAP.
        """
        from ldap3.core.exceptions import LDAPException, LDAPResponseTimeoutError

        try:
            return call()
        except (LDAPException, LookupError, TypeError, ValueError) as error:
            # ldap3's own text may show how it was called; only the socket's words are passed on.
            detail = str(getattr(self._connection, "last_error", "") or type(error).__name__)
            detail = detail if isinstance(error, LDAPException) else "an answer that ldap3 cannot read"
            self._drop()
            if isinstance(error, LDAPResponseTimeoutError) or "timed out" in detail or "temporarily" in detail:
                found = "no answer within %d s" % self.timeout
                raise DirectoryTimeout(
                    problem("no answer to %s %s" % (doing, dn), where=self.uri, found=found)
                ) from None
            raise DirectoryUnreachable(
                problem("the connection failed during %s" % doing, where=self.uri, found=detail)
            ) from None

    def _check(self, doing: str, dn: str, fine: Tuple[int, ...] = (0,)) -> int:
        result = self._connection.result or {}
        code = int(result.get("result", -1))
        if code not in fine:
            name = str(result.get("description") or "other")
            said = " ".join([str(result.get("message") or ""), *map(str, result.get("referrals") or ())]).strip()
            raise DirectoryRefused(code, name, said, dn, where=self.uri, doing=doing)
        return code

    def _alive(self) -> Any:
        if self._connection is None or self._connection.closed:
            raise DirectoryUnreachable(problem("the connection is closed", where=self.uri))
        return self._connection

    def search(
        self, base: str, filter_text: str, attributes: Sequence[str], scope: str, *, limit: int = 0, seconds: int = 0
    ) -> List[Entry] | None:
        """Return the entries found, or None for result 32 (no such object).

        With `limit` at most so many, with `seconds` those that the server finds in that time; the server's own limits
        are then no refusal.
        """
        ldap3 = _ldap3()
        connection = self._alive()
        self._count("search")
        self._guarded(
            "search of",
            base,
            lambda: connection.search(
                base,
                filter_text,
                search_scope=getattr(ldap3, _SCOPES[scope]),
                attributes=list(attributes),
                size_limit=limit,
                time_limit=seconds,
            ),
        )
        if self._check("search", base, (0, 32, *(_LIMITS if limit or seconds else ()))) == 32:
            return None
        found = []
        for item in connection.response or []:
            if item.get("type") == "searchResEntry":
                values = {name: [as_text(value) for value in raw] for name, raw in item["raw_attributes"].items()}
                found.append((str(item["dn"]), values))
        return found

    def modify(self, dn: str, changes: Sequence[Change]) -> None:
        """Send one modify with all changes in order; they take effect together or not at all."""
        ldap3 = _ldap3()
        connection = self._alive()
        wanted: Dict[str, List[Any]] = {}
        for op, attribute, values in changes:
            encoded = [value.encode("utf-8") for value in values]
            wanted.setdefault(attribute, []).append((getattr(ldap3, _OPS[op]), encoded))
        self._count("modify")
        self._guarded("modify of", dn, lambda: connection.modify(dn, wanted))
        self._check("modify", dn)

    def whoami(self) -> str:
        """Return the authorisation identity as the server sees it, for instance "dn:cn=admin,dc=lab,dc=test"."""
        connection = self._alive()
        self._count("extended")
        answer = self._guarded("Who am I?", "", connection.extend.standard.who_am_i)
        self._check("Who am I?", "")
        return str(answer or "")

    def _drop(self) -> None:
        """Close the socket without a word; an unbind could block on a server that hangs."""
        if self._connection is not None:
            from contextlib import suppress

            with suppress(Exception):
                self._connection.strategy.close()
        self._connection = None

    def close(self) -> None:
        """Say goodbye; closing twice is no error."""
        if self._connection is not None and not self._connection.closed:
            self._count("unbind")
            from contextlib import suppress

            with suppress(Exception):
                self._connection.unbind()
        self._connection = None
