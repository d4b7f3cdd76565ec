# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Was the generator the limit: the judgement on figures."""

from __future__ import annotations

import pytest
from ldaptune.load import limits
from ldaptune.load.limits import HostCpu, judge


def phase(mean=400000, processes=1, mode="closed", **process):
    one = {
        "cpu_seconds": 4.0,
        "wall_seconds": 10.0,
        "waited_seconds": 5.0,
        "queued_seconds": 1.0,
        "throttled_seconds": 0.0,
        "lag_mean_ns": 40000,
        "lag_p99_ns": 90000,
    }
    return {
        "mode": mode,
        "latency_ns": {"mean": mean},
        "processes": [dict(one) for _ in range(processes - 1)] + [{**one, **process}],
    }


BEFORE = HostCpu(1000, 500, 0)
BUSY = HostCpu(2000, 520, 0)  # 2 % idle since
HALF = HostCpu(2000, 1000, 0)  # 50 % idle since


@pytest.mark.parametrize("after", [BUSY, HALF, None])
def test_a_generator_with_time_to_spare(after):
    assert judge(phase(), BEFORE, after, local=True)[0] == "server_limited"


def test_beside_the_server_on_a_full_host_waiting_is_normal():
    # figures of a healthy run on two cores: mostly queued behind the server's own threads
    found = phase(cpu_seconds=3.6, waited_seconds=2.0, queued_seconds=5.0, lag_mean_ns=290000)
    verdict, why = judge(found, BEFORE, BUSY, local=True)
    assert verdict == "server_limited"
    assert "share this host" in why


@pytest.mark.parametrize(
    ("process", "after", "said"),
    [
        ({"cpu_seconds": 8.6}, BUSY, "86 % of a core"),
        ({"cpu_seconds": 0.3, "waited_seconds": 1.0, "queued_seconds": 0.1}, BUSY, "stood still"),
        ({"throttled_seconds": 4.0}, BUSY, "CPU quota for 40 %"),
        ({"stood_seconds": 0.4}, HALF, "was stopped for 4 %"),
        ({"cpu_seconds": 1.0, "waited_seconds": 9.0, "queued_seconds": 0.5, "lag_mean_ns": 320000}, BUSY, "still"),
        ({"lag_mean_ns": 240000, "queued_seconds": 4.0}, HALF, "held operations for 60 %"),
    ],
)
@pytest.mark.parametrize("processes", [1, 3])
def test_a_generator_that_is_held_back(process, after, said, processes):
    verdict, why = judge(phase(processes=processes, **process), BEFORE, after, local=True)
    assert verdict == "generator_limited"
    assert said in why
    assert "process %d of %d" % (processes, processes) in why


def test_a_fixed_rate_is_judged_by_how_late_it_was_sent():
    late = {"mode": "open", "cpu_seconds": 0.8, "waited_seconds": 9.0, "queued_seconds": 0.8}
    assert judge(phase(lag_mean_ns=180000, **late), BEFORE, HALF, local=True)[0] == "server_limited"
    verdict, why = judge(phase(lag_mean_ns=240000, **late), BEFORE, HALF, local=True)
    assert (verdict, "60 % of the latency" in why) == ("generator_limited", True)


def test_a_generator_host_of_its_own_needs_idle_time():
    assert judge(phase(), BEFORE, BUSY, local=False)[0] == "generator_limited"
    assert judge(phase(), BEFORE, HALF, local=False)[0] == "server_limited"
    assert judge(phase(), BEFORE, HostCpu(2000, 1000, 50), local=False)[0] == "generator_limited"


def test_a_little_standing_still_and_what_the_hypervisor_took_are_not_the_generators():
    assert judge(phase(stood_seconds=0.2), BEFORE, HALF, local=True)[0] == "server_limited"
    stolen = HostCpu(2000, 1000, 20)
    assert judge(phase(stood_seconds=0.6), BEFORE, stolen, local=True)[0] == "server_limited"
    assert judge(phase(stood_seconds=0.8), BEFORE, stolen, local=True)[0] == "generator_limited"


def test_what_cannot_be_known():
    assert judge(phase(mean=None), BEFORE, BUSY, local=True)[0] == "undetermined"
    assert judge({**phase(), "processes": []}, BEFORE, BUSY, local=True)[0] == "undetermined"
    assert judge(phase(lag_mean_ns=240000), None, None, local=True)[0] == "undetermined"
    assert judge(phase(lag_mean_ns=None, queued_seconds=None), None, None, local=True)[0] == "server_limited"


def test_readings_of_this_system():
    found = limits.host_cpu()
    assert found is None or found.total > found.idle > 0
    assert limits.throttled_seconds() >= 0
    queued = limits.queued_seconds()
    assert queued is None or queued >= 0
