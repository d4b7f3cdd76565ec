#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: the probe's accounts on an existing directory."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: test_accounts
short_description: Accounts for load tests, in a subtree of their own
description:
  - Makes the accounts that the probe binds as, below a container C(ou=ldaptune-probe) which holds nothing else, or
    removes them. Every entry is marked in its C(description); an entry without the mark is never changed or removed.
  - Passwords are hashed as C({SSHA}) here, each under a salt of its own; the directory never sees them in clear.
  - Everything is read before anything is written. A directory where one of the names is taken is refused as a whole.
author:
  - the ldaptune authors
options:
  state:
    description:
      - V(present) makes what is missing and sets passwords that differ; V(absent) removes what V(present) made.
    type: str
    choices: [present, absent]
    default: present
  uri:
    description:
      - The directory, C(ldap://), C(ldaps://) or C(ldapi://) with the percent-encoded path of its socket.
    type: str
    required: true
  accounts:
    description:
      - The accounts' DNs as the probe's pattern. The parent must be C(ou=ldaptune-probe) or begin so; what is above it
        must exist.
    type: str
    required: true
  password_file:
    description:
      - A file on this host whose first line is the accounts' password. Needed for O(state=present).
    type: path
  bind_dn:
    description:
      - Who writes the entries. Empty means SASL EXTERNAL, by C(ldapi://) only.
    type: str
    default: ''
  bind_password_file:
    description:
      - A file on this host whose first line is the password of O(bind_dn).
    type: path
  ca_file:
    description:
      - Certificates that verify the server; empty means the system's.
    type: str
    default: ''
  starttls:
    description:
      - Protect a C(ldap://) connection by StartTLS.
    type: bool
    default: false
  allow_cleartext:
    description:
      - Let the password of O(bind_dn) travel without TLS to an address that is not loopback.
    type: bool
    default: false
  timeout:
    description:
      - Seconds that one answer may take.
    type: int
    default: 10
requirements:
  - ldap3
attributes:
  check_mode:
    description: Reads, returns the LDIF that would be sent, writes nothing.
    support: full
  diff_mode:
    description: Shows the LDIF, passwords masked.
    support: full
  platform:
    description: Any system with Python 3.8 and ldap3; the directory is OpenLDAP or one that takes C({SSHA}) values.
    platforms: posix
    support: full
"""

EXAMPLES = r"""
- name: Make a thousand accounts
  test_accounts:
    uri: ldapi:///
    accounts: uid=probe.[0-999],ou=ldaptune-probe,dc=example,dc=com
    password_file: /run/ldaptune-x/password
    bind_dn: cn=admin,dc=example,dc=com
    bind_password_file: /run/ldaptune-x/bind

- name: Remove them
  test_accounts:
    state: absent
    uri: ldapi:///
    accounts: uid=probe.[0-999],ou=ldaptune-probe,dc=example,dc=com
    bind_dn: cn=admin,dc=example,dc=com
    bind_password_file: /run/ldaptune-x/bind
"""

RETURN = r"""
container:
  description: The entry above the accounts.
  returned: success
  type: str
  sample: ou=ldaptune-probe,dc=example,dc=com
created:
  description: How many accounts were made.
  returned: O(state=present)
  type: int
  sample: 1000
updated:
  description: How many got another password.
  returned: O(state=present)
  type: int
  sample: 0
unchanged:
  description: How many were as wanted.
  returned: O(state=present)
  type: int
  sample: 0
unverified:
  description: How many exist with a password that O(bind_dn) may not read, or of another scheme; left as they are.
  returned: O(state=present)
  type: int
  sample: 0
removed:
  description: How many entries were removed, the container included.
  returned: O(state=absent)
  type: int
  sample: 1001
left:
  description: Entries that were left, because ldaptune did not make them or others are below them.
  returned: O(state=absent)
  type: list
  elements: str
  sample: []
ldif:
  description: What was sent, or would be in check mode; passwords are masked.
  returned: success
  type: str
  sample: "dn: ou=ldaptune-probe,dc=example,dc=com"
problems:
  description: What is wrong, as data.
  returned: failure
  type: list
  elements: dict
  sample: [{what: accounts outside a subtree of their own}]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune import accounts
from ..module_utils.ldaptune.problems import LdaptuneError


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "uri": {"type": "str", "required": True},
            "accounts": {"type": "str", "required": True},
            "password_file": {"type": "path", "no_log": False},
            "bind_dn": {"type": "str", "default": ""},
            "bind_password_file": {"type": "path", "no_log": False},
            "ca_file": {"type": "str", "default": ""},
            "starttls": {"type": "bool", "default": False},
            "allow_cleartext": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 10},
        },
        required_if=[("state", "present", ["password_file"])],
        supports_check_mode=True,
    )
    options = module.params
    if options["bind_dn"] and not options["bind_password_file"]:
        module.fail_json(msg="bind_dn needs bind_password_file")
    try:
        result = accounts.run(options["state"], options, module.check_mode)
    except LdaptuneError as error:
        module.fail_json(msg=str(error), problems=error.problems)
    module.exit_json(diff={"before": "", "after": result["ldif"]}, **result)


if __name__ == "__main__":
    main()
