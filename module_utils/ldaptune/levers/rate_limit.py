# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many lines of slapd journald takes before it drops the rest."""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Dict, List, Tuple

from .base import Observation
from .context import Context
from .host_lever import place
from .unit_lever import UnitLever, unit_of

# What journald itself looks at: systemd writes it there when the unit starts, and not at a daemon-reload.
_UNITS = "/run/systemd/units"
_SPANS = {"": 1.0, "s": 1.0, "sec": 1.0, "ms": 0.001, "us": 0.000001, "m": 60.0, "min": 60.0, "h": 3600.0}
_RSYSLOG = ("/etc/rsyslog.conf", "/etc/rsyslog.d/*.conf")
_MODULE = re.compile(r"""module\s*\(\s*load\s*=\s*["'](imjournal|imuxsock)["']([^)]*)\)""", re.IGNORECASE)
_LIMITS = {"imjournal": r"ratelimit\.\w+", "imuxsock": r"syssock\.ratelimit\.\w+"}
_LEGACY = re.compile(r"^\s*\$((?:imjournal|system)(?:log)?ratelimit\w+)\s+(\S+)", re.IGNORECASE | re.MULTILINE)


def seconds(text: str) -> float | None:
    """Return a time span of systemd in seconds, None where it is none that a limit would be given in."""
    found = re.findall(r"([0-9.]+)\s*([a-z]*)", text.strip())
    if not found or re.sub(r"[0-9.]+\s*[a-z]*\s*", "", text.strip()):
        return None
    try:
        return sum(float(number) * _SPANS[name] for number, name in found)
    except (KeyError, ValueError):
        return None


def rsyslog_limits(text: str) -> List[str]:
    """Return the limits that an rsyslog configuration sets of its own, as `imjournal Ratelimit.Burst="20000"`."""
    text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    found: List[str] = []
    for word, parameters in _MODULE.findall(text):
        name = word.lower()
        limits = re.findall(_LIMITS[name] + r"""\s*=\s*["'][^"']*["']""", parameters, re.IGNORECASE)
        if name == "imjournal" and not limits:
            limits = ["by default 20000 lines in 600 s"]
        found.extend("%s %s" % (name, limit) for limit in limits)
    return found + ["$%s %s" % item for item in _LEGACY.findall(text)]


class RateLimit(UnitLever):
    """LogRateLimitBurst and LogRateLimitIntervalSec of the unit; None is journald's own limit."""

    keys = ["LogRateLimitIntervalSec", "LogRateLimitBurst"]

    def lines(self, ctx: Context, wanted: Any) -> Dict[str, str]:
        return {"LogRateLimitIntervalSec": "%ds" % wanted["interval"], "LogRateLimitBurst": "%d" % wanted["burst"]}

    def meaning(self, found: Dict[str, str]) -> Dict[str, int] | None:
        span, burst = seconds(found.get(self.keys[0], "")), found.get(self.keys[1], "")
        return _limit(span, burst)

    def in_force(self, ctx: Context) -> Dict[str, int] | None:
        unit = unit_of(ctx)
        span, burst = (self._link(ctx, "log-rate-limit-%s:%s" % (part, unit)) for part in ("interval", "burst"))
        return _limit(int(span) / 1e6 if span.isdigit() else None, burst)

    def remarks(self, ctx: Context, seen: Observation, wanted: Any) -> List[str]:
        found = ["journald takes up to six times as many where much of its disk is free"]
        others = self._others(ctx)
        if others:
            found.append("rsyslog has a limit of its own: " + ", ".join("%s (%s)" % item for item in others))
        return found

    @staticmethod
    def _link(ctx: Context, name: str) -> str:
        try:
            return os.readlink(place(ctx, "%s/%s" % (_UNITS, name)))
        except OSError:
            return ""

    @staticmethod
    def _others(ctx: Context) -> List[Tuple[str, str]]:
        found: List[Tuple[str, str]] = []
        for pattern in _RSYSLOG:
            for path in sorted(glob.glob(place(ctx, pattern))):
                with open(path, encoding="utf-8", errors="replace") as stream:
                    found.extend((limit, path) for limit in rsyslog_limits(stream.read()))
        return found


def _limit(span: float | None, burst: str) -> Dict[str, int] | None:
    """Return a limit, None for none: 0 is "as journald has it" for either."""
    if not span or not burst.isdigit() or not int(burst):
        return None
    return {"burst": int(burst), "interval": max(1, round(span))}
