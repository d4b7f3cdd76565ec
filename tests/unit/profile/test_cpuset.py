# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU sets: text that fits every host, numbers for one."""

from __future__ import annotations

import pytest
from ldaptune.profile.cpuset import CpuSet, ranges
from ldaptune.profile.values import ValueRefused

EIGHT = list(range(8))


@pytest.mark.parametrize("raw, text", [
    (0, "0"), ("0", "0"), ("3,2, 0", "0,2-3"), ([0, 2, 3], "0,2-3"), (["0-1", 2], "0-2"), ("1-last", "1-last"),
    ("last", "last"), ("last-last", "last"), ("01", "1"), ("0,4-last", "0,4-last"), ("all", "all"), ("rest", "rest"),
])
def test_canonical(raw, text):
    assert CpuSet().parse(raw) == text
    assert CpuSet().parse(text) == text


@pytest.mark.parametrize("raw", [
    True, None, -1, 1.5, "", "a", "1-", "-1", "3-1", "last-3", "all,0", "rest,1", "0;1", [], [True], {}, "0-99999999",
])
def test_refused(raw):
    with pytest.raises(ValueRefused):
        CpuSet().parse(raw)


@pytest.mark.parametrize("text, online, others, cpus", [
    ("all", EIGHT, {}, EIGHT),
    ("0", EIGHT, {}, [0]),
    ("last", EIGHT, {}, [7]),
    ("0-0", [0], {}, [0]),
    ("1-last", EIGHT, {}, [1, 2, 3, 4, 5, 6, 7]),
    ("1-last", [0, 1, 5], {}, [1, 5]),
    ("0,2-3", EIGHT, {}, [0, 2, 3]),
    ("rest", EIGHT, {"cpu.listener": [0, 1]}, [2, 3, 4, 5, 6, 7]),
    ("rest", EIGHT, {}, EIGHT),
])
def test_resolve(text, online, others, cpus):
    assert CpuSet().resolve(text, online, others) == cpus


@pytest.mark.parametrize("text, online, others, found", [
    ("8", EIGHT, {}, "8 (CPU 8)"),
    ("6-9", EIGHT, {}, "6-9 (CPU 8-9)"),
    ("0-2", [0, 2], {}, "0-2 (CPU 1)"),
    ("1-last", [0], {}, "1-last (CPU 1)"),
    ("rest", [0], {"cpu.listener": [0]}, "rest, but cpu.listener already takes all CPUs"),
])
def test_not_on_this_host(text, online, others, found):
    with pytest.raises(ValueRefused) as refused:
        CpuSet().resolve(text, online, others)
    assert refused.value.found == found
    assert refused.value.wanted == "CPUs that are online here: %s" % ranges(online)


def test_shown_as_ranges():
    assert CpuSet().show([3, 0, 2]) == "0,2-3"
    assert CpuSet().equal([0, 1], "0-1")
    assert CpuSet().show(None) == "absent"
