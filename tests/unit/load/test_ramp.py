# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The procedure of a ramp on made-up servers: what it finds, how often it errs, when it stops."""

from __future__ import annotations

import random

import pytest
from ldaptune.load import usl
from ldaptune.load.ramp import Ask, Point, Ramp, Rules, counts

SIGMA, PEAK = 0.07, 64
KAPPA = (1 - SIGMA) / PEAK**2


def contended(clients):
    """A server whose best is at 64 clients."""
    return usl.curve(clients, 1000, SIGMA, KAPPA)


def saturated(clients):
    """A server that is full at 16 clients and stays so."""
    return 1000 * min(clients, 16)


def climb(server, noise=0.0, seed=0, limit=512, **rules):
    """Run a ramp; `server` returns a rate, or a Point."""
    drawn = random.Random(seed)
    ramp = Ramp(Rules(limit, seed=str(seed), **rules))
    asked = []
    for ask in ramp.asks():
        asked.append(ask)
        found = server(ask.clients)
        if not isinstance(found, Point):
            found = Point(ask.clients, found * max(0.1, drawn.gauss(1, noise)))
        ramp.add(ask, found)
    return ramp, asked


# USL


@pytest.mark.parametrize(("sigma", "kappa"), [(0.07, KAPPA), (0.0, 0.0002), (0.3, 1e-6), (0.02, 0.01)])
def test_a_curve_without_noise_is_found_again(sigma, kappa):
    found = usl.fit([(n, usl.curve(n, 5000, sigma, kappa)) for n in counts(128)])
    assert found.rate == pytest.approx(5000)
    assert found.sigma == pytest.approx(sigma, abs=1e-6)
    assert found.kappa == pytest.approx(kappa, rel=1e-3)
    assert found.peak == pytest.approx(((1 - sigma) / kappa) ** 0.5, rel=1e-3)
    assert found.at(7) == pytest.approx(usl.curve(7, 5000, sigma, kappa))


@pytest.mark.parametrize("curve", [lambda n: 1000 * n, lambda n: usl.curve(n, 1000, 0.2, -1e-5), lambda n: 900 + n])
def test_a_curve_that_does_not_fall_has_no_peak(curve):
    assert usl.fit([(n, curve(n)) for n in counts(64)]).peak is None


def test_too_little_for_a_fit():
    points = [(n, contended(n)) for n in counts(12)]
    assert len(points) == 5
    assert usl.fit(points) is None
    assert usl.fit(points + points) is None
    assert usl.fit([*points, (16, 0.0)]) is None
    assert usl.fit([*points, (16, contended(16))]) is not None


# The way up


def test_counts():
    assert counts(128) == [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128]
    assert counts(40) == [1, 2, 4, 8, 12, 16, 24, 32, 40]
    assert [counts(limit) for limit in (1, 2, 3, 8, 9, 12)] == [
        [1],
        [1, 2],
        [1, 2, 3],
        [1, 2, 4, 8],
        [1, 2, 4, 8, 9],
        [1, 2, 4, 8, 12],
    ]


def flat(clients, **more):
    return Point(clients, 1000.0 * clients, **more)


@pytest.mark.parametrize(
    ("broken", "rules", "by", "said"),
    [
        ({"error_percent": 0.11}, {}, "errors", "0.11 %"),
        ({"error_percent": None}, {}, "errors", "no operation"),
        ({"lost": 1}, {}, "connections", "1 of 12 connections"),
        ({"failed": "cannot connect"}, {}, "failed", "cannot connect"),
        ({"p99_ns": 6e6}, {"p99_ns": 5e6}, "p99", "p99 was 6 ms"),
        ({"p99_ns": None, "at_least_ns": 6e6}, {"p99_ns": 5e6}, "p99", "p90 was 6 ms"),
    ],
)
def test_what_ends_it_at_once(broken, rules, by, said):
    ramp, asked = climb(lambda n: flat(n, **(broken if n == 12 else {})), **rules)
    assert [ask.clients for ask in asked if ask.kind == "step"] == [1, 2, 4, 8, 12]
    report = ramp.report()
    assert (report["stopped_by"], report["stopped_at"]) == (by, 12)
    assert said in report["stopped_why"]
    # the count that broke the rule is no candidate, however high its figure
    assert [row["clients"] for row in report["candidates"]] == [4, 8]
    assert (report["peak"]["clients"], report["shape"]) == (8, "cut")


