# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a user asks for to the pools of a workload: shares of binds and searches, and of failures on purpose."""

from __future__ import annotations

from typing import List, Mapping, NamedTuple, Sequence, Tuple

from ..problems import LdaptuneError, Problem, problem
from . import credentials, names, patterns, wire
from .workload import ANY, Auth, Item, Pool, Stepping, Workload, accounts_of, binds, counted_searches, searches

WORKLOADS = ("bind", "connect_bind", "search", "search_bind", "mixed", "paged_search")
#: What may fail on purpose: {name: (kind of operation, the code that is then right)}.
FAILURES = {"wrong_password": ("bind", 49), "unknown_user": ("bind", 49), "no_entry": ("search", 0)}
AUTHS = ("simple", "plain", "external")
SCOPES = ("base", "one", "sub")
WITHOUT_ONE = "Name a password file (the command also takes AUTHRATE_PASSWORD)"
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
    window: int
    think: float
    page_size: int


def problems_of(asked: Asked, has_secret: bool) -> List[Problem]:
    """Return what is wrong before any file is read."""
    found = _bad_words(asked) or _bad_shares(asked)
    found += _bad_numbers(asked)
    external = asked.auth.mechanism == "external"
    if external and (asked.workload not in ("bind", "connect_bind") or asked.fail):
        found.append(problem("external goes with bind and connect_bind alone", "auth", asked.workload))
    if "bind" in kinds_of(asked.workload) and not external and not has_secret:
        found.append(problem("binds need a password", "password_file", do=WITHOUT_ONE))
    if asked.window > 1 and asked.workload != "search":
        # RFC 4511, 4.2.1: a bind waits for everything else, and everything else for the bind.
        found.append(problem("only searches may be outstanding together", "window", asked.workload, "search"))
    if asked.workload == "paged_search" and not asked.base:
        found.append(problem("a subtree to page through is needed", "base", wanted="the DN it begins at"))
    return found


def _bad_words(asked: Asked) -> List[Problem]:
    return [
        problem("no such %s" % name, name, value, " or ".join(known))
        for name, value, known in (
            ("workload", asked.workload, WORKLOADS),
            ("auth", asked.auth.mechanism, AUTHS),
            ("scope", asked.scope, SCOPES),
        )
        if value not in known
    ]


def _bad_shares(asked: Asked) -> List[Problem]:
    found = []
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
        elif FAILURES[name][0] not in kinds or asked.workload == "paged_search":
            found.append(problem("%s is a failure of a %s" % (name, FAILURES[name][0]), "fail", asked.workload))
        elif not 0 < percent < 100:
            found.append(problem("a share out of range", "fail", "%s=%g" % (name, percent), "above 0, below 100 %"))
    if sum(asked.fail.values()) >= 100:
        found.append(problem("nothing would be left to succeed", "fail", "%g %%" % sum(asked.fail.values())))
    return found


def _bad_numbers(asked: Asked) -> List[Problem]:
    numbers: List[Tuple[str, float, int, int]] = [
        ("window", asked.window, 1, 1000),
        ("think", asked.think, 0, 3600),
        ("page_size", asked.page_size, 1, 100000),
    ]
    return [
        problem("%s is out of range" % name, name, "%g" % value, "%d to %d" % (low, high))
        for name, value, low, high in numbers
        if not low <= value <= high
    ]


def kinds_of(workload: str) -> Sequence[str]:
    """Return the kinds of operations of a workload."""
    one = {"bind": "bind", "connect_bind": "bind", "search": "search", "paged_search": "search"}
    return (one[workload],) if workload in one else ("bind", "search")


