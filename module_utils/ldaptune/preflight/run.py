# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks of one directory host in one pass: whatever is wrong is collected, nothing is changed."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ..directory.errors import DirectoryRefused
from ..directory.names import normalise_dn
from ..directory.openldap import OpenLdap, connect
from ..host.facts import host_facts
from ..host.process import Slapd, choose_slapd, find_slapds, program_version
from ..problems import LdaptuneError, Problem
from ..profile.slapd_values import LogLevel
from ..profile.value_type import ValueRefused
from . import access, container, environment, facts, leftover, logvolume, monitor, replication, service, writes
from .entries import ATTRIBUTES, Entry, config_database, find, make_entry
from .files import read_text

CONFIG = "cn=config"


class Request(NamedTuple):
    """What is asked of the preflight; seconds, operations a second.

    `log_level` is the one a profile will set, if any; `bases` are names the probe will use.
    """

    name: str = ""
    measuring: bool = False
    allow_load: bool = False
    watch_seconds: float = 10.0
    max_foreign_rate: float = 1.0
    consent: Sequence[str] = ()
    load_seconds: float = 0.0
    expected_rate: float = 0.0
    log_level: str = ""
    bases: Sequence[str] = ()


class Preflight:
    """One pass over one host: `run()` once, then read `problems`, `warnings`, `facts`."""

    def __init__(self, server: Mapping[str, Any], request: Request) -> None:
        self.server = dict(server)
        self.request = request
        self.problems: List[Problem] = []
        self.warnings: List[str] = []
        self.facts: Dict[str, Any] = {"host": {}, "slapd": {}, "database": {}}
        self._whoami = ""
        self._entries: List[Entry] = []

    def run(self) -> None:
        """Look at the host, at the process and, where there is a way in, at slapd itself."""
        self.problems += environment.not_root(os.geteuid())
        self.problems += leftover.leftovers(self._state_dir)
        if self.request.measuring:
            self.problems += service.load_not_allowed(self._name, self.request.allow_load)
        has_ldap3 = self._check_ldap3()
        slapd = self._choose()
        self.facts["host"] = host_facts(slapd.pid if slapd else "self")
        if slapd is None:
            return
        self._describe(slapd)
        signs = container.container_signs(container.place_of(os.getpid()), container.place_of(slapd.pid))
        self.problems += container.in_container(slapd.pid, signs)
        if signs:
            return
        source, found = environment.config_source(slapd.argv, slapd.config_dir, slapd.config_file)
        self.facts["slapd"]["config_source"] = source
        self.problems += found
        no_way_in = environment.no_ldapi(slapd.uris, str(self.server.get("uri") or ""))
        self.problems += no_way_in
        if has_ldap3 and not no_way_in:
            self._ask(slapd)

    @property
    def _name(self) -> str:
        return self.request.name or os.uname().nodename

    @property
    def _state_dir(self) -> str:
        return str(self.server.get("state_dir") or "/var/lib/ldaptune")

    def _check_ldap3(self) -> bool:
        try:
            import ldap3  # noqa: F401
        except ImportError:
            release = environment.os_release(read_text("/etc/os-release"))
            self.problems.append(environment.no_ldap3(release, sys.executable or "python3"))
            return False
        return True

    def _choose(self) -> Slapd | None:
        try:
            instance, uri = (str(self.server.get(name) or "") for name in ("instance", "uri"))
            return choose_slapd(find_slapds(), instance, uri)
        except LdaptuneError as error:
            self.problems += error.problems
            return None

    def _describe(self, slapd: Slapd) -> None:
        self.facts["slapd"] = {
            "version": "",
            "pid": slapd.pid,
            "uris": list(slapd.uris),
            "config_source": slapd.config_source,
            "config_dir": slapd.config_dir,
            "ldapi": slapd.ldapi,
            "whoami": "",
            "user": slapd.user,
            "threads": None,
            "log_level": None,
        }

    def _ask(self, slapd: Slapd) -> None:
        server = {**self.server, "uri": str(self.server.get("uri") or "") or slapd.ldapi}
        try:
            with connect(server) as directory:
                self._look(directory, slapd)
        except DirectoryRefused as refusal:
            self.problems.append(self._explain(refusal, slapd))
        except LdaptuneError as error:
            self.problems += error.problems

    def _explain(self, refusal: DirectoryRefused, slapd: Slapd) -> Problem:
        if refusal.code in (access.CONFIDENTIALITY_REQUIRED, access.INSUFFICIENT_ACCESS):
            factors = access.factors_from_ldif(config_files(slapd.config_dir))
            return access.judge_read(refusal.code, refusal.name, self._whoami, refusal.dn, factors)
        return refusal.problems[0]

    def _look(self, directory: OpenLdap, slapd: Slapd) -> None:
        self._whoami = directory.whoami()
        self.facts["slapd"]["whoami"] = self._whoami
        self._entries = [make_entry(dn, values) for dn, values in directory.search(CONFIG, attributes=ATTRIBUTES)]
        root = find(self._entries, CONFIG)
        self.problems += replication.replicated_config(self._entries)
        # A consumer refuses every change whoever asks: its problem is said already.
        no_right = [] if self._is_consumer() else self._may_manage(directory, CONFIG, root is not None)
        self.problems += no_right
        watchable = bool(directory.version())
        version = directory.version() or program_version(slapd)
        self.facts["slapd"]["version"] = ".".join(map(str, version))
        self.problems += environment.too_old(version)
        if not watchable:
            problems, warnings = monitor.no_monitor(self._entries, self._whoami, self.request.measuring)
            self.problems += problems
            self.warnings += warnings
        if self.request.measuring:
            self._watch(directory, watchable)
        if root is None:
            return
        log_levels = self._read_state(directory, root, watchable)
        if self.facts["database"] and not no_right and not self._is_consumer():
            self.problems += self._may_manage(directory, self.facts["database"]["dn"], True)
        if self.request.measuring:
            self._check_load(directory, root, log_levels)

    def _is_consumer(self) -> bool:
        database = config_database(self._entries)
        return database is not None and bool(database.values("olcSyncrepl"))

    def _may_manage(self, directory: OpenLdap, dn: str, readable: bool) -> List[Problem]:
        try:
            directory.modify(dn, access.impossible_change(dn))
        except DirectoryRefused as refusal:
            return access.judge_right(refusal.code, refusal.name, self._whoami, dn, readable)
        return access.judge_right(0, "success", self._whoami, dn, readable)

    def _read_state(self, directory: OpenLdap, root: Entry, monitored: bool) -> List[str]:
        """Fill the facts of slapd and of the database; return the log levels in force."""
        try:
            database = directory.database()
        except LdaptuneError as error:
            self.problems += error.problems
            database = {}
        seen = directory.monitor(database or None)
        configured = root.first("olcThreads")
        threads = seen["threads"].get("max") or (int(configured) if configured.isdigit() else 16)
        # Not cn=Log of the monitor: on 2.5.13 it shows what was last written to itself.
        log_levels = root.values("olcLogLevel") or ["stats"]
        self.facts["slapd"].update(threads=threads, log_level=shown_level(log_levels))
        if database:
            configs = [
                str(self.server.get("uri") or ""),
                *(item.config_dir or item.config_file for item in find_slapds()),
            ]
            self.problems += leftover.strays(self._state_dir, database["suffixes"], filter(None, configs))
            if monitored:
                self.warnings += monitor.no_figures(database["dn"], seen["database"])
            entry = find(self._entries, database["dn"])
            self.facts["database"] = facts.database_facts(database, seen["database"], entry.attributes if entry else {})
        return [str(level) for level in log_levels]

    def _watch(self, directory: OpenLdap, watchable: bool) -> None:
        if not watchable or self.request.watch_seconds <= 0:
            return
        seen = watch(directory, self.request.watch_seconds)
        self.facts["traffic"] = seen.as_data()
        self.problems += service.in_service(self._name, seen, self.request.max_foreign_rate)
        self.warnings += service.idle_clients(self._name, seen)

    def _check_load(self, directory: OpenLdap, root: Entry, log_levels: List[str]) -> None:
        request = self.request
        causes: List[writes.Cause] = []
        replicated = False
        for dn in used_databases(directory.databases(), self.facts["database"].get("dn", ""), request.bases):
            causes += [cause for cause in writes.writing_causes(self._entries, dn) if cause not in causes]
            replicated = replicated or writes.replicates(self._entries, dn)
        self.facts["bind_writes"] = writes.as_data(causes)
        seconds, rate = request.load_seconds, request.expected_rate
        self.problems += writes.refuse_writes(causes, request.consent, seconds, rate, replicated)
        if causes and writes.CONSENT in request.consent:
            self.warnings.append(writes.estimate_text(seconds, rate, replicated))
        found = logvolume.logs_operations(log_levels)
        wanted = logvolume.logs_operations([request.log_level]) if request.log_level else found
        if found or wanted:
            # Where only one arm logs, it has half of the legs, and perhaps the priming.
            seconds *= 1.0 if found and wanted else 0.6
            own_file = root.first("olcLogFile")
            places = logvolume.log_directories(own_file, root.true("olcLogFileOnly"))
            self.problems += logvolume.refuse_volume(logvolume.log_volume(seconds, rate), logvolume.spaces(places))


