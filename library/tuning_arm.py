#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a directory host into one arm of a comparison, and read it back at the end of the leg."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: tuning_arm
short_description: Put a directory host into one arm of a comparison
description:
  - At the start of a leg sets every lever that is compared to its value in that arm, by the same path in both arms
    and also when it is there already, reads everything back and renews the watchdog.
  - At the end of a leg only reads. Never V(changed).
  - As found is what the run found that began with M(tuning_profile) and C(watch_seconds).
  - A setting that someone else changed is V(drifted) and never overwritten.
options:
  resolved:
    description: A profile resolved for this host, as M(resolve_profile) returns it.
    type: dict
    required: true
  arm:
    description: The arm of this leg.
    type: str
    choices: [as_found, profile]
    required: true
  phase:
    description: Whether the leg starts or has ended.
    type: str
    choices: [start, finish]
    required: true
  watch_seconds:
    description:
      - The watchdog on the host returns it to as found after so many seconds unless the next leg renews it.
      - May be V(0) only while a watchdog runs.
    type: int
    default: 0
  owner:
    description:
      - The run that measures, as given to M(tuning_profile). Where another one measures, or this one was ended by a way
        home, nothing is set or read.
    type: str
    default: ""
  sample:
    description:
      - With O(phase=start), leave a sampler on the host that begins when everything else is done; with O(phase=finish),
        end it and return what it saw. It ends by itself after O(watch_seconds), see M(host_sampler).
      - A leg that could not be sampled is none the worse for it.
    type: bool
    default: false
  server:
    description: How to find and manage the slapd on this host.
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
author: the ldaptune authors
attributes:
  check_mode:
    support: full
    description: Does nothing.
  diff_mode:
    support: none
  platform:
    platforms: posix
notes:
  - Supports C(check_mode).
requirements:
  - ldap3 (python3-ldap3)
"""

EXAMPLES = r"""
- name: Set the arm and read it back
  tuning_arm:
    resolved: "{{ resolved }}"
    arm: profile
    phase: start
    watch_seconds: 300

- name: Read it back after the probe
  tuning_arm:
    resolved: "{{ resolved }}"
    arm: profile
    phase: finish
"""

RETURN = r"""
arm:
  description: The arm asked for.
  type: str
  returned: when not in check mode
  sample: profile
readback:
  description: >-
    Whether all levers are as the arm wants them, and each of them. C(state) is applied, unchanged (a lever that is
    equal in both arms), live_only, unsupported, drifted or failed; C(reason) says why where there is something to say.
  type: dict
  returned: when not in check mode
  sample: {ok: true, levers: {slapd.threads: {wanted: 32, configured: 32, effective: 32, state: applied}}}
counters:
  description: Operations the server has counted, and our own among them; empty where cn=Monitor is not seen.
  type: dict
  returned: when not in check mode
  sample: {operations: {bind: 10, search: 20, total: 30}, connections_total: 5, own: {bind: 1, search: 4, total: 5}}
slapd:
  description: The process; equal C(pid) and C(start) mean that it was not restarted.
  type: dict
  returned: when not in check mode
  sample: {pid: 4711, start: 123456, cpu_seconds: 1.25, rss_bytes: 20000000}
sampler:
  description: Whether a sampler was started, or why not.
  type: str
  returned: with O(sample) and O(phase=start)
  sample: started
sample:
  description: What M(host_sampler) returns as C(sample), without the series; C(reason) alone where there is none.
  type: dict
  returned: with O(sample) and O(phase=finish)
  sample: {schema: 1, seconds: 6.1, loaded_intervals: 3, own_cpu_percent: 0.7}
time:
  description: When this was read, ISO 8601.
  type: str
  returned: when not in check mode
  sample: "2026-11-30T21:45:00.000+00:00"
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.opening import open_target
from ..module_utils.ldaptune.problems import LdaptuneError
from ..module_utils.ldaptune.server_options import SERVER_OPTIONS
from ..module_utils.ldaptune.tuning_leg import arm_finished, arm_started


def work(params: Dict[str, Any]) -> Dict[str, Any]:
    """Return the module's result; raises LdaptuneError."""
    target = open_target(params["server"])
    with target.ctx:
        if params["phase"] == "finish":
            return arm_finished(target, params["resolved"], params["arm"], params["owner"], sample=params["sample"])
        return arm_started(
            target,
            params["resolved"],
            params["arm"],
            params["watch_seconds"],
            params["owner"],
            sample=params["sample"],
        )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "resolved": {"type": "dict", "required": True},
            "arm": {"type": "str", "choices": ["as_found", "profile"], "required": True},
            "phase": {"type": "str", "choices": ["start", "finish"], "required": True},
            "watch_seconds": {"type": "int", "default": 0},
            "owner": {"type": "str", "default": ""},
            "sample": {"type": "bool", "default": False},
            "server": {"type": "dict", "default": {}, "options": SERVER_OPTIONS, "apply_defaults": True},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, msg="check mode: no arm is set")
    try:
        module.exit_json(**work(module.params))
    except LdaptuneError as error:
        module.fail_json(msg=str(error), problems=error.problems)


if __name__ == "__main__":
    main()
