# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe's way to the server, tried from the generator before any load: everything wrong is said at once."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Sequence

from ..load import connect, credentials, wire
from ..load.compose import kinds_of
from ..load.names import normal_dn, parent
from ..load.prepare import Ready, Settings, prepare
from ..problems import LdaptuneError, Problem, problem
from .conversation import Answer, Broken, Conversation

_PLACEHOLDER = re.compile(r"change_?me|placeholder|dc=example\b|dc=nodomain\b|<[^>]+>|\{\{", re.IGNORECASE)
_TLS_NEEDED = (8, 13)
# Makes requests complete that are never sent.
UNUSED = b"unused"
_REACH = {
    "connect_refused": "Does slapd listen on that address for other hosts? Look at its -h list, and at firewalls.",
    "connect_timeout": "Is the way open? Look at firewalls, and whether slapd hangs.",
    "tls": "Give the CA in authrate_ca_file, and in authrate_uri a name or address that the certificate bears.",
    "connect_descriptors": "Raise the limit of open files on the generator.",
}


class ProbePreflight:
    """One look from a generator; `run()` once, then read `problems` and `facts`. `sample` accounts are tried once each.

    With `check_mode` no account is bound; the server is reached and its root read anonymously all the same.
    """

    def __init__(self, settings: Settings, sample: int = 2, check_mode: bool = False) -> None:
        self.settings = settings
        self.sample = sample
        self.check_mode = check_mode
        self.problems: List[Problem] = []
        self._may_bind = False
        # Without a pattern the names stand in the password file, which a play in check mode does not place.
        self._names_known = True
        self.facts: Dict[str, Any] = {"naming_contexts": [], "tls": "", "tried": [], "operations": {}}

    def run(self) -> None:
        """Check files and settings, reach the server, and let a few accounts bind."""
        if not self.settings.uri:
            self.problems.append(no_uri())
            return
        ready = self._prepare()
        if ready is None:
            return
        try:
            made = connect.open_connection(ready.target, ready.addresses, ready.security, self.settings.timeout)
        except connect.ConnectFailed as failed:
            self.problems.append(unreachable(self.settings.uri, failed))
            return
        version = getattr(made, "version", None)
        self.facts["tls"] = version() if version else ""
        talk = Conversation(made, self.settings.timeout, self.settings.starttls)
        try:
            self._look(talk, ready)
        except Broken as broken:
            self.problems.append(problem("the server does not answer the probe", self.settings.uri, str(broken)))
        finally:
            talk.close()
            self.facts["operations"] = talk.sent

    def _prepare(self) -> Ready | None:
        """Return the run made ready; where something about it is wrong, one that can look but not bind."""
        asked = self.settings
        if self.check_mode and not os.path.exists(asked.password_file):
            # A play in check mode places no password file.
            self._names_known = bool(asked.accounts)
            accounts = asked.accounts or "cn=unknown"
            asked = asked._replace(password=UNUSED, password_file="", accounts=accounts)
        try:
            ready = prepare(asked)
        except LdaptuneError as error:
            self.problems += error.problems
        else:
            self._may_bind = not self.check_mode
            return ready
        try:
            return prepare(asked._replace(password=UNUSED, password_file="", allow_cleartext=True))
        except LdaptuneError as error:
            self.problems += [item for item in error.problems if item not in self.problems]
            return None

    def _look(self, talk: Conversation, ready: Ready) -> None:
        contexts = talk.read("", "namingContexts").attributes.get("namingcontexts", [])
        self.facts["naming_contexts"] = contexts
        dns = [item.name for item in ready.workload.pools[0].items]
        missing = outside(used_bases(dns, self.settings), contexts) if self._names_known else []
        if missing:
            # A bind below a suffix that is not there fails with 49, as a wrong password does.
            self.problems.append(no_such_base(missing, contexts))
            return
        if self._may_bind:
            self._try(talk, dns)

    def _try(self, talk: Conversation, dns: Sequence[str]) -> None:
        kinds, apart = kinds_of(self.settings.workload), self.settings.workload == "search_bind"
        searcher = self.settings.bind_dn if apart else self.settings.bind_dn or dns[0]
        accounts = spread(dns, self.sample) if "bind" in kinds else []
        lookup = "search" in kinds and (apart or not accounts)
        if lookup and not (self._bind(talk, [searcher] if searcher else []) and self._read_base(talk, dns)):
            return
        if self._bind(talk, accounts) and self.settings.workload == "mixed":
            self._read_base(talk, dns)

    def _bind(self, talk: Conversation, names: List[str]) -> bool:
        """Bind as each once; return whether all could."""
        secret = read_credentials(self.settings)
        passwords = credentials.passwords(secret, names, "password_file") if secret else []
        for dn, password in zip(names, passwords):
            answer = talk.bind(dn, password)
            self.facts["tried"].append({"dn": dn, "result": wire.result_name(answer.result.code)})
            if answer.result.code != 0:
                # Nobody else is tried: a wrong password must not count against more than one account.
                self.problems.append(cannot_bind(dn, answer))
                return False
            if answer.must_change:
                self.problems.append(not_usable(dn))
                return False
        return True

    def _read_base(self, talk: Conversation, dns: Sequence[str]) -> bool:
        """Read the search base: who must change a password first may bind, and is refused everything after it."""
        base = self.settings.base or parent(dns[0])
        answer = talk.read(base, "1.1")
        if answer.result.code != 0:
            self.problems.append(base_not_seen(base, answer))
        return answer.result.code == 0


