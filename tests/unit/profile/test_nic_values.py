# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPUs of a network card: what a profile may say, and how it is shown."""

from __future__ import annotations

import pytest
from ldaptune.profile.values import NicCpus, ValueRefused


@pytest.mark.parametrize(
    ("cpus", "normal"),
    [("one", "one"), (3, "3"), ("3,2, 0", "0,2-3"), ("1-last", "1-last"), ([0, 2], "0,2"), ("all", "all")],
)
def test_canonical(cpus, normal):
    value = NicCpus().parse({"cpus": cpus, "nic": "enp3s0f0.100"})
    assert value == {"nic": "enp3s0f0.100", "cpus": normal}
    assert NicCpus().parse(value) == value


@pytest.mark.parametrize(
    "raw",
    [
        "eth0", 3, None, [], {}, {"nic": "eth0"}, {"cpus": "0"}, {"nic": "eth0", "cpus": "0", "queues": 1},
        {"nic": "", "cpus": "0"}, {"nic": "a/b", "cpus": "0"}, {"nic": "..", "cpus": "0"}, {"nic": "a b", "cpus": "0"},
        {"nic": "-x", "cpus": "0"}, {"nic": "sixteen-letters-", "cpus": "0"}, {"nic": 0, "cpus": "0"},
        {"nic": True, "cpus": "0"}, {"nic": "eth0", "cpus": "rest"}, {"nic": "eth0", "cpus": "2-N"},
        {"nic": "eth0", "cpus": "3-1"}, {"nic": "eth0", "cpus": "0,,2"}, {"nic": "eth0", "cpus": ""},
        {"nic": "eth0", "cpus": None}, {"nic": "eth0", "cpus": True}, {"nic": "eth0", "cpus": -1},
    ],
)  # fmt: skip
def test_refused(raw):
    with pytest.raises(ValueRefused) as refused:
        NicCpus().parse(raw)
    assert "a mapping with nic" in refused.value.wanted


@pytest.mark.parametrize(
    ("normal", "text"),
    [
        (None, "absent"),
        ({"nic": "auto", "cpus": "one"}, "auto: one CPU near it"),
        ({"nic": "eth0", "cpus": "1-last"}, "eth0: 1-last"),
        ({"nic": "eth0", "cpus": [0, 1, 3]}, "eth0: 0-1,3"),
        ({"nic": "eth0", "cpus": []}, "eth0: none"),
        ({"nic": "eth0", "cpus": "irqbalance"}, "eth0: irqbalance"),
        ({"nic": "eth0", "cpus": {"tx-0": [1], "rx-0": [0, 2]}}, "eth0: rx-0=0,2 tx-0=1"),
        ({"nic": "eth0", "cpus": {str(at): [at] for at in range(8)}}, "eth0: 0-7 by 8 queues"),
    ],
)
def test_shown(normal, text):
    assert NicCpus().show(normal) == text
