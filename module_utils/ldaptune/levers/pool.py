# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making slapd create all its worker threads, so that none is made later with somebody else's CPU mask."""

from __future__ import annotations

from ..directory.burst import burst
from ..problems import LdaptuneError, problem
from .context import Context

_CONNECTIONS = (4, 4, 8, 16, 32, 64, 64, 64)
_REQUESTS = 64
_FEWEST = 8
_SECONDS = 10.0


def way_in(ctx: Context) -> str:
    """Return a URI without TLS by which this slapd can be reached on this host, or ""."""
    uris = [str(ctx.server["uri"]), *sorted(ctx.slapd.uris, key=lambda uri: not uri.startswith("ldapi:"))]
    return next((uri for uri in uris if uri.startswith(("ldapi:", "ldap:"))), "")


def full(ctx: Context) -> bool | None:
    """Return whether every worker thread exists; None where cn=monitor does not show it."""
    figures = ctx.directory.threads()
    if figures["open"] is None or figures["max"] is None:
        return None
    return figures["open"] >= figures["max"]


def fill(ctx: Context) -> None:
    """Send bursts of searches until cn=Open equals cn=Max; raises LdaptuneError where that is not reached.

    One connection may occupy at most half the pool, so several send at once. The searches are accounted as our own.
    """
    requests = _requests(ctx)
    for connections in _CONNECTIONS:
        state = full(ctx)
        if state is None:
            raise LdaptuneError(
                problem("cn=monitor does not show the threads of the pool", where="slapd", do="Load back_monitor.")
            )
        if state:
            return
        try:
            ctx.directory.account(burst(way_in(ctx), connections, requests, _SECONDS))
        except LdaptuneError:
            # A limit lower than the configured one can be in force: then the server closes the connection.
            if requests <= _FEWEST:
                raise
            requests //= 2
    if not full(ctx):
        figures = ctx.directory.threads()
        raise LdaptuneError(
            problem(
                "the thread pool could not be filled, so later threads would run on the wrong CPUs",
                where="slapd",
                found="%s threads" % figures["open"],
                wanted="%s" % figures["max"],
            )
        )


def _requests(ctx: Context) -> int:
    """Return how many requests an anonymous connection may have waiting, with some to spare."""
    entry = ctx.directory.read("cn=config", ("olcConnMaxPending",)) or {}
    pending = next(iter(entry.get("olcConnMaxPending", [])), "")
    return max(2, min(_REQUESTS, int(pending) // 2)) if pending.isdigit() and int(pending) else _REQUESTS
