# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lever that is one attribute of cn=config, driven by its row of the table."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ..directory.names import split_order
from ..directory.openldap import DirectoryRefused
from ..problems import LdaptuneError, Problem, problem
from .base import CONFIG_ONLY, Lever, Observation, observation, unsupported
from .context import Context

_ABSENT = (16,)
_STORES = ("mdb",)


def show_version(version: Tuple[int, ...]) -> str:
    """Return (2, 5, 13) as 2.5.13."""
    return ".".join(str(part) for part in version)


class AttributeLever(Lever):
    """Reads and writes one attribute; an absent attribute is found absent and left absent.

    Its record is {"dn", "attribute", "values": list or None (absent), "suffixes"}: restored as it was spelled.
    """

    stores: Tuple[str, ...] = _STORES

    def entry(self, ctx: Context) -> str:
        """Return the name of the entry that holds the attribute on this server."""
        if self.spec.entry == "database":
            return str(ctx.database["dn"])
        return "cn=config"

    def impossible(self, ctx: Context) -> str:
        """Return why this server cannot do it, or ""."""
        if not ctx.version:
            return "the server's version is not known: neither cn=Monitor nor its program tells it"
        if ctx.version < self.spec.since:
            return "%s comes with OpenLDAP %s, this is %s" % (
                self.spec.attribute,
                show_version(self.spec.since),
                show_version(ctx.version),
            )
        if self.spec.cost == "restart" and ctx.config_source != "slapd.d":
            return (
                "slapd was started from slapd.conf: the restart that %s needs would lose the value"
                % self.spec.attribute
            )
        if self.spec.entry == "database" and ctx.database["backend"] not in self.stores:
            return "%s is an attribute of %s, this database is %s" % (
                self.spec.attribute,
                " and ".join(self.stores),
                ctx.database["backend"],
            )
        return ""

    def observe(self, ctx: Context) -> Observation:
        reason = self.impossible(ctx)
        if reason:
            return unsupported(reason)
        values = self.values(ctx)
        try:
            configured = self.spec.type.from_config(values)
        except (ValueError, TypeError, AttributeError):
            return unsupported("the value of %s is not understood: %s" % (self.spec.attribute, values))
        record = {
            "dn": self.entry(ctx),
            "attribute": self.spec.attribute,
            "values": values or None,
            "suffixes": list(ctx.database["suffixes"]) if self.spec.entry == "database" else [],
        }
        effective, source = self.effective(ctx, configured)
        return observation(record, configured, effective, source)

    def effective(self, ctx: Context, configured: Any) -> Tuple[Any, str]:
        """Return the value in force as seen by another way, and which way; (None, CONFIG_ONLY) where there is none."""
        return None, CONFIG_ONLY

    def values(self, ctx: Context) -> List[Any]:
        """Return the attribute's values, without the {n} of ordered ones; [] where it is absent."""
        entry = ctx.directory.read(self.entry(ctx), (self.spec.attribute,))
        if entry is None:
            raise LdaptuneError(
                problem(
                    "the entry is missing, or this identity may not see it",
                    where=self.entry(ctx),
                    do="Give it manage rights on cn=config, or set tuning_config_dn.",
                )
            )
        found = next((values for name, values in entry.items() if name.lower() == self.spec.attribute.lower()), [])
        return [split_order(value)[1] if isinstance(value, str) else value for value in found]

    def write(self, ctx: Context, wanted: Any) -> None:
        self.put(ctx, self.spec.type.to_config(wanted) or None)

    def put(self, ctx: Context, values: List[str] | None) -> None:
        """Set the attribute to these values, None to remove it, and restart where only that makes it effective."""
        if values is None:
            self.remove(ctx)
        else:
            ctx.directory.modify(self.entry(ctx), [("replace", self.spec.attribute, values)])
        if self.spec.cost == "restart":
            ctx.restart()

    def remove(self, ctx: Context) -> None:
        """Remove the attribute so that the server's default is in force.

        Removing alone leaves several old values in force until a restart; the default is written first, and where
        removing would undo that, it stays.
        """
        if not self.values(ctx):
            return
        default = self.spec.default
        if default is not None:
            ctx.directory.modify(self.entry(ctx), [("replace", self.spec.attribute, self.spec.type.to_config(default))])
        if self.stays(ctx):
            return
        try:
            ctx.directory.modify(self.entry(ctx), [("delete", self.spec.attribute, [])])
        except DirectoryRefused as refusal:
            if refusal.code not in _ABSENT:
                raise

    def stays(self, ctx: Context) -> str:
        """Return why the default is written and stays where the attribute was absent; "" where it can be removed."""
        return self.spec.removal

    def is_absent(self, ctx: Context, configured: Any) -> bool:
        return configured is None or bool(self.stays(ctx) and self.spec.type.equal(configured, self.spec.default))

    def restore(self, ctx: Context, record: Any) -> List[str]:
        self.claim(ctx, record)
        self.put(ctx, record["values"])
        why = self.stays(ctx)
        if record["values"] is not None or not why or not self.values(ctx):
            return []
        return ["the server's default stays written where nothing was: %s" % why]

    def claim(self, ctx: Context, record: Dict[str, Any]) -> None:
        """Raise LdaptuneError where a record speaks of another attribute or another database."""
        right = record["attribute"] == self.spec.attribute
        if right and self.spec.entry == "database":
            right = set(record["suffixes"]) == set(ctx.database["suffixes"])
        if not right:
            raise LdaptuneError(
                problem(
                    "the record is not of this database",
                    where=self.key,
                    found="%s of %s" % (record["attribute"], " ".join(record["suffixes"]) or record["dn"]),
                    wanted="%s of %s" % (self.spec.attribute, " ".join(ctx.database["suffixes"])),
                )
            )

    def refuse(self, what: str, found: str = "", wanted: str = "", do: str = "") -> Problem:
        """Return one problem of this lever."""
        return problem(what, where=self.key, found=found, wanted=wanted, do=do)
