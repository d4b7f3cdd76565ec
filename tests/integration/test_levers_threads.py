# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The levers of slapd's threads: listeners by restart, CPUs by thread."""

from __future__ import annotations

import json
import os
import threading

import pytest
from ldaptune.directory.openldap import connect
from ldaptune.host import service, threads
from ldaptune.host.facts import online_cpus
from ldaptune.levers import cpu
from ldaptune.levers.context import open_context
from ldaptune.levers.registry import behaviour
from ldaptune.problems import LdaptuneError

from .looks import settings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a private slapd is managed as root over ldapi")
two_cpus = pytest.mark.skipif(len(online_cpus()) < 2, reason="needs two CPUs")

LISTENERS = behaviour("slapd.listener_threads")


def state(ctx):
    seen = LISTENERS.observe(ctx)
    return seen["configured"], seen["effective"]


def test_forty_changes_and_slapd_answers_every_time(make_slapd):
    """Plain alternating writes hang slapd 2.5.13 within some thirty."""
    lab = make_slapd(users=5)
    before = settings(lab)
    with open_context(lab.server) as ctx:
        found = json.loads(json.dumps(LISTENERS.observe(ctx)))
        for number in range(20):
            wanted = (2, 4)[number % 2]
            LISTENERS.write(ctx, wanted)
            assert state(ctx) == (wanted, wanted)
            assert ctx.answers()
            assert not LISTENERS.lasts(ctx)
            assert LISTENERS.restore(ctx, found["record"]) == []
            assert state(ctx) == (None, 1)
            assert LISTENERS.lasts(ctx)
            assert ctx.answers()
        assert ctx.restarts == 40
    assert settings(lab) == before


@pytest.mark.parametrize(
    ("stored", "live"), [("2", False), ("2", True), ("1", False), ("1", True), ("", False), ("3", True)]
)
def test_configured_and_running_come_back_as_found(make_slapd, stored, live):
    lab = make_slapd(users=5, global_lines=["olcListenerThreads: %s" % stored] if stored else [])
    with open_context(lab.server) as ctx:
        if live:
            ctx.directory.modify("cn=config", [("replace", "olcListenerThreads", [stored])])
            ctx.reconnect()
        before = state(ctx)
        assert before == (int(stored) if stored else None, {"3": 2, "2": 2}.get(stored, 1) if live else 1)
        found = LISTENERS.observe(ctx)
        LISTENERS.write(ctx, 4)
        assert state(ctx) == (4, 4)
        LISTENERS.restore(ctx, found["record"])
        assert state(ctx) == before
        assert ctx.answers()


def test_no_process_is_written_to_twice(make_slapd, monkeypatch):
    lab = make_slapd(users=5, global_lines=["olcListenerThreads: 2"])
    writes = []
    with open_context(lab.server) as ctx:
        found = LISTENERS.observe(ctx)
        kind = type(ctx.directory)
        real = kind.modify

        def modify(self, dn, changes):
            writes.append(ctx.slapd.pid)
            real(self, dn, changes)

        monkeypatch.setattr(kind, "modify", modify)
        for _unused in range(2):
            LISTENERS.write(ctx, 4)
            LISTENERS.write(ctx, 1)
            LISTENERS.restore(ctx, found["record"])
    assert len(writes) == len(set(writes)) == 6


def test_a_slapd_that_hangs_after_the_write_is_killed_and_started(make_slapd, monkeypatch):
    """What the server does to itself by a second write is done to it here by SIGSTOP: nothing answers any more."""
    import signal

    lab = make_slapd(users=5)
    server = {**lab.server, "timeout": 1}
    with open_context(server) as ctx:
        kind = type(ctx.directory)
        real = kind.modify

        def modify(self, dn, changes):
            real(self, dn, changes)
            os.kill(ctx.slapd.pid, signal.SIGSTOP)

        monkeypatch.setattr(kind, "modify", modify)
        with pytest.raises(LdaptuneError, match="stopped answering"):
            LISTENERS.write(ctx, 2)
        monkeypatch.undo()
        assert ctx.answers()
        assert state(ctx) == (2, 1)


def test_a_restart_is_waited_for(slapd):
    with open_context(slapd.server) as ctx:
        first = ctx.slapd
        ctx.restart()
        assert ctx.slapd.pid != first.pid
        assert ctx.slapd.config_dir == first.config_dir
        assert ctx.directory.version()


