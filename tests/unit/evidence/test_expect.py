# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expectations: defaults, refusals."""

import pytest
from ldaptune.evidence.expect import normal_expect, wants_p99
from ldaptune.problems import LdaptuneError


def test_defaults():
    assert normal_expect(None) == {
        "goal": "goodput",
        "require": "improved",
        "min_effect_percent": 3,
        "max_p99_increase_percent": 20,
        "max_error_percent": 0.1,
    }


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"goals": "p99"}, "goals"),
        ({"goal": "speed"}, "expect.goal"),
        ({"require": "better"}, "expect.require"),
        ({"min_effect_percent": 0}, "above 0"),
        ({"min_effect_percent": 100}, "below 100"),
        ({"min_effect_percent": None}, "not a number"),
        ({"min_effect_percent": True}, "not a number"),
        ({"max_error_percent": "0.1"}, "not a number"),
        ({"max_error_percent": -1}, "at least 0"),
        ({"max_p99_increase_percent": float("nan")}, "not a number"),
    ],
)
def test_refused(raw, text):
    with pytest.raises(LdaptuneError, match=text):
        normal_expect(raw)


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ({}, True),
        ({"max_p99_increase_percent": None}, False),
        ({"goal": "p99", "max_p99_increase_percent": None}, True),
    ],
)
def test_wants_p99(raw, wanted):
    assert wants_p99(normal_expect(raw)) is wanted
