# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""slapd.listener_threads: a restart and at most one live write for every change.

Start-up ignores the stored value and runs one listener. The first live write in the life of a process takes effect; a
later one can hang slapd for good. So no process is ever written to twice here.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any, List, Tuple

from ..directory.openldap import DirectoryRefused, DirectoryTimeout, DirectoryUnreachable, connect
from ..host.threads import eventpolls
from ..problems import LdaptuneError, problem
from .attribute import AttributeLever
from .base import Observation
from .context import Context

_DEADLINE = 5.0
_STEP = 0.01


def round_down(count: int) -> int:
    """Return the power of two that slapd makes of a number of listeners: 3 runs 2."""
    return 1 << (max(1, count).bit_length() - 1)


class ListenerThreads(AttributeLever):
    """olcListenerThreads. Its record also has "effective", which a restored server must have again."""

    def effective(self, ctx: Context, configured: Any) -> Tuple[Any, str]:
        return len(eventpolls(ctx.slapd.pid)), "/proc"

    def observe(self, ctx: Context) -> Observation:
        seen = super().observe(ctx)
        if not seen["supported"]:
            return seen
        reachable = {1, round_down(seen["configured"] or 1)}
        if seen["effective"] not in reachable:
            seen["supported"] = False
            seen["reason"] = (
                "%d listeners run, which neither a start nor the configured value %s gives: restart slapd first"
                % (seen["effective"], self.spec.type.show(seen["configured"]))
            )
            return seen
        seen["record"]["effective"] = seen["effective"]
        return seen

    def lasts(self, ctx: Context) -> bool:
        """One listener is what every start gives; more of them are gone with the process, whatever is configured."""
        return super().lasts(ctx) and len(eventpolls(ctx.slapd.pid)) == 1

    def write(self, ctx: Context, wanted: Any) -> None:
        self._arrive(ctx, self.spec.type.to_config(wanted), round_down(wanted))

    def restore(self, ctx: Context, record: Any) -> List[str]:
        self.claim(ctx, record)
        self._arrive(ctx, record["values"], int(record["effective"]))
        return []

    def _arrive(self, ctx: Context, values: List[str] | None, listeners: int) -> None:
        """Restart, write once where it is needed, and restart again where the value shall not be in force."""
        ctx.restart()
        if not self._there(ctx, values, listeners):
            self._write_once(ctx, values)
            if len(eventpolls(ctx.slapd.pid)) != listeners:
                ctx.restart()
        if not self._there(ctx, values, listeners):
            raise LdaptuneError(
                problem(
                    "the number of listener threads is not as it should be",
                    where=self.key,
                    found="%d running, configured %s" % (len(eventpolls(ctx.slapd.pid)), self.values(ctx) or "absent"),
                    wanted="%d running, configured %s" % (listeners, values or "absent"),
                )
            )

    def _there(self, ctx: Context, values: List[str] | None, listeners: int) -> bool:
        return (self.values(ctx) or None) == values and len(eventpolls(ctx.slapd.pid)) == listeners

    @staticmethod
    def _settle(ctx: Context, listeners: int) -> None:
        """Wait, for a moment at most, until so many listeners run."""
        deadline = time.monotonic() + _DEADLINE
        while len(eventpolls(ctx.slapd.pid)) != listeners and time.monotonic() < deadline:
            time.sleep(_STEP)

    def _write_once(self, ctx: Context, values: List[str] | None) -> None:
        """Do the one live write this process gets, and make sure that every listener answers after it."""
        op = ("replace", self.spec.attribute, values) if values else ("delete", self.spec.attribute, [])
        try:
            ctx.directory.modify(self.entry(ctx), [op])
            self._settle(ctx, round_down(int(values[0])) if values else int(self.spec.default))
            self._all_answer(ctx)
        except (DirectoryTimeout, DirectoryUnreachable) as error:
            ctx.restart(hung=True)
            raise LdaptuneError(
                error.problems
                + [
                    problem(
                        "slapd stopped answering after the number of its listener threads was changed",
                        where=self.key,
                        do="It was killed and started again, and runs one listener now.",
                    )
                ]
            ) from None
        except DirectoryRefused as refusal:
            if refusal.code != 16:
                raise

    @staticmethod
    def _all_answer(ctx: Context) -> None:
        """Ask on several connections at once: descriptor N belongs to listener N modulo their number."""
        with ExitStack() as stack:
            for _unused in range(2 * len(eventpolls(ctx.slapd.pid))):
                stack.enter_context(connect(ctx.server)).read("", ("objectClass",))
        ctx.reconnect()
