#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply, audit, undo or adopt a tuning profile on one directory host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: tuning_profile
short_description: Apply, audit, undo or adopt a tuning profile on a directory host
description:
  - Plans the changes of a resolved profile, keeps what was there before in a snapshot on the host, makes the changes in
    order and reads each one back from where it takes effect. A failure in the middle undoes what this run wrote,
    in reverse.
  - Everything that can be known to be wrong is said at once, before anything changes.
options:
  state:
    description:
      - V(applied) makes the host as the profile wants it.
      - V(audited) reads wanted, configured and effective values of every lever, and writes nothing.
      - V(reverted) returns to O(snapshot), without it to what the run O(owner) found when it began, without both to
        before all runs. What someone else changed since is left alone and named. A map used beyond 80 percent of its
        old size stays as it is, and the reason says so. It ends a run in progress, and says so. Where the
        configuration lay elsewhere when it was changed, it is refused with the place of the way home.
      - V(adopted) accepts the present as the new origin.
    type: str
    choices: [applied, audited, reverted, adopted]
    default: applied
  resolved:
    description: A profile resolved for this host, as M(resolve_profile) returns it.
    type: dict
    default: {}
  server:
    description: How to find and manage the slapd on this host.
    type: dict
    default: {}
    suboptions:
      instance:
        description: Pid file, configuration directory or LDAP URI that chooses one slapd where several run.
        type: str
        default: ""
      uri:
        description: URI for cn=config; empty is the running slapd's own ldapi.
        type: str
        default: ""
      config_dn:
        description: Name to bind as; empty is SASL EXTERNAL over ldapi.
        type: str
        default: ""
      config_password_file:
        description: File on the host with the password of O(server.config_dn) in its first line.
        type: str
        default: ""
      ca_file:
        description: Certificates to verify the server with; empty is the system's own.
        type: str
        default: ""
      starttls:
        description: Use StartTLS on an C(ldap://) URI.
        type: bool
        default: false
      suffix:
        description: Suffix of the database; empty is the only one there is.
        type: str
        default: ""
      service:
        description: Service to restart.
        type: str
        default: slapd
      restart_command:
        description: Command that restarts slapd, in place of the service manager.
        type: list
        elements: str
        default: []
      state_dir:
        description: Directory on the host for snapshots and the watchdog, private to root.
        type: str
        default: /var/lib/ldaptune
      timeout:
        description: Seconds to wait for each answer of the server.
        type: int
        default: 10
  consent:
    description:
      - What is agreed to beyond live and safe changes, for example V(restart), V(durability), V(availability),
        V(security).
    type: list
    elements: str
    default: []
  exclude:
    description: Levers left to their owner.
    type: list
    elements: str
    default: []
  watch_seconds:
    description:
      - Arm the watchdog before the first change. It returns the host to what this run found after so many seconds
        unless renewed.
      - V(0) disarms it, the result is kept.
    type: int
    default: 0
  snapshot:
    description: The snapshot V(reverted) returns to; empty for that of O(owner), without it for the oldest open one.
    type: str
    default: ""
  owner:
    description:
      - The run that asks. While another run has this host in hand, V(applied) and V(adopted) are refused.
      - A run whose changes were taken back or adopted is refused, too.
    type: str
    default: ""
author: the ldaptune authors
attributes:
  check_mode:
    support: full
    description: Plans and predicts; writes nothing at all, neither to the server nor to the state directory.
  diff_mode:
    support: full
    description: One line C(setting = value) for each lever.
  platform:
    platforms: posix
notes:
  - Supports C(check_mode).
requirements:
  - ldap3 (python3-ldap3)
"""

EXAMPLES = r"""
- name: Apply the profile and read it back
  tuning_profile:
    state: applied
    resolved: "{{ resolved }}"
    consent: [security, availability]

- name: Show wanted, configured and effective
  tuning_profile:
    state: audited
    resolved: "{{ resolved }}"

- name: Return to before all runs
  tuning_profile:
    state: reverted

- name: Take back what one run changed, and nothing else
  tuning_profile:
    state: reverted
    owner: 20261130T214500Z-3f9a1c-ldap1
"""

RETURN = r"""
plan:
  description: >-
    One row for each lever, in the order of the changes. C(before), C(after), C(configured) and C(effective) are typed
    values, null is absent. C(state) is applied, unchanged, live_only, unsupported, drifted or failed; pending for a
    change that is not made (check mode, audit) and excluded for a lever left to its owner. C(action) is change, none
    or skip.
  type: list
  elements: dict
  returned: always
  sample:
    - {lever: slapd.threads, before: 16, after: 32, configured: 32, effective: 32, cost: live, risk: availability,
       compare: flip, why: "idle workers cost little", state: applied, reason: "", action: change}
states:
  description: State by lever.
  type: dict
  returned: always
  sample: {slapd.threads: applied}
live_only:
  description: Levers whose value would be lost at the next restart.
  type: list
  elements: str
  returned: always
  sample: []
snapshot:
  description: The way home, with a copy of its content; null when there is none.
  type: dict
  returned: always
  sample:
    id: 000001-20261130T214500Z
    path: /var/lib/ldaptune/slapd-0123456789ab/snapshots/000001-20261130T214500Z.json
    content: {}
step:
  description: What this run found when it first wrote, the way back of this run alone; null when it wrote nothing.
  type: dict
  returned: always
  sample:
    id: 000002-20261130T214500Z
    path: /var/lib/ldaptune/slapd-0123456789ab/snapshots/000002-20261130T214500Z.json
diff:
  description: Lines C(setting = value) before and after.
  type: dict
  returned: always
  sample: {before: "slapd.threads = 16\n", after: "slapd.threads = 32\n"}
lines:
  description: The plan as text, one line for each lever.
  type: list
  elements: str
  returned: always
  sample: ["slapd.threads: 16 -> 32, applied [live, availability]"]
notes:
  description: What else is worth knowing, for example that an interrupted run was found, or one was ended.
  type: list
  elements: str
  returned: always
  sample: []
complete:
  description: Whether everything went home; false while a lever is drifted or failed, the snapshot then stays open.
  type: bool
  returned: when O(state=reverted)
  sample: true
problems:
  description: What stands against it, as data.
  type: list
  elements: dict
  returned: always
  sample: []
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.opening import open_target
from ..module_utils.ldaptune.problems import LdaptuneError
from ..module_utils.ldaptune.server_options import SERVER_OPTIONS
from ..module_utils.ldaptune.tuning import NOTHING, Refused, adopted, applied, audited, reverted


def work(params: Dict[str, Any], check: bool) -> Dict[str, Any]:
    """Return the module's result; raises LdaptuneError."""
    resolved = params["resolved"] or NOTHING
    target = open_target(params["server"])
    with target.ctx:
        if params["state"] == "audited":
            return audited(target, resolved, params["exclude"])
        if params["state"] == "reverted":
            return reverted(target, params["snapshot"], check, params["owner"])
        if params["state"] == "adopted":
            return adopted(target, check, params["owner"])
        return applied(
            target,
            resolved,
            consent=params["consent"],
            exclude=params["exclude"],
            watch_seconds=params["watch_seconds"],
            check=check,
            owner=params["owner"],
        )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["applied", "audited", "reverted", "adopted"], "default": "applied"},
            "resolved": {"type": "dict", "default": {}},
            "server": {"type": "dict", "default": {}, "options": SERVER_OPTIONS, "apply_defaults": True},
            "consent": {"type": "list", "elements": "str", "default": []},
            "exclude": {"type": "list", "elements": "str", "default": []},
            "watch_seconds": {"type": "int", "default": 0},
            "snapshot": {"type": "str", "default": ""},
            "owner": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    if module.params["state"] == "applied" and not module.params["resolved"]:
        module.fail_json(msg="state applied needs a resolved profile", problems=[])
    try:
        result = work(module.params, module.check_mode)
    except Refused as refused:
        module.fail_json(msg=str(refused), **dict(refused.result, problems=refused.problems))
    except LdaptuneError as error:
        module.fail_json(msg=str(error), problems=error.problems)
    for note in result["notes"]:
        module.warn(note)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
