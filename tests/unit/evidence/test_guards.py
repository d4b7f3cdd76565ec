# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guards: p99 at one offered rate, errors."""

import math
import random

import pytest
from ldaptune.evidence.expect import normal_expect
from ldaptune.evidence.guards import errors_guard, p99_guard


def pairs(changes, carried=(1.0, 1.0)):
    """Pairs with these changes of ln p99."""
    made = []
    for at, change in enumerate(changes):
        found = {"index": 2 * at, "p99_ns": 1e6, "achieved": carried[0]}
        made.append((found, {"index": 2 * at + 1, "p99_ns": 1e6 * math.exp(change), "achieved": carried[1]}))
    return made


def spread(centre, width=0.02, count=8):
    return [centre + width * (at - (count - 1) / 2) / count for at in range(count)]


def with_errors(found, profile, operations=10000, count=8):
    leg = {"operations": operations}
    return [({**leg, "errors": found}, {**leg, "errors": profile}) for _ in range(count)]


@pytest.mark.parametrize(
    ("changes", "allowed", "verdict"),
    [
        (spread(0.0), 20, "safe"),
        (spread(-0.5), 20, "safe"),
        (spread(math.log(1.08)), 20, "safe"),  # shown to be higher, but by less than half of what is allowed
        (spread(math.log(1.12)), 20, "harm"),
        (spread(math.log(1.12)), 50, "safe"),
        (spread(math.log(1.04)), 5, "harm"),
        (spread(math.log(1.30), width=1.5), 20, "unproven"),  # far above, but not shown
        (spread(0.0, width=1.0), 20, "unproven"),
        (spread(0.0, width=0.1), 2, "unproven"),
    ],
)
def test_p99(changes, allowed, verdict):
    guard = p99_guard(pairs(changes), normal_expect({"max_p99_increase_percent": allowed}))
    assert guard["verdict"] == verdict
    assert guard["low_percent"] <= guard["effect_percent"] <= guard["high_percent"]
    assert guard["as_found_ns"] == 1e6


def test_p99_is_claimed_by_nobody_who_did_not_ask():
    guard = p99_guard(pairs(spread(1.0)), normal_expect({"max_p99_increase_percent": None}))
    assert (guard["verdict"], guard["effect_percent"]) == ("not_claimed", None)
    assert p99_guard(pairs(spread(1.0)), normal_expect({"goal": "p99"}))["verdict"] == "not_claimed"


def test_p99_with_too_few_answers_is_not_claimed():
    made = pairs(spread(0.0))
    made[2][0]["p99_ns"] = None
    guard = p99_guard(made, normal_expect({}))
    assert guard["verdict"] == "not_claimed"
    assert guard["text"] == "too few answers at the fixed rate for a p99 in leg 5"


def test_p99_of_a_generator_that_was_late_itself_is_said_to_be_that():
    made = pairs(spread(0.0))
    made[2][0].update(p99_ns=None, own_latency="process 1 of 1 sent late")
    guard = p99_guard(made, normal_expect({}))
    assert guard["verdict"] == "not_claimed"
    assert guard["text"] == "the generator itself was late at the fixed rate in leg 5"


def test_p99_missing_with_the_profile_alone_is_not_waved_through():
    made = pairs(spread(0.0))
    made[2][1]["p99_ns"] = None
    assert p99_guard(made, normal_expect({}))["verdict"] == "unproven"


def test_a_rate_that_only_as_found_carries_is_harm():
    made = pairs(spread(0.0), carried=(1.0, 0.9))
    for pair in made:
        pair[1]["p99_ns"] = None
    guard = p99_guard(made, normal_expect({}))
    assert guard["verdict"] == "harm"
    assert "did not carry" in guard["text"]


def test_a_rate_that_as_found_does_not_carry_proves_nothing():
    guard = p99_guard(pairs(spread(0.0), carried=(0.9, 0.9)), normal_expect({}))
    assert guard["verdict"] == "unproven"
    assert "fell behind" in guard["text"]


def test_too_few_pairs_for_p99():
    with pytest.raises(ValueError, match="4 pairs"):
        p99_guard(pairs([0.0] * 4), normal_expect({}))


@pytest.mark.parametrize(
    ("found", "profile", "limit", "verdict"),
    [
        (0, 0, 0.1, "safe"),
        (0, 5, 0.1, "safe"),
        (0, 9, 0.1, "harm"),  # below the limit, but apart by more than half of it
        (5, 11, 0.1, "harm"),  # above the limit, as found exactly half of it
        (6, 11, 0.1, "safe"),  # as found above half of it, and not apart
        (8, 40, 0.1, "harm"),  # apart by more than half the limit
        (0, 1, 0.0, "harm"),
        (20, 20, 1.0, "safe"),
    ],
)
def test_errors(found, profile, limit, verdict):
    guard = errors_guard(with_errors(found, profile), normal_expect({"max_error_percent": limit}))
    assert guard["verdict"] == verdict
    assert guard["profile_percent"] == pytest.approx(profile / 100)


def test_few_operations_above_the_limit_are_harm_though_the_bounds_overlap():
    made = with_errors(0, 2, operations=1000, count=1)
    assert errors_guard(made, normal_expect({}))["verdict"] == "harm"
    assert errors_guard(made, normal_expect({"max_error_percent": 0.2}))["verdict"] == "safe"


def test_errors_that_a_rank_test_would_let_pass():
    # All errors in one of eight legs: a rank test sees one pair in eight.
    made = with_errors(0, 0)
    made[3][1]["errors"] = 500
    assert errors_guard(made, normal_expect({}))["verdict"] == "harm"


@pytest.mark.parametrize(
    ("count", "change", "word", "least", "most"),
    [(16, 0, "safe", 98, 100), (16, 0, "harm", 0, 2), (16, 20, "harm", 96, 100), (16, 20, "safe", 0, 6.5)]
    + [(8, 0, "harm", 0, 4), (8, 20, "safe", 0, 6.5), (8, 0, "safe", 85, 100)],
)
def test_how_often_the_p99_guard_is_right(count, change, word, least, most):
    """Standard deviation of ln p99 of one leg 0.10."""
    draw, found, runs = random.Random(5), 0, 400
    for _ in range(runs):
        changes = [math.log1p(change / 100) + draw.gauss(0, 0.1) - draw.gauss(0, 0.1) for _ in range(count)]
        found += p99_guard(pairs(changes), normal_expect({}))["verdict"] == word
    assert least <= 100 * found / runs <= most
