# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a worker is doing, by its system call."""

from __future__ import annotations

import os
import socket

import pytest
from ldaptune.host import looks, procfs

FUTEX, SENDTO = 202, 44
HEAP, LIBC = 0x5000, 0x7F20


@pytest.fixture
def looker(monkeypatch):
    monkeypatch.setattr(looks.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(procfs, "libc_memory", lambda text: [(0x7F00, 0x8000)])
    return looks.Looker(os.getpid())


@pytest.mark.parametrize(
    ("call", "letter", "wanted"),
    [
        # Waiting for work: a condition, with and without the flag of the clock.
        ((FUTEX, (HEAP, 0x189, 0)), "", "idle"),
        ((FUTEX, (HEAP, 0x89, 0)), "", "idle"),
        ((FUTEX, (HEAP, 0x80, 2)), "", "lock"),
        # Behind the lock that syslog() sends under.
        ((FUTEX, (LIBC, 0x80, 2)), "", "log"),
        # A condition in there would be no lock.
        ((FUTEX, (LIBC, 0x189, 0)), "", "idle"),
        ((FUTEX, (HEAP, 0x81, 1)), "", "other"),
        ((-1, ()), "R", "running"),
        ((-1, (1, 2)), "S", "running"),
        # A page of the map that comes from the disk; and a write that waits for it.
        ((-1, (1, 2)), "D", "disk"),
        ((75, (7, 0)), "D", "disk"),
        ((1, (12, 0)), "S", "other"),
        ((SENDTO, (99999, 0)), "", "other"),
    ],
)
def test_states(looker, call, letter, wanted):
    assert looker.state(call, letter) == wanted
    assert looker.sends == 0


def test_a_send_on_a_datagram_socket_is_the_log_and_on_another_is_not(looker):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log, socket.socket(socket.AF_UNIX) as client:
        assert looker.state((SENDTO, (log.fileno(), 0)), "") == "log"
        assert looker.state((SENDTO, (client.fileno(), 0)), "") == "other"
    assert looker.sends == 1


def test_on_a_machine_that_is_not_known_nothing_is_called_the_log(monkeypatch):
    monkeypatch.setattr(looks.platform, "machine", lambda: "vax")
    looker = looks.Looker(os.getpid())
    assert not looker.known
    assert looker.state((FUTEX, (LIBC, 0x80, 2)), "") == "other"


def test_threads_that_have_ended_are_in_no_state(looker):
    assert looker.look([2**22 + 1]) == dict.fromkeys(looks.STATES, 0)
    assert sum(looker.look([os.getpid()]).values()) == 1
