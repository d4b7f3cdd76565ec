#!/usr/bin/python
# Copyright: the ldaptune authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a comparison of two arms, take its legs, judge it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: compare_legs
short_description: Plan legs of a comparison, judge them, give the verdict
description:
  - Runs on the controller. Keeps the record of one comparison in a run directory, so that every step can start
    again from the files.
  - C(planned) makes the schedule, C(primed) sets the offered rate from the priming run, C(added) takes one measured
    leg and says whether to go on, C(judged) judges the stored legs again.
  - A leg that cannot be believed makes the comparison C(invalid) and is named; it is never left out.
options:
  state:
    description:
      - C(planned) refuses a run directory that has legs already.
      - C(added) takes only the leg that is due.
    type: str
    choices: [planned, primed, added, judged]
    required: true
  run_dir:
    description: Directory of the run; C(planned) makes it. Holds legs.json, verdict.json, result.json and summary.txt.
    type: path
    required: true
  schedule:
    description:
      - With C(planned), which schedule. C(brief) only tries the machinery.
      - C(quick) has short legs, 4 blocks and one look at alpha 0.05.
      - C(standard) has long legs and looks after 4, 8 and 12 blocks at alpha 0.0221 each.
    type: str
    choices: [brief, quick, standard]
    default: standard
  seed:
    description: With C(planned), the seed of order and settle times; drawn when absent, and stored.
    type: int
  restart:
    description:
      - With C(planned), whether a compared lever restarts slapd; then every leg of both arms starts with a restart.
    type: bool
    default: false
  expect:
    description:
      - With C(planned), what the profile promises. Keys C(goal), C(require), C(min_effect_percent),
        C(max_p99_increase_percent), C(max_error_percent).
    type: dict
  host:
    description: With C(planned), the measured host's name, for the record.
    type: str
    default: ""
  profile:
    description: With C(planned), the profile's name, for the record.
    type: str
    default: ""
  digest:
    description: With C(planned), the resolved profile's digest, for the record.
    type: str
    default: ""
  aa:
    description: With C(planned), both arms have the same settings; a difference then speaks against the host.
    type: bool
    default: false
  overhead:
    description: With C(planned), seconds around legs and run, for the expected and the worst-case time only.
    type: dict
    suboptions:
      leg_overhead:
        description: Expected seconds around one leg.
        type: float
        default: 2.5
      leg_overhead_worst:
        description: Seconds around one leg at the worst.
        type: float
        default: 5.0
      run_overhead:
        description: Seconds around the whole run.
        type: float
        default: 10.0
  probe:
    description: With C(primed), what the authrate module returned for the RV(prime) phases as found.
    type: dict
  leg:
    description:
      - With C(added), the measured leg. Keys C(index), C(arm), C(started), C(readback) and C(server) (each with
        C(start) and C(finish)), C(probe).
    type: dict
  broken:
    description: With C(judged), why the run could not go on; makes the verdict C(invalid).
    type: str
    default: ""
  outcome:
    description: With C(judged), what became of the host, for the closing sentence.
    type: str
    default: ""
  undo:
    description: With C(judged), the command that brings the host home, for the summary.
    type: str
    default: ""
  live_only:
    description:
      - With C(judged), levers lost at the next restart, for the summary.
      - From plan.json of the run directory when absent.
    type: list
    elements: str
author: the ldaptune authors
attributes:
  check_mode:
    description: Writes nothing.
    support: full
  diff_mode:
    description: Nothing on a managed host changes.
    support: none
  platform:
    platforms: posix
notes:
  - Never C(changed), the run directory being the toolkit's own record.
"""

EXAMPLES = r"""
- name: Plan the comparison
  compare_legs:
    state: planned
    run_dir: runs/20260101T120000Z-4f9c02-lab1
    schedule: quick
    host: lab1
    profile: throughput
    expect: {goal: goodput, require: improved}
  delegate_to: localhost
  register: comparison

- name: Take a leg
  compare_legs:
    state: added
    run_dir: runs/20260101T120000Z-4f9c02-lab1
    leg:
      index: 0
      arm: as_found
      started: "2026-01-01T12:00:00+00:00"
      readback: {start: "{{ arm_start.readback }}", finish: "{{ arm_finish.readback }}"}
      server:
        start: {counters: "{{ arm_start.counters }}", slapd: "{{ arm_start.slapd }}"}
        finish: {counters: "{{ arm_finish.counters }}", slapd: "{{ arm_finish.slapd }}"}
      probe: "{{ probe }}"
  delegate_to: localhost
  register: comparison
