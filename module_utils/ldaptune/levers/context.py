# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a lever works on: one slapd, its connection, its database, and the way to restart it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..directory.openldap import DirectoryTimeout, DirectoryUnreachable, OpenLdap, connect
from ..host import process
from ..host.facts import host_facts
from ..host.process import Slapd
from ..problems import LdaptuneError, Problem, problem

_ANSWER_SECONDS = 30.0
_STEP = 0.05


class Context:
    """One slapd being tuned. `directory` and `slapd` change when it is restarted: never keep them aside.

    host: the facts of host.facts. database: the one chosen by suffix. version: (2, 5, 13). server: the options.
    config_source: slapd.d, or slapd.conf (cn=config lasts as long as the process then). restarts: how many we made.
    wanted: values that the same plan sets, by lever: a planner fills it so that limits can be checked against what will
    be there; empty, they are checked against what is. root: where /etc, /proc and /sys of the host lie. switching: a
    leg is being set, and many will follow: what costs time and is the same in both arms may stay.
    """

    def __init__(
        self,
        host: Mapping[str, Any],
        directory: OpenLdap,
        database: Mapping[str, Any],
        version: Tuple[int, ...],
        server: Mapping[str, Any],
        *,
        slapd: Slapd,
    ) -> None:
        self.host = host
        self.directory = directory
        self.database = database
        self.version = version
        self.server: Dict[str, Any] = dict(server)
        self.slapd = slapd
        self.config_source = directory.config_source() or slapd.config_source
        self.restarts = 0
        self.wanted: Dict[str, Any] = {}
        self.root = "/"
        self.switching = False

    def answers(self, seconds: float = 2.0) -> bool:
        """Return whether slapd serves a new connection within this time."""
        try:
            with connect(dict(self.server, timeout=max(1, round(seconds)))) as directory:
                directory.read("", ("objectClass",))
                self.directory.account(directory.own_operations)
                self.directory.account({"unbind": 1})
        except (DirectoryTimeout, DirectoryUnreachable):
            return False
        return True

    def restart(self, hung: bool = False) -> None:
        """Restart slapd and connect again; raises LdaptuneError where it does not answer within the deadline.

        `hung` says that it stopped answering by our doing: it is then killed first, as nothing else ends it.
        """
        from ..host import service
        from . import companion

        name, command = self._service()
        service.how(self.slapd, name, command)
        self.directory.close()
        if hung:
            service.kill_hung(self.slapd)
        self.slapd = service.restart(self.slapd, name, command)
        self.restarts += 1
        self.reconnect(_ANSWER_SECONDS)
        # What comes with every start of slapd has to be over before anything is measured.
        companion.wait(self)

    def restart_problems(self) -> List[Problem]:
        """Return what stands against restarting slapd, found without doing it."""
        from ..host import service

        try:
            service.how(self.slapd, *self._service())
        except LdaptuneError as error:
            return error.problems
        return []

    def _service(self) -> Tuple[str, Sequence[str]]:
        return str(self.server.get("service") or "slapd"), self.server.get("restart_command") or ()

    def reconnect(self, seconds: float = _ANSWER_SECONDS) -> None:
        """Connect anew, trying until the deadline: a slapd that has just started needs a moment."""
        with suppress(Exception):
            self.directory.close()
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.directory = connect(self.server)
                return
            except (DirectoryTimeout, DirectoryUnreachable) as error:
                if time.monotonic() > deadline:
                    raise LdaptuneError(
                        error.problems
                        + [problem("slapd does not answer", where=self.server["uri"], found="%d s waited" % seconds)]
                    ) from None
            time.sleep(_STEP)

    def close(self) -> None:
        """Close the connection."""
        self.directory.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_unused: object) -> None:
        self.close()


def open_context(server: Mapping[str, Any]) -> Context:
    """Find the slapd that the `server` options mean, connect to it and choose its database.

    Raises LdaptuneError where none or several fit, nothing answers, or this identity may not read cn=config.
    """
    slapd = process.choose_slapd(process.find_slapds(), str(server.get("instance") or ""), str(server.get("uri") or ""))
    uri = str(server.get("uri") or "") or slapd.ldapi
    if not uri:
        raise LdaptuneError(
            problem(
                "this slapd has no ldapi listener",
                where="pid %d" % slapd.pid,
                found=" ".join(slapd.uris),
                do="Add ldapi:/// to its URLs (SLAPD_SERVICES on Debian); or set tuning_config_uri, tuning_config_dn.",
            )
        )
    options = dict(server, uri=uri)
    directory = connect(options)
    try:
        database = directory.database()
        version = directory.version() or process.program_version(slapd)
        return Context(host_facts(slapd.pid), directory, database, version, options, slapd=slapd)
    except BaseException:
        directory.close()
        raise
