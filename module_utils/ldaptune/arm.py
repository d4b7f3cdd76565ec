# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a host into one arm of a comparison and read it back; both arms by the same path."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from .plan import rank, target_of
from .problems import LdaptuneError, problem
from .snapshot import Snapshot, remember
from .target import Observation, Target

ARMS = ("as_found", "profile")
# Readback states that leave a leg valid.
GOOD = ("applied", "unchanged", "live_only")
Readback = Dict[str, Any]


class Arms:
    """The levers of one comparison: `flips` change at every leg, `holds` are the same in both arms.

    `reference` names the snapshot that says what this run found; what was written last stands in the origin.
    Raises LdaptuneError where the reference is no way home any more.
    """

    def __init__(self, target: Target, resolved: Mapping[str, Any], reference: str) -> None:
        self.target = target
        self.found, self.origin = _records(target, reference)
        self.flips: List[str] = []
        self.holds: List[str] = []
        self.wishes = {key: wish for key, wish in resolved["levers"].items() if key not in resolved.get("excluded", ())}
        self.seen: Dict[str, Observation] = {}
        for key in self.wishes:
            self.seen[key] = target.observe(key)
            if self.seen[key].get("supported"):
                (self.flips if self._flips(key) else self.holds).append(key)

    def _flips(self, key: str) -> bool:
        """Return whether a lever changes at every leg; one that restarts slapd does only where it differs."""
        lever = self.target.behaviour(key)
        if lever.spec.compare != "flip" or lever.spec.cost != "restart":
            return bool(lever.spec.compare == "flip")
        found = self.found["levers"].get(key) or self.seen[key]
        value, satisfied = target_of(self.wishes[key], lever.spec, found)
        return not (satisfied or lever.same(found, value))

    def remember(self) -> None:
        """Put the as-found value of flips that are new since the run began on the disk."""
        new = [key for key in self.flips if key not in self.found["levers"]]
        for key in new:
            remember(self.origin, self.found, key, self.seen[key], self.target.before(key, self.seen[key]))
        if new:
            self.target.store.save_both(self.origin, self.found)

    def wanted(self, key: str, arm: str) -> Any:
        """Return the value of a lever in an arm; at_least and at_most look at what was found, in either arm."""
        entry = self.found["levers"].get(key)
        found = entry or self.seen[key]
        spec = self.target.behaviour(key).spec
        if arm == "as_found" and key in self.flips and entry:
            return entry["before"]
        value, satisfied = target_of(self.wishes[key], spec, found)
        return entry["before"] if satisfied and entry else value

    def set(self, arm: str) -> List[str]:
        """Write every flip of an arm, equal or not; return the levers that someone else changed and that stay so."""
        drifted = []
        stages: List[Tuple[int, str, Any]] = []
        for key in self.flips:
            seen, before = self.seen[key], self.found["levers"][key]["before"]
            ours = self.target.is_ours(key, seen, self.origin["levers"][key])
            if not (ours or self.target.matches(key, seen, before)):
                drifted.append(key)
                continue
            value = self.wanted(key, arm)
            spec = self.target.behaviour(key).spec
            stages.append((rank(spec, self.target.present(key, seen), value), key, value))
        for _, key, value in sorted(stages, key=lambda stage: stage[0]):
            entry = self.found["levers"][key]
            home = arm == "as_found" or self.target.behaviour(key).spec.type.equal(value, entry["before"])
            now = self.target.before(key, self.seen[key])
            self.target.write(self.origin, key, value, now, entry["record"] if home else None)
        return drifted

    def read_back(self, arm: str, drifted: List[str] | None = None) -> Readback:
        """Return {"ok", "levers": {key: {"wanted", "configured", "effective", "state"}}}; writes nothing.

        `drifted` is what `set` just returned; without it, at the end of a leg, a wrong value is someone else's.
        """
        levers = {}
        for key in self.wishes:
            seen = self.target.observe(key)
            if not seen.get("supported"):
                levers[key] = _read(None, seen, "unsupported", str(seen.get("reason", "")))
                continue
            wanted = self.wanted(key, arm)
            state, reason = self._state(key, seen, wanted)
            if state == "wrong" or key in (drifted or ()):
                ours = drifted is not None and key in self.flips and key not in drifted
                state = "failed" if ours else "drifted"
                reason = "not in force after it was written" if ours else self.target.last_change(key)
            levers[key] = _read(wanted, seen, state, reason)
        good = GOOD + ("unsupported",)
        return {"ok": all(lever["state"] in good for lever in levers.values()), "levers": levers}

    def _state(self, key: str, seen: Observation, wanted: Any) -> Tuple[str, str]:
        target = self.target
        flip = key in self.flips
        entry = self.found["levers"].get(key)
        home = flip and entry and target.behaviour(key).spec.type.equal(wanted, entry["before"])
        # As found is judged by what was found: a value that was absent must be absent again.
        exact = home or wanted is None
        right = target.matches(key, seen, wanted) if exact else target.behaviour(key).same(seen, wanted)
        if not right:
            return "wrong", ""
        if not target.lasts(key):
            return "live_only", ""
        return ("applied" if flip else "unchanged"), ""


def _records(target: Target, reference: str) -> Tuple[Snapshot, Snapshot]:
    """Return (what the run found, the origin); one and the same in a first run."""
    still = {snapshot["id"]: snapshot for snapshot in target.store.open_snapshots()}
    if reference not in still:
        raise LdaptuneError(
            problem(
                "this host was brought home while the measurement ran",
                where=target.store.path(reference),
                found=", ".join(still) or "no open snapshot",
                wanted=reference,
                do="See watchdog.log. Start a new run.",
            )
        )
    return still[reference], still[min(still)]


def _read(wanted: Any, seen: Observation, state: str, reason: str) -> Dict[str, Any]:
    found = {"wanted": wanted, "configured": seen.get("configured"), "effective": seen.get("effective"), "state": state}
    return dict(found, reason=reason) if reason else found
