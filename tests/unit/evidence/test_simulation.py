# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often the whole procedure is right on simulated hosts: schedules, pairs, looks, decision, as they are used.

Every rate comes from a seed, so a failure is a change of the procedure and never bad luck.
"""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

noise = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("noise.py"))))


def rates(*what, **how):
    words, minutes = noise.simulate(*what, **how)
    return SimpleNamespace(minutes=minutes, shown=words["improved"] + words["regressed"], **words)


@pytest.mark.parametrize(("restart", "runs"), [(False, 1000), (True, 500)])
def test_nothing_changed_is_called_equivalent(restart, runs):
    found = rates("typical", "standard", restart, 0, runs)
    assert found.improved <= 1.5
    assert found.shown <= 5
    assert found.equivalent >= 88


@pytest.mark.parametrize(("restart", "runs", "minutes"), [(False, 500, 8), (True, 300, 22)])
def test_five_percent_more_is_found(restart, runs, minutes):
    found = rates("typical", "standard", restart, 5, runs)
    assert found.improved >= 98
    assert found.minutes <= minutes


@pytest.mark.parametrize("restart", [False, True])
def test_five_percent_less_is_never_called_improved(restart):
    found = rates("typical", "standard", restart, -5, 500)
    assert found.improved <= 0.2
    assert found.regressed >= 98


@pytest.mark.parametrize(("restart", "runs"), [(False, 600), (True, 400)])
def test_ten_percent_more_is_found_on_a_noisy_host(restart, runs):
    assert rates("noisy", "standard", restart, 10, runs).improved >= 96


# A tenth less for 12 of every 80 seconds, the length of a block of 20-second legs.
IN_STEP = {"disturbance": (80.0, 12.0, -0.105), "skip": 4.0}


def test_a_disturbance_in_step_with_the_blocks_is_no_finding():
    assert rates("quiet", "standard", False, 0, 800, **IN_STEP).shown <= 7


def test_the_same_disturbance_fools_blocks_of_one_order():
    assert rates("quiet", "standard", False, 0, 200, order="ABBA", **IN_STEP).shown >= 40


@pytest.mark.parametrize("host", ["quiet", "typical", "noisy"])
@pytest.mark.parametrize("restart", [False, True])
def test_one_look_after_short_legs_keeps_its_five_percent(host, restart):
    found = rates(host, "quick", restart, 0, 800)
    assert found.shown <= 5
    assert found.improved <= 3.5


@pytest.mark.parametrize("host", ["quiet", "typical", "noisy"])
def test_short_legs_find_a_large_gain(host):
    assert rates(host, "quick", False, 50, 200).improved >= 99


def test_a_minute_before_and_a_minute_after_is_no_method():
    assert 8 <= noise.before_and_after("typical", 500) <= 20
