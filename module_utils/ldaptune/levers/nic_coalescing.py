# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupt coalescing of one network card, live by ethtool and kept by a unit of our own.

A `.link` file would set it earlier, but udev applies one file a device and only when the device is added; a unit is
undone by removing it, and says in the journal what a driver refused.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping

from .. import payload
from ..host import boot_unit, ethtool, unit
from ..host.ethtool_text import from_pairs, to_pairs
from ..host.nic_choice import directory_nic
from ..host.nic_owners import owners
from ..problems import LdaptuneError, Problem, problem
from ..profile.coalescing import near
from ..profile.nic_values import AUTO
from .base import Observation, observation, unsupported
from .context import Context
from .host_lever import HostLever

_PROGRAM = ("__init__.py", "problems.py") + tuple(
    "host/%s.py" % name for name in ("__init__", "command", "ethtool", "ethtool_text")
)


def _card(ctx: Context, value: Mapping[str, Any]) -> str:
    return directory_nic(ctx) if value["nic"] == AUTO else str(value["nic"])


class NicCoalescing(HostLever):
    """Record: {"nic", "values": what ethtool showed, "unit": the boot unit's files}."""

    def observe(self, ctx: Context) -> Observation:
        kept = self._kept(ctx)
        asked = ctx.wanted.get(self.key) or kept
        if not asked:
            try:
                asked = {"nic": directory_nic(ctx)}
            except (LdaptuneError, OSError) as error:
                return unsupported(str(error))
        try:
            nic = _card(ctx, asked)
            values = ethtool.read(nic)
        except (LdaptuneError, OSError) as error:
            return unsupported(str(error))
        there = {key: value for key, value in values.items() if value is not None}
        missing = [key for key in asked if key != "nic" and key not in there]
        if len(asked) > 1 and len(missing) == len(asked) - 1:
            return unsupported("%s has none of %s" % (nic, ", ".join(missing)))
        record = {"nic": nic, "values": there, "unit": boot_unit.record(ctx.root, self.key)}
        found = observation(record, kept, {"nic": nic, **there}, self.spec.effective)
        found["reason"] = "%s has no %s, left out" % (nic, ", ".join(missing)) if missing else ""
        return dict(found, systemd=unit.here(ctx.root))

    def _kept(self, ctx: Context) -> Dict[str, Any] | None:
        """Return what our unit sets at boot."""
        given = boot_unit.arguments(ctx.root, self.key) if unit.here(ctx.root) else []
        return {"nic": given[0], **from_pairs(given[1:])} if len(given) > 1 else None

    @staticmethod
    def _here(seen: Observation, value: Mapping[str, Any]) -> Dict[str, Any]:
        """Return a value as this host can have it: the card's name, and only settings that it has."""
        there = seen["record"]["values"]
        nic = seen["record"]["nic"] if value["nic"] == AUTO else value["nic"]
        return {"nic": nic, **{key: setting for key, setting in value.items() if key in there}}

    def same(self, seen: Observation, wanted: Any) -> bool:
        wanted = self._here(seen, wanted)
        kept = seen["configured"] == wanted or not seen["systemd"]
        return bool(kept and self.spec.type.equal(seen["effective"], wanted))

    def holds(self, seen: Observation, value: Any) -> bool:
        value = self._here(seen, value)
        kept = seen["configured"] is None or all(
            near(seen["configured"].get(key), value[key]) for key in value if key in seen["configured"] and key != "nic"
        )
        return bool(kept and self.spec.type.equal(seen["effective"], value))

    def lasts(self, ctx: Context) -> bool:
        seen = self.observe(ctx)
        kept = seen.get("configured")
        return bool(seen["supported"]) and kept is not None and bool(self.spec.type.equal(seen["effective"], kept))

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        nic = self._here(seen, wanted)["nic"]
        kept = seen["configured"]
        if kept and kept["nic"] != nic:
            return [
                problem(
                    "another card is set already, and would keep its coalescing",
                    where=self.key,
                    found=self.spec.type.show(kept),
                    wanted=nic,
                    do="Run rollback.yml first, then this profile.",
                )
            ]
        return [
            problem(
                "%s sets the coalescing of this card itself" % who,
                where=path,
                found=nic,
                do="Set it there, or take it out of that file, or put %s into tuning_exclude." % self.key,
            )
            for who, path in owners(ctx.root, nic)
        ]

    def remarks(self, ctx: Context, seen: Observation, wanted: Any) -> List[str]:
        nic = seen["record"]["nic"]
        said = ["may reset the link of %s for a moment" % nic]
        if self._ssh_runs_over(ctx, nic):
            said.append("the ssh connection of this play runs over it")
        return said

    @staticmethod
    def _ssh_runs_over(ctx: Context, nic: str) -> bool:
        """Return whether this play came by the card, where sshd left word of it and only this card could be meant."""
        try:
            return bool(os.environ.get("SSH_CONNECTION")) and directory_nic(ctx) == nic
        except (LdaptuneError, OSError):
            return False

    def write(self, ctx: Context, wanted: Any) -> None:
        nic = _card(ctx, wanted)
        there = ethtool.read(nic)
        values = {key: value for key, value in wanted.items() if there.get(key) is not None}
        ethtool.put(nic, values)
        now = ethtool.read(nic)
        wrong = {key: value for key, value in values.items() if not near(now.get(key), value)}
        if wrong:
            ethtool.put(nic, {key: value for key, value in there.items() if value is not None})
            raise LdaptuneError(
                problem(
                    "the card took another value than it was given",
                    where=nic,
                    found=self.spec.type.show({"nic": nic, **{key: now.get(key) for key in wrong}}),
                    wanted=self.spec.type.show({"nic": nic, **wrong}),
                    do="It was set back. Ask for what the card can do.",
                )
            )
        if unit.here(ctx.root):
            program = payload.bundle_of(_PROGRAM, "host.ethtool")
            boot_unit.install(ctx.root, self.key, program, [nic, *to_pairs(values)], what="the coalescing of %s" % nic)

    def restore(self, ctx: Context, record: Any) -> List[str]:
        boot_unit.put_back(ctx.root, self.key, record["unit"])
        ethtool.put(record["nic"], record["values"])
        return []

    def is_home(self, seen: Observation, record: Any) -> bool:
        unit, then = seen["record"]["unit"], record["unit"]
        same = all(unit[part] == then[part] for part in ("unit", "program", "link"))
        return same and bool(seen["record"]["values"] == record["values"])
