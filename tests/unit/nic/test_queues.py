# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interrupts of a card's queues, for each family of drivers, and of nothing else."""

from __future__ import annotations

import os
import re

import pytest
from ldaptune.host import nic_queues
from ldaptune.host.facts import online_cpus

FAMILIES = {
    "ixgbe": (["eth0-TxRx-0", "eth0-TxRx-1", "eth0"], {"TxRx-0": 0, "TxRx-1": 1}),
    "i40e": (
        ["i40e-0000:00:03.0:misc", "i40e-eth0-TxRx-0", "i40e-eth0-TxRx-1", "i40e-0000:00:03.0:fdir-TxRx-0"],
        {"TxRx-0": 1, "TxRx-1": 2},
    ),
    "ice": (["ice-0000:00:03.0:misc", "ice-eth0-TxRx-0"], {"TxRx-0": 1}),
    "igb apart": (["eth0", "eth0-rx-0", "eth0-tx-0"], {"rx-0": 1, "tx-0": 2}),
    "e1000e": (["eth0-rx-0", "eth0-tx-0", "eth0"], {"rx-0": 0, "tx-0": 1}),
    "e1000e by one MSI": (["eth0"], {"all": 0}),
    "ena": (["ena-mgmnt@pci:0000:00:05.0", "eth0-Tx-Rx-0", "eth0-Tx-Rx-1"], {"Tx-Rx-0": 1, "Tx-Rx-1": 2}),
    "mlx5": (
        ["mlx5_async0@pci:0000:00:03.0", "mlx5_comp0@pci:0000:00:03.0", "mlx5_comp1@pci:0000:00:03.0"],
        {"comp0": 1, "comp1": 2},
    ),
    "mlx5 of older kernels": (["mlx5_pages_eq@pci:0000:00:03.0", "eth0-0", "eth0-1"], {"0": 1, "1": 2}),
    "mlx4": (["mlx4-async@pci:0000:00:03.0", "mlx4-1@0000:00:03.0", "mlx4-2@0000:00:03.0"], {"1": 1, "2": 2}),
    "mana": (["mana_hwc@pci:7870:00:00.0", "mana_q0@pci:7870:00:00.0"], {"q0": 1}),
    "bnx2x": (["eth0", "eth0-fp-0", "eth0-fp-1"], {"fp-0": 1, "fp-1": 2}),
    "bnxt_en": (["eth0-TxRx-0"], {"TxRx-0": 0}),
    "vmxnet3": (["eth0-rxtx-0", "eth0-rxtx-1", "eth0-event-2"], {"rxtx-0": 0, "rxtx-1": 1}),
    "gve": (["gve-ntfy-blk0@pci:0000:00:04.0", "gve-mgmnt@pci:0000:00:04.0"], {"ntfy-blk0": 0}),
    "named before it was renamed": (["eth7-TxRx-0"], {"TxRx-0": 0}),
}


@pytest.mark.parametrize(("names", "queues"), FAMILIES.values(), ids=FAMILIES)
def test_families(host, names, queues):
    vectors = host.card("eth0", "0000:00:03.0", names)
    assert nic_queues.queues(str(host.tree), "eth0") == {queue: vectors[names[at]] for queue, at in queues.items()}


def test_only_the_vectors_under_the_card_s_own_function(host):
    """Walking the driver's directory instead would take the other card, the disk, the balloon and the socket."""
    host.device("0000:00:01.0", ["virtio0-config", "virtio0-inflate", "virtio0-stats"])
    host.device("0000:00:02.0", ["virtio1-config", "virtio1-req.0"])
    names = ["virtio2-config", "virtio2-input.0", "virtio2-output.0"]
    first = host.card("eth0", "0000:00:03.0", names, virtio="virtio2")
    host.device("0000:00:04.0", ["virtio3-config", "virtio3-rx", "virtio3-tx", "virtio3-event"])
    host.device("0000:00:05.0", ["virtio4-config", "virtio4-input"])
    names = ["virtio5-config", "virtio5-input.0", "virtio5-output.0"]
    other = host.card("eth1", "0000:00:06.0", names, virtio="virtio5")
    root = str(host.tree)
    assert nic_queues.queues(root, "eth0") == {
        "input.0": first["virtio2-input.0"],
        "output.0": first["virtio2-output.0"],
    }
    assert set(nic_queues.queues(root, "eth1").values()) == {other["virtio5-input.0"], other["virtio5-output.0"]}


