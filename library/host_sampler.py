#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: sample a directory host while it is under load."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_sampler
short_description: See what a directory host does while it is under load
description:
  - Samples CPU per core and per kind of slapd's threads, interrupts of network cards, memory, disks, and cn=monitor,
    once a second, and says in one line what was at its limit.
  - V(started) leaves a small process on the host that ends by itself after O(seconds), whatever becomes of the
    controller. V(stopped) ends it and returns what it saw, also of one that has ended by itself. V(sampled) does both
    in one task.
  - Reads only, so it is never C(changed). The passwords of a few entries are looked at for how they are hashed; neither
    they nor their hashes are returned.
options:
  state:
    description: What to do.
    type: str
    choices: [started, stopped, sampled]
    required: true
  seconds:
    description: How long to sample; with V(started) at most so long. Needed for V(started) and V(sampled).
    type: float
  interval:
    description: Seconds between two readings, from 0.2; shorter ones cost more.
    type: float
    default: 1
  replace:
    description: With V(started), end a sampler that runs already and drop what it saw, in place of a refusal.
    type: bool
    default: false
  series:
    description: Return the figures of each interval beside the means.
    type: bool
    default: true
  limited_by:
    description:
      - With V(stopped) and V(sampled), what M(authrate) returned as C(limited_by) for the load of that time.
      - The diagnosis begins with it.
    type: str
    choices: [server_limited, generator_limited, undetermined]
    default: undetermined
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
        description: URI for cn=config and cn=monitor; empty is the running slapd's own ldapi.
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
        description: Not used by this module.
        type: str
        default: slapd
      restart_command:
        description: Not used by this module.
        type: list
        elements: str
        default: []
      state_dir:
        description: Directory on the host for the sampler's files, private to root.
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
    platforms: linux
notes:
  - Supports C(check_mode).
  - Telling listeners from workers, and what workers wait for, needs root.
requirements:
  - ldap3 (python3-ldap3)
"""

EXAMPLES = r"""
- name: Watch the host for ten seconds
  host_sampler:
    state: sampled
    seconds: 10
  register: watched

- name: Start before a load, ending by itself after two minutes at the latest
  host_sampler:
    state: started
    seconds: 120

- name: End it behind the load
  host_sampler:
    state: stopped
    limited_by: "{{ load.limited_by }}"
  register: watched
"""

RETURN = r"""
line:
  description: The diagnosis in one line, or what was done.
  type: str
  returned: always
  sample: core 0 is 97 % busy, 61 % of it softirq and interrupts
diagnosis:
  description: All that was at its limit, what explains most first.
  type: list
  elements: dict
  returned: state is stopped or sampled
  sample: [{code: listener_saturated, text: the listener thread is at 100 %}]
sample:
  description: Means over the intervals under full load, totals, and the series.
  type: dict
  returned: state is stopped or sampled
  sample: {schema: 1, seconds: 10.0, loaded_intervals: 8, own_cpu_percent: 0.6}
pid:
  description: The sampler's process.
  type: int
  returned: state is started
  sample: 4711
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.diagnosis import diagnose
from ..module_utils.ldaptune.opening import open_target
from ..module_utils.ldaptune.problems import LdaptuneError
from ..module_utils.ldaptune.sample_summary import summarise
from ..module_utils.ldaptune.sampler import Subject
from ..module_utils.ldaptune.sampling import INTERVAL, Place, sample, start, stop
from ..module_utils.ldaptune.server_options import SERVER_OPTIONS


def work(params: Dict[str, Any]) -> Dict[str, Any]:
    """Return the module's result; raises LdaptuneError."""
    target = open_target(params["server"])
    with target.ctx as ctx:
        place = Place(target.store.root)
        if params["state"] == "stopped":
            raw = stop(place)
        else:
            subject = Subject(ctx.slapd, ctx.server, ctx.database)
            if params["state"] == "started":
                started = start(place, subject, params["seconds"], params["interval"], params["replace"])
                started.release()
                line = "sampling pid %d every %g s, for %g s at most" % (
                    ctx.slapd.pid,
                    params["interval"],
                    params["seconds"],
                )
                return {"pid": started.pid, "line": line}
            raw = sample(subject, params["seconds"], params["interval"])
        passwords = ctx.directory.password_schemes(ctx.database["suffixes"][0])
    found = summarise(raw, passwords, params["series"])
    lines = diagnose(found, params["limited_by"])
    return {"sample": found, "diagnosis": lines, "line": lines[0]["text"]}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["started", "stopped", "sampled"], "required": True},
            "seconds": {"type": "float"},
            "interval": {"type": "float", "default": INTERVAL},
            "replace": {"type": "bool", "default": False},
            "series": {"type": "bool", "default": True},
            "limited_by": {
                "type": "str",
                "choices": ["server_limited", "generator_limited", "undetermined"],
                "default": "undetermined",
            },
            "server": {"type": "dict", "default": {}, "options": SERVER_OPTIONS, "apply_defaults": True},
        },
        supports_check_mode=True,
        required_if=[("state", "started", ["seconds"]), ("state", "sampled", ["seconds"])],
    )
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, line="check mode: nothing is sampled")
    try:
        module.exit_json(changed=False, **work(module.params))
    except LdaptuneError as error:
        module.fail_json(msg=str(error), problems=error.problems)


if __name__ == "__main__":
    main()
