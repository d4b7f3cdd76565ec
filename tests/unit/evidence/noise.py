# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated hosts: how often the procedure is right when the truth is known (no test in here).

The logarithm of the rate, second by second, is a slow drift, a trend, fast correlated noise and random slow spells; a
restart adds one draw a leg. The schedules and the decision are the project's own. As a command it prints the table of
docs/measuring.md:

    PYTHONPATH=module_utils python tests/unit/evidence/noise.py [RUNS]
"""

from __future__ import annotations

import math
import random
import sys
from typing import NamedTuple

from ldaptune.evidence.schedule import make_schedule
from ldaptune.evidence.verdict import decide


class Host(NamedTuple):
    """Standard deviations are of ln(rate), times in seconds."""

    drift: float
    drift_time: float
    noise: float
    correlation: float  # of neighbouring seconds
    spells: float  # a second
    depth: tuple
    length: tuple
    restart: float
    trend: float  # in half an hour


HOSTS = {
    "quiet": Host(0.01, 300, 0.03, 0.3, 1 / 1800, (0.05, 0.15), (5, 10), 0.005, 0.005),
    "typical": Host(0.03, 600, 0.05, 0.5, 1 / 600, (0.05, 0.25), (5, 20), 0.010, 0.020),
    "noisy": Host(0.06, 300, 0.08, 0.6, 1 / 300, (0.10, 0.40), (10, 40), 0.020, 0.030),
}
# A long list of normal draws, entered at random: drawing each afresh takes most of the time.
_GAUSS = random.Random(20260101).gauss
POOL = [_GAUSS(0, 1) for _ in range(1 << 17)]
FLOOR = math.log(1.03)
RESTART_SECONDS = 5.0


class World:
    """One host through time: `leg(skip, seconds)` returns ln of the mean rate over the seconds after the skip."""

    def __init__(self, host, draw, disturbance=None):
        self.host, self.draw, self.disturbance = host, draw, disturbance
        self.now = 0.0
        self.at = int(draw() * (len(POOL) - 6000))
        self.slope = self._normal() * host.trend / 1800
        self.drift, self.fast = self._normal() * host.drift, self._normal() * host.noise
        self.phase = draw() * disturbance[0] if disturbance else 0.0
        self._next_spell()

    def _normal(self):
        self.at += 1
        return POOL[self.at]

    def _next_spell(self):
        host, draw = self.host, self.draw
        self.spell = self.now - math.log(1.0 - draw()) / host.spells
        self.spell_end = self.spell + host.length[0] + draw() * (host.length[1] - host.length[0])
        self.spell_depth = math.log1p(-(host.depth[0] + draw() * (host.depth[1] - host.depth[0])))

    def _step(self, seconds):
        """Move on; both processes are exact over any step."""
        host = self.host
        slow, fast = math.exp(-seconds / host.drift_time), host.correlation**seconds
        self.drift = slow * self.drift + host.drift * math.sqrt(1 - slow * slow) * self._normal()
        self.fast = fast * self.fast + host.noise * math.sqrt(1 - fast * fast) * self._normal()
        self.now += seconds
        while self.now > self.spell_end:
            self._next_spell()

    def leg(self, skip, seconds, restart=False):
        """Return the ln of the mean rate of one leg."""
        self._step(skip)
        total, left = 0.0, seconds
        while left > 0:
            part = min(1.0, left)
            self._step(part)
            left -= part
            log_rate = self.drift + self.fast + self.slope * self.now
            if self.now > self.spell:
                log_rate += self.spell_depth
            if self.disturbance:
                period, busy, depth = self.disturbance
                if (self.now + self.phase) % period < busy:
                    log_rate += depth
            total += part * math.exp(log_rate)
        return math.log(total / seconds) + (self.host.restart * self._normal() if restart else 0.0)


def run(schedule, world, effect, skip=None):
    """Return the word and the blocks of one whole run of a schedule."""
    differences, legs, word = [], schedule["legs"], "inconclusive"
    for index in range(0, len(legs), 2):
        rates = {}
        for leg in legs[index : index + 2]:
            times = {item["name"]: item["seconds"] for item in leg["phases"] if item["mode"] != "pass"}
            before = times["settle"] + (RESTART_SECONDS if schedule["restart"] else 0.0)
            rate = world.leg(before if skip is None else skip, times["goal"], schedule["restart"])
            rates[leg["arm"]] = rate + (effect if leg["arm"] == "profile" else 0.0)
        differences.append(rates["profile"] - rates["as_found"])
        blocks = (index + 2) // 4
        if index % 4 == 2 and blocks in schedule["looks"]:
            word = decide(differences, schedule["alpha"], FLOOR).verdict
            if word != "inconclusive":
                return word, blocks
    return word, len(legs) // 4


def simulate(host, kind, restart, change, runs, seed=1, disturbance=None, skip=None, order=None):
    """Return the share of each word, in per cent, and the mean minutes; `change` is the true change in per cent.

    `order` forces every block into one order, to show what the coin flip is for.
    """
    words = dict.fromkeys(("improved", "regressed", "equivalent", "inconclusive"), 0)
    draw, minutes = random.Random(seed), 0.0
    for _ in range(runs):
        schedule = make_schedule(kind, draw.getrandbits(32), restart, p99=False)
        if order:
            for leg in schedule["legs"]:
                leg["arm"] = "as_found" if order[leg["position"]] == "A" else "profile"
        world = World(HOSTS[host], draw.random, disturbance)
        word, _blocks = run(schedule, world, math.log1p(change / 100), skip)
        words[word] += 1
        minutes += world.now / 60
    return {word: 100.0 * count / runs for word, count in words.items()}, minutes / runs


def before_and_after(host, runs, seed=1):
    """Return how often, in per cent, a minute after beats a minute before by 3 % with nothing changed."""
    draw, gains = random.Random(seed), 0
    for _ in range(runs):
        world = World(HOSTS[host], draw.random)
        before = world.leg(4, 60)
        gains += world.leg(20, 60) - before > FLOOR
    return 100.0 * gains / runs


def main(runs):
    """Print the table, and what is commonly done instead."""
    for kind, restart in (("standard", False), ("standard", True), ("quick", False)):
        for host in HOSTS:
            for change in (-5, 0, 10, 50) if kind == "quick" else (-5, 0, 5, 10):
                words, minutes = simulate(host, kind, restart, change, runs)
                figures = " | ".join("%.1f" % words[word] for word in words)
                lever = "restart" if restart else "live"
                print("| %s, %s, %s | %+d %% | %s | %.1f |" % (kind, host, lever, change, figures, minutes))
    for host in HOSTS:
        print("| a minute before, a minute after, %s | +0 %% | %.1f |" % (host, before_and_after(host, runs)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
