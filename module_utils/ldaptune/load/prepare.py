# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that can be known to be wrong is said here, before the first connection."""

from __future__ import annotations

import os
import resource
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ..problems import LdaptuneError, Problem, problem
from . import agreed, compose, connect, credentials, uri, workload
from .worker import Job

MODES = ("pass", "closed", "open")
SPARE_DESCRIPTORS = 32
MAX_SECONDS = 86400


class Settings(NamedTuple):
    """What a run is asked to do; `phases` are dicts of name, mode, seconds, rate.

    Without the `folder`, where one is named, no further phase begins: whoever asked for the load is gone.
    With `parts` above 1 this run does the part `part` (from 0) of a load that as many generators share.
    `password` (bytes, one for all accounts) replaces `password_file` where it comes from the environment.
    """

    uri: str
    accounts: str = ""
    password_file: str = ""
    password: bytes | None = None
    workload: str = "bind"
    auth: str = "simple"
    auth_id: str = "{user}"
    mix: Mapping[str, float] = {}
    fail: Mapping[str, float] = {}
    base: str = ""
    filter: str = ""
    scope: str = "sub"
    entries: int = -1
    attributes: Sequence[str] = ("1.1",)
    bind_dn: str = ""
    window: int = 1
    think: float = 0.0
    page_size: int = 500
    connections: int = 16
    processes: int = 0
    seed: str = "1"
    phases: Sequence[Dict[str, Any]] = ()
    sample: int = 0
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    starttls: bool = False
    insecure: bool = False
    timeout: float = 5.0
    allow_cleartext: bool = False
    start_at: float = 0.0
    start_file: str = ""
    part: int = 0
    parts: int = 1
    folder: str = ""


class Ready(NamedTuple):
    """A run with nothing left to refuse; `local` tells that the server is on this host."""

    settings: Settings
    target: uri.Target
    addresses: List[Tuple[int, Any]]
    security: connect.Security
    workload: workload.Workload
    processes: int
    local: bool

    @property
    def connect_seconds(self) -> float:
        """The longest that connecting may take: one connection after the other."""
        return 10 + self.settings.timeout * min(self.settings.connections, 12)

    def jobs(self, live: bool) -> List[Job]:
        """Return one job a process, the connections shared out evenly.

        Each part takes the places of its own: `part`, `part + parts`, ... of the accounts in a pass, so that the parts
        are whole together however many processes each has.
        """
        settings = self.settings
        each, more = divmod(settings.connections, self.processes)
        return [
            Job(
                self.target,
                self.addresses,
                self.security,
                self.workload,
                each + (index < more),
                settings.part + index * settings.parts,
                settings.parts * self.processes,
                settings.seed,
                settings.timeout,
                live,
            )
            for index in range(self.processes)
        ]


