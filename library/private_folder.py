#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: a folder for the probe's password."""

from __future__ import annotations

DOCUMENTATION = r"""
module: private_folder
short_description: Make a private folder that goes away by itself
description:
  - Makes a folder C(0700) for a password file, and a process on the host that removes it with the files in it when
    nothing renewed it for O(seconds).
  - A play removes its password itself. This is for the play that cannot, since its controller was killed.
  - Each run of the M(authrate) module renews the folder that its password file lies in.
  - It is never C(changed), as nothing of it stays.
attributes:
  check_mode:
    description: Makes nothing, returns C(skipped).
    support: full
  diff_mode:
    description: There is nothing to differ.
    support: none
  platform:
    description: Linux.
    platforms: linux
    support: full
options:
  parent:
    description: Where the folder is made; a filesystem in memory.
    type: path
    default: /run
  seconds:
    description: How long the folder stays without being renewed.
    type: int
    required: true
author: The ldaptune authors
"""

EXAMPLES = r"""
- name: Make a private folder on the generator
  private_folder:
    seconds: 300
  register: folder
"""

RETURN = r"""
path:
  description: The folder.
  type: str
  returned: not in check mode
  sample: /run/ldaptune-x3k1
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.load.expiry import make


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"parent": {"type": "path", "default": "/run"}, "seconds": {"type": "int", "required": True}},
        supports_check_mode=True,
    )
    if module.params["seconds"] < 1:
        module.fail_json(msg="seconds: found %d, wanted at least 1" % module.params["seconds"])
    if module.check_mode:
        module.exit_json(changed=False, skipped=True)
    try:
        path = make(module.params["parent"], module.params["seconds"])
    except OSError as error:
        module.fail_json(msg="no private folder can be made: %s: %s" % (module.params["parent"], error.strerror))
    module.exit_json(changed=False, path=path)


if __name__ == "__main__":
    main()
