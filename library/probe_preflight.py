#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Try the probe's way to the directory from a generator, before any load."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: probe_preflight
short_description: Try the probe's way to the directory from a generator
description:
  - Checks what M(authrate) will be given, reaches the server from this very host, verifies TLS, asks for its naming
    contexts and lets a few accounts bind once each. Returns everything that is wrong.
  - After the first refused bind no other one is sent, so that a wrong password locks nobody out.
  - Does not fail because of a problem unless told; a play can so show the problems of all hosts, and fail after that.
options:
  uri:
    description: The server, C(ldap://host:port), C(ldaps://host:port) or C(ldapi://%2Fpath%2Fto%2Fsocket).
    type: str
    default: ''
  accounts:
    description:
      - Pattern of the accounts' DNs. C([0-9999]) draws at random, C([0:9999]) goes in order. Leading
        zeros give the width.
      - Empty means the DNs in the rows of O(password_file).
    type: str
    default: ''
  password_file:
    description:
      - File on this host with one password for all accounts, or with rows of DN, tab, password.
      - Needed for binds. With O(workload=search) each connection begins with one bind.
    type: path
  workload:
    description: What will be sent, as in M(authrate).
    type: str
    choices: [bind, connect_bind, search, search_bind, mixed]
    default: bind
  mix:
    description: Shares of C(bind) and C(search), for O(workload=mixed).
    type: dict
    default: {}
  base:
    description: Search base. Empty means the parent of each account.
    type: str
    default: ''
  filter:
    description:
      - Search filter for one account; C({user}) is the value of its first RDN and C({dn}) its DN, both escaped.
      - Empty means equality on the first RDN. Exactly the account's entry must come, or it is a C(wrong_result).
    type: str
    default: ''
  bind_dn:
    description:
      - Who searches, where there is a O(password_file).
      - Empty means the first account for O(workload=search), nobody for O(workload=search_bind).
    type: str
    default: ''
  connections:
    description: Connections kept open, each with one operation at a time.
    type: int
    default: 16
  processes:
    description: Processes that share the connections; 0 means one for each four CPUs.
    type: int
    default: 0
  ca_file:
    description: File with the certificates of the authorities to trust.
    type: path
    default: ''
  starttls:
    description: Ask for TLS on an C(ldap://) connection before anything else; a refusal ends the task.
    type: bool
    default: false
  insecure:
    description: Do not verify the server's certificate.
    type: bool
    default: false
  timeout:
    description: Seconds for an operation's answer and for a connection.
    type: float
    default: 5
  allow_cleartext:
    description: Allow passwords without TLS to another host than this one.
    type: bool
    default: false
  sample:
    description: So many accounts bind once each, the first and the last of the pattern among them.
    type: int
    default: 2
  fail:
    description: Fail with all problems instead of returning them.
    type: bool
    default: false
author: the ldaptune authors
attributes:
  check_mode:
    description: Reaches the server and reads its naming contexts without a bind; no account is bound.
    support: full
  diff_mode:
    support: none
  platform:
    platforms: linux
notes:
  - Supports C(check_mode).
"""

EXAMPLES = r"""
- name: Try the probe's way
  probe_preflight:
    uri: ldaps://ldap1.example.com
    accounts: uid=user.[0-9999],ou=people,dc=example,dc=com
    password_file: /run/ldaptune-x1/password
    connections: 16
  delegate_to: generator1
  register: _tuning_probe
"""

RETURN = r"""
facts:
  description: Naming contexts and TLS version of the server, the accounts that were tried, the operations sent.
  type: dict
  returned: always
  sample:
    naming_contexts: ["dc=example,dc=com"]
    tls: TLSv1.3
    tried: [{dn: "uid=user.0,ou=people,dc=example,dc=com", result: success}]
    operations: {search: 1, bind: 2, unbind: 1}
problems:
  description: Everything that is wrong, as data.
  type: list
  elements: dict
  returned: always
  sample:
    - what: a sample account cannot bind
      where: uid=user.0,ou=people,dc=example,dc=com
      found: result 49 (invalidCredentials)
      wanted: success
      do: Correct the account or its password; it was tried once, and no other one after it.
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.load.compose import WORKLOADS
from ..module_utils.ldaptune.load.prepare import Settings
from ..module_utils.ldaptune.preflight.probe import ProbePreflight
from ..module_utils.ldaptune.problems import render_all

ARGUMENTS = {
    "uri": {"type": "str", "default": ""},
    "accounts": {"type": "str", "default": ""},
    "password_file": {"type": "path", "no_log": False},
    "workload": {"type": "str", "choices": [name for name in WORKLOADS if name != "paged_search"], "default": "bind"},
    "mix": {"type": "dict", "default": {}},
    "base": {"type": "str", "default": ""},
    "filter": {"type": "str", "default": ""},
    "bind_dn": {"type": "str", "default": ""},
    "connections": {"type": "int", "default": 16},
    "processes": {"type": "int", "default": 0},
    "ca_file": {"type": "path", "default": ""},
    "starttls": {"type": "bool", "default": False},
    "insecure": {"type": "bool", "default": False},
    "timeout": {"type": "float", "default": 5},
    "allow_cleartext": {"type": "bool", "default": False},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ARGUMENTS,
            "sample": {"type": "int", "default": 2},
            "fail": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    asked = {name: module.params[name] for name in ARGUMENTS}
    asked["password_file"] = asked["password_file"] or ""
    preflight = ProbePreflight(Settings(**asked), module.params["sample"], module.check_mode)
    preflight.run()
    found = {"facts": preflight.facts, "problems": preflight.problems}
    if preflight.problems and module.params["fail"]:
        module.fail_json(msg=render_all(preflight.problems), **found)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
