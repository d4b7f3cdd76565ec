# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sampler beside one leg: begun before the last reading of the start, ended before the first of the finish.

A leg is judged by its figures, so one that could not be sampled is still a leg: the sample then says why it is none.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple

from .problems import LdaptuneError
from .sample_summary import summarise
from .sampler import Subject
from .sampling import LONGEST_SECONDS, Place, Started, start, stop
from .target import Target

# How long a sampler may live where the caller names no deadline of its own.
DEFAULT_SECONDS = 600.0


def begin(target: Target, seconds: float) -> Tuple[Started | None, str]:
    """Start a sampler in place of any that runs; returns it, waiting for its release, or why there is none."""
    ctx = target.ctx
    try:
        subject = Subject(ctx.slapd, ctx.server, ctx.database)
        lives = min(seconds or DEFAULT_SECONDS, LONGEST_SECONDS)
        return start(Place(target.store.root), subject, lives, replace=True), ""
    except (LdaptuneError, OSError) as error:
        return None, str(error)


def finish(target: Target) -> Dict[str, Any]:
    """End the sampler and return its sample, without the series; {"reason"} where there is none.

    What it sent is accounted as ours: the next reading of the counters takes it off.
    """
    directory = target.ctx.directory
    try:
        raw = stop(Place(target.store.root))
        directory.account(raw["own"])
        return summarise(raw, directory.password_schemes(target.ctx.database["suffixes"][0]), series=False)
    except (LdaptuneError, OSError) as error:
        return {"reason": str(error)}
