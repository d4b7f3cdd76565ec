# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which socket an ldapi URI means."""

from __future__ import annotations

import os
from urllib.parse import unquote

# Where packages put the socket of ldapi:///: which one that is was chosen when slapd was built.
DEFAULTS = ("/run/slapd/ldapi", "/run/ldapi", "/var/run/ldapi", "/var/run/openldap/ldapi")


def socket_path(uri: str) -> str:
    """Return the path of an ldapi URI, unescaped once; of `ldapi:///` the first of the usual ones that is there."""
    path = unquote(uri[len("ldapi://") :].split("?", maxsplit=1)[0].rstrip("/"))
    return path or next(filter(os.path.exists, DEFAULTS), DEFAULTS[0])
