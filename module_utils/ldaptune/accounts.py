# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe's accounts on an existing directory: made in a subtree of their own, marked, and removed by that mark."""

from __future__ import annotations

import base64
import os
import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Tuple

from .directory.errors import DirectoryRefused
from .directory.session import Session, read_password
from .load import patterns, uri
from .problems import LdaptuneError, Problem, problem
from .ssha import SALT_BYTES, ssha, verifies

# By this value, and by nothing else, an entry is known to be ours.
MARK = "ldaptune probe account: for load tests only"
CONTAINER = "ldaptune-probe"
MASKED = "{SSHA}********"
SHOWN = 5
# cn and sn are what the class needs; uid is what people name accounts by.
NAMING = ("uid", "cn")
_FIRST_RDN = re.compile(r"((?:[^\\,]|\\.)+),\s*(.+)", re.DOTALL)

Attributes = Dict[str, List[str]]


class Layout(NamedTuple):
    """The entries a pattern stands for, the container first."""

    container: str
    accounts: List[str]


class Directory(Session):
    """A session that may also add and delete entries."""

    def add(self, dn: str, attributes: Attributes) -> None:
        """Add one entry."""
        connection = self._alive()
        self._count("add")
        self._guarded("add of", dn, lambda: connection.add(dn, attributes=attributes))
        self._check("add", dn)

    def delete(self, dn: str) -> None:
        """Delete one entry that has none below it."""
        connection = self._alive()
        self._count("delete")
        self._guarded("delete of", dn, lambda: connection.delete(dn))
        self._check("delete", dn)


def split_dn(dn: str) -> Tuple[str, str, str]:
    """Return (attribute type, value without its escapes, parent DN) of a DN with one naming attribute."""
    match = _FIRST_RDN.fullmatch(dn.strip())
    name, separator, value = (match.group(1) if match else "").partition("=")
    if not match or not separator or re.search(r"(?<!\\)\+", value):
        raise LdaptuneError(problem("not a DN below another one", where="accounts", found=dn))

    def plain(pair: re.Match[str]) -> str:
        text = pair.group(1)
        return chr(int(text, 16)) if len(text) == 2 else text

    return name.strip().lower(), re.sub(r"\\([0-9A-Fa-f]{2}|.)", plain, value.strip()), match.group(2)


def layout(pattern: str) -> Layout:
    """Return the entries for an account pattern; refuse one outside a subtree that is ours by name."""
    dns = patterns.expand(pattern).dns
    parts = [split_dn(dn) for dn in dns]
    parents = sorted({parent for _, _, parent in parts})
    if len(parents) > 1:
        raise LdaptuneError(problem("accounts in several subtrees", where="accounts", found=", ".join(parents[:SHOWN])))
    if parts[0][0] not in NAMING:
        raise LdaptuneError(
            problem("accounts named by another attribute", "accounts", parts[0][0], " or ".join(NAMING))
        )
    kind, value, _ = split_dn(parents[0])
    if kind != "ou" or not value.lower().startswith(CONTAINER):
        raise LdaptuneError(
            problem(
                "accounts outside a subtree of their own",
                where="accounts",
                found=parents[0],
                wanted="ou=%s,... as the parent" % CONTAINER,
                do="Nothing of ours is put among a directory's own people",
            )
        )
    return Layout(parents[0], dns)


def container_entry(dn: str) -> Attributes:
    """Return the attributes of the container."""
    return {"objectClass": ["organizationalUnit"], "ou": [split_dn(dn)[1]], "description": [MARK]}


def account_entry(dn: str, value: str) -> Attributes:
    """Return the attributes of one account whose userPassword is `value`."""
    kind, name, _ = split_dn(dn)
    entry = {
        "objectClass": ["inetOrgPerson"],
        "cn": [name],
        "sn": [name],
        "description": [MARK],
        "userPassword": [value],
    }
    return {"uid": [name], **entry} if kind == "uid" else entry


def _line(name: str, value: str) -> str:
    if re.fullmatch(r"[!-9;=-~][ -~]*(?<! )", value):
        return "%s: %s" % (name, value)
    return "%s:: %s" % (name, base64.b64encode(value.encode("utf-8")).decode("ascii"))


def ldif_add(dn: str, attributes: Attributes) -> str:
    """Return one new entry as LDIF, its password masked."""
    lines = [_line("dn", dn)]
    for name, values in attributes.items():
        lines += [_line(name, MASKED if name == "userPassword" else value) for value in values]
    return "\n".join(lines) + "\n"


def ldif_password(dn: str) -> str:
    """Return a change of password as LDIF, masked."""
    return "%s\nchangetype: modify\nreplace: userPassword\nuserPassword: %s\n-\n" % (_line("dn", dn), MASKED)


def ldif_delete(dn: str) -> str:
    """Return a removal as LDIF."""
    return "%s\nchangetype: delete\n" % _line("dn", dn)


def connect(options: Mapping[str, Any]) -> Directory:
    """Connect by name and password, or by SASL EXTERNAL where no name is given.

    Options: uri, bind_dn, bind_password_file, ca_file, starttls, allow_cleartext, timeout.
    """
    target = uri.parse(options["uri"])
    directory = Directory(options["uri"], options["timeout"], options["ca_file"], options["starttls"])
    if not options["bind_dn"]:
        if target.scheme != "ldapi":
            raise LdaptuneError(problem("no name to bind by", where="bind_dn", wanted="one, or an ldapi:// URI"))
        directory.bind_external()
        return directory
    encrypted = target.scheme == "ldaps" or options["starttls"]
    if not (encrypted or options["allow_cleartext"] or uri.is_local(uri.resolve(target))):
        raise LdaptuneError(
            problem(
                "the administrator's password would travel in clear",
                where=options["uri"],
                wanted="ldaps://, StartTLS, ldapi:// or loopback",
                do="Set allow_cleartext if that is meant",
            )
        )
    directory.bind_simple(options["bind_dn"], read_password(options["bind_password_file"]))
    return directory


