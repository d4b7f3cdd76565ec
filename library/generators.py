#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: several generators as one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: generators
short_description: Let several generators load one server, and merge what they measured
description:
  - Runs on the controller. C(shared) gives each generator its share, C(agreed) tells them when to start once all stand
    ready, C(merged) makes one result of theirs.
  - A generator or connection that dropped out is named in RV(dropped_out); the comparison then calls the leg invalid.
  - It is never C(changed).
attributes:
  check_mode:
    description: It only computes.
    support: full
  diff_mode:
    description: There is nothing to differ.
    support: none
  platform:
    description: Any.
    platforms: posix
    support: full
options:
  state:
    description: What to do.
    type: str
    choices: [shared, agreed, merged]
    required: true
  folders:
    description:
      - With C(shared), the results of a loop of M(private_folder) over the generators, in an order that is the same in
        all legs. One without C(path) is out, and nobody gets an order.
    type: list
    elements: dict
    default: []
  connections:
    description: With C(shared), the connections of all generators together.
    type: int
    default: 16
  phases:
    description: With C(shared), the phases as for M(authrate).
    type: list
    elements: dict
    default: []
  asked:
    description: With C(agreed) and C(merged), RV(asked) of the step before.
    type: dict
    default: {}
  started:
    description: With C(agreed), the results of the loop over RV(orders) that started M(authrate).
    type: list
    elements: dict
    default: []
  clocks:
    description:
      - With C(agreed), the results of a loop of looks at the generators' clocks, several each; C(item) begins with the
        generator's name, C(stdout) has the controller's time just before and the generator's own.
    type: list
    elements: dict
    default: []
  start_seconds:
    description: With C(agreed), how long after now the load begins; 0 is 3 and 1 more for each generator.
    type: float
    default: 0
  told:
    description: With C(merged), the results of the loop over RV(starts) that told the generators.
    type: list
    elements: dict
    default: []
  collected:
    description: With C(merged), the results of the loop over RV(starts) of M(authrate_result).
    type: list
    elements: dict
    default: []
author: The ldaptune authors
"""

EXAMPLES = r"""
- name: Share the load out
  generators:
    state: shared
    folders: "{{ folders.results }}"
    connections: 16
    phases: [{name: goal, mode: closed, seconds: 16}]
  delegate_to: localhost
  register: plan
"""

RETURN = r"""
orders:
  description: One a generator, for M(authrate) and M(authrate_result); none where a generator is out already.
  type: list
  elements: dict
  returned: state is planned
  sample: [{"name": "load1", "folder": "/run/ldaptune-x3k1", "start_at": 1796103927.5, "connections": 8, "part": 0}]
asked:
  description: What the results are to be set against.
  type: dict
  returned: state is planned
phases:
  description: As M(authrate) returns it, of all generators together; so are the other figures.
  type: dict
  returned: state is merged
generators:
  description: A short account of each generator.
  type: dict
  returned: state is merged
dropped_out:
  description: Which generator or connection dropped out, in which phase, from which second on.
  type: list
  elements: dict
  returned: state is merged
  sample:
    - generator: load2
      phase: goal
      second: 8
      text: generator load2 has no seconds after 7 in phase goal
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.load.clocks import offsets_of
from ..module_utils.ldaptune.load.merge import merge
from ..module_utils.ldaptune.load.together import agree, outcomes, share
from ..module_utils.ldaptune.problems import LdaptuneError

ROWS = {"type": "list", "elements": "dict", "default": []}
ARGUMENTS = {
    "state": {"type": "str", "choices": ["shared", "agreed", "merged"], "required": True},
    "folders": ROWS,
    "connections": {"type": "int", "default": 16},
    "phases": ROWS,
    "asked": {"type": "dict", "default": {}},
    "started": ROWS,
    "clocks": ROWS,
    "start_seconds": {"type": "float", "default": 0},
    "told": ROWS,
    "collected": ROWS,
}


def run(params: dict) -> dict:
    """Do what `state` asks and return the module's answer."""
    if params["state"] == "shared":
        return share(params["folders"], params["connections"], params["phases"])
    if params["state"] == "agreed":
        offsets = offsets_of([(look["item"][0], look.get("stdout") or "") for look in params["clocks"]])
        return agree(params["asked"], params["started"], offsets, time.time(), params["start_seconds"])
    return merge(params["asked"], outcomes(params["told"], params["collected"]))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        answer = run(module.params)
    except LdaptuneError as error:
        module.fail_json(msg=str(error), problems=error.problems)
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
