# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Levers of the server as a whole: its thread pool and its log level."""

from __future__ import annotations

from typing import Any, List, Tuple

from ..directory.openldap import DirectoryRefused
from ..problems import LdaptuneError, Problem, problem
from .attribute import AttributeLever
from .base import CONFIG_ONLY, Observation
from .context import Context

#: Reader slots beyond the worker threads: backups, tools, the indexer.
READER_SLACK = 16


class Threads(AttributeLever):
    """olcThreads, seen in force as cn=Max,cn=Threads,cn=Monitor."""

    def effective(self, ctx: Context, configured: Any) -> Tuple[Any, str]:
        most = ctx.directory.threads()["max"]
        return (most, "cn=monitor") if most is not None else (None, CONFIG_ONLY)

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        readers = ctx.wanted.get("database.max_readers") or ctx.directory.database_figures(ctx.database).get(
            "readers_max"
        )
        if readers is not None and wanted + READER_SLACK > readers:
            return [
                self.refuse(
                    "more threads than the database has reader slots",
                    found="%d readers" % readers,
                    wanted="at least %d (threads and %d to spare)" % (wanted + READER_SLACK, READER_SLACK),
                    do="Raise database.max_readers in the same profile.",
                )
            ]
        return []

    def stays(self, ctx: Context) -> str:
        return "" if ctx.version >= (2, 5) else "2.4 takes the removal and keeps the number of threads in force"


class ThreadQueues(AttributeLever):
    """olcThreadQueues; nothing shows the number in force."""

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        cpus = int(ctx.host["cpus"])
        if wanted > cpus:
            return [self.refuse("more thread queues than CPUs", found="%d CPUs" % cpus, wanted="%d" % wanted)]
        return []


class LogLevel(AttributeLever):
    """olcLogLevel. cn=Log,cn=Monitor is no proof of it: it shows what was last written to itself, not to cn=config."""

    def remove(self, ctx: Context) -> None:
        """Remove the attribute and put the default level in force, which removing does not: it leaves level 0.

        Raises LdaptuneError where that is impossible, with the attribute as it was before.
        """
        before = self.values(ctx)
        super().remove(ctx)
        if not before:
            return
        try:
            ctx.directory.modify("cn=Log,cn=Monitor", [("replace", "managedInfo", ["Stats"])])
        except DirectoryRefused as refusal:
            ctx.directory.modify(self.entry(ctx), [("replace", self.spec.attribute, before)])
            raise LdaptuneError(
                refusal.problems
                + [
                    problem(
                        "the default log level cannot be put back in force without a restart",
                        where=self.key,
                        found="cn=Log,cn=Monitor may not be written",
                        do="Restart slapd after removing olcLogLevel, or let this identity write cn=Log,cn=Monitor.",
                    )
                ]
            ) from None
