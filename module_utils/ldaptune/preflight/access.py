# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""May this identity manage cn=config? Told apart: not allowed, not there, not safe enough, read-only.

The right is found out by a modify that must fail whatever the server: it deletes the value that names the entry,
which RFC 4511 4.6 forbids (notAllowedOnRDN). slapd checks access first (50), then the naming value (67), and stops
before it pauses its threads or touches a file.
"""

from __future__ import annotations

import base64
import re
from typing import Dict, List, NamedTuple, Sequence, Tuple

from ..problems import Problem, problem

NO_SUCH_ATTRIBUTE = 16
CONFIDENTIALITY_REQUIRED = 13
NO_SUCH_OBJECT = 32
INVALID_CREDENTIALS = 49
INSUFFICIENT_ACCESS = 50
UNWILLING = 53
NOT_ALLOWED_ON_RDN = 67
# Any one of these says that access was granted and the modify failed for its own reason.
MAY_MANAGE = (NOT_ALLOWED_ON_RDN, NO_SUCH_ATTRIBUTE)
# slapd counts a local socket as this strong unless olcLocalSSF says otherwise.
LOCAL_SSF = 71

HIDDEN = "result 32 (noSuchObject) to a read, as slapd answers where an access rule hides an entry"

Change = Tuple[str, str, List[str]]


class Factors(NamedTuple):
    """Security strength: what the server requires (`ssf`, `tls`, ...) and what a local socket counts for."""

    required: Dict[str, int]
    local: int


def impossible_change(dn: str) -> List[Change]:
    """Return a modify of `dn` that no server may carry out: it removes the entry's own naming value."""
    attribute, _equals, value = dn.split(",", 1)[0].partition("=")
    return [("delete", attribute.strip(), [value.strip()])]


def judge_right(code: int, name: str, whoami: str, dn: str, readable: bool = True) -> List[Problem]:
    """Explain the result of the impossible change; nothing to say when the right is there.

    `readable` is false when the same entry came back as absent (32): an access rule hides it then.
    """
    if code in MAY_MANAGE:
        return [] if readable else [no_right("may not read the configuration", HIDDEN, whoami, dn)]
    if code in (INSUFFICIENT_ACCESS, NO_SUCH_OBJECT):
        found = "result %d (%s) to a change" % (code, name)
        return [no_right("may not manage the configuration", found + ("" if readable else ", " + HIDDEN), whoami, dn)]
    if code == UNWILLING:
        return [
            problem(
                "the configuration is read-only",
                where=dn,
                found="result 53 for %s (olcReadOnly or olcRestrict)" % _identity(whoami),
                wanted="a configuration that takes changes",
                do="Lift it offline: stop slapd and use slapmodify -n0 as slapd's user; live, it no longer can be.",
            )
        ]
    return [
        problem(
            "the right to manage the configuration could not be found out",
            where=dn,
            found="result %d (%s) for %s" % (code, name, _identity(whoami)),
            wanted="result %d or %d" % MAY_MANAGE,
            do="Nothing was changed; look at slapd's log for this operation.",
        )
    ]


def judge_read(code: int, name: str, whoami: str, dn: str, factors: Factors) -> Problem:
    """Explain the refusal of a read of the configuration."""
    if code == CONFIDENTIALITY_REQUIRED:
        return not_safe_enough(whoami, factors)
    return no_right("may not read the configuration", "result %d (%s) to a read" % (code, name), whoami, dn)


def no_right(what: str, found: str, whoami: str, dn: str) -> Problem:
    """Refuse an identity without the right, and say who could give it."""
    return problem(
        "%s %s" % (_identity(whoami), what),
        where=dn,
        found=found,
        wanted="manage",
        do="Let an administrator of cn=config add to olcDatabase={0}config: olcAccess: {0}to * by dn.exact=%s manage "
        "by * break. Or set tuning_config_dn (such as its olcRootDN) and tuning_config_password_file."
        % (whoami.replace("dn:", "", 1) or "IDENTITY"),
    )


def not_safe_enough(whoami: str, factors: Factors) -> Problem:
    """Explain result 13 with both numbers."""
    required = ", ".join("%s=%d" % item for item in sorted(factors.required.items())) or "more (value not readable)"
    return problem(
        "slapd requires more confidentiality than this connection has, even of %s" % _identity(whoami),
        where="olcSecurity",
        found="result 13 (confidentialityRequired): a local socket counts as ssf=%d and is no TLS" % factors.local,
        wanted=required,
        do="Raise olcLocalSSF to that, or set tuning_config_uri to an ldaps:// URI with tuning_config_dn; if nobody "
        "gets in, stop slapd and use slapmodify -n0 as slapd's user.",
    )


def _identity(whoami: str) -> str:
    return whoami or "this identity (anonymous)"


def factors_from_ldif(texts: Sequence[str]) -> Factors:
    """Read olcSecurity and olcLocalSSF out of slapd.d's LDIF files: over the wire result 13 hides them."""
    required: Dict[str, int] = {}
    local = LOCAL_SSF
    for text in texts:
        unfolded = re.sub(r"\r?\n ", "", text)
        for line in unfolded.splitlines():
            name, colon, value = line.partition(":")
            if not colon or value.startswith("<"):
                continue
            if value.startswith(":"):
                value = _decoded(value[1:])
            if name.lower() == "olcsecurity":
                for key, number in re.findall(r"(\w+)=(\d+)", value):
                    required[key] = max(int(number), required.get(key, 0))
            elif name.lower() == "olclocalssf" and value.strip().isdigit():
                local = int(value)
    return Factors(required, local)


def _decoded(value: str) -> str:
    """Return the text of a base64 value, empty for one that is none."""
    try:
        return base64.b64decode(value.strip(), validate=True).decode("utf-8", "replace")
    except ValueError:
        return ""
