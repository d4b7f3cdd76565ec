# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures as people read them, the same under every locale."""

from __future__ import annotations

MISSING = "-"


def signed(value: float) -> str:
    """Return a change with its sign; decimals only where they say something: +182, -4.1."""
    return "%+.0f" % value if abs(value) >= 10 else "%+.1f" % value


def unsigned(value: float) -> str:
    """Return the size of a change."""
    return signed(abs(value))[1:]


def whole(value: float | None) -> str:
    """Return 28431.2 as 28,431."""
    return MISSING if value is None else format(round(value), ",d")


def milliseconds(nanoseconds: float | None) -> str:
    """Return 1234567 as 1.23 ms."""
    return MISSING if nanoseconds is None else "%.2f ms" % (nanoseconds / 1e6)


def share(percent: float | None) -> str:
    """Return 0.1234 as 0.12 %."""
    return MISSING if percent is None else "%.2f %%" % percent
