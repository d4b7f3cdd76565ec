# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which interrupts are the queues of one network card, found in /sys and /proc/irq below a root.

Whose they are is told by the card's own PCI function, never by its driver: virtio disks, balloons and sockets share
the driver and its way of naming. What they are for is told by the name the driver gave them. Numbers change at a reboot
and with the number of queues, so that queues have names: TxRx-0, input.0, comp3.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List

from .facts import parse_cpu_list

_PCI = re.compile(r"^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]+$")
# Management, link and mailbox, by the names of several drivers; fdir-TxRx-0 looks like a queue and is none.
_NO_QUEUE = re.compile(r"-config$|-event|hwc|fdir-|async|mgmnt|misc|-control$")
# (drivers, the interrupt's name; its first group names the queue)
QUEUE_NAMES = (
    ("virtio_net", re.compile(r"^virtio\d+-((?:input|output)\.\d+|virtqueues)$")),
    ("ena", re.compile(r"-(Tx-Rx-\d+)$")),
    ("igb, igc, ixgbe, i40e, iavf, ice, bnxt_en, hns3", re.compile(r"-(TxRx-\d+)$")),
    ("e1000e, igb, tg3, vmxnet3", re.compile(r"-((?:rx|tx|rxtx|txrx)-\d+)$")),
    ("bnx2x, qede", re.compile(r"-(fp-\d+)$")),
    ("mlx5_core", re.compile(r"^mlx5_(comp\d+)@")),
    ("mlx4_core", re.compile(r"^mlx4-(\d+)@")),
    ("mana", re.compile(r"^mana_(q\d+)@")),
    ("gve", re.compile(r"^gve-(ntfy-blk\d+)@")),
    ("xen-netfront", re.compile(r"-(q\d+-(?:tx|rx))$")),
    ("tg3, mlx5_core of older kernels", re.compile(r"^[^@:]+-(\d+)$")),
)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def nics(root: str) -> List[str]:
    """Return the interfaces of this host (of this network namespace) but the loopback."""
    return [name for name in _names(os.path.join(root, "sys/class/net")) if name != "lo"]


def _link(root: str, nic: str) -> str:
    path = os.path.join(root, "sys/class/net", nic, "device")
    return os.path.realpath(path) if os.path.exists(path) else ""


def function_of(root: str, nic: str) -> str:
    """Return the directory of the card's PCI function, or ""; a virtio card's is the parent of its virtioN."""
    here, top = _link(root, nic), os.path.realpath(os.path.join(root, "sys"))
    while here.startswith(top + os.sep):
        if _PCI.match(os.path.basename(here)):
            return here
        here = os.path.dirname(here)
    return ""


def users(root: str, number: int) -> List[str]:
    """Return the names by which drivers asked for an interrupt: each has a directory beside its masks."""
    folder = os.path.join(root, "proc/irq", str(number))
    return [name for name in _names(folder) if os.path.isdir(os.path.join(folder, name))]


def _numbers(folder: str) -> List[int]:
    return sorted(int(name) for name in _names(folder) if name.isdigit())


def _candidates(root: str, nic: str) -> Iterator[int]:
    function = function_of(root, nic)
    if function:
        numbers = _numbers(os.path.join(function, "msi_irqs"))
        line = _read(os.path.join(function, "irq"))
        if not numbers and line.isdigit() and int(line):
            numbers = [int(line)]
        yield from numbers
        return
    if not _link(root, nic):
        return  # a veth of a container would find the interrupts of the outer host's eth0
    # No PCI at all: Xen and virtio over MMIO are known by their names alone.
    words = [nic, os.path.basename(_link(root, nic))]
    for number in _numbers(os.path.join(root, "proc/irq")):
        if any(name == word or name.startswith(word + "-") for name in users(root, number) for word in words):
            yield number


def _queue(name: str) -> str:
    if _NO_QUEUE.search(name):
        return ""
    matches = (pattern.search(name) for _drivers, pattern in QUEUE_NAMES)
    return next((match.group(1) for match in matches if match), "")


def queues(root: str, nic: str) -> Dict[str, int]:
    """Return {queue: interrupt} of a card; {} where it has none of its own.

    A card with one interrupt for everything has the queue "all". One that another device shares is left out.
    """
    function = function_of(root, nic)
    twins = [other for other in nics(root) if other != nic and function and function_of(root, other) == function]
    found: Dict[str, int] = {}
    plain: List[int] = []
    for number in _candidates(root, nic):
        names = users(root, number)
        if len(names) != 1 or any(names[0] == twin or names[0].startswith(twin + "-") for twin in twins):
            continue
        queue = _queue(names[0])
        if queue:
            found[names[0] if queue in found else queue] = number
        elif not _NO_QUEUE.search(names[0]):
            plain.append(number)
    return found or ({"all": plain[0]} if len(plain) == 1 else {})


def local_cpus(root: str, nic: str) -> List[int]:
    """Return the CPUs of the card's node; [] where that is not told. numa_node may be -1 where this is right."""
    function = function_of(root, nic)
    return parse_cpu_list(_read(os.path.join(function, "local_cpulist"))) if function else []


def nearest(root: str, nic: str, online: List[int]) -> int:
    """Return the last CPU that is online and on the card's node, isolated ones left out where others are.

    Not asked is what slapd may use: a CPU that slapd leaves to the card is just the one it may not use.
    """
    near = local_cpus(root, nic)
    isolated = parse_cpu_list(_read(os.path.join(root, "sys/devices/system/cpu/isolated")))
    local = [cpu for cpu in online if cpu in near] or online
    return max([cpu for cpu in local if cpu not in isolated] or local)


def receive_queues(root: str, nic: str) -> Dict[str, str]:
    """Return {queue: path of its rps_cpus} of an interface; {} where the kernel has no RPS."""
    folder = os.path.join(root, "sys/class/net", nic, "queues")
    paths = {name: os.path.join(folder, name, "rps_cpus") for name in _names(folder) if name.startswith("rx-")}
    return {name: path for name, path in paths.items() if os.path.exists(path)}