def sample(directory: OpenLdap) -> service.Sample:
    """Read the server's counters once."""
    current = directory.monitor()["connections"]["current"]
    counted = directory.counters()
    return service.Sample(
        at=time.monotonic(),
        operations=counted["operations"]["total"],
        own=counted["own"]["total"],
        accepted=counted["connections_total"] or 0,
        current=current or 0,
    )


def watch(directory: OpenLdap, seconds: float) -> service.Traffic:
    """Look at the counters, wait, look again; our one connection was open before the first look."""
    before = sample(directory)
    time.sleep(seconds)
    return service.traffic(before, sample(directory), 1)


def used_databases(databases: Sequence[Mapping[str, Any]], chosen: str, bases: Sequence[str]) -> List[str]:
    """Return the entries of the databases that a probe uses: the chosen one, and the nearest one above each base."""
    found = [chosen] if chosen else []
    for base in map(normalise_dn, bases):
        best: Tuple[int, str] = (-1, "")
        for item in databases:
            for suffix in item["suffixes"]:
                if (base == suffix or base.endswith("," + suffix) or not suffix) and len(suffix) > best[0]:
                    best = (len(suffix), str(item["dn"]))
        if best[1] and best[1] not in found:
            found.append(best[1])
    return found


def shown_level(levels: Sequence[str]) -> str:
    """Return log levels in one spelling."""
    values = LogLevel()
    try:
        return values.show(values.from_config(list(levels)))
    except ValueRefused:
        return " ".join(levels)


def config_files(config_dir: str) -> List[str]:
    """Return the text of the two files of a configuration directory that hold security factors."""
    paths = ("cn=config.ldif", "cn=config/olcDatabase={0}config.ldif", "cn=config/olcDatabase={-1}frontend.ldif")
    return [read_text(os.path.join(config_dir, path)) for path in paths] if config_dir else []
