# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Account patterns: `uid=user.[0-9999],ou=people,dc=example,dc=com`.

`[first-last]` draws at random, `[first:last]` goes through in order and starts again. Leading zeros in `first` give
the width: `[0000-9999]`. A pattern may have several ranges of one kind; it stands for all combinations.
"""

from __future__ import annotations

import itertools
import random
import re
from typing import Any, Callable, List, NamedTuple, Sequence, TypeVar

from ..problems import LdaptuneError, problem

RANGE = re.compile(r"\[(\d+)([-:])(\d+)\]")
MAX_ACCOUNTS = 1000000
BATCH = 64

T = TypeVar("T")


class Accounts(NamedTuple):
    """The DNs a pattern stands for, in order, and how they are drawn."""

    dns: List[str]
    sequential: bool


def expand(pattern: str, where: str = "accounts") -> Accounts:
    """Return the accounts of a pattern; raises LdaptuneError naming what is wrong with it."""
    pieces = RANGE.split(pattern)
    literals, ranges = pieces[0::4], list(zip(pieces[1::4], pieces[2::4], pieces[3::4]))
    for literal in literals:
        if "[" in literal or "]" in literal:
            raise LdaptuneError(
                problem(
                    "a bracket that is no range",
                    where,
                    pattern,
                    "[first-last] for random, [first:last] for in order",
                    "write a bracket that belongs to a DN as \\5b or \\5d",
                )
            )
    kinds = {kind for _, kind, _ in ranges}
    if len(kinds) > 1:
        raise LdaptuneError(problem("random and ordered ranges in one pattern", where, pattern, "one kind of range"))
    total = 1
    values: List[List[str]] = []
    for first, _, last in ranges:
        if int(last) < int(first):
            raise LdaptuneError(problem("a range that ends before it begins", where, "[%s..%s]" % (first, last)))
        total *= int(last) - int(first) + 1
        if total > MAX_ACCOUNTS:
            raise LdaptuneError(problem("too many accounts", where, pattern, "at most %d" % MAX_ACCOUNTS))
        width = len(first) if first.startswith("0") else 0
        values.append([str(number).zfill(width) for number in range(int(first), int(last) + 1)])
    dns = []
    for combination in itertools.product(*values):
        dns.append("".join(itertools.chain.from_iterable(zip(literals, combination))) + literals[-1])
    return Accounts(dns, kinds == {":"})


def drawer(items: Sequence[T], seed: str, sequential: bool, offset: int = 0, step: int = 1) -> Callable[[], T]:
    """Return a function that gives the next item: the same ones in the same order for the same seed.

    `offset` and `step` share an ordered pass among processes. Random ones are drawn some at a time: what the draws
    have in common stays in the CPU's caches, and the iterator that hands them out costs next to nothing.
    """
    if sequential:
        shared = list(items[offset::step]) or list(items)
        return itertools.cycle(shared).__next__
    generator = random.Random(seed)  # noqa: S311 - drawing accounts, not secrets
    batches = iter(lambda: generator.choices(items, k=BATCH), [])  # never ends: a batch is never empty
    return itertools.chain.from_iterable(batches).__next__


class Mixer:
    """Draws from several drawers in given shares, and counts how often from which."""

    def __init__(self, drawers: Sequence[Callable[[], T]], weights: Sequence[float], seed: str) -> None:
        self.drawers = list(drawers)
        self.drawn = [0] * len(self.drawers)
        generator = random.Random(seed)  # noqa: S311 - drawing accounts, not secrets
        places = range(len(self.drawers))
        batches = iter(lambda: generator.choices(places, weights, k=BATCH), [])
        self._places = itertools.chain.from_iterable(batches).__next__

    def draw(self) -> Any:
        """Return the next item."""
        place = self._places()
        self.drawn[place] += 1
        return self.drawers[place]()
