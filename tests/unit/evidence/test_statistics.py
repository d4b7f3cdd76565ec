# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paired statistics against hand-counted values and against their own definitions."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldaptune.evidence.statistics import (
    hodges_lehmann,
    log_ratio,
    pair_noise,
    pairs_needed,
    percent,
    resolvable,
    signed_rank_index,
    signed_rank_interval,
    t_quantile,
    walsh_averages,
    wilson,
)

DIFFERENCES = st.lists(st.floats(-1, 1, allow_nan=False), min_size=8, max_size=16)


def test_percent_and_log_ratio_are_inverse():
    assert percent(math.log(1.03)) == pytest.approx(3)
    assert log_ratio(-50) == pytest.approx(-math.log(2))


def test_walsh_averages_take_each_with_itself():
    assert walsh_averages([0.0, 2.0, 4.0]) == [0, 1, 2, 2, 3, 4]


@pytest.mark.parametrize("n", range(1, 11))
@pytest.mark.parametrize("alpha", [0.0221, 0.0442, 0.05, 0.10, 0.5])
def test_signed_rank_index_counts_all_sign_patterns(n, alpha):
    sums = sorted(
        sum(rank for rank, taken in zip(range(1, n + 1), signs) if taken)
        for signs in itertools.product((0, 1), repeat=n)
    )
    possible = range(n * (n + 1) // 2 + 1)
    shares = [sum(1 for value in sums if value <= limit) / len(sums) for limit in possible]
    assert signed_rank_index(n, alpha) == sum(1 for share in shares if share <= alpha / 2)


@pytest.mark.parametrize(
    ("n", "alpha", "k"),
    # 8 pairs are the fewest for alpha 0.0221; 2/2**8 is the smallest two-sided p.
    [(7, 0.0221 / 2, 0), (8, 0.0221, 2), (8, 0.05, 4), (8, 0.10, 6), (16, 0.0221, 25), (24, 0.0221, 71), (0, 0.05, 0)],
)
def test_signed_rank_index_values(n, alpha, k):
    assert signed_rank_index(n, alpha) == k


def test_interval_needs_enough_pairs():
    assert signed_rank_interval([0.1] * 5, 0.05) is None
    assert signed_rank_interval([0.1] * 6, 0.05) == pytest.approx((0.1, 0.1))


def test_interval_by_hand():
    # Eight pairs at alpha 0.05: the fourth smallest and fourth largest of 36 averages.
    values = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08]
    assert hodges_lehmann(values) == pytest.approx(0.045)
    assert signed_rank_interval(values, 0.05) == pytest.approx((0.02, 0.07))


@given(DIFFERENCES, st.floats(-1, 1))
def test_a_shift_moves_estimate_and_interval_alike(values, shift):
    low, high = signed_rank_interval(values, 0.05)
    moved = [value + shift for value in values]
    assert hodges_lehmann(moved) == pytest.approx(hodges_lehmann(values) + shift, abs=1e-9)
    assert signed_rank_interval(moved, 0.05) == pytest.approx((low + shift, high + shift), abs=1e-9)


@given(DIFFERENCES)
def test_swapping_the_arms_mirrors_everything(values):
    low, high = signed_rank_interval(values, 0.05)
    mirrored = [-value for value in values]
    assert hodges_lehmann(mirrored) == pytest.approx(-hodges_lehmann(values), abs=1e-12)
    assert signed_rank_interval(mirrored, 0.05) == pytest.approx((-high, -low), abs=1e-12)


@given(DIFFERENCES)
def test_a_stricter_level_is_wider_and_holds_the_estimate(values):
    low, high = signed_rank_interval(values, 0.05)
    strict_low, strict_high = signed_rank_interval(values, 0.0221)
    assert strict_low <= low <= hodges_lehmann(values) <= high <= strict_high


@given(DIFFERENCES)
def test_order_does_not_matter(values):
    assert signed_rank_interval(values[::-1], 0.05) == signed_rank_interval(values, 0.05)


@pytest.mark.parametrize(
    ("errors", "operations", "low", "high"),
    [(0, 1000, 0, 0.00383), (10, 1000, 0.00544, 0.01831), (1000, 1000, 0.99617, 1), (0, 0, 0, 1)],
)
def test_wilson(errors, operations, low, high):
    assert wilson(errors, operations) == pytest.approx((low, high), abs=1e-5)


@given(st.integers(0, 1000), st.integers(1, 1000))
def test_wilson_holds_the_share(errors, more):
    low, high = wilson(errors, errors + more)
    assert 0 <= low <= errors / (errors + more) <= high <= 1


def test_pair_noise_is_not_moved_by_one_outlier():
    assert pair_noise([0.0, 0.01, -0.01, 0.02, -0.02]) == pytest.approx(0.014826)
    assert pair_noise([0.0, 0.01, -0.01, 0.02, -9.0]) == pytest.approx(0.014826)
    assert pair_noise([]) == 0


@pytest.mark.parametrize(("freedom", "value"), [(7, 2.3646), (15, 2.1314), (23, 2.0687), (100, 1.9840)])
def test_t_quantile(freedom, value):
    assert t_quantile(0.975, freedom) == pytest.approx(value, rel=0.003)


@pytest.mark.parametrize(
    ("noise", "effect", "pairs"), [(0.030, 2, 20), (0.045, 3, 20), (0.060, 3, 35), (0.120, 5, 50), (0.015, 10, 8)]
)
def test_pairs_needed_agree_with_the_published_table(noise, effect, pairs):
    assert abs(pairs_needed(noise, log_ratio(effect), 0.05) - pairs) <= 2


def test_pairs_needed_gives_up():
    assert pairs_needed(0.5, log_ratio(0.1), 0.05, limit=1000) is None


@given(st.floats(0.001, 0.2), st.integers(8, 60))
def test_more_pairs_resolve_less(noise, pairs):
    assert resolvable(noise, pairs + 2, 0.05) < resolvable(noise, pairs, 0.05)
