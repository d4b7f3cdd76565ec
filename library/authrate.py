#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: the probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: authrate
short_description: Load an LDAP server and measure it
description:
  - Sends binds and searches from a fixed number of clients and returns rates, latencies and failures.
  - All phases of one task use the same connections. The task ends by itself, whatever becomes of the controller.
  - It never changes anything, so it is never C(changed). A failed operation is a figure, not a failed task; the task
    fails when nothing can be measured, for example when the server does not answer or a setting is wrong.
attributes:
  check_mode:
    description: Sends nothing, opens no connection, returns C(skipped).
    support: full
  diff_mode:
    description: There is nothing to differ.
    support: none
  platform:
    description: Linux (epoll).
    platforms: linux
    support: full
options:
  uri:
    description: The server, C(ldap://host:port), C(ldaps://host:port) or C(ldapi://%2Fpath%2Fto%2Fsocket).
    type: str
    required: true
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
      - A folder of M(private_folder) that it lies in is renewed.
      - Needed for binds. With O(workload=search) each connection begins with one bind.
    type: path
  workload:
    description:
      - What is sent. V(bind) and V(search) use kept connections, V(connect_bind) a new one for each bind.
      - V(search_bind) looks an account up on one connection and binds as it on another.
      - V(mixed) sends binds and searches on the same connections, in the shares of O(mix).
      - V(paged_search) reads the subtree of O(base) page by page; a page is an operation.
    type: str
    choices: [bind, connect_bind, search, search_bind, mixed, paged_search]
    default: bind
  auth:
    description:
      - How accounts bind. V(plain) and V(external) are SASL mechanisms.
      - V(external) needs neither accounts nor passwords, over C(ldapi://) or with O(cert_file).
    type: str
    choices: [simple, plain, external]
    default: simple
  auth_id:
    description: The identity that SASL PLAIN sends, with C({user}) (value of the first RDN) or C({dn}).
    type: str
    default: '{user}'
  mix:
    description: Shares of C(bind) and C(search), for O(workload=mixed); only their ratio counts.
    type: dict
    default: {}
  fail:
    description:
      - Percent of all operations that are to fail, by kind. C(wrong_password) and C(unknown_user)
        expect the result code 49, C(no_entry) a search without an entry. Each that ends as expected is a success, any
        other end an error.
      - Wrong passwords lock accounts where a policy says so.
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
  scope:
    description: Search scope. For V(base) the base is the account itself unless O(base) says otherwise.
    type: str
    choices: [base, one, sub]
    default: sub
  entries:
    description:
      - How many entries each search must give, whichever they are; -1 means the account's own entry.
      - With a number and a filter without placeholders, O(filter) is a pattern of its own and needs no accounts.
    type: int
    default: -1
  attributes:
    description: Attributes that a search asks for.
    type: list
    elements: str
    default: ['1.1']
  bind_dn:
    description:
      - Who a connection that only searches binds as first, where there is a password.
      - Empty means the first account for O(workload=search), nobody for O(workload=search_bind).
      - With a password, O(workload=paged_search) needs it.
    type: str
    default: ''
  window:
    description: Operations outstanding on a connection, for O(workload=search).
    type: int
    default: 1
  think:
    description: Seconds that a client rests between an answer and its next operation.
    type: float
    default: 0
  page_size:
    description: Entries a page, for O(workload=paged_search).
    type: int
    default: 500
  connections:
    description:
      - Clients. Each keeps one connection open (two for O(workload=search_bind), none for O(workload=connect_bind)).
    type: int
    default: 16
  processes:
    description: Processes that share the connections; 0 means one for each four CPUs.
    type: int
    default: 0
  seed:
    description: The same seed draws the same accounts in the same order.
    type: str
    default: '1'
  phases:
    description: What is done, in order.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The phase's key in the result. C(goal) is the one by which the generator is judged.
        type: str
        required: true
      mode:
        description:
          - V(pass) sends one operation for each account.
          - V(closed) keeps every connection busy.
          - V(open) sends at a fixed rate, and counts latency from the planned time.
        type: str
        choices: [pass, closed, open]
        required: true
      seconds:
        description: How long; for V(pass) at most how long.
        type: float
        required: true
      rate:
        description: Operations a second, for V(open).
        type: float
        default: 0
  sample:
    description: So many accounts are tried once each before the phases; if one fails, so does the task, without load.
    type: int
    default: 0
  ca_file:
    description: File with the certificates of the authorities to trust.
    type: path
    default: ''
  cert_file:
    description: Certificate (PEM) to show to a server that asks for one.
    type: path
    default: ''
  key_file:
    description: Its key, where it is not in the same file.
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
  start_at:
    description:
      - Time of this host's clock (seconds since 1970) at which the first phase begins; 0 begins at once.
      - A time that is past, or more than ten minutes ahead, is refused. Connections and sample come before it.
      - Each later phase begins when those before it have had all their O(phases) seconds and half a second each.
    type: float
    default: 0
  start_file:
    description:
      - File that will have O(start_at) as a line, for a start that is agreed on when all generators stand ready. It is
        removed. The word C(off) calls the run off, and so do two minutes without the file.
    type: path
    default: ''
  part:
    description:
      - Which part of a load shared by O(parts) generators this run does, from 0.
      - All are given the same phases and seed. A pass, an order and a rate are shared; random accounts differ.
    type: int
    default: 0
  parts:
    description: How many generators share the load; above 1 the result has what merging it needs.
    type: int
    default: 1
  result_file:
    description:
      - File for the result of a run that goes on by itself. The task ends once all connections stand and the sample has
        passed; M(authrate_result) waits for the run.
      - The file must not be there. Once its folder is gone, no further phase begins.
    type: path
author: The ldaptune authors
"""

EXAMPLES = r"""
- name: Measure a leg
  authrate:
    uri: ldap://127.0.0.1:3890
    accounts: uid=user.[0-9999],ou=people,dc=example,dc=com
    password_file: /run/ldaptune/password
    connections: 16
    seed: "7"
    phases:
      - {name: prime, mode: pass, seconds: 30}
      - {name: settle, mode: closed, seconds: 4}
      - {name: goal, mode: closed, seconds: 16}
      - {name: fixed, mode: open, seconds: 10, rate: 9000}
  register: leg
"""

RETURN = r"""
phases:
  description: The figures of each phase, by name; times in ns, C(null) where there is nothing to tell.
  type: dict
  returned: not in check mode, nor with O(result_file)
totals:
  description: What was sent in the whole run (operations by kind, connections), as the server counts it.
  type: dict
  returned: not in check mode
limited_by:
  description: server_limited, generator_limited or undetermined; RV(limited_why) says why.
  type: str
  returned: not in check mode
limited_why:
  description: The evidence for RV(limited_by).
  type: str
  returned: not in check mode
accounts:
  description: How many accounts there are.
  type: int
  returned: not in check mode
remarks:
  description: What the server said with failures, with counts.
  type: list
  elements: dict
  returned: not in check mode
interrupted:
  description: Whether a signal ended the run early.
  type: bool
  returned: not in check mode
worker_died:
  description: Which process of the probe ended too early, and how; the figures are then not to be used.
  type: str
  returned: when it happened
sample:
  description: How many accounts were tried before the load, and the result codes.
  type: dict
  returned: with O(sample) above 0
pid:
  description: The run's process.
  type: int
  returned: with O(result_file)
line:
  description: The run in one line.
  type: str
  returned: always
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.load.compose import AUTHS, SCOPES, WORKLOADS
from ..module_utils.ldaptune.load.detached import launch
from ..module_utils.ldaptune.load.expiry import renew
from ..module_utils.ldaptune.load.prepare import Settings, prepare
from ..module_utils.ldaptune.load.run import run
from ..module_utils.ldaptune.problems import LdaptuneError

PHASE = {
    "name": {"type": "str", "required": True},
    "mode": {"type": "str", "choices": ["pass", "closed", "open"], "required": True},
    "seconds": {"type": "float", "required": True},
    "rate": {"type": "float", "default": 0},
}

ARGUMENTS = {
    "uri": {"type": "str", "required": True},
    "accounts": {"type": "str", "default": ""},
    "password_file": {"type": "path", "no_log": False},
    "workload": {"type": "str", "choices": list(WORKLOADS), "default": "bind"},
    "auth": {"type": "str", "choices": list(AUTHS), "default": "simple"},
    "auth_id": {"type": "str", "default": "{user}"},
    "mix": {"type": "dict", "default": {}},
    "fail": {"type": "dict", "default": {}},
    "base": {"type": "str", "default": ""},
    "filter": {"type": "str", "default": ""},
    "scope": {"type": "str", "choices": list(SCOPES), "default": "sub"},
    "entries": {"type": "int", "default": -1},
    "attributes": {"type": "list", "elements": "str", "default": ["1.1"]},
    "bind_dn": {"type": "str", "default": ""},
    "window": {"type": "int", "default": 1},
    "think": {"type": "float", "default": 0},
    "page_size": {"type": "int", "default": 500},
    "connections": {"type": "int", "default": 16},
    "processes": {"type": "int", "default": 0},
    "seed": {"type": "str", "default": "1"},
    "phases": {"type": "list", "elements": "dict", "options": PHASE, "required": True},
    "sample": {"type": "int", "default": 0},
    "ca_file": {"type": "path", "default": ""},
    "cert_file": {"type": "path", "default": ""},
    "key_file": {"type": "path", "default": "", "no_log": False},
    "starttls": {"type": "bool", "default": False},
    "insecure": {"type": "bool", "default": False},
    "timeout": {"type": "float", "default": 5},
    "allow_cleartext": {"type": "bool", "default": False},
    "start_at": {"type": "float", "default": 0},
    "start_file": {"type": "path", "default": ""},
    "part": {"type": "int", "default": 0},
    "parts": {"type": "int", "default": 1},
    "result_file": {"type": "path"},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    arguments = dict(module.params, password_file=module.params["password_file"] or "")
    result_file = arguments.pop("result_file")
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, line="check mode: nothing was sent")
    try:
        renew(arguments["password_file"])
        ready = prepare(Settings(**arguments, folder=os.path.dirname(result_file or "")))
        if result_file:
            pid = launch(result_file, lambda begun: run(ready, begun=begun))
            module.exit_json(changed=False, pid=pid, line="%d connections stand" % ready.settings.connections)
        result = run(ready)
    except LdaptuneError as error:
        module.fail_json(msg=str(error), problems=error.problems)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
