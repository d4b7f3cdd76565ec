# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server of a few lines with the levers' contract, for tests of plan, apply, undo, arms and watchdog."""

from __future__ import annotations

import copy
import os

import pytest
from ldaptune import tuning_leg, watchdog
from ldaptune.levers.table import LEVERS, in_force, risk_by_value
from ldaptune.problems import LdaptuneError, problem
from ldaptune.snapshot import Identity, Store
from ldaptune.target import Target


class Crash(BaseException):
    """Stands for the end of the process at that very point."""


class FakeDirectory:
    def __init__(self, server):
        self.server = server

    def read(self, dn, attributes):
        return {"modifiersName": ["cn=other"], "modifyTimestamp": ["20261130210000Z"]}

    def counters(self):
        self.server.events.append("counters")
        return {"operations": {"total": 0}, "own": {}}


class FakeServer:
    """`values` is the configuration: a missing key is an absent attribute. It plays the context, too."""

    def __init__(self):
        self.values = {"slapd.log_level": 256, "database.max_size": 1 << 30}
        self.spelling = {}
        self.unsupported = {}
        self.breaks = {}
        self.mute = set()
        self.lost = set()
        self.remarks = {}
        self.events = []
        self.restarts = 0
        self.no_restart = []
        self.slapd = None
        self.server = {}
        self.wanted = {}
        self.database = {"dn": "olcDatabase={1}mdb,cn=config", "suffixes": ["dc=x"]}
        self.directory = FakeDirectory(self)

    def restart_problems(self):
        return self.no_restart

    def reconnect(self, seconds):
        self.events.append("reconnect")

    def close(self):
        self.events.append("close")


class FakeLever:
    def __init__(self, key):
        self.spec = LEVERS[key]
        self.key = key

    def observe(self, ctx):
        if self.key in ctx.unsupported:
            return {"supported": False, "reason": ctx.unsupported[self.key], "record": None}
        configured = copy.deepcopy(ctx.values.get(self.key))
        return {
            "supported": True,
            "reason": "",
            "configured": configured,
            "effective": in_force(self.spec, configured),
            "effective_source": "cn=monitor",
            "record": {
                "present": self.key in ctx.values,
                "value": configured,
                "spelling": ctx.spelling.get(self.key, ""),
            },
        }

    def check(self, ctx, seen, wanted):
        return []

    def remarks(self, ctx, seen, wanted):
        return []

    def risk_of(self, before, wanted):
        return risk_by_value(self.key, wanted)

    def same(self, seen, wanted):
        return self.spec.type.equal(in_force(self.spec, seen["configured"]), wanted)

    holds = same

    def is_absent(self, ctx, configured):
        return configured is None

    def is_home(self, seen, record):
        return not self.spec.attribute or seen["record"] == record

    def lasts(self, ctx):
        return self.key not in ctx.lost

    def _set(self, ctx, present, value):
        broken = ctx.breaks.get(self.key)
        if broken is not None:
            error = broken(self.key, value) if callable(broken) else broken
            if error is not None:
                raise error
        if self.key not in ctx.mute:
            if present:
                ctx.values[self.key] = copy.deepcopy(value)
            else:
                ctx.values.pop(self.key, None)

    def write(self, ctx, wanted):
        ctx.events.append("write %s %s" % (self.key, wanted))
        self._set(ctx, True, wanted)

    def restore(self, ctx, record):
        ctx.events.append("restore %s" % self.key)
        if self.key in ctx.remarks:
            return [ctx.remarks[self.key]]
        self._set(ctx, record["present"], record["value"])
        ctx.spelling[self.key] = record["spelling"]
        return []


def refusal(text="refused"):
    return LdaptuneError(problem(text))


@pytest.fixture
def server():
    return FakeServer()


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "state"), Identity("machine", "host1", "/etc/slapd.d", ["dc=x"]))


@pytest.fixture
def target(server, store):
    return Target(server, store, FakeLever)


@pytest.fixture
def profile():
    """Make a resolved profile: profile({key: value or (op, value)}, name)."""

    def make(values, name="p"):
        levers = {}
        for key, wanted in values.items():
            op, value = wanted if isinstance(wanted, tuple) else ("value", wanted)
            levers[key] = {"op": op, "value": value, "why": "w", "when_unsupported": "skip", "from": "p.yml"}
        return {"name": name, "digest": "d-" + name, "levers": levers, "excluded": [], "expect": {}}

    return make


@pytest.fixture
def consent():
    return ["security", "availability", "durability", "restart"]


@pytest.fixture
def crash():
    return Crash


@pytest.fixture
def refuse():
    return refusal


@pytest.fixture
def watched(monkeypatch):
    """A watchdog without a process: alive from arming to disarming, unless its store is put into the list returned."""
    dead = []
    monkeypatch.setattr(watchdog, "_start", lambda store, token: 4711)
    monkeypatch.setattr(watchdog, "alive", lambda store: store.active() is not None and store not in dead)
    monkeypatch.setattr(tuning_leg, "figures", lambda slapd: {"pid": 1})
    return dead


@pytest.fixture
def tree():
    """Return {relative path: bytes} of everything below a directory."""

    def read(root):
        found = {}
        for folder, _, names in os.walk(str(root)):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as stream:
                    found[os.path.relpath(path, str(root))] = stream.read()
        return found

    return read
