# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenLDAP's slapd through cn=config and cn=Monitor."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..problems import LdaptuneError, problem
from . import databases as _databases
from . import monitor as _monitor
from . import passwords as _passwords
from .errors import DirectoryRefused, DirectoryTimeout, DirectoryUnreachable
from .session import Change, Entry, Session, read_password

__all__ = ["DirectoryRefused", "DirectoryTimeout", "DirectoryUnreachable", "OpenLdap", "connect"]

_SETTLE_SECONDS = 1.0
_SETTLE_STEP = 0.01


class OpenLdap:
    """A connection to one slapd; every request has the client timeout of the `server` options."""

    def __init__(self, session: Session, suffix: str = "") -> None:
        self._session = session
        self._suffix = suffix

    @property
    def uri(self) -> str:
        """The URI of this connection."""
        return self._session.uri

    @property
    def own_operations(self) -> Dict[str, int]:
        """Operations this connection has sent, by kind as in cn=Operations,cn=Monitor."""
        return self._session.own_operations

    def account(self, operations: Mapping[str, int]) -> None:
        """Add operations that we sent by another connection, so that nobody takes them for foreign load."""
        for kind, count in operations.items():
            self.own_operations[kind] = self.own_operations.get(kind, 0) + count

    def whoami(self) -> str:
        """Return the authorisation identity, for instance "dn:cn=config"."""
        return self._session.whoami()

    def read(self, dn: str, attributes: Sequence[str] = ("*",)) -> Dict[str, List[Any]] | None:
        """Return one entry's attributes as lists of text, or None if there is no such object (result 32).

        A value that is not UTF-8 comes as {"base64": ...}. Any other result raises DirectoryRefused.
        """
        entries = self._session.search(dn, "(objectClass=*)", attributes, "base")
        return entries[0][1] if entries else None

    def search(
        self, base: str, filter: str = "(objectClass=*)", attributes: Sequence[str] = ("*",), scope: str = "sub"
    ) -> List[Entry]:
        """Return (dn, attributes) pairs; [] where the base does not exist. Scope: base, one or sub."""
        return self._session.search(base, filter, attributes, scope) or []

    def modify(self, dn: str, changes: Sequence[Change]) -> None:
        """Send one modify of (op, attribute, values) with op add, delete or replace; together or not at all.

        In cn=config each call makes slapd wait until running operations are done.
        """
        self._session.modify(dn, changes)

    def databases(self) -> List[Dict[str, Any]]:
        """Return the databases as {dn, number, backend, suffixes (normalised), directory, accesslog}."""
        wanted = ("olcDatabase", "olcSuffix", "olcDbDirectory", "olcAccessLogDB")
        return _databases.parse(self.search("cn=config", "(|(olcDatabase=*)(olcAccessLogDB=*))", wanted))

    def database(self, suffix: str = "") -> Dict[str, Any]:
        """Return the one database meant; none or several raise LdaptuneError naming what is there."""
        return _databases.choose(self.databases(), suffix or self._suffix)

    def config_source(self) -> str:
        """Return "slapd.conf" (changes are gone after a restart) or "slapd.d"; "" where the server shows neither.

        A server that was started with -F alone shows neither.
        """
        entry = self.read("cn=config", ("olcConfigDir", "olcConfigFile")) or {}
        if _monitor.first(entry, "olcConfigDir"):
            return "slapd.d"
        return "slapd.conf" if _monitor.first(entry, "olcConfigFile") else ""

    def version(self) -> Tuple[int, ...]:
        """Return (2, 5, 13), or () where cn=Monitor does not show it to this identity."""
        entry = self._monitor_read("cn=Monitor", ("monitoredInfo",))
        return _monitor.parse_version(_monitor.first(entry or {}, "monitoredInfo") or "")

    def has_monitor(self) -> bool:
        """Return whether this identity can read cn=Monitor; without it nothing can be counted."""
        return bool(self.version())

    def _monitor_read(self, dn: str, attributes: Sequence[str]) -> Dict[str, List[Any]] | None:
        try:
            return self.read(dn, attributes)
        except DirectoryRefused as refusal:
            if refusal.name == "insufficientAccessRights":
                return None
            raise

    def _monitor_search(self, base: str, attributes: Sequence[str]) -> List[Entry]:
        try:
            return self.search(base, attributes=attributes)
        except DirectoryRefused as refusal:
            if refusal.name == "insufficientAccessRights":
                return []
            raise

    def threads(self) -> Dict[str, int | None]:
        """Return the pool's figures {max, open, starting, active, pending}; None where cn=Monitor is not seen."""
        return _monitor.threads(self._monitor_search("cn=Threads,cn=Monitor", ("monitoredInfo",)))

    def database_figures(self, database: Mapping[str, Any]) -> Dict[str, Any]:
        """Return {pages_max, pages_used, pages_free, readers_max, readers_used, entries, page_size}, or {}.

        Reading them walks the database's free list: not for a hot loop.
        """
        entries = self._monitor_search("cn=Databases,cn=Monitor", ("*", "+"))
        return _monitor.database(entries, database["suffixes"], database["directory"])

    def monitor(self, database: Mapping[str, Any] | None = None) -> Dict[str, Any]:
        """Return named figures of cn=Monitor: {threads, connections, started, database}.

        `database` holds the figures of the database given, {} without one; all are empty where cn=Monitor is not seen.
        """
        clock = self._monitor_read("cn=Start,cn=Time,cn=Monitor", ("monitorTimestamp",)) or {}
        connections = _monitor.under(
            self._monitor_search("cn=Connections,cn=Monitor", ("monitorCounter",)), "cn=connections,cn=monitor"
        )
        return {
            "threads": self.threads(),
            "connections": {
                name: _monitor.number(connections.get(name, {}), "monitorCounter") for name in ("total", "current")
            },
            "started": _monitor.first(clock, "monitorTimestamp"),
            "database": self.database_figures(database) if database else {},
        }

    def pulse(self) -> Dict[str, Any]:
        """Return what of cn=Monitor is worth reading every second: {operations, own, threads}, or {}.

        "own" is what this connection had sent when the operations were counted; the pool's active threads have the one
        that serves this reading among them.
        """
        operations = _monitor.operations(self._monitor_search("cn=Operations,cn=Monitor", ("monitorOpInitiated",)))
        if not operations:
            return {}
        own = dict(self.own_operations)
        return {"operations": operations, "own": own, "threads": self.threads()}

    def clients(self) -> Dict[str, Any]:
        """Return {connections, read_waiters, write_waiters}: a client that does not read its answers waits to write."""
        current = self._monitor_read("cn=Current,cn=Connections,cn=Monitor", ("monitorCounter",)) or {}
        waiters = _monitor.under(
            self._monitor_search("cn=Waiters,cn=Monitor", ("monitorCounter",)), "cn=waiters,cn=monitor"
        )
        figures = {name: _monitor.number(waiters.get(name, {}), "monitorCounter") for name in ("read", "write")}
        return {
            "connections": _monitor.number(current, "monitorCounter"),
            "read_waiters": figures["read"],
            "write_waiters": figures["write"],
        }

    def password_schemes(self, suffix: str, limit: int = 50) -> Dict[str, Any]:
        """Return how the passwords of the first entries below a suffix are hashed, as passwords.count_schemes says.

        One search, bounded by entries and time, that needs no index. A server that lets this identity see no passwords
        gives "with_password" 0; one that refuses the search gives {}.
        """
        try:
            found = self._session.search(suffix, "(objectClass=*)", ("userPassword",), "sub", limit=limit, seconds=2)
        except DirectoryRefused:
            return {}
        return _passwords.count_schemes(_passwords.of(attributes) for _, attributes in found or ())

    def counters(self) -> Dict[str, Any]:
        """Return {"operations", "connections_total", "own"}, or {} where cn=Monitor is not seen.

        The figures stand as they will once this connection has said goodbye, so they are exact if this is the last
        thing asked of it: for a start by one connection and a finish by another,
        finish.operations - start.operations - finish.own is what others sent between the two. Taken twice by one
        connection, subtract finish.own - start.own. A reading is repeated until two agree (an unbind of a client that
        has just left may still be on its way), for a second at most.
        """
        deadline = time.monotonic() + _SETTLE_SECONDS
        previous: Dict[str, int] = {}
        while True:
            found, total = self._read_counters()
            if not found:
                return {}
            own = dict(self.own_operations)
            others = {kind: count - own.get(kind, 0) for kind, count in found.items() if kind != "total"}
            if others == previous or time.monotonic() > deadline:
                break
            previous = others
            time.sleep(_SETTLE_STEP)
        for figures in (found, own):
            figures["unbind"] = figures.get("unbind", 0) + 1
        found["total"] += 1
        own["total"] = sum(own.values())
        return {"operations": found, "connections_total": total, "own": own}

    def _read_counters(self) -> Tuple[Dict[str, int], int | None]:
        total = self._monitor_read("cn=Total,cn=Connections,cn=Monitor", ("monitorCounter",))
        entries = self._monitor_search("cn=Operations,cn=Monitor", ("monitorOpInitiated",))
        return _monitor.operations(entries), _monitor.number(total or {}, "monitorCounter")

    def close(self) -> None:
        """Say goodbye; closing twice is no error."""
        self._session.close()

    def __enter__(self) -> OpenLdap:
        return self

    def __exit__(self, *_unused: object) -> None:
        self.close()


