# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolving: order and locale leave the digest alone, every problem is told at once, consents are named."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest
from ldaptune.levers.table import LEVERS
from ldaptune.problems import render_all
from ldaptune.profile.library import profiles
from ldaptune.profile.resolve import consents, digest, load, resolve

FACTS = {"host": {"name": "h1", "cpus": 4, "online_cpus": [0, 1, 2, 3]}, "slapd": {"threads": 16}, "database": {}}
EXPECT = "expect: {goal: goodput, require: improved}\n"
FIRST = """\
name: p
summary: One order
levers:
  slapd.threads: {value: 8, why: because}
  slapd.log_level: {value: [sync, stats], why: because}
expect: {goal: goodput, require: improved, max_error_percent: 1}
"""
SECOND = """\
# Another order, other spellings, the same profile.
expect: {max_error_percent: 1.0, require: improved, goal: goodput}
levers:
  slapd.log_level:
    why: because
    value: "0x4100"
    when_unsupported: fail
  slapd.threads:
    why: because
    value: "8"
summary: One order
name: p
"""


@pytest.fixture
def write(tmp_path):
    def put(name, text, directory="profiles"):
        folder = tmp_path / directory
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        return str(folder)

    return put


def test_same_digest_for_any_order_and_spelling(write):
    one, _ = resolve("p", [write("p.yml", FIRST, "one")], FACTS, LEVERS)
    two, _ = resolve("p", [write("p.yml", SECOND, "two")], FACTS, LEVERS)
    assert one == two
    assert one["digest"] == two["digest"] == digest(one["levers"], one["expect"])
    canonical = json.dumps({"levers": one["levers"], "expect": one["expect"]}, sort_keys=True, separators=(",", ":"))
    assert one["digest"] == hashlib.sha256(canonical.encode()).hexdigest()
    assert list(one["levers"]) == ["slapd.log_level", "slapd.threads"]


def test_another_value_is_another_digest(write):
    one, _ = resolve("p", [write("p.yml", FIRST, "one")], FACTS, LEVERS)
    two, _ = resolve("p", [write("p.yml", FIRST.replace("value: 8", "value: 9"), "two")], FACTS, LEVERS)
    three, _ = resolve("p", [write("p.yml", FIRST.replace("goodput", "p99"), "three")], FACTS, LEVERS)
    assert len({one["digest"], two["digest"], three["digest"]}) == 3


