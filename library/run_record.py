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
  - The folder is the toolkit's own record, so this is never C(changed).
options:
  run_dir:
    description: Folder of the run.
    type: path
    required: true
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
- name: Write what was planned
  run_record:
    run_dir: runs/20260101T120000Z-lab1
    documents:
      plan: "{{ plan }}"
  delegate_to: localhost
"""

RETURN = r"""
files:
  description: The files written.
  type: list
  elements: str
  returned: success
  sample: [runs/20260101T120000Z-lab1/plan.json]
problems:
  description: What was refused, as data.
  type: list
  elements: dict
  returned: failure
  sample: []
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.report.files import finite, write_json


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "run_dir": {"type": "path", "required": True},
            "documents": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    folder = module.params["run_dir"]
    files = [os.path.join(folder, name + ".json") for name in module.params["documents"]]
    try:
        if not module.check_mode:
            os.makedirs(folder, exist_ok=True)
            for path, content in zip(files, module.params["documents"].values()):
                write_json(path, finite(content))
    except OSError as error:
        module.fail_json(msg="run directory %s: %s" % (folder, error), problems=[])
    module.exit_json(changed=False, files=files)


if __name__ == "__main__":
    main()