def connect(server: Mapping[str, Any]) -> OpenLdap:
    """Connect by the `server` options: name and password where given, else SASL EXTERNAL over ldapi.

    `uri` must be set; who finds it from a running slapd is levers.context. The password is read on this host, used for
    one bind, and in no error text.
    """
    uri = str(server.get("uri") or "")
    if not uri:
        raise LdaptuneError(problem("no URI to manage the server by", where="tuning_config_uri", wanted="ldapi://..."))
    session = Session(
        uri,
        timeout=int(server.get("timeout") or 10),
        ca_file=str(server.get("ca_file") or ""),
        starttls=bool(server.get("starttls")),
    )
    name = str(server.get("config_dn") or "")
    try:
        if name:
            _bind_with_password(session, name, server)
        elif uri.startswith("ldapi:"):
            session.bind_external()
        else:
            raise LdaptuneError(
                problem(
                    "no identity for this URI",
                    where=uri,
                    do="SASL EXTERNAL needs ldapi://; for ldap:// and ldaps:// set tuning_config_dn and "
                    "tuning_config_password_file.",
                )
            )
    except BaseException:
        session.close()
        raise
    return OpenLdap(session, str(server.get("suffix") or ""))


def _bind_with_password(session: Session, name: str, server: Mapping[str, Any]) -> None:
    clear = session.uri.startswith("ldap:") and not server.get("starttls")
    host = session.uri[len("ldap://") :].split("/")[0].rsplit(":", 1)[0].strip("[]").lower()
    if clear and not (host in {"localhost", "::1"} or host.startswith("127.")):
        raise LdaptuneError(
            problem(
                "this would send the configuration password in clear",
                where=session.uri,
                do="Use ldapi://, ldaps:// or StartTLS (tuning_config_starttls: true).",
            )
        )
    session.bind_simple(name, read_password(str(server.get("config_password_file") or "")))