def _read(directory: Session, dn: str) -> Attributes | None:
    found = directory.search(dn, "(objectClass=*)", ("description", "userPassword"), "base")
    return {name.lower(): values for name, values in found[0][1].items()} if found else None


def _is_ours(entry: Attributes) -> bool:
    return MARK in entry.get("description", [])


def _foreign(dns: Iterable[str]) -> List[Problem]:
    return [
        problem("an entry that ldaptune did not make", where=dn, do="Choose other names; this one is left alone")
        for dn in dns
    ]


def present(directory: Directory, pattern: str, password: str, check: bool) -> Dict[str, Any]:
    """Make the accounts that are missing and set passwords that differ; everything is looked at before any change.

    Returns {"changed", "created", "updated", "unchanged", "unverified" (counts), "container", "ldif" (masked)}. An
    account whose password this identity may not read is `unverified` and left as it is.
    """
    wanted = layout(pattern)
    secret = password.encode("utf-8")
    entries = {dn: _read(directory, dn) for dn in [wanted.container, *wanted.accounts]}
    foreign = _foreign(dn for dn, entry in entries.items() if entry is not None and not _is_ours(entry))
    if foreign:
        raise LdaptuneError(foreign[:SHOWN])
    create = [dn for dn in wanted.accounts if entries[dn] is None]
    update, unverified = [], 0
    for dn in wanted.accounts:
        values = (entries[dn] or {}).get("userpassword", [])
        verdicts = [verifies(secret, value) if isinstance(value, str) else None for value in values]
        if entries[dn] is None or True in verdicts:
            continue
        if verdicts and None not in verdicts:
            update.append(dn)
        else:
            unverified += 1
    text = []
    if entries[wanted.container] is None:
        text.append(ldif_add(wanted.container, container_entry(wanted.container)))
        if not check:
            directory.add(wanted.container, container_entry(wanted.container))
    for dn in create:
        entry = account_entry(dn, ssha(secret, os.urandom(SALT_BYTES)))
        text.append(ldif_add(dn, entry))
        if not check:
            directory.add(dn, entry)
    for dn in update:
        text.append(ldif_password(dn))
        if not check:
            directory.modify(dn, [("replace", "userPassword", [ssha(secret, os.urandom(SALT_BYTES))])])
    return {
        "changed": bool(text),
        "created": len(create),
        "updated": len(update),
        "unchanged": len(wanted.accounts) - len(create) - len(update) - unverified,
        "unverified": unverified,
        "container": wanted.container,
        "ldif": "\n".join(text),
    }


def absent(directory: Directory, pattern: str, check: bool) -> Dict[str, Any]:
    """Remove the pattern's accounts and then the container, as far as they are ours.

    Returns {"changed", "removed" (count), "left" (DNs that are not ours or not empty), "container", "ldif"}.
    """
    wanted = layout(pattern)
    gone, left, text = 0, [], []
    for dn in [*wanted.accounts, wanted.container]:
        entry = _read(directory, dn)
        if entry is None:
            continue
        if not _is_ours(entry):
            left.append(dn)
            continue
        if not check:
            try:
                directory.delete(dn)
            except DirectoryRefused as refusal:
                if refusal.name != "notAllowedOnNonLeaf":
                    raise
                left.append(dn)
                continue
        gone += 1
        text.append(ldif_delete(dn))
    return {"changed": gone > 0, "removed": gone, "left": left, "container": wanted.container, "ldif": "\n".join(text)}


def _one_password(path: str) -> str:
    """Return the one password of a file; rows of DN and password, as the probe knows them, are refused."""
    password = read_password(path)
    dn, tab, _ = password.partition("\t")
    if tab and "=" in dn:
        raise LdaptuneError(
            problem(
                "the password file has a password for each account",
                where=path,
                found="rows of DN, tab, password",
                wanted="one line, the password of all accounts",
                do="These accounts all get the same one; give it in authrate_password or a file of its own.",
            )
        )
    return password


def run(state: str, options: Mapping[str, Any], check: bool) -> Dict[str, Any]:
    """Do one state, `present` or `absent`, with the module's options; errors are LdaptuneError."""
    layout(options["accounts"])
    password = _one_password(options["password_file"]) if state == "present" else ""
    try:
        directory = connect(options)
        try:
            if state == "present":
                return present(directory, options["accounts"], password, check)
            return absent(directory, options["accounts"], check)
        finally:
            directory.close()
    except DirectoryRefused as refusal:
        raise LdaptuneError(
            problem(
                "the directory refused",
                where=refusal.dn,
                found="result %d %s %s" % (refusal.code, refusal.name, refusal.text),
                do=_HINTS.get(refusal.name, ""),
            )
        ) from None


_HINTS = {
    "insufficientAccessRights": "Give bind_dn and its password file (in the playbook test_accounts_bind_dn and "
    "test_accounts_bind_password): an identity that may write below the parent",
    "invalidCredentials": "Check bind_dn and its password file; the same password is not tried again",
    "noSuchObject": "The parent of the container must exist",
}
