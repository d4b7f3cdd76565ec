# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: at_least, at_most, consents, unsupported, excluded, order, diff."""

from __future__ import annotations

import pytest
from ldaptune.levers.table import LEVERS, in_force, risk_by_value
from ldaptune.plan import View, diff_of, make_plan, rank, targets
from ldaptune.problems import problem

EVERYTHING = ("restart", "security", "availability", "durability")


def view(key, configured=None, effective=None, supported=True, reason="", problems=()):
    spec = LEVERS[key]
    seen = {"supported": supported, "reason": reason, "configured": configured, "effective": effective, "record": {}}

    def same(wanted):
        right = spec.type.equal(in_force(spec, configured), wanted)
        return right and (effective is None or spec.type.equal(effective, wanted))

    return View(spec, seen, same, lambda wanted: list(problems), lambda before, wanted: risk_by_value(key, wanted))


def wish(value, op="value", when_unsupported="skip"):
    return {"op": op, "value": value, "why": "because", "when_unsupported": when_unsupported, "from": "x.yml"}


def resolved(**wishes):
    levers = {key.replace("__", "."): item for key, item in wishes.items()}
    return {"name": "x", "levers": levers, "excluded": []}


def plan_of(key, item, seen, consent=EVERYTHING):
    return make_plan({"levers": {key: item}, "excluded": []}, {key: seen}, consent)


def test_a_row_says_everything():
    plan = plan_of("slapd.threads", wish(32), view("slapd.threads", None, 16))
    assert plan.problems == []
    assert plan.rows == [
        {
            "lever": "slapd.threads",
            "before": None,
            "after": 32,
            "configured": None,
            "effective": 16,
            "cost": "live",
            "risk": "availability",
            "compare": "flip",
            "why": "because",
            "state": "pending",
            "reason": "",
            "action": "change",
        }
    ]


@pytest.mark.parametrize(
    ("key", "op", "value", "configured", "effective", "after", "action"),
    [
        ("slapd.threads", "at_least", 8, None, 16, None, "none"),
        ("slapd.threads", "at_least", 16, None, 16, None, "none"),
        ("slapd.threads", "at_least", 17, None, 16, 17, "change"),
        ("slapd.threads", "at_most", 8, 16, 16, 8, "change"),
        ("slapd.threads", "at_most", 32, 16, 16, 16, "none"),
        # Absent is the default, not 0.
        ("slapd.conn_max_pending", "at_least", 50, None, None, None, "none"),
        ("slapd.conn_max_pending", "at_least", 200, None, None, 200, "change"),
        # A stored 0 that means the default is the default.
        ("database.max_readers", "at_least", 100, 0, 126, 0, "none"),
        ("database.max_readers", "at_least", 100, 0, None, 0, "none"),
        ("database.max_readers", "at_least", 200, 0, None, 200, "change"),
        # 0 switches a timeout off: longer than any.
        ("slapd.idle_timeout", "at_least", 30, None, None, None, "none"),
        ("slapd.idle_timeout", "at_most", 300, 0, None, 300, "change"),
        ("slapd.idle_timeout", "at_most", 300, 60, None, 60, "none"),
        # What is in force counts, not what is written down.
        ("database.max_size", "at_least", 1 << 30, 1 << 20, 1 << 31, 1 << 20, "none"),
        ("slapd.threads", "value", 16, None, 16, 16, "none"),
    ],
)
def test_never_worse_than_it_is(key, op, value, configured, effective, after, action):
    row = plan_of(key, wish(value, op), view(key, configured, effective)).rows[0]
    assert (row["after"], row["action"]) == (after, action)
    assert row["state"] == ("pending" if action == "change" else "unchanged")


def test_each_missing_consent_is_named():
    wishes = resolved(slapd__log_level=wish(32768), database__search_stack=wish(32))
    views = {"slapd.log_level": view("slapd.log_level", 256), "database.search_stack": view("database.search_stack")}
    problems = make_plan(wishes, views, ["availability"]).problems
    assert [(item["found"], item["wanted"]) for item in problems] == [
        ("availability", "security"),
        ("availability", "restart"),
    ]
    assert all(item["where"] == "tuning_consent" and item["wanted"] in item["do"] for item in problems)
    assert make_plan(wishes, views, EVERYTHING).problems == []


def test_the_risk_is_that_of_the_value():
    seen = view("database.env_flags", [], None)
    assert plan_of("database.env_flags", wish(["nordahead"]), seen, ()).problems == []
    assert [item["wanted"] for item in plan_of("database.env_flags", wish(["nosync"]), seen, ()).problems] == [
        "durability"
    ]


def test_no_consent_is_needed_for_what_is_there_already():
    assert plan_of("slapd.log_level", wish(32768), view("slapd.log_level", 32768), ()).problems == []


