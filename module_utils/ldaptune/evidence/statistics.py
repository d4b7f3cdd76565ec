# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paired statistics of legs: Hodges-Lehmann estimate, exact signed-rank interval, Wilson bounds, power.

All differences are natural logarithms of ratios: ln 1.03 is three per cent more. Pure functions, no randomness.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist, median
from typing import List, Sequence, Tuple

Interval = Tuple[float, float]

# A normal sample's standard deviation over its median absolute deviation.
MAD_TO_SD = 1.4826


def percent(log_ratio: float) -> float:
    """Return a log ratio as a change in per cent: ln 1.03 is 3."""
    return 100.0 * math.expm1(log_ratio)


def log_ratio(percent_change: float) -> float:
    """Return a change in per cent as a log ratio; the change must be above -100."""
    return math.log1p(percent_change / 100.0)


def walsh_averages(differences: Sequence[float]) -> List[float]:
    """Return the n(n+1)/2 averages of every pair (each with itself too), sorted."""
    n = len(differences)
    return sorted((differences[i] + differences[j]) / 2.0 for i in range(n) for j in range(i, n))


@lru_cache(maxsize=None)
def signed_rank_index(n: int, alpha: float) -> int:
    """Return k, the number of signed-rank sums s with P(W <= s) <= alpha/2; 0 when n is too small for alpha.

    The null distribution is counted exactly: each rank is in the sum or not, 2**n ways in all.
    """
    ways = [1]
    for rank in range(1, n + 1):
        grown = ways + [0] * rank
        for total, count in enumerate(ways):
            grown[total + rank] += count
        ways = grown
    allowed, below, k = alpha / 2.0 * 2**n, 0, 0
    for count in ways:
        below += count
        if below > allowed:
            break
        k += 1
    return k


def hodges_lehmann(differences: Sequence[float]) -> float:
    """Return the median of the Walsh averages; needs at least one difference."""
    return float(median(walsh_averages(differences)))


def signed_rank_interval(differences: Sequence[float], alpha: float) -> Interval | None:
    """Return the exact two-sided interval at level 1 - alpha, or None when there are too few pairs for that level."""
    k = signed_rank_index(len(differences), alpha)
    if k == 0:
        return None
    averages = walsh_averages(differences)
    return averages[k - 1], averages[-k]


def wilson(errors: int, operations: int, z: float = 1.96) -> Interval:
    """Return the Wilson bounds of an error share (0 to 1); (0, 1) when nothing was counted."""
    if operations <= 0:
        return 0.0, 1.0
    share, z2 = errors / operations, z * z
    middle = share + z2 / (2 * operations)
    spread = z * math.sqrt(share * (1 - share) / operations + z2 / (4.0 * operations * operations))
    scale = 1 + z2 / operations
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def pair_noise(differences: Sequence[float]) -> float:
    """Return the spread of the pair differences, s = 1.4826 * MAD; 0 when there are none."""
    if not differences:
        return 0.0
    centre = median(differences)
    return MAD_TO_SD * float(median(abs(value - centre) for value in differences))


def t_quantile(share: float, freedom: int) -> float:
    """Return Student's t quantile by the Cornish-Fisher expansion (three terms; within 0.5 % from 7 degrees on)."""
    z, v = NormalDist().inv_cdf(share), float(freedom)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / v + second / v**2 + third / v**3


def resolvable(noise: float, pairs: int, alpha: float, power: float = 0.8) -> float:
    """Return the smallest log ratio that this many pairs show with the given power."""
    reach = t_quantile(1 - alpha / 2, pairs - 1) + NormalDist().inv_cdf(power)
    return reach * noise / math.sqrt(pairs)


def pairs_needed(noise: float, effect: float, alpha: float, power: float = 0.8, limit: int = 20000) -> int | None:
    """Return how many pairs (even, at least 8) show the log ratio `effect`; None beyond `limit`."""
    for pairs in range(8, limit + 1, 2):
        if resolvable(noise, pairs, alpha, power) <= effect:
            return pairs
    return None
