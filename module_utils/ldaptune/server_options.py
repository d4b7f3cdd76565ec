# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The `server` option of the modules that work on a host, as an argument spec (plain data)."""

from __future__ import annotations

from typing import Any, Dict

SERVER_OPTIONS: Dict[str, Dict[str, Any]] = {
    "instance": {"type": "str", "default": ""},
    "uri": {"type": "str", "default": ""},
    "config_dn": {"type": "str", "default": ""},
    # The name of a file on the host, no secret.
    "config_password_file": {"type": "str", "default": "", "no_log": False},
    "ca_file": {"type": "str", "default": ""},
    "starttls": {"type": "bool", "default": False},
    "suffix": {"type": "str", "default": ""},
    "service": {"type": "str", "default": "slapd"},
    "restart_command": {"type": "list", "elements": "str", "default": []},
    "state_dir": {"type": "str", "default": "/var/lib/ldaptune"},
    "timeout": {"type": "int", "default": 10},
}
