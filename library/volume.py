#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: a volume for a directory."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: volume
short_description: A volume of its own for a database, from a blank device
description:
  - Makes a filesystem on a blank device, mounts it at a directory, gives that directory its owner and mode, and keeps
    the mount over a reboot.
  - A filesystem is made only on a device that holds no signature and no partition table (C(blkid) and C(wipefs) are
    both asked, and both have to answer), has no partition, is no part of another device, is neither mounted nor swap,
    and is opened by nobody. Any doubt refuses. There is no switch that overrides this, and nothing is ever wiped.
  - A filesystem that this module made on this host before is mounted again and never made anew. One that is mounted at
    O(path) already, of that type and label, is taken as it is.
  - The mount never gets C(nofail) by itself. With it systemd would not wait for the volume before it starts slapd, and
    slapd would make an empty database on the bare mount point.
  - Everything that stands against it is said at once, before anything is written.
author:
  - the ldaptune authors
options:
  state:
    description:
      - V(present) makes and mounts. V(absent) unmounts and takes the line or the unit away, octet for octet; the
        filesystem and its files stay on the device.
    type: str
    choices: [present, absent]
    default: present
  path:
    description:
      - The mount point, absolute. An empty directory, or one that is not there yet.
    type: str
    required: true
  device:
    description:
      - The block device, best by a name that lasts (C(/dev/disk/by-id/), C(/dev/VG/LV)). Needed for O(state=present).
    type: str
    default: ''
  fstype:
    description:
      - The filesystem. On V(btrfs) copy on write is switched off for the empty directory (C(chattr +C)), which also
        means that its files have no checksums.
    type: str
    choices: [xfs, ext4, btrfs]
    default: xfs
  label:
    description:
      - The filesystem's label; refused where another device has it.
    type: str
    default: ''
  options:
    description:
      - Mount options. Those that this kernel no longer takes are refused, and those that cost durability need
        O(consent). Options that a line of fstab has besides are left alone.
    type: list
    elements: str
    default: [noatime]
  owner:
    description:
      - Who owns the mounted directory, by name or number.
    type: str
    default: root
  group:
    description:
      - Its group, by name or number.
    type: str
    default: root
  mode:
    description:
      - Its mode, in octal digits.
    type: str
    default: '0700'
  keep:
    description:
      - What brings the mount back at boot, a line at the end of V(fstab) (C(UUID=)) or a C(.mount) V(unit).
    type: str
    choices: [fstab, unit]
    default: fstab
  consent:
    description:
      - Risks that are taken, as in C(tuning_consent).
    type: list
    elements: str
    choices: [durability]
    default: []
  root:
    description:
      - Below it lie C(/etc/fstab), units, records (C(/var/lib/ldaptune/volumes)) and the mount point; for trials.
    type: str
    default: /
attributes:
  check_mode:
    description: Looks, refuses as it would, returns the steps it would take, writes nothing.
    support: full
  diff_mode:
    description: Shows fstab before and after.
    support: full
  platform:
    description: Linux with util-linux, and the programs that make the filesystem.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Give the database a volume of its own
  volume:
    device: /dev/disk/by-id/virtio-data1
    path: /srv/ldap
    fstype: xfs
    label: ldap
    owner: openldap
    group: openldap

- name: Take it away again; its files stay on it
  volume:
    state: absent
    path: /srv/ldap
"""

RETURN = r"""
uuid:
  description: The filesystem's UUID; empty where there is none yet.
  returned: success
  type: str
  sample: 6a8d4c52-5f0c-4c33-8b1f-2f5b1f1c9a77
steps:
  description: What was done, or would be in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: [make, mount, own, keep]
notes:
  description: What is worth knowing and stands against nothing.
  returned: success
  type: list
  elements: str
  sample: []
problems:
  description: What stands against it, as data.
  returned: failure
  type: list
  elements: dict
  sample: [{what: this device holds something already}]
"""

import grp
import pwd
import re
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.host import volume, volume_plan
from ..module_utils.ldaptune.problems import LdaptuneError


def _number(module: Any, text: str, find: Callable[[str], int], what: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        return find(text)
    except KeyError:
        module.fail_json(msg="%s: this host has no %s %s" % (what, what, text))
        raise


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "path": {"type": "str", "required": True},
            "device": {"type": "str", "default": ""},
            "fstype": {"type": "str", "choices": ["xfs", "ext4", "btrfs"], "default": "xfs"},
            "label": {"type": "str", "default": ""},
            "options": {"type": "list", "elements": "str", "default": ["noatime"]},
            "owner": {"type": "str", "default": "root"},
            "group": {"type": "str", "default": "root"},
            "mode": {"type": "str", "default": "0700"},
            "keep": {"type": "str", "choices": ["fstab", "unit"], "default": "fstab", "no_log": False},
            "consent": {"type": "list", "elements": "str", "choices": ["durability"], "default": []},
            "root": {"type": "str", "default": "/"},
        },
        supports_check_mode=True,
    )
    given = module.params
    if given["state"] == "present" and not given["device"]:
        module.fail_json(msg="state present needs a device")
    if not re.match("^0?[0-7]{3,4}$", given["mode"]):
        module.fail_json(msg="mode: %s is none; write octal digits in quotes" % given["mode"])
    try:
        if given["state"] == "absent":
            result = volume.absent(given["root"], given["path"], module.check_mode)
        else:
            wish = volume_plan.Wish(
                device=given["device"],
                point=given["path"],
                kind=given["fstype"],
                label=given["label"],
                options=tuple(given["options"]),
                way=given["keep"],
                owner=(
                    _number(module, given["owner"], lambda name: pwd.getpwnam(name).pw_uid, "owner"),
                    _number(module, given["group"], lambda name: grp.getgrnam(name).gr_gid, "group"),
                ),
                mode=int(given["mode"], 8),
                consent=tuple(given["consent"]),
                root=given["root"],
            )
            result = volume.present(wish, module.check_mode)
    except LdaptuneError as error:
        module.fail_json(msg=str(error), problems=error.problems)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