def test_unsupported_is_skipped_or_refused_as_asked():
    seen = view("slapd.log_file", supported=False, reason="olcLogFile comes with OpenLDAP 2.6, this is 2.5.13")
    wanted = LEVERS["slapd.log_file"].type.parse({"path": "/var/log/slapd.log"})
    plan = plan_of("slapd.log_file", wish(wanted), seen)
    assert (plan.rows[0]["state"], plan.rows[0]["action"], plan.problems) == ("unsupported", "skip", [])
    assert "2.6" in plan.rows[0]["reason"]
    refused = plan_of("slapd.log_file", wish(wanted, when_unsupported="fail"), seen).problems
    assert "slapd.log_file" in refused[0]["what"] and "2.6" in refused[0]["found"]


def test_excluded_levers_are_named_and_left():
    wishes = resolved(slapd__threads=wish(32), slapd__log_level=wish(0))
    wishes["excluded"] = ["slapd.log_level"]
    plan = make_plan(wishes, {"slapd.threads": view("slapd.threads")}, EVERYTHING)
    rows = {row["lever"]: (row["state"], row["action"]) for row in plan.rows}
    assert rows == {"slapd.threads": ("pending", "change"), "slapd.log_level": ("excluded", "skip")}


def test_what_the_host_forbids_is_a_problem_only_for_a_change():
    broken = [problem("no room")]
    assert plan_of("slapd.threads", wish(32), view("slapd.threads", problems=broken)).problems == broken
    assert plan_of("slapd.threads", wish(16), view("slapd.threads", problems=broken)).problems == []


ORDER = [
    "cpu.listener",
    "slapd.listener_threads",
    "cpu.workers",
    "slapd.threads",
    "database.search_stack",
    "database.max_readers",
    "slapd.log_level",
]


def test_the_cpus_of_the_process_come_before_those_of_its_threads():
    values = {"cpu.listener": [0], "cpu.workers": [1], "cpu.service": [0, 1], "service.open_files": 4096}
    wishes = {"levers": {key: wish(value) for key, value in values.items()}, "excluded": []}
    rows = make_plan(wishes, {key: view(key) for key in values}, EVERYTHING).rows
    assert [row["lever"] for row in rows] == ["service.open_files", "cpu.service", "cpu.workers", "cpu.listener"]


def test_what_is_worth_knowing_of_a_value_stands_in_its_row():
    seen = view("slapd.threads", None, 16)._replace(remarks=lambda wanted: ["for %d" % wanted, "and so on"])
    assert plan_of("slapd.threads", wish(32), seen).rows[0]["reason"] == "for 32; and so on"
    assert plan_of("slapd.threads", wish(16), seen).rows[0]["reason"] == ""


def test_the_order_of_stages_when_growing():
    values = {"slapd.threads": 300, "database.max_readers": 400, "slapd.log_level": 0, "database.search_stack": 32}
    values.update({"slapd.listener_threads": 2, "cpu.listener": [0], "cpu.workers": [1]})
    wishes = {"levers": {key: wish(values[key]) for key in ORDER}, "excluded": []}
    views = {key: view(key) for key in ORDER}
    assert [row["lever"] for row in make_plan(wishes, views, EVERYTHING).rows] == [
        "slapd.log_level",
        "database.max_readers",
        "slapd.threads",
        "database.search_stack",
        "slapd.listener_threads",
        "cpu.workers",
        "cpu.listener",
    ]
    assert set(targets(wishes, views)) == set(ORDER)


@pytest.mark.parametrize(("old", "new", "first"), [(126, 400, True), (400, 126, False), (400, None, False)])
def test_slots_before_threads_when_growing_and_after_when_shrinking(old, new, first):
    readers = rank(LEVERS["database.max_readers"], old, new)
    threads = rank(LEVERS["slapd.threads"], 16, 300)
    assert (readers < threads) is first


def test_the_diff_is_stable_text():
    wishes = resolved(slapd__threads=wish(32), slapd__log_level=wish(32768), database__max_size=wish(1 << 30))
    views = {
        "slapd.threads": view("slapd.threads"),
        "slapd.log_level": view("slapd.log_level", 256),
        "database.max_size": view("database.max_size", 1 << 30),
    }
    types = {key: spec.type for key, spec in LEVERS.items()}
    diff = diff_of(make_plan(wishes, views, EVERYTHING).rows, types)
    before, after = (diff[side].splitlines() for side in ("before", "after"))
    assert before[0] == after[0] and before[0].startswith("database.max_size = ")
    assert before[1:] == ["slapd.log_level = stats", "slapd.threads = (not set)"]
    assert after[1:] == ["slapd.log_level = none", "slapd.threads = 32"]
