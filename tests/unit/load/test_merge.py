# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several generators' results as one, and who dropped out of it."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ldaptune.load import limits, phase
from ldaptune.load.histogram import Histogram
from ldaptune.load.merge import merge
from ldaptune.load.tally import SECOND, Tally

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "authrate.schema.json").read_text())
GOAL = {"name": "goal", "mode": "closed", "seconds": 3.0, "rate": 0}
FIXED = {"name": "fixed", "mode": "open", "seconds": 3.0, "rate": 50}
WHOLE = [[1000000] * 30] * 3


def tally(seconds=WHOLE, rest=(), connections=4):
    """A process's tally: latencies by second, and those of the last partial one."""
    made = Tally()
    made.connections = connections
    for values in seconds:
        made.fresh.extend(values)
        made.fresh_lag.append(1000)
        made.roll()
    made.fresh.extend(rest)
    made.close()
    made.in_time = made.successes
    made.elapsed_ns = len(seconds) * SECOND
    made.waited_ns = made.elapsed_ns
    made.queued_seconds = 0.0
    return made


def result(*tallies, spec=GOAL, late=0.0):
    """What a generator returns whose processes counted this."""
    states = json.loads(json.dumps([each.state() for each in tallies or [tally()]]))
    ran = phase.merge(spec, states)
    ran["time_wait"] = {"before": 1, "after": 2}
    ran["limited_by"], ran["limited_why"] = limits.judge(ran, None, None, True)
    ran["started_late_seconds"] = late
    ran["states"] = states
    return {
        "schema": 1,
        "workload": {"workload": "bind", "auth": "simple", "uri": "ldap://x", "starttls": False, "insecure": False},
        "phases": {spec["name"]: ran},
        "totals": {
            "operations": {"bind": ran["operations"], "search": 0, "unbind": 4, "extended": 0},
            "connections": 4,
        },
        "limited_by": ran["limited_by"],
        "limited_why": ran["limited_why"],
        "accounts": 10,
        "interrupted": False,
        "remarks": [{"what": "busy", "text": "later", "count": 2}],
        "line": "",
    }


def asked(*names, phases=(GOAL,), lost=None, connections=4):
    clock = {"offset_seconds": 0.5, "uncertainty_seconds": 0.01}
    generators = {name: {"connections": connections, **clock} for name in names}
    return {"phases": list(phases), "lost": lost or {}, "generators": generators}


def merged(one, two, **more):
    found = merge(asked("g1", "g2", **more), {"g1": one, "g2": two})
    jsonschema.validate(found, SCHEMA)
    json.dumps(found, allow_nan=False)
    return found


def of(given):
    return {"result": given}


def test_the_merged_result_has_the_form_and_the_sums():
    one, two = result(), result(tally([[2000000] * 20] * 3), tally([[4000000] * 10] * 3))
    found = merged(of(one), of(two))
    goal = found["phases"]["goal"]
    assert found["dropped_out"] == []
    assert goal["operations"] == 180
    assert goal["goodput"] == 60
    assert goal["latency_ns"]["mean"] == pytest.approx((90 * 1 + 60 * 2 + 30 * 4) * 1e6 / 180)
    assert [row["operations"] for row in goal["series"]] == [60, 60, 60]
    assert [row["generator"] for row in goal["processes"]] == ["g1", "g2", "g2"]
    assert goal["time_wait"] == {"before": 2, "after": 4}
    assert found["totals"]["operations"] == {"bind": 180, "search": 0, "unbind": 8, "extended": 0}
    assert found["totals"]["connections"] == 8
    assert found["remarks"] == [{"what": "busy", "text": "later", "count": 4}]
    assert found["generators"]["g2"]["phases"]["goal"]["operations_by_second"] == [30, 30, 30]
    assert "states" not in goal


SAMPLES = st.lists(st.lists(st.integers(1, 10**10), max_size=40), min_size=1, max_size=6)


@settings(max_examples=50)
@given(SAMPLES, st.integers(1, 5))
def test_split_samples_merge_to_the_histogram_of_the_whole(samples, place):
    whole = Histogram()
    for values in samples:
        whole.add(list(values))
    one, two = samples[: place % len(samples)], samples[place % len(samples) :]
    found = merge(
        asked("g1", "g2"),
        {
            "g1": of(result(*[tally([values] * 1 + [[]] * 2) for values in one] or [tally([[]] * 3)])),
            "g2": of(result(*[tally([[], [], values]) for values in two])),
        },
    )
    goal = found["phases"]["goal"]
    assert goal["histogram"] == whole.to_json()
    assert goal["latency_ns"] == whole.summary()
    assert [row["operations"] for row in goal["series"]] == [sum(map(len, one)), 0, sum(map(len, two))]


