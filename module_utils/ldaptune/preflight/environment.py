# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host and the way slapd was started: what ldaptune cannot serve, told before anything is asked of slapd."""

from __future__ import annotations

from typing import Dict, List, Mapping, Sequence, Tuple

from ..host.process import parse_arguments
from ..problems import Problem, problem

# Attributes and behaviour were read in the sources of 2.4 and later; 2.3 knows neither back-mdb nor most of them.
OLDEST = (2, 4)
_PACKAGES = {
    "debian": "python3-ldap3 (apt install python3-ldap3)",
    "rhel": "python3-ldap3 (from EPEL: dnf install python3-ldap3)",
    "fedora": "python3-ldap3 (dnf install python3-ldap3)",
    "suse": "python3-ldap3 (zypper install python3-ldap3)",
}


def os_release(text: str) -> Dict[str, str]:
    """Parse os-release(5) into a dictionary."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            found[name] = value.strip("\"'")
    return found


def ldap3_package(release: Mapping[str, str]) -> str:
    """Return the package that brings ldap3 on this distribution, with the command; pip where we know of none."""
    families = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    for family in families:
        name = family.split("-")[0] if family.startswith(("opensuse", "sle")) else family
        name = {"ubuntu": "debian", "centos": "rhel", "opensuse": "suse", "sles": "suse"}.get(name, name)
        if name in _PACKAGES:
            return _PACKAGES[name]
    return "ldap3 (pip install ldap3, for the Python that Ansible uses there)"


def no_ldap3(release: Mapping[str, str], python: str) -> Problem:
    """Refuse a host whose Python has no ldap3."""
    return problem(
        "Python's ldap3 is missing",
        where=python,
        wanted=ldap3_package(release),
        do="Install it, or set tuning_install_requirements: true to have it installed.",
    )


def not_root(euid: int) -> List[Problem]:
    """Refuse any user but root: thread masks, /proc of slapd and SASL EXTERNAL's manage right need it."""
    if euid == 0:
        return []
    return [problem("root is needed on this host", found="uid %d" % euid, wanted="uid 0", do="Set become: true.")]


def config_source(argv: Sequence[str], config_dir: str, config_file: str) -> Tuple[str, List[Problem]]:
    """Tell where slapd's configuration lives, and refuse where a change would vanish at the next start.

    `config_dir` and `config_file` are olcConfigDir and olcConfigFile as far as they could be read.
    """
    given = parse_arguments(argv)
    if "f" in given and "F" in given:
        return "slapd.conf", [
            problem(
                "slapd.conf is converted anew at every start: changes would vanish",
                where=given["f"],
                found="slapd -f %s -F %s" % (given["f"], given["F"]),
                wanted="slapd -F DIR alone",
                do="Start slapd with the configuration directory only, once it is converted.",
            )
        ]
    from_file = "f" in given if "f" in given or "F" in given else bool(config_file) and not config_dir
    if not from_file:
        return "slapd.d", []
    return "slapd.conf", [
        problem(
            "slapd was started from slapd.conf without a configuration directory: changes would vanish at a restart",
            where=given.get("f") or config_file,
            found="olcConfigFile without olcConfigDir" if config_file else "slapd -f",
            wanted="slapd -F DIR",
            do="Convert it: slaptest -f SLAPD.CONF -F DIR as slapd's user, then start slapd with -F DIR.",
        )
    ]


def no_ldapi(uris: Sequence[str], given_uri: str) -> List[Problem]:
    """Refuse a slapd that we have no way to: no local socket, and no URI named."""
    if given_uri or any(uri.lower().startswith("ldapi:") for uri in uris):
        return []
    return [
        problem(
            "slapd has no ldapi listener",
            found=" ".join(uris) or "ldap:///",
            wanted="ldapi:///",
            do="Add ldapi:/// to its -h list (SLAPD_SERVICES on Debian) and restart it, or set tuning_config_uri, "
            "tuning_config_dn and tuning_config_password_file.",
        )
    ]


def too_old(version: Sequence[int]) -> List[Problem]:
    """Refuse a slapd older than what the levers are known for; an unknown version () is not refused here."""
    if not version or tuple(version[:2]) >= OLDEST:
        return []
    return [
        problem(
            "this slapd is too old",
            found=".".join(map(str, version)),
            wanted="%d.%d or later" % OLDEST,
            do="Upgrade OpenLDAP.",
        )
    ]
