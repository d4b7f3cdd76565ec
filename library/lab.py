#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start or remove the lab: a throw-away slapd on loopback."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: lab
short_description: A throw-away slapd on loopback
description:
  - Builds and starts a real slapd of its own on C(127.0.0.1), with its own configuration directory, data, C(cn=monitor)
    and a null database that accepts every bind. No system service knows of it and a slapd of the system is not touched.
  - It logs at upstream's default level to a small reader of its own, so that logging costs what it costs while the
    host's log gets nothing.
  - A lab that runs and answers is left alone; one that is half dead is repaired; one built with other settings is
    rebuilt.
author:
  - the ldaptune authors
options:
  state:
    description:
      - V(up) makes it run; V(down) stops it and removes its files.
    type: str
    choices: [up, down]
    default: up
  root:
    description:
      - The directory that holds everything of the lab. One that is not empty and no lab is refused.
    type: path
    default: /var/lib/ldaptune-lab
  port:
    description:
      - The loopback port.
    type: int
    default: 10139
  users:
    description:
      - How many people the directory has; they are named C(uid=user.0) and so on, with one password.
    type: int
    default: 10000
attributes:
  check_mode:
    description: Predicts the action and changes nothing.
    support: full
  diff_mode:
    description: There is no difference to show.
    support: none
  platform:
    description: Linux with OpenLDAP's slapd installed; needs root.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Start the lab
  lab:
    state: up

- name: Remove it
  lab:
    state: down
"""

RETURN = r"""
action:
  description: What was done, or would be in check mode.
  returned: success
  type: str
  sample: built
  choices: [none, repaired, built, removed]
reason:
  description: What was found before.
  returned: O(state=up)
  type: str
  sample: slapd does not run
root:
  description: The lab's directory.
  returned: O(state=up)
  type: str
  sample: /var/lib/ldaptune-lab
uri:
  description: Where it listens.
  returned: O(state=up)
  type: str
  sample: ldap://127.0.0.1:10139
suffix:
  description: The suffix of the database with people.
  returned: O(state=up)
  type: str
  sample: dc=lab,dc=test
null_suffix:
  description: The suffix under which every bind succeeds.
  returned: O(state=up)
  type: str
  sample: dc=null,dc=test
accounts:
  description: The people's DNs as a pattern for the probe.
  returned: O(state=up)
  type: str
  sample: uid=user.[0-9999],ou=people,dc=lab,dc=test
admin_dn:
  description: The database's own administrator, with the same password.
  returned: O(state=up)
  type: str
  sample: cn=admin,dc=lab,dc=test
password_file:
  description: The file with the one password, readable by root. The password itself is never returned.
  returned: O(state=up)
  type: str
  sample: /var/lib/ldaptune-lab/password
server:
  description: The C(server) option of the host modules for this slapd.
  returned: O(state=up)
  type: dict
  sample: {instance: /var/lib/ldaptune-lab/slapd.d}
removed:
  description: The files removed.
  returned: O(state=down)
  type: list
  elements: str
  sample: [/var/lib/ldaptune-lab]
stays:
  description: The packages that stay installed.
  returned: O(state=down)
  type: list
  elements: str
  sample: [slapd, ldap-utils]
problems:
  description: What is wrong, as data.
  returned: failure
  type: list
  elements: dict
  sample: [{what: the lab's port is taken by another process}]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.lab import control, place
from ..module_utils.ldaptune.problems import LdaptuneError

# The lab's own copy of the package begins with it; naming it here makes Ansible send it along.
CONTROL = control.main


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["up", "down"], "default": "up"},
            "root": {"type": "path", "default": place.ROOT},
            "port": {"type": "int", "default": place.PORT},
            "users": {"type": "int", "default": place.USERS},
        },
        supports_check_mode=True,
    )
    options = module.params
    try:
        if options["state"] == "up":
            result = place.up(options["root"], options["port"], options["users"], module.check_mode)
        else:
            result = place.down(options["root"], module.check_mode)
    except LdaptuneError as error:
        module.fail_json(msg=str(error), problems=error.problems)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