def processes_for(connections: int, cpus: int) -> int:
    """Return how many processes to use when not told: one for each four CPUs, each with eight connections or more.

    It depends on nothing measured, so both arms of a comparison get the same.
    """
    return max(1, min(cpus // 4, connections // 8, 8))


def prepare(settings: Settings) -> Ready:
    """Check all settings and files and encode all requests; raises LdaptuneError with what is wrong."""
    asked = _asked(settings)
    has_secret = bool(settings.password_file) or settings.password is not None
    problems = _plain_problems(settings) + compose.problems_of(asked, has_secret)
    if problems:
        raise LdaptuneError(problems)
    target = uri.parse(settings.uri)
    addresses = uri.resolve(target)
    local = uri.is_local(addresses)
    secret = _credentials(settings)
    protected = settings.starttls or target.scheme in ("ldaps", "ldapi") or local
    if secret is not None and not protected and not settings.allow_cleartext:
        raise LdaptuneError(
            problem(
                "passwords would cross the network in clear text",
                "uri",
                settings.uri,
                "ldaps, starttls, loopback or ldapi",
                "Use starttls or ldaps, or set allow_cleartext",
            )
        )
    made = compose.compose(asked, secret, settings.password_file or "AUTHRATE_PASSWORD")
    processes = settings.processes or processes_for(settings.connections, len(os.sched_getaffinity(0)))
    processes = min(processes, settings.connections)
    _descriptors(-(-settings.connections // processes))
    return Ready(settings, target, addresses, _security(settings, target), made, processes, local)


def _plain_problems(settings: Settings) -> List[Problem]:
    found = []
    for name, value, low, high in (
        ("connections", settings.connections, 1, 65536),
        ("processes", settings.processes, 0, 256),
        ("timeout", settings.timeout, 0.01, 3600),
        ("sample", settings.sample, 0, 100000),
        ("parts", settings.parts, 1, 1000),
        ("part", settings.part, 0, settings.parts - 1),
    ):
        if not low <= value <= high:
            found.append(problem("%s is out of range" % name, name, str(value), "%g to %g" % (low, high)))
    found += agreed.problems_of(settings.start_at)
    names = set()
    for number, spec in enumerate(settings.phases, 1):
        where = "phases, item %d" % number
        if not spec.get("name") or spec["name"] in names:
            found.append(problem("a phase needs a name of its own", where, str(spec.get("name"))))
        names.add(spec.get("name"))
        if spec.get("mode") not in MODES:
            found.append(problem("no such mode", where, str(spec.get("mode")), " or ".join(MODES)))
        if not 0 < spec.get("seconds", 0) <= MAX_SECONDS:
            found.append(
                problem("seconds out of range", where, str(spec.get("seconds")), "above 0 to %d" % MAX_SECONDS)
            )
        if spec.get("mode") == "open" and not 0 < spec.get("rate", 0) <= 10000000:
            found.append(problem("an open phase needs a rate", where, str(spec.get("rate")), "operations a second"))
    return found


def _credentials(settings: Settings) -> credentials.Credentials | None:
    if settings.password is not None:
        if not settings.password:
            raise LdaptuneError(problem("an empty password", "AUTHRATE_PASSWORD", do="Nothing was sent"))
        return credentials.Credentials(settings.password, {})
    if settings.password_file:
        return credentials.read(settings.password_file)
    if settings.bind_dn:
        raise LdaptuneError(problem("binds need a password", "password_file", do=compose.WITHOUT_ONE))
    return None


def _asked(settings: Settings) -> compose.Asked:
    auth = workload.Auth(settings.auth, settings.auth_id)
    values = {name: getattr(settings, name) for name in compose.Asked._fields if name != "auth"}
    for name in ("mix", "fail"):
        try:
            values[name] = {kind: float(share) for kind, share in values[name].items()}
        except (TypeError, ValueError):
            raise LdaptuneError(problem("a share that is no number", name, str(values[name]))) from None
    return compose.Asked(auth=auth, **values)


def _security(settings: Settings, target: uri.Target) -> connect.Security:
    if settings.starttls and target.scheme != "ldap":
        raise LdaptuneError(problem("starttls goes with ldap:// only", "starttls", target.scheme + "://"))
    if target.scheme != "ldaps" and not settings.starttls:
        return connect.Security(None, False)
    try:
        made = connect.context(settings.ca_file, settings.insecure, settings.cert_file, settings.key_file)
        return connect.Security(made, settings.starttls)
    except connect.ConnectFailed as failed:
        raise LdaptuneError(problem(failed.text, "ca_file")) from None


def _descriptors(connections: int) -> None:
    """Raise the soft limit of open files to what is needed; refuse when the hard limit is below it."""
    need = connections + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= need:
        return
    if hard != resource.RLIM_INFINITY and hard < need:
        raise LdaptuneError(
            problem(
                "too few open files allowed for the connections",
                "connections",
                "a hard limit of %d (ulimit -Hn)" % hard,
                "%d for %d connections in one process" % (need, connections),
                "Raise the limit or use more processes",
            )
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
