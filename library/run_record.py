#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write documents into the folder of a run."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: run_record
short_description: Write documents into the folder of a run
description:
  - Runs on the controller. Writes each document as JSON into the run's folder, whole or not at all; makes the folder.
  - With O(runs_dir) it begins a run, in a folder of a name that no other run has.
  - The folder is the toolkit's own record, so this is never C(changed).
options:
  run_dir:
    description: Folder of the run; this or O(runs_dir).
    type: path
  runs_dir:
    description: Folder of all runs, in which one is made for a new run of O(host).
    type: path
  host:
    description: The host of a new run.
    type: str
  documents:
    description: The documents, by name; C(plan) becomes plan.json.
    type: dict
    required: true
author: the ldaptune authors
attributes:
  check_mode:
    description: Writes nothing.
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
notes:
  - Supports C(check_mode).
"""

EXAMPLES = r"""
- name: Begin a run with what was found
  run_record:
    runs_dir: runs
    host: lab1
    documents:
      facts: "{{ facts }}"
  delegate_to: localhost
  register: record

- name: Write what was planned
  run_record:
    run_dir: "{{ record.run_dir }}"
    documents:
      plan: "{{ plan }}"
  delegate_to: localhost
"""

RETURN = r"""
run_dir:
  description: Folder of the run.
  type: str
  returned: success
  sample: runs/20260101T120000Z-3f9a1c-lab1
files:
  description: The files written.
  type: list
  elements: str
  returned: success
  sample: [runs/20260101T120000Z-3f9a1c-lab1/plan.json]
problems:
  description: What was refused, as data.
  type: list
  elements: dict
  returned: failure
  sample: []
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.report.files import finite, new_folder, new_name, write_json


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "run_dir": {"type": "path"},
            "runs_dir": {"type": "path"},
            "host": {"type": "str"},
            "documents": {"type": "dict", "required": True},
        },
        required_one_of=[("run_dir", "runs_dir")],
        mutually_exclusive=[("run_dir", "runs_dir")],
        required_together=[("runs_dir", "host")],
        supports_check_mode=True,
    )
    folder, new = module.params["run_dir"], (module.params["runs_dir"], module.params["host"])
    try:
        if folder is None:
            folder = new_name(*new) if module.check_mode else new_folder(*new)
        files = [os.path.join(folder, name + ".json") for name in module.params["documents"]]
        if not module.check_mode:
            os.makedirs(folder, exist_ok=True)
            for path, content in zip(files, module.params["documents"].values()):
                write_json(path, finite(content))
    except OSError as error:
        module.fail_json(msg="run directory %s: %s" % (folder or new[0], error), problems=[])
    module.exit_json(changed=False, run_dir=folder, files=files)


if __name__ == "__main__":
    main()
