#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fail with everything that is wrong with one host, at once."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: refuse
short_description: Fail with every problem of one host at once
description:
  - Collects the problems that earlier modules reported for one host and fails with all of them, one a line.
  - A module that broke instead of reporting is a problem too, so that nothing is passed over.
options:
  results:
    description:
      - Registered results of the modules that looked; each may carry C(problems) and C(warnings_text).
      - Those of a loop over hosts are named by C(item).
    type: list
    elements: dict
    required: true
  untouched:
    description: Whether nothing was changed before, which the message then says.
    type: bool
    default: true
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
- name: Refuse what is wrong
  refuse:
    results: ["{{ _tuning_facts }}", "{{ _tuning_plan }}"]
  delegate_to: localhost
"""

RETURN = r"""
problems:
  description: Every problem found, as data.
  type: list
  elements: dict
  returned: always
  sample: [{"what": "no such profile", "where": "lab1", "found": "througput", "wanted": "throughput", "do": ""}]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.problems import collect_problems, render


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "results": {"type": "list", "elements": "dict", "required": True},
            "untouched": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    problems = collect_problems(module.params["results"])
    if not problems:
        module.exit_json(changed=False, problems=[])
    head = "1 problem" if len(problems) == 1 else "%d problems" % len(problems)
    if module.params["untouched"]:
        head += ", nothing was changed"
    lines = ["%d. %s" % (number, render(item)) for number, item in enumerate(problems, 1)]
    module.fail_json(msg="%s:\n%s" % (head, "\n".join(lines)), problems=problems)


if __name__ == "__main__":
    main()
