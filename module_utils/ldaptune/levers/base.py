# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every lever can do."""

from __future__ import annotations

from typing import Any, Dict, List

from ..problems import Problem
from .context import Context
from .table import LeverSpec, in_force, risk_by_value

#: {"supported", "reason", "configured", "effective", "effective_source", "record"}; see `observation`. The reason says
#: why it is not supported, or what is to be told of what is in force.
Observation = Dict[str, Any]

CONFIG_ONLY = "cn=config only"


def observation(
    record: Any = None,
    configured: Any = None,
    effective: Any = None,
    effective_source: str = CONFIG_ONLY,
) -> Observation:
    """Return what is there. configured and effective are normal forms (None: absent, or not to be seen).

    record is JSON that holds enough to go back exactly.
    """
    return {
        "supported": True,
        "reason": "",
        "configured": configured,
        "effective": effective,
        "effective_source": effective_source,
        "record": record,
    }


def unsupported(reason: str) -> Observation:
    """Return that this host cannot do it, and why."""
    return dict(observation(effective_source=""), supported=False, reason=reason)


class Lever:
    """One tunable thing. Both arms of a comparison go by the same path: `write` and `restore` cost the same."""

    def __init__(self, spec: LeverSpec) -> None:
        self.spec = spec

    @property
    def key(self) -> str:
        """Its name in profiles."""
        return self.spec.key

    def observe(self, ctx: Context) -> Observation:
        """Return what is there now, read from the server and by another way than it is written."""
        raise NotImplementedError

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        """Return what on this host forbids the wanted value; nothing is written."""
        return []

    def remarks(self, ctx: Context, seen: Observation, wanted: Any) -> List[str]:
        """Return what is worth knowing of the wanted value here, and stands against nothing."""
        return []

    def risk_of(self, before: Any, wanted: Any) -> str:
        """Return the risk of going from one value to another."""
        return risk_by_value(self.key, wanted)

    def write(self, ctx: Context, wanted: Any) -> None:
        """Make the wanted value effective; raises LdaptuneError where the server or the kernel refuses."""
        raise NotImplementedError

    def restore(self, ctx: Context, record: Any) -> List[str]:
        """Go back to what a record says, by the same path as `write`; returns remarks to be said aloud, often none."""
        raise NotImplementedError

    def is_absent(self, ctx: Context, configured: Any) -> bool:
        """Return whether a configured value is what going back to "nothing set" leaves."""
        return configured is None

    def lasts(self, ctx: Context) -> bool:
        """Return whether the value is still there after a restart of the server."""
        return ctx.config_source == "slapd.d"

    def same(self, seen: Observation, wanted: Any) -> bool:
        """Return whether the wanted value is there already, configured and, as far as it can be seen, effective.

        An explicit default and an absent attribute are the same value.
        """
        kind = self.spec.type
        if not kind.equal(in_force(self.spec, seen["configured"]), wanted):
            return False
        return seen["effective"] is None or bool(kind.equal(seen["effective"], wanted))

    def holds(self, seen: Observation, value: Any) -> bool:
        """Return whether this value is the one there, whoever put it there; for levers outside cn=config."""
        return self.same(seen, value)

    def is_home(self, seen: Observation, record: Any) -> bool:
        """Return whether nothing but the value is left to restore: by default, the very spelling of what was found."""
        return bool(seen["record"] == record)
