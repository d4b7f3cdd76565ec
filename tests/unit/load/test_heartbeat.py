# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Standstills of a process, seen from within."""

from __future__ import annotations

import os
import signal
import time

import pytest
from ldaptune.load import heartbeat
from ldaptune.load.heartbeat import Heartbeat


def watched(act):
    """Run `act` in a process of its own under a heartbeat; return its pid and where its (stood, wall) comes."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            beat = Heartbeat()
            start = time.perf_counter()
            beat.start()
            os.write(theirs, b"+")
            act()
            stood = beat.stop()
            os.write(theirs, b"%r %r" % (stood, time.perf_counter() - start))
        finally:
            os._exit(0)
    os.close(theirs)
    assert os.read(ours, 1) == b"+"
    return pid, ours


def finish(pid, ours):
    os.waitpid(pid, 0)
    stood, wall = os.read(ours, 100).split()
    os.close(ours)
    return float(stood), float(wall)


def busy():
    until = time.process_time() + 0.5
    while time.process_time() < until:
        pass


@pytest.mark.parametrize("act", [lambda: time.sleep(0.5), busy], ids=["waiting", "busy"])
def test_neither_waiting_nor_work_is_a_standstill(act, unstolen):
    def right():
        stood, wall = finish(*watched(act))
        return stood <= 0.1 * wall  # a hypervisor may take some

    assert unstolen(right)


@pytest.mark.parametrize("act", [lambda: time.sleep(1.5), busy], ids=["waiting", "busy"])
def test_a_stop_is_seen_whatever_the_process_was_at(act, unstolen):
    def right():
        pid, ours = watched(act)
        stopped = 0.0
        for _ in range(3):
            time.sleep(0.03)
            start = time.perf_counter()
            os.kill(pid, signal.SIGSTOP)
            os.waitpid(pid, os.WUNTRACED)
            time.sleep(0.1)
            stopped += time.perf_counter() - start
            os.kill(pid, signal.SIGCONT)
        stood, _ = finish(pid, ours)
        return 0.5 * stopped < stood <= 1.1 * stopped + 0.02

    assert unstolen(right)


def test_a_system_that_does_not_tell(monkeypatch):
    def nothing(*_):
        raise FileNotFoundError

    monkeypatch.setattr(heartbeat.os, "open", nothing)
    beat = Heartbeat()
    beat.start()
    assert beat.stop() is None
