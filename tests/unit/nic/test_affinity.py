# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Masks are compared as sets; what the kernel refuses, and when it is tried again."""

from __future__ import annotations

import errno

import pytest
from ldaptune.host import affinity


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", []),
        ("00000000,00000000", []),
        ("3", [0, 1]),
        ("00000003\n", [0, 1]),
        ("0000000,f000000f", [0, 1, 2, 3, 28, 29, 30, 31]),
        ("f000000f", [0, 1, 2, 3, 28, 29, 30, 31]),
        ("1,00000000", [32]),
        ("1,0", [32]),
        ("00000001,00000000,80000000", [31, 64]),
    ],
)
def test_masks_of_any_padding_are_one_set(text, cpus):
    assert affinity.unmask(text) == cpus
    assert affinity.unmask(affinity.mask(cpus)) == cpus


def test_a_mask_is_written_in_words_of_32_bits():
    assert affinity.mask([]) == "00000000"
    assert affinity.mask([0, 1, 28, 31]) == "90000003"
    assert affinity.mask([32]) == "00000001,00000000"


@pytest.mark.parametrize(
    ("code", "tries", "words"),
    [
        (errno.EIO, 1, "the kernel manages this interrupt itself (EIO)"),
        (errno.EINVAL, 1, "none of these CPUs is online (EINVAL)"),
        (errno.EOVERFLOW, 1, "a CPU that this host cannot have (EOVERFLOW)"),
        (errno.ENOSPC, 1, "these CPUs have no interrupt vector left (ENOSPC)"),
        (errno.EBUSY, 3, "the interrupt is still being moved (EBUSY)"),
        (errno.EAGAIN, 3, "the interrupt is still being moved (EAGAIN)"),
        (errno.EROFS, 1, "/proc and /sys are read-only here, as in a container (EROFS)"),
    ],
)
def test_refusals(host, monkeypatch, code, tries, words):
    monkeypatch.setattr(affinity, "_TRIES", 3)
    monkeypatch.setattr(affinity, "_STEP", 0.0)
    number = host.interrupt("eth0-TxRx-0")
    host.errors[number] = code
    assert affinity.move(str(host.tree), number, [1]) == code
    assert len(host.writes) == tries
    assert affinity.refusal(code) == words


def test_what_is_busy_for_a_moment_is_tried_again(host, monkeypatch):
    monkeypatch.setattr(affinity, "_STEP", 0.0)
    number = host.interrupt("eth0-TxRx-0")
    host.errors[number] = [errno.EBUSY, errno.EAGAIN]
    assert affinity.move(str(host.tree), number, [2, 1]) == 0
    assert host.asked(number) == "1,2"
    assert len(host.writes) == 3


def test_a_line_that_has_not_come_yet_is_pending_and_one_that_came_has_failed(host, monkeypatch):
    root = str(host.tree)
    number = host.interrupt("eth0", asked="0-3", kind="IO-APIC")
    assert affinity.follows(root, number) is True
    host.late.add(number)
    affinity.move(root, number, [3])
    assert affinity.look(root, number) == affinity.Irq([3], [0], False)
    assert affinity.follows(root, number, 0.1) is None
    host.comes(number)
    assert affinity.follows(root, number) is True
    host.deaf.add(number)
    affinity.move(root, number, [2])
    counts = iter([5, 6])
    monkeypatch.setattr(affinity, "came", lambda *_: next(counts))
    assert affinity.follows(root, number, 0.1) is False


def test_counts_and_kernels_without_effective_masks(host):
    root, number = str(host.tree), host.interrupt("eth0-TxRx-0", asked="1")
    assert affinity.came(root, number) == 0
    host.comes(number)
    assert affinity.came(root, number) == 1
    (host.tree / ("proc/irq/%d/effective_affinity_list" % number)).unlink()
    (host.tree / ("proc/irq/%d/smp_affinity_list" % number)).chmod(0o444)
    assert affinity.look(root, number) == affinity.Irq([1], [1], True)
