# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Universal Scalability Law through measured points: X(N) = lambda N / (1 + sigma (N-1) + kappa N (N-1)).

Turned over it is linear in its coefficients, N/X = a + b(N-1) + cN(N-1), so weighted least squares are enough. A rate's
error is a share of the rate, so the weights are (X/N) squared. The fit proposes where to look; it proves nothing.
"""

from __future__ import annotations

import math
from typing import List, NamedTuple, Sequence, Tuple

FEWEST = 6
ROUNDING = 1e-9


class Fit(NamedTuple):
    """What one client alone gets, the cost of waiting, that of agreeing, and where the curve is highest, if it is."""

    rate: float
    sigma: float
    kappa: float
    peak: float | None

    def at(self, clients: float) -> float:
        """Return the rate that the curve has for so many clients."""
        return curve(clients, self.rate, self.sigma, self.kappa)


def curve(clients: float, rate: float, sigma: float, kappa: float) -> float:
    """Return X(N)."""
    return rate * clients / (1 + sigma * (clients - 1) + kappa * clients * (clients - 1))


def fit(points: Sequence[Tuple[int, float]]) -> Fit | None:
    """Fit (clients, rate) pairs; None with fewer than six different counts, or where the best curve makes no sense."""
    usable = [(clients, rate) for clients, rate in points if clients > 0 and rate > 0]
    if len({clients for clients, _ in usable}) < FEWEST:
        return None
    # each row by its own N/X: that is what the weights come to, and the right side becomes 1
    rows = [[rate / n, (n - 1) * rate / n, (n - 1) * rate] for n, rate in usable]
    found = _least_squares(rows)
    if found is None or found[0] <= 0:
        return None
    a, b, c = found
    sigma, kappa = b / a, c / a
    bends = kappa * max(clients for clients, _ in usable) ** 2 > ROUNDING
    peak = math.sqrt((1 - sigma) / kappa) if bends and sigma < 1 else None
    return Fit(1 / a, sigma, kappa, peak)


def _least_squares(rows: List[List[float]]) -> List[float] | None:
    """Return the x for which rows x is nearest to all ones: columns made orthogonal, twice, then solved backwards."""
    columns = [list(column) for column in zip(*rows)]
    size = len(columns)
    upper = [[0.0] * size for _ in range(size)]
    for j in range(size):
        first = math.sqrt(_dot(columns[j], columns[j]))
        for _ in range(2):
            for i in range(j):
                part = _dot(columns[i], columns[j])
                upper[i][j] += part
                columns[j] = [value - part * other for value, other in zip(columns[j], columns[i])]
        upper[j][j] = math.sqrt(_dot(columns[j], columns[j]))
        if upper[j][j] <= 1e-12 * first:
            return None
        columns[j] = [value / upper[j][j] for value in columns[j]]
    found = [0.0] * size
    for i in reversed(range(size)):
        rest = sum(upper[i][j] * found[j] for j in range(i + 1, size))
        found[i] = (sum(columns[i]) - rest) / upper[i][i]
    return found


def _dot(left: List[float], right: List[float]) -> float:
    return sum(a * b for a, b in zip(left, right))