def test_a_legacy_line_is_taken_only_where_nobody_shares_it(host):
    number = host.interrupt("eth0", kind="IO-APIC")
    host.card("eth0", "0000:00:03.0", [], line=number)
    assert nic_queues.queues(str(host.tree), "eth0") == {"all": number}
    shared = host.interrupt("eth1", "ehci_hcd:usb1", kind="IO-APIC")
    host.card("eth1", "0000:00:04.0", [], line=shared)
    assert nic_queues.queues(str(host.tree), "eth1") == {}


def test_the_port_above_a_card_has_interrupts_of_its_own(host):
    """A card without MSI behind a PCIe port: the port's vectors (hotplug, errors) are not the card's."""
    number = host.interrupt("eth0", kind="IO-APIC")
    host.card("eth0", "0000:00:1c.0/0000:03:00.0", [], line=number)
    host.device("0000:00:1c.0", ["pciehp"])
    assert nic_queues.queues(str(host.tree), "eth0") == {"all": number}


def test_xen_is_known_by_its_names(host):
    below = "sys/devices/vif-0/net/eth0"
    host.directory(below)
    (host.tree / "sys/class/net/eth0").symlink_to("../../devices/vif-0/net/eth0")
    (host.tree / below / "device").symlink_to("../..")
    tx, rx = host.interrupt("eth0-q0-tx", kind="xen-dyn"), host.interrupt("eth0-q0-rx", kind="xen-dyn")
    host.interrupt("eth01-q0-rx", kind="xen-dyn")
    host.interrupt("blkif", kind="xen-dyn")
    assert nic_queues.queues(str(host.tree), "eth0") == {"q0-tx": tx, "q0-rx": rx}


def test_a_veth_of_a_container_has_none_of_the_outer_host_s(host):
    host.interrupt("eth0-TxRx-0")
    host.virtual("eth0")
    assert nic_queues.queues(str(host.tree), "eth0") == {}


def test_two_ports_of_one_function_are_told_apart_by_their_names(host):
    vectors = host.card("eth0", "0000:00:03.0", ["eth0-0", "eth1-0"])
    net = host.tree / "sys/class/net/eth1"
    below = host.tree / "sys/devices/pci0000:00/0000:00:03.0/net/eth1"
    below.mkdir()
    net.symlink_to(os.path.relpath(below, net.parent))
    (below / "device").symlink_to("../..")
    assert nic_queues.queues(str(host.tree), "eth0") == {"0": vectors["eth0-0"]}
    assert nic_queues.queues(str(host.tree), "eth1") == {"0": vectors["eth1-0"]}


@pytest.mark.parametrize(
    ("local", "isolated", "one"),
    [("0-7", "", 7), ("0-3", "", 3), ("", "", 7), ("0-7", "6-7", 5), ("6-7", "6-7", 7), ("8-15", "", 7)],
)
def test_the_last_cpu_near_the_card(make_host, local, isolated, one):
    host = make_host("0-7")
    host.card("eth0", "0000:00:03.0", ["eth0-TxRx-0"], local=local or "\n")
    host.file("sys/devices/system/cpu/isolated", isolated + "\n")
    assert nic_queues.nearest(str(host.tree), "eth0", list(range(8))) == one


def test_on_this_machine():
    """Every card found here has interrupts of its own, and those that are named after a disk are none of them."""
    taken = {}
    for nic in nic_queues.nics("/"):
        for queue, number in nic_queues.queues("/", nic).items():
            assert taken.setdefault(number, (nic, queue)) == (nic, queue)
            names = nic_queues.users("/", number)
            assert not any(re.search(r"-(req|config|inflate|stats)", name) for name in names)
        assert nic_queues.nearest("/", nic, online_cpus()) in online_cpus()
