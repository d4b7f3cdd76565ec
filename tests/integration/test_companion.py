# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The companion that pins slapd's threads again after a start: the real program, with a systemctl that only runs it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from ldaptune.host import threads, unit
from ldaptune.host.command import Done
from ldaptune.host.facts import online_cpus
from ldaptune.levers import companion
from ldaptune.levers.context import open_context
from ldaptune.levers.registry import behaviour
from ldaptune.problems import LdaptuneError

pytestmark = pytest.mark.skipif(len(online_cpus()) < 2, reason="needs two CPUs")
UNIT = "etc/systemd/system/ldaptune-cpus.service"
LINK = "etc/systemd/system/slapd.service.wants/ldaptune-cpus.service"


class Systemd:
    """What is needed of it: whether the unit's program succeeds, and what it said."""

    def __init__(self, tree):
        self.tree = tree
        self.log = []
        self.said = []

    def run(self, command, seconds=90.0):
        self.log.append(" ".join(command[1:]))
        if command[1] not in ("start", "restart"):
            return Done(0, "")
        # Of systemd.service(5): words in double quotes, %% and $$ for the signs themselves.
        lines = (self.tree / UNIT).read_text().splitlines()
        (text,) = [line.partition("=")[2] for line in lines if line.startswith("ExecStart=")]
        words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(text)]
        environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C"}
        done = subprocess.run(words, env=environment, cwd="/", capture_output=True, text=True, timeout=60, check=False)
        self.said.append((done.stdout + done.stderr).strip())
        return Done(done.returncode, self.said[-1])


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    made = Systemd(tmp_path)
    monkeypatch.setattr(unit, "run", made.run)
    return made


def belongs(ctx):
    """Let slapd be in its unit's cgroup."""
    path = os.path.join(ctx.root, "proc/%d" % ctx.slapd.pid)
    os.makedirs(path, exist_ok=True)
    with open(path + "/cgroup", "w", encoding="ascii") as stream:
        stream.write("0::/system.slice/slapd.service\n")


@contextmanager
def opened(lab, systemd):
    with open_context({**lab.server, "service": "slapd", "state_dir": "/var/lib/ldap tune"}) as ctx:
        ctx.root = str(systemd.tree)
        belongs(ctx)
        yield ctx


def restart(ctx):
    ctx.restart()
    belongs(ctx)


def masks(ctx):
    parts = threads.classify(ctx.slapd.pid)
    others = {tuple(threads.mask(tid)) for tid in [parts.main, *parts.workers]}
    return {tuple(threads.mask(tid)) for tid in parts.listeners}, others


def files(tree):
    return sorted(str(path.relative_to(tree)) for part in ("etc", "var") for path in (tree / part).rglob("*"))


def test_pins_come_back_after_a_restart_and_go_without_a_trace(make_slapd, systemd):
    lab = make_slapd(users=5, threads=4)
    listener, workers = behaviour("cpu.listener"), behaviour("cpu.workers")
    first, second = online_cpus()[:2]
    everywhere = tuple(online_cpus())
    with opened(lab, systemd) as ctx:
        before = files(systemd.tree)
        found = json.loads(json.dumps([lever.observe(ctx) for lever in (listener, workers)]))
        assert not workers.same(workers.observe(ctx), list(everywhere))  # in force, but nothing keeps it
        workers.write(ctx, [second])
        listener.write(ctx, [first])
        # Installed once, tried once; the second lever changes values alone.
        assert systemd.log == ["daemon-reload", "restart ldaptune-cpus.service"]
        assert "pinned already" in systemd.said[0]
        for _unused in range(2):
            restart(ctx)
            assert masks(ctx) == ({(first,)}, {(second,)})
        assert "threads of slapd (pid %d) pinned" % ctx.slapd.pid in systemd.said[-1]
        for lever, cpus in ((listener, [first]), (workers, [second])):
            seen = lever.observe(ctx)
            assert seen["configured"] == seen["effective"] == cpus
            assert lever.same(seen, cpus)
            assert lever.lasts(ctx)
        assert os.stat(companion.home(ctx)).st_mode & 0o777 == 0o700
        for lever, seen in ((listener, found[0]), (workers, found[1])):
            assert not lever.is_home(lever.observe(ctx), seen["record"])
            lever.restore(ctx, seen["record"])
        assert masks(ctx) == ({everywhere}, {everywhere})
        assert all(lever.is_home(lever.observe(ctx), seen["record"]) for lever, seen in
                   ((listener, found[0]), (workers, found[1])))
        assert files(systemd.tree) == [*before, "var/lib"]
        restart(ctx)
        assert masks(ctx)[0] == {everywhere}