def test_a_service_that_is_not_this_slapd_is_left_alone(slapd):
    with open_context({**slapd.server, "restart_command": [], "service": "no-such-service"}) as ctx:
        pid = ctx.slapd.pid
        with pytest.raises(LdaptuneError):
            service.restart(ctx.slapd, "no-such-service")
        assert ctx.slapd.pid == pid
        assert slapd.pid == pid


def masks(ctx):
    parts = threads.classify(ctx.slapd.pid)
    others = {tuple(threads.mask(tid)) for tid in [parts.main, *parts.workers]}
    return {tuple(threads.mask(tid)) for tid in parts.listeners}, others, len(parts.workers)


@two_cpus
@pytest.mark.parametrize("count", [4, 16])
def test_every_thread_is_pinned_and_none_is_made_elsewhere_later(make_slapd, count):
    lab = make_slapd(users=5, threads=count)
    listener, workers = behaviour("cpu.listener"), behaviour("cpu.workers")
    first, second = online_cpus()[:2]
    everywhere = tuple(online_cpus())
    with open_context(lab.server) as ctx:
        start = ctx.directory.counters()
        found = json.loads(json.dumps([listener.observe(ctx), workers.observe(ctx)]))
        assert [item["effective"] for item in found] == [list(everywhere)] * 2
        assert listener.check(ctx, found[0], [first]) == []
        listener.write(ctx, [first])
        workers.write(ctx, [second])
        assert masks(ctx) == ({(first,)}, {(second,)}, count)
        seen = [listener.observe(ctx), workers.observe(ctx)]
        assert [item["effective"] for item in seen] == [[first], [second]]
        assert listener.same(seen[0], [first])
        assert workers.same(seen[1], [second])
        assert not listener.lasts(ctx)
        # A heavier load makes no thread that runs elsewhere.
        cpu.pool.burst(lab.ldapi, 32, 64, 20.0)
        assert masks(ctx) == ({(first,)}, {(second,)}, count)
        workers.restore(ctx, found[1]["record"])
        listener.restore(ctx, found[0]["record"])
        assert masks(ctx) == ({everywhere}, {everywhere}, count)
        finish = ctx.directory.counters()
        own = finish["own"]["total"] - start["own"]["total"]
        assert finish["operations"]["total"] - start["operations"]["total"] - own == 32 * 65


@two_cpus
def test_threads_are_told_apart_and_pinned_under_load(make_slapd):
    lab = make_slapd(users=5, threads=4)
    first, second = online_cpus()[:2]
    over = threading.Event()
    failures = []

    def load():
        while not over.is_set():
            try:
                cpu.pool.burst(lab.uri, 4, 64, 20.0)
            except LdaptuneError as error:
                failures.append(error)
                return

    clients = [threading.Thread(target=load) for _unused in range(2)]
    for client in clients:
        client.start()
    try:
        with open_context(lab.server) as ctx:
            listener, workers = behaviour("cpu.listener"), behaviour("cpu.workers")
            found = [listener.observe(ctx), workers.observe(ctx)]
            for _unused in range(5):
                listener.write(ctx, [first])
                workers.write(ctx, [second])
                assert masks(ctx) == ({(first,)}, {(second,)}, 4)
                workers.restore(ctx, found[1]["record"])
                listener.restore(ctx, found[0]["record"])
                assert masks(ctx) == ({tuple(online_cpus())}, {tuple(online_cpus())}, 4)
    finally:
        over.set()
        for client in clients:
            client.join()
    assert failures == []


@two_cpus
def test_masks_found_apart_come_back_apart(make_slapd):
    lab = make_slapd(users=5, threads=4)
    listener, workers = behaviour("cpu.listener"), behaviour("cpu.workers")
    first, second = online_cpus()[:2]
    with open_context(lab.server) as ctx:
        listener.write(ctx, [first])
        odd = threads.classify(ctx.slapd.pid).workers[1]
        threads.pin([odd], [second])
        found = json.loads(json.dumps([listener.observe(ctx), workers.observe(ctx)]))
        assert found[1]["effective"] is None
        before = threads.masks(threads.task_ids(ctx.slapd.pid))
        listener.write(ctx, [second])
        workers.write(ctx, [first])
        workers.restore(ctx, found[1]["record"])
        listener.restore(ctx, found[0]["record"])
        assert threads.masks(threads.task_ids(ctx.slapd.pid)) == before


