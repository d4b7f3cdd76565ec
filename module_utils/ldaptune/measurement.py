# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has this host in hand: one run at a time, measured or not, and a way home ends it for good."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Mapping

from . import watchdog
from .problems import LdaptuneError, Problem, problem
from .snapshot import Snapshot, Store, now_text


def taken(store: Store, owner: str) -> Problem | None:
    """Return a problem while another run has this host in hand."""
    active = store.active()
    if active is None or active["owner"] == owner or not watchdog.alive(store):
        return None
    return problem(
        "a run is in progress on this host",
        where=store.active_path,
        found=_who(active),
        wanted=owner and "run %s" % owner,
        do="Wait for it to end (if its controller is gone, the host returns to as found by itself at %s), or run "
        "rollback.yml to end it and bring the host home." % active["deadline"],
    )


def _who(active: Mapping[str, Any]) -> str:
    owner = "run %s" % active["owner"] if active["owner"] else "a run without a name"
    return "%s, profile %s, since %s" % (owner, active["profile"], active["since"])


def measuring(store: Store, owner: str) -> Dict[str, Any]:
    """Return what is known of this run's measurement in progress; raises LdaptuneError when there is none."""
    found = taken(store, owner) or ended(store, owner)
    if found:
        raise LdaptuneError(found)
    active = store.active()
    if active is None or active["owner"] != owner:
        raise LdaptuneError(_none_in_progress(store, owner))
    return active


def ended(store: Store, owner: str) -> Problem | None:
    """Return a problem when what this run did was taken back or adopted: it must not go on."""
    own, active = store.owned(owner), store.active()
    states = ["snapshot %s is %s" % (item["id"], item["state"]) for item in own]
    if own and all(item["state"] in ("reverted", "adopted") for item in own):
        return _over(", ".join(states), store)
    if active is not None and active["owner"] == owner and active["ended"]:
        return _over("a rollback was asked for at %s" % active["ended"], store)
    return None


def own_step(store: Store, owner: str) -> Snapshot | None:
    """Return the open snapshot of what a run found when it began; a run without a name has one while it measures."""
    if owner:
        return next((item for item in store.owned(owner) if item["state"] == "open"), None)
    active = store.active()
    if active is None or active["owner"] or not watchdog.alive(store):
        return None
    return next((item for item in store.open_snapshots() if item["id"] == active["reference"]), None)


def _none_in_progress(store: Store, owner: str) -> Problem:
    return problem(
        "no measurement is in progress on this host: none was begun, or it was brought home and it has ended",
        where=store.active_path,
        wanted="run %s" % owner if owner else "",
        do="Begin one with tuning_profile, state applied and watch_seconds above 0; if one was, see watchdog.log.",
    )


def _over(found: str, store: Store) -> Problem:
    return problem(
        "this run was ended by a way home, so it changes nothing any more",
        where=store.root,
        found=found,
        do="Whoever ran rollback.yml, or the watchdog (see watchdog.log), ended it. Start a new run.",
    )


def _legible(store: Store) -> Dict[str, Any] | None:
    """Return what is known; a damaged record must not bar the way home, and its watchdog ends by itself."""
    with contextlib.suppress(LdaptuneError):
        return store.active()
    return None


def ends(store: Store, owner: str, check: bool) -> str:
    """Return what a way home asked for by someone else means for a measurement in progress, or ""."""
    active = _legible(store)
    if active is None or active["owner"] == owner or not watchdog.alive(store):
        return ""
    return "this %s a run in progress: %s" % ("would end" if check else "ended", _who(active))


def end(store: Store, reference: str) -> None:
    """Set no arm any more and let the watchdog help towards `reference`; the caller holds the store's lock."""
    active = _legible(store)
    if active is not None:
        # A full disk must not bar the way home.
        with contextlib.suppress(LdaptuneError):
            store.set_active(dict(active, ended=now_text(), reference=reference))
