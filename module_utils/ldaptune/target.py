# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One slapd with its levers and its records: what plan, apply, revert and arms work on."""

from __future__ import annotations

import contextlib
import copy
from typing import Any, Callable, Dict, Iterable, List, Mapping

from .plan import Plan, View, before_of, make_plan, present, targets
from .problems import LdaptuneError
from .snapshot import Snapshot, Store, now_text

Observation = Dict[str, Any]
Entry = Dict[str, Any]


class Target:
    """ctx: what the levers get; store: the records on the host; behaviour: key -> lever."""

    def __init__(self, ctx: Any, store: Store, behaviour: Callable[[str], Any]) -> None:
        self.ctx = ctx
        self.store = store
        self.behaviour = behaviour

    def observe(self, key: str) -> Observation:
        """Return what is there now, read afresh."""
        found: Observation = self.behaviour(key).observe(self.ctx)
        return found

    def view(self, key: str) -> View:
        """Return all that the plan needs of one lever."""
        lever, ctx = self.behaviour(key), self.ctx
        seen = self.observe(key)
        return View(
            spec=lever.spec,
            observation=seen,
            same=lambda wanted: bool(lever.same(seen, wanted)),
            check=lambda wanted: [
                *lever.check(ctx, seen, wanted),
                *(ctx.restart_problems() if lever.spec.cost == "restart" else ()),
            ],
            risk_of=lambda before, wanted: str(lever.risk_of(before, wanted)),
            remarks=lambda wanted: list(lever.remarks(ctx, seen, wanted)),
        )

    def plan(self, resolved: Mapping[str, Any], consent: Iterable[str], exclude: Iterable[str]) -> Plan:
        """Observe every lever of a profile and plan; writes nothing."""
        left = set(exclude) | set(resolved.get("excluded", ()))
        # A lever may have to know what it is asked for to know where to look: which of several network cards.
        self.ctx.wanted = {key: wish["value"] for key, wish in resolved["levers"].items() if key not in left}
        views = {key: self.view(key) for key in resolved["levers"] if key not in left}
        self.ctx.wanted = targets(resolved, views)
        return make_plan(resolved, views, consent, left)

    def lasts(self, key: str) -> bool:
        """Return whether a value set now is still there after a restart of slapd."""
        return bool(self.behaviour(key).lasts(self.ctx))

    def show(self, key: str, value: Any) -> str:
        """Return a normal value as text."""
        return "(not set)" if value is None else str(self.behaviour(key).spec.type.show(value))

    def matches(self, key: str, seen: Observation, value: Any) -> bool:
        """Return whether `value` is what is configured; levers outside cn=config are compared by what is in force."""
        lever = self.behaviour(key)
        now = before_of(lever.spec, seen)
        if value is None:
            return bool(lever.is_absent(self.ctx, now))
        if lever.spec.attribute:
            return bool(lever.spec.type.equal(now, value))
        return bool(lever.holds(seen, value))

    def is_home(self, key: str, seen: Observation, entry: Entry) -> bool:
        """Return whether nothing is left to restore: the value is there, and spelled as it was where that counts."""
        return self.matches(key, seen, entry["before"]) and bool(
            self.behaviour(key).is_home(seen, entry["record"])
        )

    def is_ours(self, key: str, seen: Observation, entry: Entry) -> bool:
        """Return whether what is there is what we wrote last, or one of both if that write never reported back."""
        wrote = entry.get("wrote")
        if not wrote:
            return False
        values = [wrote["value"]] + ([] if wrote["done"] else [wrote["replaces"]])
        if wrote["value"] is None and not wrote["done"]:
            # A value is removed by way of the server's default: a kill in between leaves that.
            values.append(self.behaviour(key).spec.default)
        return any(self.matches(key, seen, value) for value in values)

    def present(self, key: str, seen: Observation) -> Any:
        """Return the value in force."""
        return present(self.behaviour(key).spec, seen)

    def before(self, key: str, seen: Observation) -> Any:
        """Return the value a change replaces."""
        return before_of(self.behaviour(key).spec, seen)

    def write(self, origin: Snapshot, key: str, value: Any, replaces: Any, record: Any = None) -> List[str]:
        """Write one lever, by its value or back to a record; the intent is on the disk before the write is tried.

        Returns the lever's remarks: what a way back had to leave as it is, and why.
        """
        entry = origin["levers"][key]
        entry["wrote"] = {"value": value, "replaces": replaces, "done": False, "at": now_text()}
        lever = self.behaviour(key)
        if record is None:
            self.store.save(origin)
            lever.write(self.ctx, value)
            entry["wrote"]["done"] = True
            self.store.save(origin)
            return []
        # A way back is on the disk already: a full disk must not bar it.
        with contextlib.suppress(LdaptuneError):
            self.store.save(origin)
        remarks = list(lever.restore(self.ctx, copy.deepcopy(record)))
        entry["wrote"]["done"] = True
        with contextlib.suppress(LdaptuneError):
            self.store.save(origin)
        return remarks

    def last_change(self, key: str) -> str:
        """Return who changed the lever's entry last and when, as far as the server tells; never fails."""
        where = {"global": "cn=config", "database": (self.ctx.database or {}).get("dn", "")}
        name = where.get(self.behaviour(key).spec.entry, "")
        if not name:
            return ""
        try:
            entry = self.ctx.directory.read(name, ["modifiersName", "modifyTimestamp"]) or {}
        except LdaptuneError:
            return ""
        who, when = (_first(entry.get(attribute)) for attribute in ("modifiersName", "modifyTimestamp"))
        return "its entry was last changed by %s at %s" % (who, when) if who or when else ""


def _first(values: List[Any] | None) -> str:
    return str(values[0]) if values else ""
