# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Telling listeners from workers by what they wait for."""

from __future__ import annotations

import os

import pytest
from ldaptune.host import threads
from ldaptune.problems import LdaptuneError

PID = 1


@pytest.fixture
def process(monkeypatch):
    """A process with threads 1 (main) to 4 and given eventpoll descriptors; each look sees the next of some views."""

    def make(descriptors, *views):
        looks = list(views)
        monkeypatch.setattr(threads, "task_ids", lambda pid: [1, 2, 3, 4])
        monkeypatch.setattr(threads, "eventpolls", lambda pid: list(descriptors))

        def waits(pid, tid, calls):
            view = looks[0]
            if tid == 4 and len(looks) > 1:
                looks.pop(0)
            if isinstance(view.get(tid), Exception):
                raise view[tid]
            return view.get(tid)

        monkeypatch.setattr(threads, "_waits_in_epoll", waits)

    return make


def test_a_busy_listener_is_waited_for(process):
    process([5, 7], {2: 5}, {}, {3: 7}, {})
    assert threads.classify(PID) == threads.Threads(1, [2, 3], [4])


def test_one_thread_for_each_descriptor_or_nothing(process):
    for views in ({2: 5}, {2: 5, 3: 5}, {2: 5, 3: 9}, {}):
        process([5, 7], views)
        with pytest.raises(LdaptuneError, match="cannot be told"):
            threads.classify(PID, 0.03)


def test_a_thread_that_ends_while_it_is_looked_at_is_no_listener(process):
    process([5], {2: ProcessLookupError()}, {3: 5})
    assert threads.classify(PID).listeners == [3]


def test_rights_that_are_missing_are_named(process):
    process([5], {1: PermissionError()})
    with pytest.raises(LdaptuneError, match="CAP_SYS_PTRACE"):
        threads.classify(PID)


def test_own_masks(monkeypatch):
    own = sorted(os.sched_getaffinity(0))
    tid = threads.task_ids(os.getpid())[0]
    assert threads.masks([tid, 2**22 + 1]) == {tid: own}
    assert threads.pin([2**22 + 1], own) == [2**22 + 1]
    with pytest.raises(LdaptuneError, match="Its cpuset allows none"):
        threads.pin([tid], [1023])
