# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The histogram: exact where it says so, within 0.4 % elsewhere."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st
from ldaptune.load.histogram import Histogram, index_of, middle_of

TIMES = st.lists(st.integers(1, 10**12), min_size=1, max_size=300)


def of(values):
    made = Histogram()
    made.add(list(values))
    return made


@given(st.integers(1, 10**13))
def test_the_middle_of_a_bucket_is_within_four_thousandths(value):
    assert abs(middle_of(index_of(value)) - value) <= 0.004 * value


@given(TIMES)
def test_adding_a_list_and_one_value_agree(values):
    made = of(values)
    wanted = {}
    for value in values:
        wanted[index_of(value)] = wanted.get(index_of(value), 0) + 1
    assert made.counts == wanted


@given(TIMES)
def test_percentiles_are_in_order(values):
    made = of(values)
    found = [made.quantile(share) for share in (0, 0.5, 0.9, 0.99, 0.999, 1)]
    assert [min(values), *found, max(values)] == sorted([min(values), *found, max(values)])
    assert (made.minimum, made.maximum, made.count, made.total) == (
        min(values),
        max(values),
        len(values),
        sum(values),
    )


@given(TIMES, st.floats(0.01, 1))
def test_percentiles_are_those_of_the_sorted_list(values, share):
    rank = max(1, math.ceil(share * len(values) - 1e-9))
    true = sorted(values)[rank - 1]
    assert abs(of(values).quantile(share) - true) <= 0.0041 * true + 1


@given(TIMES, TIMES)
def test_merging_is_adding(first, second):
    merged = of(first)
    merged.merge(of(second))
    assert merged.state() == of(first + second).state()
    copied = Histogram.from_state(json.loads(json.dumps(merged.state())))
    assert copied.state() == merged.state()
    assert copied.count == len(first) + len(second)


def test_one_value_is_all_percentiles():
    made = of([575000000])
    assert {made.quantile(share) for share in (0.5, 0.9, 0.99)} == {575000000}


def test_two_values_keep_their_extremes():
    found = of([1200000, 1239000000])
    assert (found.minimum, found.maximum) == (1200000, 1239000000)
    assert abs(found.quantile(0.5) - 1200000) <= 4800


def test_empty():
    assert set(Histogram().summary().values()) == {0, None}
    made = Histogram()
    made.merge(of([5]))
    made.merge(Histogram())
    assert (made.count, made.minimum, made.maximum) == (1, 5, 5)


def test_percentiles_need_a_hundred_samples_beyond_them():
    found = of(range(1, 1001)).summary()
    assert found["p90"] is not None
    assert found["p99"] is None
    found = of(range(1, 10001)).summary()
    assert found["p99"] is not None
    assert found["p999"] is None
