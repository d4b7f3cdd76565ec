#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say everything that is wrong with a directory host at once, reading only."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: directory_preflight
short_description: Say everything that is wrong with a directory host at once
description:
  - Looks at a host and its running slapd, and returns the facts that a profile is resolved against and every problem.
  - Reads only. Whether this identity may manage C(cn=config) is found out by a modify that no server may carry out
    (it removes the value that names the entry), so that nothing changes; slapd does not even pause for it.
  - Does not fail because of a problem unless told; a play can so show the problems of all hosts, and fail after that.
options:
  server:
    description: How to find and manage the slapd on this host, as all modules on the directory host take it.
    type: dict
    default: {}
    suboptions:
      instance:
        description: Pid file, configuration directory or LDAP URI that chooses one slapd where several run.
        type: str
        default: ""
      uri:
        description: URI for cn=config; empty is the running slapd's own ldapi.
        type: str
        default: ""
      config_dn:
        description: Name to bind as; empty is SASL EXTERNAL over ldapi.
        type: str
        default: ""
      config_password_file:
        description: File on the host with the password of O(server.config_dn) in its first line.
        type: str
        default: ""
      ca_file:
        description: Certificates to verify the server with; empty is the system's own.
        type: str
        default: ""
      starttls:
        description: Use StartTLS on an C(ldap://) URI.
        type: bool
        default: false
      suffix:
        description: Suffix of the database; empty is the only one there is.
        type: str
        default: ""
      service:
        description: Service to restart.
        type: str
        default: slapd
      restart_command:
        description: Command that restarts slapd, in place of the service manager.
        type: list
        elements: str
        default: []
      state_dir:
        description: Directory on the host for snapshots and the watchdog, private to root.
        type: str
        default: /var/lib/ldaptune
      timeout:
        description: Seconds to wait for each answer of the server.
        type: int
        default: 10
  name:
    description: What messages call this host; its own name if empty.
    type: str
    default: ""
  measuring:
    description: A saturating load is intended. Only then is the host watched, and are writes and log volume estimated.
    type: bool
    default: false
  allow_load:
    description: The owner of this host allows a saturating load on it.
    type: bool
    default: false
  watch_seconds:
    description: How long to watch what clients do; V(0) does not watch.
    type: float
    default: 10.0
  max_foreign_rate:
    description: Operations, or new connections, a second above which the host counts as in service.
    type: float
    default: 1.0
  consent:
    description: What was agreed to. V(bind_writes) allows a measurement whose operations write to the directory.
    type: list
    elements: str
    default: []
  load_seconds:
    description: How long the load will last, in seconds, to estimate what it writes.
    type: float
    default: 0.0
  expected_rate:
    description: How many operations a second are expected, to estimate what they write.
    type: float
    default: 0.0
  log_level:
    description: The log level that the profile will set (names or a number), to estimate what either arm logs.
    type: str
    default: ""
  bases:
    description: Names that the probe will use (an account, a search base); their databases are looked at as well.
    type: list
    elements: str
    default: []
  fail:
    description: Fail with all problems instead of returning them.
    type: bool
    default: false
author: the ldaptune authors
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
notes:
  - Supports C(check_mode).
"""

EXAMPLES = r"""
- name: Look at the host and its slapd
  directory_preflight:
    server: "{{ _tuning_server }}"
    consent: "{{ tuning_consent }}"
  register: _tuning_facts

- name: Is the host free for a saturating load?
  directory_preflight:
    server: "{{ _tuning_server }}"
    name: "{{ inventory_hostname }}"
    measuring: true
    allow_load: "{{ authrate_allow_load }}"
    consent: "{{ tuning_consent }}"
    load_seconds: 240
    expected_rate: 20000
    bases: ["{{ authrate_accounts }}"]
"""

RETURN = r"""
facts:
  description:
    - What was found. C(host), C(slapd) and C(database) are what profiles are resolved against; unknown values are null.
    - While measuring also C(bind_writes), the causes of writes, and C(traffic), what clients did.
  type: dict
  returned: always
  sample:
    host: {name: lab1, machine_id: 4c6f, cpus: 8, online_cpus: [0, 1, 2, 3, 4, 5, 6, 7], numa_nodes: 1}
    slapd: {version: 2.5.13, pid: 4242, config_source: slapd.d, threads: 16, log_level: stats}
    database: {suffix: "dc=example,dc=com", backend: mdb, map_size_bytes: 1073741824, used_bytes: 41943040}
problems:
  description: Everything that is wrong, as data.
  type: list
  elements: dict
  returned: always
  sample: [{"what": "no slapd is running", "where": "this host", "found": "", "wanted": "", "do": "Start it first."}]
warnings_text:
  description: What is not wrong but worth knowing; shown as warnings, too.
  type: list
  elements: str
  returned: always
  sample: ["ldap1 has 8 open client connections: a restart or a saturating load will disturb them"]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.preflight.run import Preflight, Request
from ..module_utils.ldaptune.problems import plain, render_all
from ..module_utils.ldaptune.server_options import SERVER_OPTIONS


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "server": {"type": "dict", "default": {}, "options": SERVER_OPTIONS, "apply_defaults": True},
            "name": {"type": "str", "default": ""},
            "measuring": {"type": "bool", "default": False},
            "allow_load": {"type": "bool", "default": False},
            "watch_seconds": {"type": "float", "default": 10.0},
            "max_foreign_rate": {"type": "float", "default": 1.0},
            "consent": {"type": "list", "elements": "str", "default": []},
            "load_seconds": {"type": "float", "default": 0.0},
            "expected_rate": {"type": "float", "default": 0.0},
            "log_level": {"type": "str", "default": ""},
            "bases": {"type": "list", "elements": "str", "default": []},
            "fail": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    asked = {name: module.params[name] for name in Request._fields}
    preflight = Preflight(module.params["server"], Request(**asked))
    preflight.run()
    for text in preflight.warnings:
        module.warn(text)
    found = {"facts": plain(preflight.facts), "problems": preflight.problems, "warnings_text": preflight.warnings}
    if preflight.problems and module.params["fail"]:
        module.fail_json(msg=render_all(preflight.problems), **found)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