@pytest.mark.parametrize(
    ("fine", "rules"),
    [
        ({"error_percent": 0.1}, {}),
        ({"p99_ns": 5e6}, {"p99_ns": 5e6}),
        ({"p99_ns": 4e6, "at_least_ns": 6e6}, {"p99_ns": 5e6}),
        ({"p99_ns": None, "at_least_ns": None}, {"p99_ns": 5e6}),
        ({"p99_ns": 6e6}, {}),
    ],
)
def test_what_does_not_end_it(fine, rules):
    ramp, _ = climb(lambda n: flat(n, **fine), limit=64, **rules)
    assert ramp.report()["stopped_by"] == "limit"


@pytest.mark.parametrize(
    ("rates", "at"),
    [
        ([100, 200, 203, 203, 900], 8),  # twice below 204
        ([100, 200, 203, 208, 900, 901, 902, 903], 24),  # a gain of 2 % on the best before
        ([100, 200, 150, 190, 900], 8),
        ([100, 200, 150, 204, 203, 205, 900], 16),
    ],
)
def test_two_steps_in_a_row_without_a_gain_end_it(rates, at):
    given = dict(zip(counts(512), rates))
    ramp, asked = climb(lambda n: given.get(n, 1))
    assert (ramp.report()["stopped_by"], ramp.report()["stopped_at"]) == ("no gain", at)


def test_candidates_are_the_highest_its_neighbours_the_fits_and_the_last():
    ramp, _ = climb(contended)
    assert [row["clients"] for row in ramp.report()["candidates"]] == [48, 64, 96, 128] or [
        row["clients"] for row in ramp.report()["candidates"]
    ] == [48, 64, 96]
    assert round(ramp.fit.peak) == 64
    # the highest by chance is far off; the fit still proposes
    ramp, _ = climb(lambda n: contended(n) * (1.6 if n == 24 else 1))
    found = {row["clients"] for row in ramp.report()["candidates"]}
    assert {16, 24, 32} <= found
    assert any(40 < clients < 90 for clients in found)


def test_no_candidate_lies_beyond_the_limit_or_beyond_what_broke_a_rule():
    ramp, _ = climb(contended, limit=40)
    assert max(row["clients"] for row in ramp.report()["candidates"]) == 40
    ramp, _ = climb(lambda n: Point(n, contended(n), error_percent=5.0 if n >= 32 else 0.0))
    assert max(row["clients"] for row in ramp.report()["candidates"]) == 24


def test_candidates_are_measured_three_times_in_an_order_of_the_seed():
    orders = []
    for seed in (1, 1, 2, 3):
        _, asked = climb(contended, seed=seed)
        again = [ask.clients for ask in asked if ask.kind == "again"]
        assert all(again.count(clients) == 3 for clients in again)
        third = len(again) // 3
        assert sorted(again[:third]) == sorted(again[third : 2 * third])
        orders.append(tuple(again))
    assert orders[0] == orders[1]
    assert len(set(orders)) > 1


# What is found


def test_the_record_of_2007():
    """A peak at 24 clients, then falling."""
    rates = {1: 2300, 2: 4500, 4: 8600, 8: 15000, 12: 18800, 16: 20900, 24: 22000, 32: 21300, 48: 19800}
    report = climb(lambda n: rates.get(n) or 21000, noise=0.003, seed=5)[0].report()
    assert report["peak"]["clients"] == 24
    assert (report["decline"]["clients"], report["shape"], report["stopped_at"]) == (48, "peak", 48)
    assert report["decline"]["percent"] == pytest.approx(10, abs=1.5)
    assert report["knee"]["clients"] in (24, 20, 21, 22)


def test_knee_and_peak_are_told_apart():
    rates = {1: 30, 2: 60, 4: 80, 8: 98.5, 12: 100, 16: 101}
    report = climb(lambda n: rates.get(n, 1))[0].report()
    assert (report["peak"]["clients"], report["knee"]["clients"]) == (12, 8) or (
        report["peak"]["clients"],
        report["knee"]["clients"],
    ) == (16, 12)


def test_plateau_and_rising():
    report = climb(saturated)[0].report()
    assert (report["shape"], report["decline"], report["knee"]["clients"]) == ("plateau", None, 16)
    report = climb(lambda n: 1000 * n, limit=64)[0].report()
    assert (report["shape"], report["peak"]["clients"], report["stopped_by"]) == ("rising", 64, "limit")
    assert climb(lambda n: 1000 * n, limit=1)[0].report()["shape"] == "rising"


def test_the_peaks_value_is_the_one_measured_again():
    seen = []

    def lucky(clients):
        seen.append(clients)
        return saturated(clients) * (1.5 if clients == 16 and seen.count(16) == 1 else 1)

    assert climb(lucky)[0].report()["peak"]["goodput"] == 16000