@pytest.mark.parametrize("environment", [
    {"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "1"},
    {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Asia/Kolkata", "PYTHONHASHSEED": "2"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONHASHSEED": "3"},
])
def test_same_result_in_any_locale(write, checkout, environment):
    text = FIRST.replace("why: because", "why: größer ist schneller")
    text = text.replace("max_error_percent: 1", "max_error_percent: 0.5")
    folder = write("p.yml", text)
    here, _ = resolve("p", [folder], FACTS, LEVERS)
    program = (
        "import json, locale, sys; from ldaptune.levers.table import LEVERS; "
        "from ldaptune.profile.resolve import resolve; "
        "print(json.dumps(resolve('p', [sys.argv[1]], json.loads(sys.argv[2]), LEVERS)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, folder, json.dumps(FACTS)], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(checkout / "module_utils"), "PATH": os.environ["PATH"], **environment},
    )
    assert json.loads(done.stdout) == [here, []]


def test_host_problems_stand_beside_the_others(write):
    text = ("name: p\nsummary: s\nlevers:\n  slapd.thread: {value: 4, why: w}\n"
            "  slapd.threads: {value: {expr: 1 * host.cpus - 3}, why: w}\n" + EXPECT)
    resolved, problems = resolve("p", [write("p.yml", text)], FACTS, LEVERS, ["slapd.logs"])
    assert resolved is None
    assert len(problems) == 3
    told = render_all(problems)
    assert "tuning_exclude: there is no lever slapd.logs. Did you mean slapd.log" in told
    assert "p.yml:4: levers.slapd.thread: there is no lever slapd.thread. Did you mean slapd.threads?" in told
    assert ("p.yml:5: levers.slapd.threads.value: this value does not fit slapd.threads on h1 "
            '(found "1 * host.cpus - 3", which gives 1 here; wanted a whole number from 2 to 1024 (threads))') in told


def test_problems_of_a_parent_and_a_child(write):
    write("parent.yml", "name: parent\nsummary: s\nlevers: {slapd.threads: {value: 1, why: w}}\n" + EXPECT)
    folder = write("p.yml", "name: p\nsummary: s\nextends: parent\nlevers: {slapd.tool_threads: {value: 0, why: w}}\n")
    told = render_all(resolve("p", [folder], FACTS, LEVERS)[1])
    assert "p.yml:4: levers.slapd.tool_threads.value" in told
    assert "parent.yml:3: levers.slapd.threads.value" in told


def test_the_nearest_ancestor_wins(write):
    write("a.yml", "name: a\nsummary: s\nlevers: {slapd.threads: {value: 2, why: a}, "
                   "slapd.tool_threads: {value: 2, why: a, when_unsupported: skip}}\n" + EXPECT)
    write("b.yml", "name: b\nsummary: s\nextends: a\nlevers: {slapd.threads: {at_least: 3, why: b}}\n"
                   "expect: {min_effect_percent: 7}\n")
    folder = write("c.yml", "name: c\nsummary: s\nextends: b\nlevers: {slapd.tool_threads: {value: 4, why: c}}\n")
    resolved, problems = resolve("c", [folder], FACTS, LEVERS)
    assert problems == []
    assert resolved["extends"] == ["b", "a"]
    assert resolved["levers"] == {
        "slapd.threads": {"op": "at_least", "value": 3, "why": "b", "when_unsupported": "fail", "from": "b.yml"},
        "slapd.tool_threads": {"op": "value", "value": 4, "why": "c", "when_unsupported": "fail", "from": "c.yml"},
    }
    assert resolved["expect"] == {
        "goal": "goodput", "require": "improved", "min_effect_percent": 7, "max_p99_increase_percent": 20,
        "max_error_percent": 0.1,
    }


def test_an_unset_profile_lists_all(write):
    write("one.yml", "name: one\nsummary: First\n" + EXPECT)
    write("broken.yml", "name: [\n")
    write("README.md", "no profile")
    write("one.yml", "name: one\nsummary: Hidden by the first path\n", "later")
    folder = write("two.yaml", "name: two\nsummary: >-\n  Second,\n  folded\n")
    paths = [folder, str(folder) + "/../later", "/does/not/exist"]
    assert [(item.name, item.summary) for item in profiles(paths)] == [
        ("broken", ""), ("one", "First"), ("two", "Second, folded")]
    assert render_all(load("", paths, LEVERS)[1]) == (
        "tuning_profile: no profile is named (wanted the name of a profile). There are:\n"
        "  broken: (cannot be read)\n  one: First\n  two: Second, folded")


@pytest.mark.parametrize("name", ["throughputt", "../profiles/p", "p.yml", "P", "/etc/passwd"])
def test_unknown_profiles(write, name):
    folder = write("throughput.yml", "name: throughput\nsummary: s\n" + EXPECT)
    write("p.yml", FIRST)
    resolved, problems = resolve(name, [folder], FACTS, LEVERS)
    assert resolved is None
    assert render_all(problems).startswith("tuning_profile: there is no profile %s. " % name)


def test_no_profiles_at_all(tmp_path):
    assert render_all(load("p", [str(tmp_path)], LEVERS)[1]) == (
        "tuning_profile: there is no profile p. No profile (a file NAME.yml) lies in %s" % tmp_path)
    assert "lies in any search path" in render_all(load("", [], LEVERS)[1])


def test_a_profile_that_cannot_be_read(write, tmp_path):
    folder = write("p.yml", FIRST)
    (tmp_path / "profiles" / "d.yml").mkdir()
    assert "d.yml: the file cannot be read (found Is a directory)" in render_all(load("d", [folder], LEVERS)[1])


def test_without_a_host_expressions_are_read_and_not_evaluated(write):
    folder = write("p.yml", "name: p\nsummary: s\nlevers: {slapd.threads: {value: {expr: 1 // 0}, why: w}}\n" + EXPECT)
    static, problems = load("p", [folder], LEVERS)
    assert problems == []
    assert static.levers["slapd.threads"].expr == "1 // 0"


@pytest.mark.parametrize("values, needed", [
    ({}, []),
    ({"slapd.tool_threads": 2}, []),
    ({"slapd.log_level": 32768}, ["security"]),
    ({"database.env_flags": ["nordahead"]}, []),
    ({"database.env_flags": []}, []),
    ({"database.env_flags": ["nordahead", "nosync"]}, ["durability"]),
    ({"database.env_flags": None}, ["durability"]),
    ({"slapd.listener_threads": 2}, ["availability", "restart"]),
    ({"slapd.threads": None, "slapd.log_level": 0}, ["availability", "security"]),
    ({"cpu.workers": [0]}, []),
])
def test_consents(values, needed):
    assert consents(values, LEVERS) == needed


def test_consents_of_the_throughput_profile(checkout):
    static, _ = load("throughput", [str(checkout / "tuning_profiles")], LEVERS)
    assert consents({key: lever.normal for key, lever in static.levers.items()}, LEVERS) == ["availability", "security"]
