# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of a diagnosis: each where it holds, and just below."""

from __future__ import annotations

import copy

import pytest
from ldaptune import diagnosis
from ldaptune.diagnosis import diagnose


def core(cpu, busy, **parts):
    return {
        "cpu": cpu, "busy": busy, "user": busy, "system": 0.0, "softirq": 0.0, "irq": 0.0, "iowait": 0.0, "steal": 0.0,
        **parts,
    }  # fmt: skip


# A host of four cores at half load, with nothing at its limit.
CALM = {
    "loaded_intervals": 4,
    "cpus": [core(cpu, 50.0) for cpu in range(4)],
    "slapd": {
        "listeners": [{"tid": 2, "percent": 40.0}],
        "workers": {
            "count": 16, "cpus": [0, 1, 2, 3], "percent_total": 150.0, "user_percent": 90.0, "system_percent": 60.0,
            "busiest_percent": 12.0, "blocked_in_log_percent": 0.0, "waiting_for_disk_percent": 0.0,
            "looks": {"running": 40, "idle": 100, "log": 0, "lock": 5, "disk": 0, "other": 0},
        },
    },
    "interrupts": [
        {"card": "eth0", "queue": "eth0-TxRx-0", "per_second": 41234.0, "cpu_percent": {"0": 99.0, "1": 1.0}},
        {"card": "eth0", "queue": "eth0-TxRx-1", "per_second": 100.0, "cpu_percent": {"1": 100.0}},
    ],
    "disks": [{"name": "sda", "database": True, "busy_percent": 10.0}],
    "monitor": {
        "operations_per_second": {"bind": 20000.0, "search": 0.0, "total": 20000.0},
        "threads": {"max": 16.0, "open": 16.0, "active": 8.0, "pending": 0.0},
    },
    "passwords": {"schemes": {"SSHA": 50}, "slow_percent": 0.0},
}  # fmt: skip
SLOW = {"passwords.schemes": {"PBKDF2-SHA256 rounds=10000": 50}, "passwords.slow_percent": 100.0}
WORKERS = "slapd.workers."


def sample(**changes):
    """CALM with changes; a key is a path with dots."""
    made = copy.deepcopy(CALM)
    for path, value in changes.items():
        *way, last = path.split(".")
        part = made
        for name in way:
            part = part[name]
        part[last] = value
    return made


def codes(given, *more):
    return [line["code"] for line in diagnose(given, *more)]


def cores(*items):
    return {"cpus": [*items, *CALM["cpus"][len(items) :]]}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, ["nothing_found"]),
        (cores(core(0, 97.0, softirq=59.0)), ["network_core_saturated"]),
        (cores(core(0, 90.0, softirq=30.0, irq=6.0)), ["network_core_saturated"]),
        (cores(core(0, 97.0, softirq=38.0)), ["nothing_found"]),
        (cores(core(0, 89.9, softirq=80.0)), ["nothing_found"]),
        ({"slapd.listeners": [{"tid": 2, "percent": 90.0}]}, ["listener_saturated"]),
        ({"slapd.listeners": [{"tid": 2, "percent": 89.9}]}, ["nothing_found"]),
        ({"slapd.listeners": [{"tid": 2, "percent": 20.0}, {"tid": 3, "percent": 99.0}]}, ["listener_saturated"]),
        # Which threads listen is not known.
        ({"slapd.listeners": None}, ["nothing_found"]),
        ({WORKERS + "blocked_in_log_percent": 30.0}, ["log_bound"]),
        ({WORKERS + "blocked_in_log_percent": 29.9}, ["nothing_found"]),
        ({WORKERS + "blocked_in_log_percent": None}, ["nothing_found"]),
        # A single look is no share.
        ({WORKERS + "blocked_in_log_percent": 100.0, WORKERS + "looks": {"idle": 60, "log": 9}}, ["nothing_found"]),
        (
            {
                "disks": [{"name": "sda", "database": True, "busy_percent": 80.0}],
                WORKERS + "waiting_for_disk_percent": 20.0,
            },
            ["disk_bound"],
        ),
        ({"disks": [{"name": "sda", "database": True, "busy_percent": 100.0}]}, ["nothing_found"]),
        (
            {**cores(core(0, 50.0, iowait=20.0)), "disks": [{"name": "sda", "database": False, "busy_percent": 99.0}]},
            ["disk_bound"],
        ),
        # The busy disk is not the database's.
        (
            {
                WORKERS + "waiting_for_disk_percent": 50.0,
                "disks": [
                    {"name": "sda", "database": True, "busy_percent": 1.0},
                    {"name": "sdb", "database": False, "busy_percent": 100.0},
                ],
            },
            ["nothing_found"],
        ),
        ({**SLOW, WORKERS + "percent_total": 240.0, WORKERS + "user_percent": 180.0}, ["hash_bound"]),
        ({**SLOW, WORKERS + "percent_total": 240.0, WORKERS + "user_percent": 179.0}, ["nothing_found"]),
        ({**SLOW, WORKERS + "percent_total": 239.0, WORKERS + "user_percent": 230.0}, ["nothing_found"]),
        ({WORKERS + "percent_total": 240.0, WORKERS + "user_percent": 240.0}, ["nothing_found"]),
        # Passwords are slow, but nobody binds.
        (
            {
                **SLOW,
                WORKERS + "percent_total": 240.0,
                WORKERS + "user_percent": 240.0,
                "monitor.operations_per_second": {"bind": 29.0, "search": 71.0, "total": 100.0},
            },
            ["nothing_found"],
        ),
        (
            {**SLOW, WORKERS + "percent_total": 396.0, WORKERS + "user_percent": 390.0},
            ["hash_bound", "workers_saturated"],
        ),
        ({WORKERS + "percent_total": 340.0}, ["workers_saturated"]),
        ({WORKERS + "percent_total": 339.0}, ["nothing_found"]),
        # They may use one core only.
        ({WORKERS + "percent_total": 98.0, WORKERS + "cpus": [3]}, ["workers_saturated"]),
        ({"monitor.threads": {"max": 16.0, "active": 15.5, "pending": 3.0}}, ["workers_saturated"]),
        ({"monitor.threads": {"max": 16.0, "active": 16.0, "pending": 0.0}}, ["nothing_found"]),
        ({"monitor.threads": {"max": 16.0, "active": 12.0, "pending": 3.0}}, ["nothing_found"]),
        ({"cpus": [core(cpu, 96.0) for cpu in range(4)]}, ["host_saturated"]),
        ({"cpus": [core(cpu, 75.0, steal=20.0) for cpu in range(4)]}, ["host_saturated", "cpu_stolen"]),
        ({"cpus": [*(core(cpu, 96.0) for cpu in range(3)), core(3, 60.0)]}, ["nothing_found"]),
        (cores(core(2, 50.0, steal=10.0)), ["cpu_stolen"]),
        (cores(core(2, 50.0, steal=9.9)), ["nothing_found"]),
        # What explains most comes first.
        (
            {
                **cores(core(0, 99.0, softirq=90.0)),
                "slapd.listeners": [{"tid": 2, "percent": 99.0}],
                WORKERS + "blocked_in_log_percent": 80.0,
                WORKERS + "waiting_for_disk_percent": 20.0,
                WORKERS + "percent_total": 399.0,
                "disks": [{"name": "sda", "database": True, "busy_percent": 99.0}],
            },
            ["network_core_saturated", "listener_saturated", "log_bound", "disk_bound", "workers_saturated"],
        ),
    ],
)  # fmt: skip
def test_rules(changes, wanted):
    assert codes(sample(**changes)) == wanted