def test_a_leg_writes_values_alone_and_the_way_home_takes_all(make_slapd, systemd, monkeypatch):
    lab = make_slapd(users=5, threads=4)
    lever = behaviour("cpu.listener")
    first = online_cpus()[0]
    everywhere = tuple(online_cpus())
    with opened(lab, systemd) as ctx:
        record = lever.observe(ctx)["record"]
        lever.write(ctx, [first])
        systemd.log.clear()
        unit_file = (systemd.tree / UNIT).stat()
        ctx.switching = True
        made = companion._archive
        monkeypatch.setattr(companion, "_archive", lambda: pytest.fail("a leg packs the program again"))
        for _unused in range(2):
            lever.restore(ctx, record)
            seen = lever.observe(ctx)
            assert (seen["configured"], seen["effective"]) == (None, list(everywhere))
            assert lever.holds(seen, list(everywhere))
            assert not lever.is_home(seen, record)  # its files are there yet
            lever.write(ctx, [first])
            assert lever.same(lever.observe(ctx), [first])
        assert systemd.log == []
        assert (systemd.tree / UNIT).stat() == unit_file
        lever.restore(ctx, record)
        restart(ctx)
        assert systemd.said[-1] == "no thread of slapd is to be pinned"
        assert masks(ctx)[0] == {everywhere}
        ctx.switching = False
        lever.restore(ctx, record)
        assert lever.is_home(lever.observe(ctx), record)
        assert not (systemd.tree / UNIT).exists()
        assert not os.path.exists(companion.home(ctx))
        monkeypatch.setattr(companion, "_archive", made)
        # A snapshot of an earlier version says nothing of a companion.
        old = {part: value for part, value in record.items() if part != "companion"}
        lever.write(ctx, [first])
        assert not lever.is_home(lever.observe(ctx), old)
        lever.restore(ctx, old)
        assert lever.is_home(lever.observe(ctx), old)
        assert not (systemd.tree / UNIT).exists()


def test_what_an_earlier_run_kept_comes_back(make_slapd, systemd):
    lab = make_slapd(users=5, threads=4)
    lever = behaviour("cpu.workers")
    first, second = online_cpus()[:2]
    with opened(lab, systemd) as ctx:
        lever.write(ctx, [first])
        record = json.loads(json.dumps(lever.observe(ctx)["record"]))
        lever.write(ctx, [second])
        assert not lever.is_home(lever.observe(ctx), record)
        lever.restore(ctx, record)
        seen = lever.observe(ctx)
        assert seen["configured"] == seen["effective"] == [first]
        assert lever.is_home(seen, record)
        restart(ctx)
        assert masks(ctx)[1] == {(first,)}


@pytest.mark.parametrize("gone", [UNIT, LINK, "var/lib/ldap tune/cpus/run.pyz"])
def test_what_would_not_come_back_is_not_there(make_slapd, systemd, gone):
    lab = make_slapd(users=5, threads=4)
    lever = behaviour("cpu.listener")
    with opened(lab, systemd) as ctx:
        lever.write(ctx, [0])
        (systemd.tree / gone).unlink()
        seen = lever.observe(ctx)
        assert (seen["configured"], seen["effective"]) == (None, [0])
        assert not lever.same(seen, [0])
        assert not lever.lasts(ctx)
        lever.write(ctx, [0])
        assert lever.lasts(ctx)


def test_a_program_that_does_not_run_is_known_at_once(make_slapd, systemd, monkeypatch):
    lab = make_slapd(users=5, threads=4)
    lever = behaviour("cpu.listener")
    monkeypatch.setattr(companion, "_MAIN", "# %r %s\nraise SystemExit('no ldap3 here')")
    with opened(lab, systemd) as ctx:
        record = lever.observe(ctx)["record"]
        with pytest.raises(LdaptuneError, match="restart ldaptune-cpus.service: systemctl failed.*no ldap3 here"):
            lever.write(ctx, [0])
        lever.restore(ctx, record)
        assert lever.is_home(lever.observe(ctx), record)
        assert not (systemd.tree / UNIT).exists()


def test_who_pins_is_waited_for(make_slapd, systemd):
    """A companion that starts beside a leg goes by what that has written by its end."""
    lab = make_slapd(users=5, threads=4)
    lever = behaviour("cpu.listener")
    with opened(lab, systemd) as ctx:
        record = lever.observe(ctx)["record"]
        lever.write(ctx, [0])
        ctx.switching = True
        program = [sys.executable, os.path.join(companion.home(ctx), "run.pyz")]
        with companion.held(ctx):
            threads.pin(threads.classify(ctx.slapd.pid).listeners, online_cpus())
            started = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
            time.sleep(1.0)
            assert started.poll() is None
            companion.keep(ctx, lever.key, record["companion"]["cpus"])
        assert started.communicate(timeout=60)[0] == "no thread of slapd is to be pinned\n"
        assert masks(ctx)[0] == {tuple(online_cpus())}


def test_the_threads_of_one_slapd_a_host(make_slapd, systemd):
    lab = make_slapd(users=5, threads=4)
    lever = behaviour("cpu.listener")
    with opened(lab, systemd) as ctx:
        lever.write(ctx, [0])
        path = os.path.join(ctx.root, "proc/%d/cgroup" % ctx.slapd.pid)
        with open(path, "w", encoding="ascii") as stream:
            stream.write("0::/system.slice/slapd-two.service\n")
        ctx.server["service"] = "slapd-two"
        seen = lever.observe(ctx)
        assert seen["configured"] is None
        (found,) = lever.check(ctx, seen, [0])
        assert found["found"] == "slapd.service"
        companion.remove(ctx)
        assert (systemd.tree / UNIT).exists()


def test_without_systemd_nothing_is_kept(make_slapd, systemd):
    lab = make_slapd(users=5, threads=4)
    lever = behaviour("cpu.listener")
    (systemd.tree / "run/systemd/system").rmdir()
    with opened(lab, systemd) as ctx:
        before = files(systemd.tree)
        lever.write(ctx, [0])
        seen = lever.observe(ctx)
        assert lever.same(seen, [0])
        assert (seen["configured"], lever.lasts(ctx)) == (None, False)
        assert files(systemd.tree) == before
        assert systemd.log == []
