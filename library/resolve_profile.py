#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve a tuning profile for one host, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: resolve_profile
short_description: Resolve a tuning profile for one host
description:
  - Reads a profile and all that it extends, checks every word of it and computes its values from the facts of one host.
  - Everything that is wrong is reported at once, with the file, the line and the nearest known name.
  - Runs on the controller, so delegate it to localhost. It reads profile files and nothing else.
options:
  name:
    description:
      - The profile's name, which is its file's name without C(.yml).
      - Unset, the module fails and lists the profiles there are with their summaries.
    type: str
    default: ""
  search_paths:
    description:
      - Directories with profiles, on the controller.
      - Of two profiles with one name the first directory's is used.
    type: list
    elements: path
    required: true
  facts:
    description:
      - The facts of the host, as M(directory_preflight) returns them.
      - Without facts the profile is checked as far as that goes without a host, and RV(resolved) is not returned.
    type: dict
    default: {}
  exclude:
    description: Levers to leave to their owner, by key. A key that is no lever is refused.
    type: list
    elements: str
    default: []
author: the ldaptune authors
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
notes:
  - Supports C(check_mode). It never changes anything.
  - Needs jinja2 and PyYAML, which ansible-core brings.
"""

EXAMPLES = r"""
- name: Resolve the profile for this host
  resolve_profile:
    name: throughput
    search_paths: ["{{ playbook_dir }}/../tuning_profiles"]
    facts: "{{ _tuning_facts.facts }}"
    exclude: [slapd.threads]
  delegate_to: localhost
  become: false

- name: Check a profile without a host
  resolve_profile:
    name: throughput
    search_paths: ["{{ playbook_dir }}/../tuning_profiles"]
  delegate_to: localhost
  become: false
"""

RETURN = r"""
resolved:
  description: The profile with every value in normal form, for one host. Levers stand in the table's order.
  type: dict
  returned: when facts are given and nothing is wrong
  sample:
    schema: 1
    name: throughput
    summary: As many binds and searches a second as possible; no statistics log
    digest: 8e56f616d9d7a9a9d435249c26a9c674daff863a96fe52800e682f293da14a04
    extends: [baseline]
    levers:
      slapd.threads:
        op: at_least
        value: 4
        why: a bind holds its connection and a worker to itself
        when_unsupported: fail
        from: throughput.yml
    excluded: []
    expect:
      goal: goodput
      require: improved
      min_effect_percent: 3
      max_p99_increase_percent: 20
      max_error_percent: 0.1
profile:
  description: What is known of the profile without a host.
  type: dict
  returned: when nothing is wrong
  sample:
    name: throughput
    summary: As many binds and searches a second as possible; no statistics log
    extends: [baseline]
    levers: [slapd.log_level, slapd.threads, database.max_readers]
    excluded: []
consents:
  description: The costs and risks the profile may need consent for, were every lever of it to change.
  type: list
  elements: str
  returned: when nothing is wrong
  sample: [availability, security]
profiles:
  description: All profiles in the search paths.
  type: list
  elements: dict
  returned: always
  sample: [{name: baseline, summary: Measures the host as it is and changes nothing}]
problems:
  description: Everything that is wrong, as data; the message has the same as text.
  type: list
  elements: dict
  returned: always
  sample:
    - what: there is no profile thruput
      where: tuning_profile
      found: ""
      wanted: ""
      do: Did you mean throughput?
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.levers.table import LEVERS
from ..module_utils.ldaptune.problems import render_all
from ..module_utils.ldaptune.profile.library import profiles
from ..module_utils.ldaptune.profile.resolve import consents, load, resolve


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "default": ""},
            "search_paths": {"type": "list", "elements": "path", "required": True},
            "facts": {"type": "dict", "default": {}},
            "exclude": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    name, paths, exclude = module.params["name"], module.params["search_paths"], module.params["exclude"]
    result = {
        "changed": False,
        "problems": [],
        "profiles": [{"name": item.name, "summary": item.summary} for item in profiles(paths)],
    }
    static, problems = load(name, paths, LEVERS, exclude)
    resolved = None
    if module.params["facts"]:
        resolved, problems = resolve(name, paths, module.params["facts"], LEVERS, exclude)
    if problems:
        result["problems"] = problems
        module.fail_json(msg=render_all(problems), **result)
    result["profile"] = {
        "name": static.name, "summary": static.summary, "extends": static.extends,
        "levers": list(static.levers), "excluded": static.excluded,
    }
    values = {key: lever.normal for key, lever in static.levers.items()}
    if resolved is not None:
        result["resolved"] = resolved
        values = {key: lever["value"] for key, lever in resolved["levers"].items()}
    result["consents"] = consents(values, LEVERS)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