@two_cpus
@pytest.mark.parametrize("key", ["cpu.listener", "cpu.workers"])
def test_workers_made_late_do_not_inherit_a_pinned_listener(make_slapd, key):
    lab = make_slapd(users=5)
    first, second = online_cpus()[:2]
    with open_context(lab.server) as ctx:
        threads.pin(threads.classify(ctx.slapd.pid).listeners, [first])
        assert len(threads.classify(ctx.slapd.pid).workers) < 16
        behaviour(key).write(ctx, [second])
        everywhere = tuple(online_cpus())
        wanted = ({(second,)}, {everywhere}, 16) if key == "cpu.listener" else ({(first,)}, {(second,)}, 16)
        assert masks(ctx) == wanted


@two_cpus
def test_after_a_restart_the_parts_come_back(make_slapd):
    lab = make_slapd(users=5, threads=4)
    listener, workers = behaviour("cpu.listener"), behaviour("cpu.workers")
    first, second = online_cpus()[:2]
    with open_context(lab.server) as ctx:
        listener.write(ctx, [first])
        found = [listener.observe(ctx), workers.observe(ctx)]
        workers.write(ctx, [second])
        ctx.restart()
        assert not listener.same(listener.observe(ctx), [first])
        workers.restore(ctx, found[1]["record"])
        listener.restore(ctx, found[0]["record"])
        assert masks(ctx) == ({(first,)}, {tuple(online_cpus())}, 4)


@two_cpus
def test_several_listeners_are_all_pinned(make_slapd):
    lab = make_slapd(users=5, threads=4)
    first, second = online_cpus()[:2]
    with open_context(lab.server) as ctx:
        LISTENERS.write(ctx, 2)
        behaviour("cpu.listener").write(ctx, [first])
        behaviour("cpu.workers").write(ctx, [second])
        assert len(threads.classify(ctx.slapd.pid).listeners) == 2
        assert masks(ctx) == ({(first,)}, {(second,)}, 4)


def test_cpus_that_are_not_there_are_refused(slapd_module):
    lever = behaviour("cpu.workers")
    with open_context(slapd_module.server) as ctx:
        seen = lever.observe(ctx)
        assert lever.check(ctx, seen, [max(online_cpus()) + 1]) != []
        assert lever.check(ctx, seen, []) != []


def test_a_pool_that_cannot_be_filled_leaves_the_masks_as_found(slapd, monkeypatch):
    first = online_cpus()[0]
    with open_context(slapd.server) as ctx:
        before = threads.masks(threads.task_ids(ctx.slapd.pid))
        monkeypatch.setattr(cpu.pool, "_CONNECTIONS", ())
        for key in ("cpu.workers", "cpu.listener"):
            with pytest.raises(LdaptuneError, match="could not be filled"):
                behaviour(key).write(ctx, [first])
            now = threads.masks(threads.task_ids(ctx.slapd.pid))
            assert {tid: now[tid] for tid in before} == before


@pytest.mark.parametrize("stored", [True, False])
def test_a_pool_is_filled_where_few_requests_may_wait(make_slapd, stored):
    """Removing the attribute leaves its last value in force: cn=config does not tell what the limit is then."""
    lab = make_slapd(users=5)
    with open_context(lab.server) as ctx:
        ctx.directory.modify("cn=config", [("replace", "olcConnMaxPending", ["20"])])
        if not stored:
            ctx.directory.modify("cn=config", [("delete", "olcConnMaxPending", [])])
        behaviour("cpu.workers").write(ctx, online_cpus()[:1])
        assert masks(ctx)[1:] == ({tuple(online_cpus()[:1])}, 16)


def test_without_a_monitor_threads_are_not_pinned(make_slapd):
    lab = make_slapd(users=5)
    with connect(lab.server) as directory:
        directory.modify(
            "olcDatabase={2}monitor,cn=config",
            [("replace", "olcAccess", ["to * by * none"]), ("delete", "olcRootDN", [])],
        )
    with open_context(lab.server) as ctx:
        assert ctx.version[:2] >= (2, 4)
        assert ctx.directory.counters() == {}
        assert "cn=monitor does not show" in behaviour("cpu.listener").observe(ctx)["reason"]
        assert behaviour("slapd.threads").observe(ctx)["effective"] is None