def test_a_generator_at_its_limit_comes_first():
    full = sample(**{WORKERS + "percent_total": 399.0})
    lines = diagnose(full, "generator_limited", "its processes had no idle time")
    assert [line["code"] for line in lines] == ["generator_bound", "workers_saturated"]
    assert lines[0]["text"] == "the load generator was the limit, not the server: its processes had no idle time"
    assert codes(full, "server_limited") == ["workers_saturated"]
    assert codes(None, "generator_limited") == ["generator_bound"]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (None, "nothing was sampled"),
        ({"reason": "a sampler of this slapd is running"}, "is running"),
        ({"loaded_intervals": 0}, "shorter than the sampler's interval"),
    ],
)
def test_without_a_sample_nothing_is_claimed(given, word):
    (line,) = diagnose(given)
    assert line["code"] == "undetermined" and word in line["text"]


def test_what_was_not_measured_holds_no_rule():
    bare = sample(slapd=None, interrupts=[], disks=[], monitor=None, passwords=None)
    assert codes(bare) == ["nothing_found"]
    assert codes({**bare, "cpus": []}) == ["nothing_found"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            cores(core(0, 97.0, softirq=57.0, irq=2.2)),
            "core 0 is 97 % busy, 61 % of it softirq and interrupts (eth0: 1 of 2 queues, 41234 interrupts/s)",
        ),
        (cores(core(3, 96.0, softirq=48.0)), None),
        ({"slapd.listeners": [{"tid": 2, "percent": 100.4}]}, "the listener thread is at 100 %"),
        (
            {"slapd.listeners": [{"tid": 2, "percent": 95.0}, {"tid": 3, "percent": 99.0}]},
            "the busiest of 2 listener threads is at 99 %",
        ),
        (
            {WORKERS + "blocked_in_log_percent": 72.7},
            "73 % of the workers that had work were sending a log line or waiting for one to be sent",
        ),
        (
            {**SLOW, WORKERS + "percent_total": 320.0, WORKERS + "user_percent": 310.0},
            "workers take 320 % of a core and 97 % of that outside the kernel: binds verify PBKDF2-SHA256 rounds=10000",
        ),
        (
            {},
            "no limit was found on this host: busiest core 0 at 50 %, listener at 40 %, workers at 38 % of their cores",
        ),
    ],
)
def test_the_words(changes, text):
    line = diagnose(sample(**changes))[0]["text"]
    assert line == (text or "core 3 is 96 % busy, 50 % of it softirq and interrupts")


def test_every_rule_is_tried():
    rules = {rule.__name__ for rule in diagnosis.RULES}
    assert rules == {
        "network_core", "listener", "log", "disk", "hashing", "workers_full", "whole_host", "stolen",
    }  # fmt: skip
