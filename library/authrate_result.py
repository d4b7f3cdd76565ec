#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: the result of a run of the probe that goes on by itself."""

from __future__ import annotations

DOCUMENTATION = r"""
module: authrate_result
short_description: Wait for a run of the probe and return its result
description:
  - Waits, without doing anything, until a run that M(authrate) began with O(result_file) has ended, and returns what it
    measured. The file is removed.
  - A run without a result is no failed task, it is told in RV(ended).
  - It is never C(changed).
attributes:
  check_mode:
    description: Waits for nothing, returns C(skipped).
    support: full
  diff_mode:
    description: There is nothing to differ.
    support: none
  platform:
    description: Linux.
    platforms: linux
    support: full
options:
  result_file:
    description: The file that was given to M(authrate).
    type: path
    required: true
  seconds:
    description: How long to wait at most.
    type: float
    required: true
author: The ldaptune authors
"""

EXAMPLES = r"""
- name: Wait for the generator
  authrate_result:
    result_file: /run/ldaptune-x3k1/result
    seconds: 90
  register: figures
"""

RETURN = r"""
result:
  description: What M(authrate) returns.
  type: dict
  returned: when there is a result
ended:
  description: Why there is no result.
  type: str
  returned: when there is none
  sample: its process ended without a result
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.load.detached import collect


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "result_file": {"type": "path", "required": True},
            "seconds": {"type": "float", "required": True},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, skipped=True)
    module.exit_json(changed=False, **collect(module.params["result_file"], module.params["seconds"]))


if __name__ == "__main__":
    main()
