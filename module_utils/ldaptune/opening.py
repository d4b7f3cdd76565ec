# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the `server` options to one slapd with its levers and its records."""

from __future__ import annotations

import os
from typing import Any, Mapping

from .levers.context import Context, open_context
from .levers.registry import behaviour
from .snapshot import Identity, Store
from .target import Target

STATE_DIR = "/var/lib/ldaptune"


def identity_of(ctx: Context) -> Identity:
    """Return whom snapshots of this slapd belong to; a host without a machine-id goes by its name."""
    slapd = ctx.slapd
    config = slapd.config_dir or slapd.config_file or str(ctx.server.get("uri") or "")
    return Identity(
        machine_id=str(ctx.host["machine_id"] or "name:%s" % ctx.host["name"]),
        name=str(ctx.host["name"]),
        config=os.path.realpath(config) if os.path.isabs(config) else config,
        suffixes=list(ctx.database["suffixes"]),
    )


def open_target(server: Mapping[str, Any]) -> Target:
    """Connect and return the target; the caller closes `ctx`. Raises LdaptuneError; creates nothing."""
    ctx = open_context(server)
    return Target(ctx, Store(str(server.get("state_dir") or STATE_DIR), identity_of(ctx)), behaviour)
