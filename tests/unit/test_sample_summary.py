# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a sampler saw to one result."""

from __future__ import annotations

import copy
import json

import pytest
from ldaptune.sample_summary import blocked_in_log, loaded, summarise
from ldaptune.sampler import pulse_figures

LOOKS = {"running": 2, "idle": 10, "log": 6, "lock": 1, "disk": 1, "other": 0}
FACTS = {
    "pid": 7, "worker_cpus": [0, 1], "listeners_known": True, "database_disk": "8:0", "states_known": True,
    "log_sends": 3,
}  # fmt: skip


def record(operations, seconds=1.0, busy=50.0, listener=20.0, workers=100.0):
    monitor = {
        "seconds": seconds,
        "operations": {"bind": operations},
        "operations_total": operations,
        "threads": {"max": 16, "open": 16, "starting": 0, "active": 8, "pending": 1},
        "connections": 9,
        "read_waiters": 8,
        "write_waiters": 0,
    }
    parts = {"user": busy, "system": 0.0, "softirq": 0.0, "irq": 0.0, "iowait": 0.0, "steal": 0.0}
    return {
        "seconds": seconds,
        "at": 1.0,
        "cpus": [{"cpu": 0, "busy": busy, **parts}],
        "slapd": {
            "listeners": [{"tid": 8, "percent": listener}],
            "workers": {
                "count": 16, "percent_total": workers, "user_percent": workers, "system_percent": 0.0,
                "busiest_percent": 10.0, "looks": dict(LOOKS),
            },
        },
        "interrupts": {"eth0 rx": 1000.0},
        "memory": {"total_bytes": 1, "slapd_rss_bytes": 2},
        "run_queue": 3,
        "blocked": 0,
        "context_switches": 1000,
        "disks": {"8:0": {"name": "sda", "busy_percent": 5.0, "reads": 1.0}},
        "monitor": monitor,
    }  # fmt: skip


def raw(*records, **more):
    return {
        "started": "now", "seconds": 5.0, "interval": 1.0, "ended": "stopped", "facts": FACTS, "records": list(records),
        "queues": [{"card": "eth0", "queue": "rx", "interrupt": 9, "cpus": {"0": 30, "1": 10}}], "database": {},
        "own": {"search": 9, "unbind": 1}, "own_cpu_seconds": 0.03, "notes": [], **more,
    }  # fmt: skip


def test_means_are_those_of_full_load():
    # Before the probe, full load, the fixed phase at 70 %, after it.
    legs = [record(10, busy=1.0), record(1000, busy=90.0), record(900, busy=80.0), record(700, busy=60.0), record(0)]
    found = summarise(raw(*legs))
    assert found["intervals"] == 5 and found["loaded_intervals"] == 2
    assert found["cpus"] == [{**legs[0]["cpus"][0], "busy": 85.0, "user": 85.0}]
    assert found["monitor"]["operations_per_second"] == {"bind": 950.0, "total": 950.0}
    # The totals are those of all.
    assert found["monitor"]["operations"] == {"bind": 2610, "total": 2610}
    assert found["interrupts"] == [
        {"card": "eth0", "queue": "rx", "per_second": 1000.0, "cpu_percent": {"0": 75.0, "1": 25.0}}
    ]
    assert found["disks"] == [{"name": "sda", "database": True, "busy_percent": 5.0, "reads": 1.0}]
    assert found["own_cpu_percent"] == 0.6
    assert found["series"] == legs
    assert "series" not in summarise(raw(*legs), series=False)
    json.dumps(found, allow_nan=False)


def test_a_short_interval_at_the_end_is_not_the_best_one():
    legs = [record(1000), record(1000), record(900, seconds=0.3)]
    assert loaded(legs, 1.0) == legs[:2]
    # Where there is no other, it is better than nothing.
    assert loaded(legs[2:], 1.0) == legs[2:]


def test_without_the_monitor_load_is_told_by_cpu_time():
    legs = [record(0, workers=10.0, listener=0.0), record(0, workers=150.0), record(0, workers=140.0)]
    for leg in legs:
        leg["monitor"] = None
    found = summarise(raw(*legs))
    assert found["loaded_intervals"] == 2 and found["monitor"] is None
    for leg in legs:
        leg["slapd"] = None
    assert summarise(raw(*legs))["slapd"] is None


def test_nothing_seen_is_nothing_said():
    found = summarise(raw())
    assert found["loaded_intervals"] == 0 and found["cpus"] == [] and found["slapd"] is None
    assert found["run_queue"] is None and found["passwords"] is None


def test_listeners_that_are_not_known_are_null_and_not_none_of_them():
    facts = {**FACTS, "listeners_known": False}
    assert summarise(raw(record(5), facts=facts))["slapd"]["listeners"] is None


@pytest.mark.parametrize(
    ("looks", "facts", "wanted"),
    [
        ({}, {}, 60.0),
        ({"log": 0}, {}, 0.0),
        # Nobody had work.
        ({"running": 0, "log": 0, "lock": 0, "disk": 0}, {}, None),
        # Waits for a lock of libc's, but no send was seen: it may be another lock.
        ({}, {"log_sends": 0}, None),
        ({"log": 0}, {"log_sends": 0}, 0.0),
        ({}, {"states_known": False}, None),
    ],
)
def test_blocked_in_the_log(looks, facts, wanted):
    assert blocked_in_log({**LOOKS, **looks}, {**FACTS, **facts}) == wanted


def test_what_clients_did_between_two_pulses():
    def pulse(clock, bind, search, own, active=5):
        return {
            "clock": clock,
            "operations": {"bind": bind, "search": search, "total": bind + search},
            "own": {"bind": 1, "search": own},
            "threads": {"max": 16, "active": active, "pending": 2},
            "clients": {"connections": 9, "read_waiters": 8, "write_waiters": 0},
        }

    found = pulse_figures(pulse(1.0, 100, 50, 4), pulse(3.0, 300, 57, 8))
    assert found == {
        "seconds": 2.0,
        "operations": {"bind": 200, "search": 3},
        "operations_total": 203,
        # Ours is not among the active.
        "threads": {"max": 16, "active": 4, "pending": 2},
        "connections": 9,
        "read_waiters": 8,
        "write_waiters": 0,
    }
    assert pulse_figures(pulse(1.0, 1, 1, 1), pulse(2.0, 1, 5, 5, active=0))["threads"]["active"] == 0
    assert pulse_figures({}, pulse(1.0, 1, 1, 1)) is None and pulse_figures(pulse(1.0, 1, 1, 1), {}) is None


def test_the_record_is_not_changed():
    given = raw(record(5), record(7))
    before = copy.deepcopy(given)
    summarise(given)
    assert given == before