def read_credentials(settings: Settings) -> credentials.Credentials | None:
    """Return the passwords of a run that needs some."""
    if settings.password is not None:
        return credentials.Credentials(settings.password, {})
    return credentials.read(settings.password_file) if settings.password_file else None


def spread(dns: Sequence[str], many: int) -> List[str]:
    """Return `many` names, the first and the last among them: a range that is too long shows at its end."""
    many = max(1, min(many, len(dns)))
    if many == 1:
        return list(dns[:1])
    return [dns[index * (len(dns) - 1) // (many - 1)] for index in range(many)]


def used_bases(dns: Sequence[str], settings: Settings) -> List[str]:
    """Return the names below which the probe works: the accounts' parents, the search base."""
    found = [settings.base] if "search" in kinds_of(settings.workload) and settings.base else []
    for dn in dns:
        above = parent(dn)
        if above not in found:
            found.append(above)
        if len(found) > 100:
            break
    return found


def outside(bases: Sequence[str], contexts: Sequence[str]) -> List[str]:
    """Return the bases that lie below none of the naming contexts; none when the server does not show these."""
    if not contexts:
        return []
    suffixes = [normal_dn(context) for context in contexts]

    def below(base: str) -> bool:
        name = normal_dn(base)
        return any(name[len(name) - len(suffix) :] == suffix for suffix in suffixes if len(suffix) <= len(name))

    return [base for base in bases if not below(base)]


def no_uri() -> Problem:
    """Refuse a run without a server."""
    return problem(
        "the probe has no server to go to",
        where="authrate_uri",
        wanted="the URI of the directory as the generator sees it, such as ldaps://ldap1.example.com",
    )


def unreachable(uri: str, failed: connect.ConnectFailed) -> Problem:
    """Say why the generator cannot reach the server."""
    return problem(
        "the generator cannot reach the directory", where=uri, found=failed.text, do=_REACH.get(failed.name, "")
    )


def no_such_base(missing: Sequence[str], contexts: Sequence[str]) -> Problem:
    """Refuse names that no database of the server holds; a placeholder left in is called one."""
    do = "Set authrate_accounts and authrate_base to what this server holds; no account was tried."
    if any(_PLACEHOLDER.search(base) for base in missing):
        do = "It looks like a placeholder that was left in. " + do
    return problem(
        "no such base on this server", where="accounts", found=", ".join(missing), wanted=", ".join(contexts), do=do
    )


def cannot_bind(dn: str, answer: Answer) -> Problem:
    """Say why a sample account could not bind; it is not tried again."""
    code, text = answer.result.code, answer.result.text
    found = "result %d (%s)%s" % (code, wire.result_name(code), ": " + text if text else "")
    if answer.result.referrals:
        found += " to " + ", ".join(answer.result.referrals)
    do = "Correct the account or its password; it was tried once, and no other one after it."
    if code in _TLS_NEEDED:
        do = "Use ldaps:// or authrate_starttls: the server wants passwords protected."
    return problem("a sample account cannot bind", where=dn, found=found, wanted="success", do=do)


def not_usable(dn: str) -> Problem:
    """Refuse an account that may bind and do nothing else."""
    return problem(
        "a sample account must change its password before it may do anything else",
        where=dn,
        found="success, and changeAfterReset from the password policy",
        do="Give it a password of its own (pwdReset goes then), or name other accounts; no other one was tried.",
    )


def base_not_seen(base: str, answer: Answer) -> Problem:
    """Say that the search base cannot be read by the one who will search, in the server's words, too."""
    code, text = answer.result.code, answer.result.text
    return problem(
        "the search base is not there, or hidden from the searching identity",
        where=base,
        found="result %d (%s)%s" % (code, wire.result_name(code), ": " + text if text else ""),
        do="Set authrate_base to a base that this identity may search.",
    )