def compose(asked: Asked, secret: credentials.Credentials | None, where: str) -> Workload:
    """Return the workload; raises LdaptuneError for what its files or patterns have wrong."""
    if asked.workload == "paged_search":
        pages = counted_searches([asked.filter or "(objectClass=*)"], asked.base, asked.attributes, _scope(asked), ANY)
        return Workload(asked.workload, [Pool(1, pages, True)], _login(asked, secret, [], where), stepping_of(asked))
    if asked.auth.mechanism == "external":
        return Workload(asked.workload, [Pool(1, binds([""], [b""], asked.auth), False)], None, stepping_of(asked))
    kinds = kinds_of(asked.workload)
    counted = "search" in kinds and asked.entries >= 0 and asked.filter and "{" not in asked.filter
    accounts = patterns.Accounts([], False)
    if not counted or "bind" in kinds or asked.accounts:
        accounts = accounts_of(asked.accounts, secret)
    secrets = credentials.passwords(secret, accounts.dns, where) if secret is not None and "bind" in kinds else []
    made = _Making(asked, accounts.dns, secrets)
    found: List[Pool] = []
    left = 100 - sum(asked.fail.values())
    shares = asked.mix if asked.workload == "mixed" else {asked.workload: 1.0}
    for kind, share in shares.items():
        sequential = accounts.sequential
        if kind == "search_bind":
            items = made.pairs()
        elif kinds_of(kind) == ("bind",):
            items = made.binds()
        elif counted:
            texts = patterns.expand(asked.filter, "filter")
            items = counted_searches(texts.dns, asked.base, asked.attributes, _scope(asked), asked.entries)
            sequential = texts.sequential
        else:
            items = made.searches()
        found.append(Pool(left * share / sum(shares.values()), items, sequential))
    for name, percent in asked.fail.items():
        found.append(Pool(percent, made.failing(name), accounts.sequential, regular=False))
    return Workload(asked.workload, found, _login(asked, secret, accounts.dns, where), stepping_of(asked))


def stepping_of(asked: Asked) -> Stepping | None:
    """Return how clients step where the fast loop does not do: more than one operation at a time, or a pause."""
    clients = {"connect_bind": "connect", "search_bind": "pair", "paged_search": "pages"}.get(asked.workload, "single")
    if clients == "single" and asked.window == 1 and not asked.think:
        return None
    return Stepping(clients, asked.window, asked.think, asked.page_size)


class _Making(NamedTuple):
    """Makes the items of a list of accounts."""

    asked: Asked
    dns: Sequence[str]
    secrets: Sequence[bytes]

    def binds(self) -> List[Item]:
        return binds(self.dns, self.secrets, self.asked.auth)

    def searches(self, dns: Sequence[str] | None = None) -> List[Item]:
        asked = self.asked
        made = searches(self.dns if dns is None else dns, asked.base, asked.filter, asked.attributes, _scope(asked))
        return made if asked.entries < 0 else [item._replace(entries=asked.entries, dn=b"") for item in made]

    def pairs(self, second: Sequence[Item] | None = None) -> List[Item]:
        then = self.binds() if second is None else second
        return [first._replace(then=item) for first, item in zip(self.searches(), then)]

    def failing(self, name: str) -> List[Item]:
        """Return the items that fail on purpose, an account each."""
        asked, code = self.asked, FAILURES[name][1]
        pair = asked.workload == "search_bind"
        if name == "wrong_password":
            wrong = binds(self.dns, [password + ABSENT.encode() for password in self.secrets], asked.auth, code)
            return self.pairs(wrong) if pair else wrong
        absent = [_absent(dn) for dn in self.dns]
        if name == "unknown_user" and not pair:
            return binds(absent, self.secrets, asked.auth, code)
        # Who looks an account up first does not even try to bind where there is none.
        return [item._replace(entries=0) for item in self.searches(absent)]


def _scope(asked: Asked) -> int:
    return SCOPES.index(asked.scope)


def _absent(dn: str) -> str:
    """Return a DN beside this one that nobody has."""
    above = names.parent(dn)
    return dn[: len(dn) - len(above)].rstrip(" ,;") + ABSENT + ("," + above if above else "")


def _login(asked: Asked, secret: credentials.Credentials | None, dns: Sequence[str], where: str) -> bytes | None:
    """Return the bind that a connection which only searches begins with."""
    if asked.workload not in ("search", "search_bind", "paged_search") or secret is None:
        return None
    if asked.workload == "search_bind" and not asked.bind_dn:
        return None  # looked up by nobody in particular, as the passwords are those of the accounts
    dn = asked.bind_dn or next(iter(dns), "")
    if not dn:
        raise LdaptuneError(problem("a password, but nobody to bind as", "bind_dn"))
    return wire.simple_bind(dn.encode("utf-8"), credentials.passwords(secret, [dn], where)[0])