def test_a_candidate_that_breaks_a_rule_twice_of_three_is_no_peak():
    seen = []

    def shaky(clients, bad):
        seen.append(clients)
        again = seen.count(clients) - 1
        return Point(
            clients, saturated(clients) + clients, error_percent=1.0 if clients == 24 and 1 <= again <= bad else 0.0
        )

    report = climb(lambda n: shaky(n, 2))[0].report()
    assert report["peak"]["clients"] != 24
    assert [row["usable"] for row in report["candidates"] if row["clients"] == 24] == [False]
    seen.clear()
    report = climb(lambda n: shaky(n, 1))[0].report()
    assert [row["usable"] for row in report["candidates"] if row["clients"] == 24] == [True]


def test_what_was_cut_short_has_no_peak():
    ramp = Ramp(Rules(64))
    asks = ramp.asks()
    assert ramp.report()["shape"] == "undetermined"
    for _ in range(10):
        ask = next(asks)
        ramp.add(ask, Point(ask.clients, contended(ask.clients)))
    report = ramp.report()
    assert (report["complete"], report["peak"], report["knee"], report["decline"]) == (False, None, None, None)


def test_nothing_worked():
    report = climb(lambda n: Point(n, 0.0, None))[0].report()
    assert (report["candidates"], report["peak"], report["stopped_at"]) == ([], None, 1)


@pytest.mark.parametrize(
    ("limited", "since"),
    [
        (lambda n, kind: n >= 12, 12),
        (lambda n, kind: 12 <= n <= 24, 12),
        (lambda n, kind: n == 2, None),  # once, and its neighbour does not agree
        (lambda n, kind: n == 16 and kind == "step", None),  # once of four
        (lambda n, kind: n == 16 and kind == "again", 16),
        (lambda n, kind: n == 32, 32),
        (lambda n, kind: False, None),
    ],
)
def test_from_where_on_the_generator_was_the_limit(limited, since):
    ramp = Ramp(Rules(64))
    for ask in ramp.asks():
        ramp.add(ask, Point(ask.clients, saturated(ask.clients), limited=limited(ask.clients, ask.kind)))
    assert ramp.report()["generator_limited_from"] == since


def test_the_fit_leaves_out_what_the_generator_held_down():
    ramp = Ramp(Rules(128))
    for ask in ramp.asks():
        held = ask.clients > 48
        ramp.add(ask, Point(ask.clients, contended(48) * 0.7 if held else contended(ask.clients), limited=held))
    assert ramp.fit.peak == pytest.approx(64, rel=0.01)


# How often it errs, by simulation


@pytest.mark.parametrize(
    ("noise", "first", "highest", "proposed", "found"),
    [(0.03, (5, 25), (0, 6), 1, 1), (0.05, (25, 50), (4, 16), 4, 4), (0.08, (50, 80), (16, 33), 12, 14)],
)
def test_the_procedure_loses_less_than_the_simple_ones(noise, first, highest, proposed, found):
    """Per cent of runs that end more than 5 % below the true peak at 64 clients.

    The curve of the table in the method is not given beyond its peak; this sigma comes nearest to its middle row.
    """
    runs = 250
    lost = dict.fromkeys(("first", "highest", "proposed", "found"), 0)

    def miss(name, clients):
        lost[name] += contended(clients) < 0.95 * contended(PEAK)

    for seed in range(runs):
        ramp, _ = climb(contended, noise, seed)
        before = ramp.steps[0]
        for point in ramp.steps[1:]:
            if point.goodput < before.goodput:
                break
            before = point
        miss("first", before.clients)
        miss("highest", max(ramp.steps, key=lambda point: point.goodput).clients)
        miss("proposed", ramp.fit.peak if ramp.fit and ramp.fit.peak else 1)
        miss("found", ramp.report()["peak"]["clients"])
    share = {name: 100 * times / runs for name, times in lost.items()}
    assert first[0] <= share["first"] <= first[1], share
    assert highest[0] <= share["highest"] <= highest[1], share
    assert share["proposed"] <= proposed, share
    assert share["found"] <= found, share
    assert share["found"] <= share["highest"] <= share["first"], share


@pytest.mark.parametrize(("noise", "most"), [(0.01, 3), (0.03, 8), (0.08, 12)])
def test_a_plateau_is_seldom_called_a_decline(noise, most):
    runs = 250
    found = [climb(saturated, noise, seed)[0].report()["decline"] for seed in range(runs)]
    assert 100 * sum(item is not None for item in found) / runs <= most


def test_a_decline_of_a_tenth_is_said():
    rates = {1: 30, 2: 55, 4: 80, 8: 95, 12: 100, 16: 97, 24: 90}
    found = [climb(lambda n: rates.get(n, 97), 0.015, seed)[0].report()["decline"] for seed in range(100)]
    assert sum(item is not None for item in found) >= 85


def test_an_ask_is_plain():
    assert next(Ramp(Rules(4)).asks()) == Ask("step", 1)
