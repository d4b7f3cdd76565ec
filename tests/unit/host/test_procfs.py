# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What files of /proc say, on text as kernels print it."""

from __future__ import annotations

import pytest
from ldaptune.host import procfs

STAT = """\
cpu  1819777 337983 574539 2733326 6975 0 73368 8909 0 0
cpu0 912528 166646 288463 1365679 3950 0 35409 4454 0 0
cpu1 907248 171337 286075 1367646 3024 0 37958 4454 0 0
intr 128033180 0 0 0 0 7 0 2839946 0 34885 33041 0
ctxt 203214443
btime 1796074000
processes 18297
procs_running 3
procs_blocked 1
softirq 11 0 1 2 3 4 0 0 0 0 1
"""

# A virtio card of two pairs of queues, Linux 6.1 and, with other columns, Linux 6.18.
VIRTIO = """\
           CPU0       CPU1
  0:         37          0   IO-APIC   2-edge      timer
 24:          0          0   PCI-MSI 65536-edge      virtio1-config
 25:    2839946          0   PCI-MSI 65537-edge      virtio1-req.0
 27:          0          0   PCI-MSI 49152-edge      virtio0-config
 28:     934885          0   PCI-MSI 49153-edge      virtio0-input.0
 29:          3          2   PCI-MSI 49154-edge      virtio0-output.0
 30:          0     734885   PCI-MSI 49155-edge      virtio0-input.1
 31:          0          9   PCI-MSI 49156-edge      virtio0-output.1
 38:          0      34885 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
NMI:          0          0   Non-maskable interrupts
LOC:   14191061   14104040   Local timer interrupts
ERR:          0
MIS:          0
"""

# Mellanox: named by the card's PCI address; and the same with an older kernel, by the interface.
MLX5 = """\
            CPU0       CPU1       CPU2       CPU3
 144:       1021          0          0          0  IR-PCI-MSI 30932992-edge      mlx5_async0@pci:0000:3b:00.0
 145:   81234567          0          0         12  IR-PCI-MSI 30932993-edge      mlx5_comp0@pci:0000:3b:00.0
 146:          0   79911223          0          0  IR-PCI-MSI 30932994-edge      mlx5_comp1@pci:0000:3b:00.0
 200:          0          0          5          0  IR-PCI-MSIX-0000:3b:00.1    0-edge      mlx5_async0@pci:0000:3b:00.1
 210:          9          0          0          0  IR-PCI-MSI 512000-edge      ahci[0000:00:1f.2]
"""

INTEL = """\
            CPU0       CPU1       CPU2       CPU3
  16:          0          0          0          0  IR-IO-APIC   16-fasteoi   ehci_hcd:usb1, i801_smbus
  75:         12          0          0          0  IR-PCI-MSI 524288-edge      eno1
  76:    5551212          1          0          0  IR-PCI-MSI 524289-edge      eno1-TxRx-0
  77:          0    4441212          0          0  IR-PCI-MSI 524290-edge      eno1-TxRx-1
  78:          0          0          7          0  IR-PCI-MSI 1048576-edge      i40e-ens1f0-TxRx-0
  79:          0          0          7          0  IR-PCI-MSI 1048577-edge      ens1f0d1-TxRx-0
  80:          0          0          7          0  IR-PCI-MSI 1048578-edge
"""

ARM = """\
           CPU0       CPU1
 11:    1064721    1064721     GICv3  27 Level     arch_timer
 49:       1234          0   ITS-MSI 81921 Edge      ens5-Tx-Rx-0
IPI0:      5000       6000       Rescheduling interrupts
"""


def cards(**known):
    return {card: {"irqs": [], "names": names, **({"irqs": names} if names and isinstance(names[0], int) else {})}
            for card, names in known.items()}  # fmt: skip


def test_cpus_and_single_figures():
    times = procfs.cpu_times(STAT)
    assert sorted(times) == [0, 1]
    assert dict(zip(procfs.CPU_PARTS, times[1])) == {
        "user": 907248, "nice": 171337, "system": 286075, "idle": 1367646, "iowait": 3024, "irq": 0, "softirq": 37958,
        "steal": 4454,
    }  # fmt: skip
    figures = [procfs.stat_number(STAT, name) for name in ("ctxt", "procs_running", "procs_blocked", "absent")]
    assert figures == [203214443, 3, 1, 0]


def test_a_kernel_with_fewer_columns():
    assert procfs.cpu_times("cpu0 1 2 3 4 5 6 7\n") == {0: (1, 2, 3, 4, 5, 6, 7, 0)}


def test_totals_of_some_interrupts():
    assert procfs.interrupt_totals(STAT, [4, 6, 9, 4000]) == {4: 7, 6: 2839946, 9: 33041}
    assert procfs.interrupt_totals(STAT, []) == {}
    assert procfs.interrupt_totals("cpu 1", [3]) == {}


