# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's /sys, /proc and /etc as files, with network cards; and a kernel that takes or refuses what is written."""

from __future__ import annotations

import os
import pathlib
import shlex
import types

import pytest
from ldaptune.host import affinity, irqbalance
from ldaptune.host.command import Done


class NicHost:
    """Interrupts have names as drivers give them. `errors`: {interrupt: errno of a write}; `deaf`: stay where they are.

    A write is followed at once, by the first CPU asked for, as on x86; `late` ones follow when they come next.
    """

    def __init__(self, tree, cpus):
        self.tree = tree
        self.cpus = cpus
        self.errors = {}
        self.deaf = set()
        self.late = set()
        self.writes = []
        self.counts = {}
        self.commands = []
        self.obeys = True
        self.next = 30
        self.file("proc/sys/kernel/random/boot_id", "boot-1\n")
        self.file("sys/devices/system/cpu/isolated", "\n")
        (tree / "sys/class/net/lo/queues/rx-0").mkdir(parents=True)
        self.directory("run")
        self.directory("usr/local/sbin")

    def file(self, path, text):
        place = self.tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def directory(self, path):
        (self.tree / path).mkdir(parents=True, exist_ok=True)

    @property
    def all_cpus(self):
        return affinity.parse_cpu_list(self.cpus)

    def ctx(self, **wanted):
        """Return what levers get; wanted={"nic.irq_cpus": value} is what a plan asks."""
        host = {"online_cpus": self.all_cpus, "name": "ldap1"}
        names = {key.replace("_", ".", 1): value for key, value in wanted.items()}
        return types.SimpleNamespace(root=str(self.tree), tree=self.tree, host=host, wanted=names, database=None)

    def interrupt(self, *names, asked=None, kind="PCI-MSIX-0000:00:03.0"):
        """Add an interrupt; returns its number."""
        number, self.next = self.next, self.next + 1
        asked = asked or self.cpus
        first = asked.split(",")[0].split("-")[0]
        self.file("proc/irq/%d/smp_affinity_list" % number, asked + "\n")
        self.file("proc/irq/%d/effective_affinity_list" % number, first + "\n")
        for name in names:
            self.directory("proc/irq/%d/%s" % (number, name))
        self.counts[number] = (0, kind, ", ".join(names))
        self.tell()
        return number

    def tell(self):
        """Write /proc/interrupts."""
        heads = "            " + "".join("CPU%-8d" % cpu for cpu in self.all_cpus)
        rest = "          0" * (len(self.all_cpus) - 1)
        rows = [
            "%4d: %10d%s  %s   1-edge      %s" % (number, count, rest, kind, names)
            for number, (count, kind, names) in sorted(self.counts.items())
        ]
        self.file("proc/interrupts", "\n".join([heads, *rows, " NMI:          0          0   Non-maskable"]) + "\n")

    def comes(self, number):
        """Let an interrupt come: what was asked of it is followed now, unless it is deaf."""
        count, kind, names = self.counts[number]
        self.counts[number] = (count + 1, kind, names)
        self.tell()
        if number not in self.deaf:
            self.follow(number)

    def follow(self, number):
        asked = (self.tree / ("proc/irq/%d/smp_affinity_list" % number)).read_text().strip()
        first = asked.split(",")[0].split("-")[0]
        (self.tree / ("proc/irq/%d/effective_affinity_list" % number)).write_text(first + "\n")

    def card(self, nic, address, names, virtio="", line=0, local="", rx=1):
        """Add a card with one interrupt for each name; returns {name: number}."""
        function = "sys/devices/pci0000:00/" + address
        self.directory(function)
        below = function + "/" + virtio if virtio else function
        self.directory("%s/net/%s" % (below, nic))
        net = self.tree / "sys/class/net"
        net.mkdir(parents=True, exist_ok=True)
        (net / nic).symlink_to(os.path.relpath(self.tree / below / "net" / nic, net))
        (self.tree / below / "net" / nic / "device").symlink_to("../..")
        self.file(function + "/numa_node", "-1\n")
        self.file(function + "/local_cpulist", (local or self.cpus) + "\n")
        self.file(function + "/irq", "%d\n" % line)
        for queue in range(rx):
            self.file("%s/net/%s/queues/rx-%d/rps_cpus" % (below, nic, queue), "0\n")
            self.directory("%s/net/%s/queues/tx-%d" % (below, nic, queue))
        return self.vectors(function, names)

    def vectors(self, function, names):
        found = {}
        for name in names:
            found[name] = self.interrupt(name)
            self.file("%s/msi_irqs/%d" % (function, found[name]), "msix\n")
        return found

    def device(self, address, names):
        """Add a device that is no card."""
        return self.vectors("sys/devices/pci0000:00/" + address, names)

    def virtual(self, nic):
        self.directory("sys/devices/virtual/net/%s/queues" % nic)
        (self.tree / "sys/class/net" / nic).symlink_to("../../devices/virtual/net/" + nic)

    def put(self, path, text):
        """Take a write as the kernel would."""
        name = os.path.relpath(path, self.tree)
        self.writes.append((name, text))
        parts = name.split(os.sep)
        number = int(parts[2]) if parts[:2] == ["proc", "irq"] else None
        code = self.errors.get(number if number is not None else name)
        if isinstance(code, list):
            code = code.pop(0) if code else 0
        if code:
            raise OSError(code, os.strerror(code))
        with open(path, "w", encoding="ascii") as stream:
            stream.write(text + "\n")
        if number is not None and number not in self.deaf and number not in self.late:
            self.follow(number)

    def asked(self, number):
        return (self.tree / ("proc/irq/%d/smp_affinity_list" % number)).read_text().strip()

    # irqbalance

    def systemd(self):
        self.directory("run/systemd/system")
        self.directory("etc/systemd/system/multi-user.target.wants")

    def irqbalance(self, options="# options\n#IRQBALANCE_ARGS=\n", place="etc/default/irqbalance"):
        """Let irqbalance run with the options of its file; returns the file."""
        path = self.file(place, options)
        self.options = path
        self.start()
        return path

    def start(self):
        words = ["/usr/sbin/irqbalance", "--foreground"]
        if self.obeys:
            for line in self.options.read_text().splitlines():
                if line.startswith("IRQBALANCE_ARGS="):
                    words = words[:2] + shlex.split(shlex.split(line.partition("=")[2])[0] or "")
        self.file("proc/4711/comm", "irqbalance\n")
        self.file("proc/4711/cmdline", "\0".join(words) + "\0")

    def run(self, command, seconds=90.0):
        self.commands.append([os.path.basename(command[0]), *command[1:]])
        if self.obeys and ("try-restart" in command or "restart" in command):
            self.start()
        return Done(0, "")

    def files(self):
        """Return {path: content, mode} of all that must come back; what the kernel shows is not compared."""
        found = {}
        for folder, names, files in os.walk(self.tree):
            for name in names + files:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, self.tree)
                if relative.startswith(("proc", "sys")):
                    continue
                if os.path.islink(path):
                    found[relative] = os.readlink(path)
                else:
                    content = pathlib.Path(path).read_bytes() if os.path.isfile(path) else None
                    found[relative] = (content, os.stat(path).st_mode & 0o7777)
        return found


@pytest.fixture
def make_host(tmp_path, monkeypatch):
    """Return a maker of one host: make_host("0-3")."""

    def make(cpus="0-3"):
        host = NicHost(tmp_path, cpus)
        monkeypatch.setattr(affinity, "_put", host.put)
        monkeypatch.setattr(irqbalance, "run", host.run)
        monkeypatch.setattr(irqbalance, "_SECONDS", 0.2)
        return host

    return make


@pytest.fixture
def host(make_host):
    return make_host()