"""

RETURN = r"""
line:
  description: One line for people about this step.
  type: str
  returned: always
  sample: "leg  1 of 16, block 1, as found: 9,876 operations/s, p99 1.23 ms, errors 0.00 %, foreign 1"
continue:
  description: Whether there is something left to measure.
  type: bool
  returned: always
  sample: true
next:
  description:
    - The block in progress or the one that comes, with its legs still to run.
    - Null when there is none, or when priming comes first.
  type: dict
  returned: always
  sample:
    block: 0
    legs:
      - {index: 0, arm: as_found, probe_seed: 7, phases: [{name: goal, mode: closed, seconds: 2.5, rate: 0}]}
legs_done:
  description: How many legs the record has.
  type: int
  returned: always
  sample: 1
prime:
  description: Phases of the priming run, as found, in the form the authrate module takes.
  type: list
  elements: dict
  returned: state is planned
  sample: [{"name": "prime", "mode": "pass", "seconds": 20.0, "rate": 0}]
schedule:
  description: The whole schedule; C(seconds) has C(expected) (to the first look) and C(worst).
  type: dict
  returned: state is planned or primed
  sample: {"kind": "quick", "seed": 7, "looks": [4], "alpha": 0.05}
judged:
  description: The leg just added, judged; C(valid), C(reasons) and its figures.
  type: dict
  returned: state is added
  sample: {"index": 0, "valid": true, "reasons": [], "goodput": 9876.5}
verdict:
  description: The verdict, also in verdict.json; null while there is something left to measure.
  type: dict
  returned: always
  sample: {"verdict": "improved", "met": true, "exit_code": 0, "action": "keep"}
problems:
  description: What was refused, as data.
  type: list
  elements: dict
  returned: failure
  sample: [{"what": "no such run", "where": "runs/x/legs.json", "do": "Begin one with state planned."}]
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.ldaptune.comparison import added, judged_again, planned, primed
from ..module_utils.ldaptune.problems import LdaptuneError

OVERHEAD = {
    "leg_overhead": {"type": "float", "default": 2.5},
    "leg_overhead_worst": {"type": "float", "default": 5.0},
    "run_overhead": {"type": "float", "default": 10.0},
}
ARGUMENTS = {
    "state": {"type": "str", "required": True, "choices": ["planned", "primed", "added", "judged"]},
    "run_dir": {"type": "path", "required": True},
    "schedule": {"type": "str", "choices": ["brief", "quick", "standard"], "default": "standard"},
    "seed": {"type": "int"},
    "restart": {"type": "bool", "default": False},
    "expect": {"type": "dict"},
    "host": {"type": "str", "default": ""},
    "profile": {"type": "str", "default": ""},
    "digest": {"type": "str", "default": ""},
    "aa": {"type": "bool", "default": False},
    "overhead": {"type": "dict", "options": OVERHEAD},
    "probe": {"type": "dict"},
    "leg": {"type": "dict"},
    "broken": {"type": "str", "default": ""},
    "outcome": {"type": "str", "default": ""},
    "undo": {"type": "str", "default": ""},
    "live_only": {"type": "list", "elements": "str"},
}


def run(params: dict, write: bool) -> dict:
    """Do what `state` asks and return the module's answer."""
    run_dir = params["run_dir"]
    if params["state"] == "planned":
        seed = params["seed"] if params["seed"] is not None else int.from_bytes(os.urandom(4), "big")
        about = {key: params[key] for key in ("host", "profile", "digest")}
        return planned(
            run_dir,
            kind=params["schedule"],
            seed=seed,
            restart=params["restart"],
            expect=params["expect"],
            about=about,
            aa=params["aa"],
            overhead=params["overhead"],
            write=write,
        )
    if params["state"] == "primed":
        return primed(run_dir, params["probe"], write=write)
    if params["state"] == "added":
        return added(run_dir, params["leg"], write=write)
    return judged_again(
        run_dir, params["broken"], params["outcome"], write=write, undo=params["undo"], live_only=params["live_only"]
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_if=[("state", "primed", ["probe"]), ("state", "added", ["leg"])],
    )
    try:
        answer = run(module.params, write=not module.check_mode)
    except LdaptuneError as error:
        module.fail_json(msg=str(error), problems=error.problems)
    except OSError as error:
        module.fail_json(msg="run directory %s: %s" % (module.params["run_dir"], error), problems=[])
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
