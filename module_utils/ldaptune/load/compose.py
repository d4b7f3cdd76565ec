# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a user asks for to the pools of a workload: shares of binds and searches, and of failures on purpose."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence

from ..problems import LdaptuneError, Problem, problem
from . import credentials, names, patterns, wire
from .workload import Auth, Item, Pool, Workload, accounts_of, binds, counted_searches, searches

WORKLOADS = ("bind", "search", "mixed")
#: What may fail on purpose: {name: (kind of operation, the code that is then right)}.
FAILURES = {"wrong_password": ("bind", 49), "unknown_user": ("bind", 49), "no_entry": ("search", 0)}
AUTHS = ("simple", "plain", "external")
SCOPES = ("base", "one", "sub")
# What makes an account's name one that is not there, and a password a wrong one.
ABSENT = ".absent"


class Asked(NamedTuple):
    """The part of the settings that says what is sent (see prepare.Settings for each)."""

    workload: str
    accounts: str
    auth: Auth
    mix: Mapping[str, float]
    fail: Mapping[str, float]
    base: str
    filter: str
    scope: str
    entries: int
    attributes: Sequence[str]
    bind_dn: str


def problems_of(asked: Asked, has_secret: bool) -> List[Problem]:
    """Return what is wrong before any file is read."""
    found = []
    for name, value, known in (
        ("workload", asked.workload, WORKLOADS),
        ("auth", asked.auth.mechanism, AUTHS),
        ("scope", asked.scope, SCOPES),
    ):
        if value not in known:
            found.append(problem("no such %s" % name, name, value, " or ".join(known)))
    if asked.workload == "mixed":
        if set(asked.mix) != {"bind", "search"} or min(asked.mix.values()) <= 0:
            shares = ", ".join("%s=%g" % share for share in asked.mix.items())
            found.append(problem("a mix needs a share of each", "mix", shares or "none", "bind=70,search=30"))
    elif asked.mix:
        found.append(problem("only the workload mixed has shares", "mix", asked.workload))
    kinds = kinds_of(asked.workload)
    for name, percent in asked.fail.items():
        if name not in FAILURES:
            found.append(problem("no such failure", "fail", name, " or ".join(FAILURES)))
        elif FAILURES[name][0] not in kinds:
            found.append(problem("%s is a failure of a %s" % (name, FAILURES[name][0]), "fail", asked.workload))
        elif not 0 < percent < 100:
            found.append(problem("a share out of range", "fail", "%s=%g" % (name, percent), "above 0, below 100 %"))
    if sum(asked.fail.values()) >= 100:
        found.append(problem("nothing would be left to succeed", "fail", "%g %%" % sum(asked.fail.values())))
    if asked.auth.mechanism == "external" and (asked.workload != "bind" or asked.fail):
        found.append(problem("external goes with the workload bind alone", "auth", asked.workload))
    if "bind" in kinds and asked.auth.mechanism != "external" and not has_secret:
        found.append(problem("binds need a password file", "password_file"))
    return found


def kinds_of(workload: str) -> Sequence[str]:
    """Return the kinds of operations of a workload."""
    return {"bind": ("bind",), "search": ("search",)}.get(workload, ("bind", "search"))


def compose(asked: Asked, secret: credentials.Credentials | None, where: str) -> Workload:
    """Return the workload; raises LdaptuneError for what its files or patterns have wrong."""
    if asked.auth.mechanism == "external":
        return Workload("bind", [Pool(1, binds([""], [b""], asked.auth), False)], None)
    kinds = kinds_of(asked.workload)
    counted = "search" in kinds and asked.entries >= 0 and "{" not in asked.filter
    accounts = patterns.Accounts([], False)
    if not counted or "bind" in kinds or asked.accounts:
        accounts = accounts_of(asked.accounts, secret)
    found: Dict[str, Pool] = {}
    left = 100 - sum(asked.fail.values())
    shares = asked.mix if asked.workload == "mixed" else {asked.workload: 1.0}
    secrets = credentials.passwords(secret, accounts.dns, where) if secret is not None and "bind" in kinds else []
    for kind, share in shares.items():
        sequential = accounts.sequential
        if kind == "bind":
            items = binds(accounts.dns, secrets, asked.auth)
        elif counted:
            texts = patterns.expand(asked.filter, "filter")
            items = counted_searches(texts.dns, asked.base, asked.attributes, _scope(asked), asked.entries)
            sequential = texts.sequential
        else:
            items = searches(accounts.dns, asked.base, asked.filter, asked.attributes, _scope(asked))
        found[kind] = Pool(left * share / sum(shares.values()), items, sequential)
    for name, percent in asked.fail.items():
        items = _failing(name, asked, accounts.dns, secrets)
        found[name] = Pool(percent, items, accounts.sequential, regular=False)
    return Workload(asked.workload, list(found.values()), _login(asked, secret, accounts.dns, where))


def _scope(asked: Asked) -> int:
    return SCOPES.index(asked.scope)


def _failing(name: str, asked: Asked, dns: Sequence[str], secrets: Sequence[bytes]) -> List[Item]:
    """Return the items that fail on purpose, an account each."""
    code = FAILURES[name][1]
    if name == "wrong_password":
        return binds(dns, [password + ABSENT.encode() for password in secrets], asked.auth, code)
    absent = [_absent(dn) for dn in dns]
    if name == "unknown_user":
        return binds(absent, secrets, asked.auth, code)
    made = searches(absent, asked.base or names.parent(dns[0]), asked.filter, asked.attributes, _scope(asked))
    return [item._replace(entries=0) for item in made]


def _absent(dn: str) -> str:
    """Return a DN beside this one that nobody has."""
    above = names.parent(dn)
    return dn[: len(dn) - len(above)].rstrip(" ,;") + ABSENT + ("," + above if above else "")


def _login(asked: Asked, secret: credentials.Credentials | None, dns: Sequence[str], where: str) -> bytes | None:
    """Return the bind that a connection which only searches begins with."""
    if asked.workload != "search" or secret is None:
        return None
    dn = asked.bind_dn or next(iter(dns), "")
    if not dn:
        raise LdaptuneError(problem("a password, but nobody to bind as", "bind_dn"))
    return wire.simple_bind(dn.encode("utf-8"), credentials.passwords(secret, [dn], where)[0])