@pytest.mark.parametrize(
    ("text", "known", "wanted"),
    [
        (VIRTIO, cards(eth0=["eth0", "virtio0"]), {27, 28, 29, 30, 31}),
        # What sysfs says goes before any name.
        (VIRTIO, cards(eth0=[38]), {38}),
        (MLX5, cards(ens3f0=["ens3f0", "0000:3b:00.0"]), {144, 145, 146}),
        (INTEL, cards(eno1=["eno1", "0000:01:00.0"]), {75, 76, 77}),
        # Not those of ens1f0d1, whose name only begins alike.
        (INTEL, cards(ens1f0=["ens1f0", "0000:02:00.0"]), {78}),
        (ARM, cards(ens5=["ens5"]), {49}),
        # Nor those of a card whose name only ends alike.
        (ARM, cards(s5=["s5"]), set()),
        (ARM, {}, set()),
    ],
)
def test_interrupts_of_network_cards(text, known, wanted):
    _, table = procfs.interrupts(text)
    assert set(procfs.network_queues(table, known)) == wanted


def test_an_interrupt_has_its_counts_and_its_label():
    cpus, table = procfs.interrupts(MLX5)
    assert cpus == [0, 1, 2, 3]
    assert table[145] == procfs.Interrupt((81234567, 0, 0, 12), "mlx5_comp0@pci:0000:3b:00.0")
    assert procfs.interrupts(INTEL)[1][16].label == "ehci_hcd:usb1, i801_smbus"
    assert procfs.interrupts(ARM)[1][11].label == "arch_timer"
    assert procfs.interrupts("") == ([], {})


def test_memory():
    text = "MemTotal:       24684084 kB\nMemFree: 1 kB\nMemAvailable:   23906000 kB\nDirty: 12 kB\nHugePages_Total: 0\n"
    assert procfs.memory(text) == {
        "total_bytes": 24684084 * 1024, "available_bytes": 23906000 * 1024, "dirty_bytes": 12 * 1024,
    }  # fmt: skip


def test_disks():
    text = (
        "   7       0 loop0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        " 254       0 vda 174015 40848 8833762 28483 2114538 448320 32626744 273243 0 139472 374353 1 2 3 4 5 6\n"
        " 259       1 nvme0n1p2 10 0 80 5 20 0 160 7 0 9 12\n"
        " 253       0 zram0 0 0 0 0 0 0 0 0 0 0 0\n"
        "   8       0 sda 1 2 3\n"
    )
    assert procfs.disks(text) == {
        "254:0": procfs.Disk("vda", 174015, 8833762 * 512, 2114538, 32626744 * 512, 139472),
        "259:1": procfs.Disk("nvme0n1p2", 10, 80 * 512, 20, 160 * 512, 9),
    }


def test_a_thread_whose_name_has_brackets():
    text = "4712 (sla) S (pd) D 1 4700 4700 0 -1 4194368 100 0 3 0 1234 567 0 0 20 0 19 0 84000 1 2 3"
    assert procfs.thread(text) == procfs.Thread("D", 1234, 567)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("202 0x7f1c 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f21\n", (202, (0x7F1C, 0x189, 0, 0, 0, 0xFFFFFFFF))),
        ("running\n", (-1, ())),
        # Blocked outside a system call, as in a page fault: no arguments.
        ("-1 0x7ffc 0x7f21\n", (-1, (0x7FFC, 0x7F21))),
        ("", (-1, ())),
    ],
)
def test_system_calls(text, wanted):
    assert procfs.system_call(text) == wanted


def test_the_zeroed_data_of_libc():
    text = (
        "55d0-55e0 rw-p 00000000 00:00 0          [heap]\n"
        "7f00-7f10 r-xp 00026000 fe:00 339380     /usr/lib/x86_64-linux-gnu/libc.so.6\n"
        "7f10-7f20 rw-p 001d3000 fe:00 339380     /usr/lib/x86_64-linux-gnu/libc.so.6\n"
        "7f20-7f30 rw-p 00000000 00:00 0 \n"
        "7f30-7f40 r--p 00000000 fe:00 339381     /usr/lib/x86_64-linux-gnu/libcrypt.so.1\n"
        "7f40-7f50 rw-p 00000000 00:00 0 \n"
        "7f60-7f70 rw-p 00000000 fe:00 339382     /usr/lib64/libc-2.17.so\n"
        "7f70-7f80 rw-p 00000000 00:00 0 \n"
    )
    assert procfs.libc_memory(text) == [(0x7F20, 0x7F30), (0x7F70, 0x7F80)]


def test_datagram_sockets():
    text = (
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000: 00000003 00000000 00000000 0001 03 1111\n"
        "0000: 00000002 00000000 00000000 0002 01 2222\n"
        "0000: 00000002 00000000 00010000 0001 01 3333 /run/ldapi\n"
    )
    assert procfs.datagram_sockets(text) == ["2222"]
