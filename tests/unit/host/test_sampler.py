# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings of the host, and the figures between two."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ldaptune.host import sampler
from ldaptune.host.procfs import Disk, Thread

TICKS = os.sysconf("SC_CLK_TCK")


def test_shares_of_a_core():
    before = {0: (1000, 10, 500, 5000, 100, 5, 50, 7), 1: (1, 1, 1, 1, 1, 1, 1, 1)}
    after = {0: (1020, 15, 515, 5030, 105, 6, 70, 11), 1: (1, 1, 1, 1, 1, 1, 1, 1)}
    # Core 1 has no time to share: not sampled, rather than idle.
    assert sampler.cpu_shares(before, after) == [
        {"cpu": 0, "busy": 61.0, "user": 25.0, "system": 15.0, "softirq": 20.0, "irq": 1.0, "iowait": 5.0, "steal": 4.0}
    ]


def test_counters_that_go_back_are_no_negative_shares():
    # iowait may, says proc(5).
    (item,) = sampler.cpu_shares({0: (0, 0, 0, 0, 50, 0, 0, 0)}, {0: (100, 0, 0, 0, 40, 0, 0, 0)})
    assert item["busy"] == 100.0 and item["iowait"] == 0.0


def test_shares_of_threads_by_their_part():
    looks = {"running": 1, "idle": 1}
    before = {"clock": 10.0, "threads": {1: Thread("S", 0, 0), 2: Thread("S", 10, 10), 3: Thread("S", 100, 0)}}
    after = {
        "clock": 12.0,
        "looks": looks,
        "threads": {
            1: Thread("S", 0, 0),
            2: Thread("R", 10 + TICKS, 10 + TICKS),
            3: Thread("S", 100 + TICKS, TICKS // 2),
            # Born in between.
            4: Thread("R", TICKS // 2, 0),
        },
    }
    assert sampler.slapd_shares(before, after, [2], {1, 2}) == {
        "listeners": [{"tid": 2, "percent": 100.0}],
        "workers": {
            "count": 2, "percent_total": 100.0, "user_percent": 75.0, "system_percent": 25.0, "busiest_percent": 75.0,
            "looks": looks,
        },
    }  # fmt: skip
    assert sampler.slapd_shares(before, {**after, "threads": None}, [2], {1, 2}) is None


def test_shares_of_a_disk():
    before = {"8:0": Disk("sda", 100, 4096, 10, 512, 1000)}
    after = {"8:0": Disk("sda", 120, 4096 + 8192, 10, 512, 2900), "8:16": Disk("sdb", 5, 5, 5, 5, 5)}
    found = sampler.disk_shares(before, after, 2.0)
    assert found["8:0"] == {
        "name": "sda", "busy_percent": 95.0, "reads": 10.0, "read_bytes": 4096, "writes": 0.0, "written_bytes": 0,
    }  # fmt: skip
    # One that has just come has done nothing yet.
    assert found["8:16"]["busy_percent"] == 0.0


@pytest.fixture
def sysfs(tmp_path):
    """A tree like /sys/class/net with a virtio card, a PCI card, one without interrupts, and one that is none."""
    net = tmp_path / "net"
    net.mkdir()
    for card, device, irqs in (
        ("eth0", "pci/0000:00:03.0/virtio2", "pci/0000:00:03.0/msi_irqs"),
        ("ens1f0", "pci/0000:3b:00.0", "pci/0000:3b:00.0/msi_irqs"),
        ("vnic0", "vio/3000", ""),
    ):
        (tmp_path / device).mkdir(parents=True)
        (net / card).mkdir()
        (net / card / "device").symlink_to(tmp_path / device)
        if irqs:
            (tmp_path / irqs).mkdir()
            for number in (37, 38):
                (tmp_path / irqs / str(number)).touch()
    (net / "lo").mkdir()
    return str(net)


def test_cards_and_their_interrupts(sysfs):
    assert sampler.network_cards(sysfs) == {
        "eth0": {"irqs": [37, 38], "names": ["eth0", "virtio2"]},
        "ens1f0": {"irqs": [37, 38], "names": ["ens1f0", "0000:3b:00.0"]},
        "vnic0": {"irqs": [], "names": ["vnic0", "3000"]},
    }
    assert sampler.network_cards(sysfs + "/none") == {}


def test_the_disk_of_a_path(tmp_path):
    assert sampler.disk_of(str(tmp_path / "none")) == ""
    assert sampler.disk_of("/proc") == ""


def test_a_reading_of_this_host():
    pid = os.getpid()
    reader = sampler.HostReader(pid, pid, [], {})
    try:
        first = reader.read()
        sum(range(10**6))
        figures = reader.figures(first, reader.read())
    finally:
        reader.close()
    assert figures["seconds"] > 0 and figures["context_switches"] >= 0
    assert figures["memory"]["slapd_rss_bytes"] > 1 << 20
    assert set(figures["slapd"]) == {"listeners", "workers"}
    assert not [
        name for name in os.listdir("/proc/self/fd") if os.path.realpath("/proc/self/fd/" + name) == "/proc/stat"
    ]


def test_a_slapd_that_has_gone_leaves_the_hosts_own_figures(monkeypatch):
    reader = sampler.HostReader(os.getpid(), os.getpid(), [], {})
    first = reader.read()
    reader.pid = 2**22 + 1
    figures = reader.figures(first, reader.read())
    reader.close()
    assert figures["slapd"] is None and figures["memory"]["slapd_rss_bytes"] is None
    assert Path("/proc/stat").exists() and "cpus" in figures