def test_a_phase_at_a_rate_adds_what_was_planned_and_its_own_service_times():
    ones = [tally(), tally()]
    for number, each in enumerate(ones):
        each.planned, each.dropped = 50 + number, number
        each.service.add([1000 * (number + 1)] * 30)
    found = merged(*[of(result(each, spec=FIXED)) for each in ones], phases=[FIXED])
    fixed = found["phases"]["fixed"]
    assert (fixed["planned"], fixed["dropped"]) == (101, 1)
    assert fixed["service_ns"]["count"] == 60
    assert fixed["service_ns"]["mean"] == 1500


def test_the_first_second_is_left_out_where_one_began_within_it():
    found = merged(of(result()), of(result(late=0.1)))
    assert [row["second"] for row in found["phases"]["goal"]["series"]] == [1, 2]
    assert found["phases"]["goal"]["operations"] == 180
    assert found["dropped_out"] == []


def test_the_last_partial_second_is_left_out():
    made = tally([*WHOLE, [1000000] * 5])
    made.elapsed_ns = int(3.4 * SECOND)
    found = merged(of(result(made)), of(result()))
    assert [row["second"] for row in found["phases"]["goal"]["series"]] == [0, 1, 2]
    assert found["phases"]["goal"]["operations"] == 185


def broken(**changes):
    made = tally()
    for name, value in changes.items():
        setattr(made, name, value)
    return of(result(made))


def reset_in_second(number):
    made = tally(WHOLE[:number])
    made.fail("reset")
    for _ in range(3 - number):
        made.fresh.extend([1000000] * 30)
        made.roll()
    made.close()
    made.elapsed_ns, made.connections_lost = 3 * SECOND, 3
    return of(result(made))


def of_run(**changes):
    return of({**result(), **changes})


CASES = [
    (broken(seconds=tally(WHOLE[:2]).seconds), "has no seconds after 1 in phase goal", 2),
    (broken(seconds=[], elapsed_ns=0), "has no seconds at all in phase goal", 0),
    (broken(connections_lost=3), "lost 3 of 4 connections in phase goal", None),
    (reset_in_second(1), "lost 3 of 4 connections in phase goal, from second 1 on", 1),
    (broken(connections=2), "had 2 of 4 connections in phase goal", 0),
    (of(result(late=0.8)), "started phase goal 0.8 s late", 0),
    (of(result(tally([[1000] * 90, [], [1000] * 90]))), "did nothing in second 1 of phase goal", 1),
    (of_run(phases={}), "did not run phase goal", None),
    (of_run(worker_died="worker process 1 (pid 9) ended"), "lost a process: worker process 1 (pid 9)", None),
    (of_run(interrupted=True), "was interrupted", None),
    ({"ended": "unreachable (no route)"}, "gave no result: unreachable (no route)", None),
    ({}, "gave no result: nothing was fetched", None),
]


@pytest.mark.parametrize(("two", "said", "second"), CASES, ids=[case[1] for case in CASES])
def test_who_dropped_out_is_named(two, said, second):
    found = merged(of(result()), two)
    (item,) = found["dropped_out"]
    assert item["text"].startswith("generator g2 " + said)
    assert (item["generator"], item["second"]) == ("g2", second)
    assert item["text"] in found["line"]
    # The other way round it is the other one.
    (item,) = merged(two, of(result()))["dropped_out"]
    assert item["generator"] == "g1"


def test_who_was_out_before_the_load_is_the_reason_and_not_those_called_off():
    found = merged({"ended": "called off"}, {}, lost={"g2": "its clock could not be read"})
    assert [item["text"] for item in found["dropped_out"]] == [
        "generator g2 gave no result: its clock could not be read"
    ]
    assert found["phases"] == {}


def test_a_server_that_stands_still_is_no_dropout():
    stalled = tally([[1000] * 90, [], [1000] * 90])
    assert merged(of(result(stalled)), of(result(copy.deepcopy(stalled))))["dropped_out"] == []


def test_slow_clients_may_do_nothing_in_a_second():
    assert merged(of(result()), of(result(tally([[1000] * 3, [], [1000] * 3]))))["dropped_out"] == []


def test_the_worst_judgement_counts_and_names_its_generator():
    busy = tally()
    busy.cpu_seconds = 2.9
    found = merged(of(result()), of(result(busy)))
    assert found["limited_by"] == "generator_limited"
    assert found["limited_why"].startswith("generator g2: process 1 of 1 used 97 % of a core")
    assert found["generators"]["g1"]["limited_by"] == "server_limited"


def test_a_lost_process_makes_the_figure_the_generators():
    found = merged(of(result()), of_run(worker_died="worker process 1 ended"))
    assert (found["limited_by"], found["worker_died"]) == (
        "generator_limited",
        "generator g2: worker process 1 ended",
    )
