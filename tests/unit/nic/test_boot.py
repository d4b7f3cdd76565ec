# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What brings it back at boot: the unit, and its program run as the unit runs it."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from ldaptune.host import boot_unit, nic_boot
from ldaptune.levers.registry import behaviour

NAMES = ["virtio2-config", "virtio2-input.0", "virtio2-output.0"]
KEYS = ("nic.irq_cpus", "nic.rps_cpus")


def unit_of(host, key):
    return host.tree / ("etc/systemd/system/ldaptune-%s.service" % key)


def command_of(host, key):
    """Return the unit's command with its program's path in our tree, and the tree as its root."""
    line = next(line for line in unit_of(host, key).read_text().splitlines() if line.startswith("ExecStart="))
    words = line.partition("=")[2].split()
    return [words[0], words[1], str(host.tree) + words[2], *words[3:], str(host.tree)]


def reboot(host, names):
    """Masks forgotten, other numbers, another virtio index, no marks."""
    for mark in (host.tree / "run").glob("ldaptune-*"):
        mark.unlink()
    function = host.tree / "sys/devices/pci0000:00/0000:00:03.0"
    shutil.rmtree(function / "msi_irqs")
    host.next = 70
    path = next(function.glob("virtio2/net/eth0/queues/rx-0/rps_cpus"))
    path.write_text("0\n")
    return host.vectors(str(function.relative_to(host.tree)), names)


def test_the_program_finds_the_queues_again(host):
    host.systemd()
    host.card("eth0", "0000:00:03.0", NAMES, virtio="virtio2")
    for key, cpus in zip(KEYS, ("last", "0-2")):
        behaviour(key).write(host.ctx(), {"nic": "auto", "cpus": cpus})
    assert [boot_unit.arguments(str(host.tree), key) for key in KEYS] == [["eth0", "3"], ["eth0", "0-2"]]
    vectors = reboot(host, ["virtio9-config", "virtio9-input.0", "virtio9-output.0"])
    irq, rps = (behaviour(key) for key in KEYS)
    assert not irq.same(irq.observe(host.ctx()), {"nic": "eth0", "cpus": "3"})
    for key in KEYS:
        done = subprocess.run(
            command_of(host, key), capture_output=True, text=True, check=False, cwd="/", env={"PATH": "/usr/bin:/bin"}
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for name in ("virtio9-input.0", "virtio9-output.0"):
        assert host.asked(vectors[name]) == "3"
        host.follow(vectors[name])  # nobody plays the kernel for the program
    assert host.asked(vectors["virtio9-config"]) == "0-3"
    assert irq.same(irq.observe(host.ctx()), {"nic": "auto", "cpus": "one"})
    assert rps.same(rps.observe(host.ctx()), {"nic": "eth0", "cpus": "0-2"})


def test_irqbalance_is_told_the_new_numbers(host, capsys):
    host.systemd()
    host.card("eth0", "0000:00:03.0", NAMES, virtio="virtio2")
    options = host.irqbalance("# by hand\n")
    behaviour(KEYS[0]).write(host.ctx(), {"nic": "eth0", "cpus": "3"})
    vectors = reboot(host, NAMES)
    host.start()
    host.commands.clear()
    assert nic_boot.main([KEYS[0], "eth0", "3", str(host.tree)]) == 0
    numbers = sorted(vectors[name] for name in NAMES[1:])
    assert options.read_text().count("IRQBALANCE_ARGS") == 1
    assert 'IRQBALANCE_ARGS="--banirq=%d --banirq=%d"\n' % tuple(numbers) in options.read_text()
    assert host.commands[-1] == ["systemctl", "try-restart", "irqbalance.service"]
    host.errors[numbers[0]] = 5
    assert nic_boot.main([KEYS[0], "eth0", "2", str(host.tree)]) == 0
    assert capsys.readouterr().out == "left to the kernel, which manages them: input.0\n"


def test_a_card_that_comes_late_is_waited_for_and_no_longer(host, monkeypatch):
    waits = []

    def come(seconds):
        waits.append(seconds)
        host.card("eth0", "0000:00:03.0", NAMES, virtio="virtio2")

    monkeypatch.setattr(nic_boot.time, "sleep", come)
    assert nic_boot.main([KEYS[1], "eth0", "3", str(host.tree)]) == 0
    assert len(waits) == 1


def test_a_card_that_does_not_come_is_a_failed_unit(host, capsys):
    assert nic_boot.main([KEYS[0], "eth9", "3", str(host.tree)], seconds=0.0) == 1
    assert "eth9: this interface has no queues to place" in capsys.readouterr().err


def test_systemd_takes_the_units(host):
    verify = shutil.which("systemd-analyze")
    if not verify:
        pytest.skip("no systemd-analyze here")
    host.systemd()
    host.card("eth0", "0000:00:03.0", NAMES, virtio="virtio2")
    for key in KEYS:
        behaviour(key).write(host.ctx(), {"nic": "eth0", "cpus": "3"})
        text = unit_of(host, key).read_text()
        # Its program lies in our tree only.
        text = text.replace(" /usr/local/sbin", " %s/usr/local/sbin" % host.tree)
        place = host.file("verify/" + unit_of(host, key).name, text)
        done = subprocess.run([verify, "verify", "--man=no", str(place)], capture_output=True, text=True, check=False)
        ours = [line for line in done.stderr.splitlines() if "ldaptune" in line]
        assert ours == []
        assert done.returncode == 0, done.stderr
        link = host.tree / "etc/systemd/system/multi-user.target.wants" / place.name
        assert os.path.realpath(link) == str(unit_of(host, key))


def test_directories_that_were_missing_are_missing_again(host):
    host.directory("run/systemd/system")
    (host.tree / "usr/local/sbin").rmdir()
    host.card("eth0", "0000:00:03.0", NAMES, virtio="virtio2")
    before = host.files()
    levers = [behaviour(key) for key in KEYS]
    for key, lever in zip(KEYS, levers):
        assert lever.observe(host.ctx(**{key.replace(".", "_"): {"nic": "eth0", "cpus": "1"}}))["supported"]
    records = [lever.observe(host.ctx())["record"] for lever in levers]
    for lever in levers:
        lever.write(host.ctx(), {"nic": "eth0", "cpus": "1"})
    for lever, record in reversed(list(zip(levers, records))):
        lever.restore(host.ctx(), record)
    assert host.files() == before
