# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nic.irq_cpus on hosts of files: written, kept, read back, undone without a trace."""

from __future__ import annotations

import errno
import json

import pytest
from ldaptune.host import affinity, boot_unit, irqbalance, nic_place
from ldaptune.levers import nic_cpus
from ldaptune.levers.registry import behaviour
from ldaptune.problems import LdaptuneError

KEY = "nic.irq_cpus"
LEVER = behaviour(KEY)
FOUR = ["eth0-TxRx-0", "eth0-TxRx-1", "eth0-TxRx-2", "eth0-TxRx-3", "eth0"]


@pytest.fixture
def spread(host):
    """A host with systemd and a card of four queues, each on a CPU of its own; {name: number}."""
    host.systemd()
    vectors = host.card("eth0", "0000:00:03.0", FOUR)
    for at, name in enumerate(FOUR[:4]):
        host.put(str(host.tree / ("proc/irq/%d/smp_affinity_list" % vectors[name])), str(at))
    host.writes.clear()
    return vectors


def masks(host, vectors):
    return {name: host.asked(number) for name, number in vectors.items()}


def want(nic="eth0", cpus="3"):
    return {"nic": nic, "cpus": cpus}


def test_written_kept_read_back_and_put_back_without_a_trace(host, spread):
    ctx, before, found = host.ctx(nic_irq_cpus=want()), host.files(), masks(host, spread)
    seen = LEVER.observe(ctx)
    assert seen["configured"] is None
    assert seen["effective"] == {
        "nic": "eth0",
        "cpus": {"TxRx-0": [0], "TxRx-1": [1], "TxRx-2": [2], "TxRx-3": [3]},
    }
    assert LEVER.holds(seen, seen["effective"])
    assert not LEVER.same(seen, want())
    assert LEVER.check(ctx, seen, want()) == []
    record = json.loads(json.dumps(seen["record"]))
    LEVER.write(ctx, want())
    now = LEVER.observe(host.ctx())
    assert now["configured"] == now["effective"] == {"nic": "eth0", "cpus": [3]}
    assert LEVER.same(now, want())
    assert LEVER.same(now, want("auto", "last"))
    assert LEVER.same(now, want("auto", "one"))
    assert not LEVER.holds(now, seen["effective"])
    assert LEVER.lasts(host.ctx())
    # The link is not queue work, and stays.
    assert host.asked(spread["eth0"]) == "0-3"
    assert {host.asked(spread[name]) for name in FOUR[:4]} == {"3"}
    assert LEVER.restore(host.ctx(), record) == []
    assert masks(host, spread) == found
    assert host.files() == before
    home = LEVER.observe(host.ctx())
    assert LEVER.is_home(home, record)
    assert LEVER.holds(home, seen["effective"])


def test_several_cpus_are_one_set_for_all_and_in_force_on_one_of_them(host, spread):
    LEVER.write(host.ctx(), want(cpus="1-2"))
    seen = LEVER.observe(host.ctx())
    assert affinity.look(str(host.tree), spread["eth0-TxRx-0"]) == affinity.Irq([1, 2], [1], False)
    assert seen["effective"] == {"nic": "eth0", "cpus": [1, 2]}
    assert LEVER.same(seen, want(cpus="1,2"))
    assert not LEVER.same(seen, want(cpus="1"))


def test_only_this_card_is_touched(host):
    """Two virtio cards, a disk, a balloon and a socket on one driver."""
    host.systemd()
    others = {
        **host.device("0000:00:02.0", ["virtio1-config", "virtio1-req.0"]),
        **host.device("0000:00:04.0", ["virtio3-config", "virtio3-rx"]),
        **host.card("eth1", "0000:00:05.0", ["virtio5-config", "virtio5-input.0"], virtio="virtio5"),
    }
    names = ["virtio2-config", "virtio2-input.0", "virtio2-output.0"]
    mine = host.card("eth0", "0000:00:03.0", names, virtio="virtio2")
    ctx = host.ctx(nic_irq_cpus=want())
    record = LEVER.observe(ctx)["record"]
    LEVER.write(ctx, want())
    LEVER.restore(ctx, record)
    queues = {"proc/irq/%d/smp_affinity_list" % mine[name] for name in names[1:]}
    assert {name for name, _ in host.writes} == queues
    assert set(masks(host, others).values()) == {"0-3"}


def test_what_the_kernel_manages_is_listed_and_not_failed(host, spread):
    """Kernels that do not show it refuse with EIO; newer ones show it by the file's mode."""
    ctx, before = host.ctx(nic_irq_cpus=want()), host.files()
    seen = LEVER.observe(ctx)
    host.errors[spread["eth0-TxRx-2"]] = errno.EIO
    LEVER.write(ctx, want())
    now = LEVER.observe(host.ctx())
    assert LEVER.same(now, want())
    assert now["reason"] == "left to the kernel, which manages them: TxRx-2"
    assert host.asked(spread["eth0-TxRx-2"]) == "2"
    LEVER.restore(ctx, seen["record"])
    assert host.files() == before
    assert LEVER.is_home(LEVER.observe(ctx), seen["record"])
    (host.tree / ("proc/irq/%d/smp_affinity_list" % spread["eth0-TxRx-1"])).chmod(0o444)
    assert LEVER.observe(ctx)["reason"] == "left to the kernel, which manages them: TxRx-1"


def test_a_card_that_the_kernel_manages_whole_is_a_failure(host, spread):
    host.errors.update(dict.fromkeys(spread.values(), errno.EIO))
    with pytest.raises(LdaptuneError, match="the kernel manages all interrupts of this card itself"):
        LEVER.write(host.ctx(), want())
    for name in FOUR:
        (host.tree / ("proc/irq/%d/smp_affinity_list" % spread[name])).chmod(0o444)
    seen = LEVER.observe(host.ctx(nic_irq_cpus=want()))
    assert (seen["supported"], seen["reason"]) == (False, "eth0 has no interrupts to place")


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOVERFLOW, errno.ENOSPC, errno.EBUSY, errno.EROFS])
def test_other_refusals_fail_and_go_home(host, spread, monkeypatch, code):
    monkeypatch.setattr(affinity, "_STEP", 0.0)
    ctx, before, found = host.ctx(nic_irq_cpus=want()), host.files(), masks(host, spread)
    seen = LEVER.observe(ctx)
    host.errors[spread["eth0-TxRx-1"]] = code
    with pytest.raises(LdaptuneError, match="refuses these CPUs") as failed:
        LEVER.write(ctx, want())
    assert "eth0 TxRx-1 (IRQ %d)" % spread["eth0-TxRx-1"] in str(failed.value)
    assert errno.errorcode[code] in str(failed.value)
    half = LEVER.observe(ctx)
    # Half done is ours, and nobody takes it for either side.
    assert LEVER.holds(half, want())
    assert LEVER.holds(half, seen["effective"])
    assert not LEVER.same(half, want())
    assert not LEVER.is_home(half, seen["record"])
    host.errors.clear()
    LEVER.restore(ctx, seen["record"])
    assert masks(host, spread) == found
    assert host.files() == before


def test_pending_is_said_and_no_failure(host, spread):
    host.late.add(spread["eth0-TxRx-0"])
    LEVER.write(host.ctx(), want())
    now = LEVER.observe(host.ctx())
    assert LEVER.same(now, want())
    assert now["reason"] == "pending until their next interrupt: TxRx-0"
    host.comes(spread["eth0-TxRx-0"])
    assert LEVER.observe(host.ctx())["reason"] == ""


def test_one_that_came_and_did_not_follow_is_a_failure_with_its_cpu(host, spread, monkeypatch):
    host.deaf.add(spread["eth0-TxRx-0"])
    monkeypatch.setattr(affinity, "came", lambda root, number, counts=iter(range(1000)): next(counts))
    with pytest.raises(LdaptuneError, match=r"does not go where it was asked to.*found CPU 0; wanted 3"):
        LEVER.write(host.ctx(), want())
    nic_place.write_mark(str(host.tree), KEY, {"nic": "eth0", "cpus": [3], "refused": [], "done": True})
    assert LEVER.observe(host.ctx())["effective"]["cpus"]["TxRx-0"] == [0]


@pytest.mark.parametrize(("cpus", "found"), [("4-19", "4-19 (CPU 4-19)"), ("2-4", "2-4 (CPU 4)"), ("7", "7 (CPU 7)")])
def test_cpus_out_of_range_are_refused_before_anything_is_written(host, spread, cpus, found):
    ctx = host.ctx(nic_irq_cpus=want(cpus=cpus))
    problems = LEVER.check(ctx, LEVER.observe(ctx), want(cpus=cpus))
    assert [item["found"] for item in problems] == [found]
    assert "ldap1" in problems[0]["where"]
    assert "0-3" in problems[0]["wanted"]
    assert host.writes == []


def test_irqbalance_is_told_first_and_untold_last(host, spread, monkeypatch):
    options = host.irqbalance('# by hand\nIRQBALANCE_ARGS="--journal"')
    ctx, before = host.ctx(nic_irq_cpus=want()), host.files()
    seen = LEVER.observe(ctx)
    assert seen["effective"] == {"nic": "eth0", "cpus": "irqbalance"}
    assert LEVER.remarks(ctx, seen, want()) == ["irqbalance is told to leave them alone, and restarted"]
    order = []
    monkeypatch.setattr(irqbalance, "run", lambda command: (order.append("irqbalance"), host.run(command))[1])
    monkeypatch.setattr(affinity, "_put", lambda path, text: (order.append("masks"), host.put(path, text))[1])
    LEVER.write(ctx, want())
    assert order == ["irqbalance"] * 2 + ["masks"] * 4
    numbers = {spread[name] for name in FOUR[:4]}
    assert irqbalance.banned(irqbalance.arguments(ctx.root)) == numbers
    assert "--journal" in irqbalance.arguments(ctx.root)
    assert options.read_text().startswith('# by hand\nIRQBALANCE_ARGS="--journal"\n')
    now = LEVER.observe(host.ctx())
    assert LEVER.same(now, want())
    order.clear()
    assert LEVER.restore(host.ctx(), seen["record"]) == []
    assert order == ["masks"] * 4 + ["irqbalance"] * 2
    assert host.files() == before
    # Home is where irqbalance moves them: no mask is held against it.
    host.put(str(host.tree / ("proc/irq/%d/smp_affinity_list" % spread["eth0-TxRx-0"])), "2")
    home = LEVER.observe(host.ctx())
    assert LEVER.holds(home, seen["effective"])
    assert LEVER.is_home(home, seen["record"])


def test_an_irqbalance_that_was_not_told_is_seen(host, spread):
    """Its options replaced by an upgrade, or installed after us: then it moves what we set."""
    LEVER.write(host.ctx(), want())
    assert LEVER.same(LEVER.observe(host.ctx()), want())
    host.irqbalance()
    seen = LEVER.observe(host.ctx())
    assert seen["effective"] == {"nic": "eth0", "cpus": "irqbalance"}
    assert not LEVER.same(seen, want())
    assert not LEVER.lasts(host.ctx())


def test_an_irqbalance_that_came_since_is_a_remark_on_the_way_home(host, spread):
    seen = LEVER.observe(host.ctx(nic_irq_cpus=want()))
    LEVER.write(host.ctx(), want())
    host.irqbalance()
    assert LEVER.restore(host.ctx(), seen["record"]) == [
        "irqbalance runs now, and did not when this was found: it moves them"
    ]


def test_irqbalance_in_the_way_is_said_by_check(host, spread):
    host.irqbalance("IRQBALANCE_ARGS=$OTHER\n")
    ctx = host.ctx(nic_irq_cpus=want())
    assert "in a form" in LEVER.check(ctx, LEVER.observe(ctx), want())[0]["what"]


def test_what_is_in_force_already_but_kept_by_nothing_is_not_there(host, spread):
    for name in FOUR[:4]:
        host.put(str(host.tree / ("proc/irq/%d/smp_affinity_list" % spread[name])), "3")
    seen = LEVER.observe(host.ctx())
    assert seen["effective"] == {"nic": "eth0", "cpus": [3]}
    assert LEVER.holds(seen, want())
    assert not LEVER.same(seen, want())


def test_a_proc_that_is_read_only_is_said_by_check(host, spread, monkeypatch):
    ctx = host.ctx(nic_irq_cpus=want())
    monkeypatch.setattr(nic_cpus.os, "access", lambda path, mode: False)
    problems = LEVER.check(ctx, LEVER.observe(ctx), want())
    assert [(item["what"], item["found"]) for item in problems] == [("this cannot be written here", "read-only")]
    assert problems[0]["where"].endswith("smp_affinity_list")


def test_auto_that_cannot_be_told_and_a_card_that_is_named(host, spread):
    host.card("eth1", "0000:00:04.0", ["eth1-TxRx-0"])
    seen = LEVER.observe(host.ctx(nic_irq_cpus=want("auto")))
    assert not seen["supported"]
    assert "which network card serves the directory is not known" in seen["reason"]
    host.file("proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
                                "eth1\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
                                "eth0\t00000000\t0100A8C0\t0003\t0\t0\t200\t00000000\t0\t0\t0\n")
    assert LEVER.observe(host.ctx(nic_irq_cpus=want("auto")))["effective"]["nic"] == "eth1"
    assert LEVER.observe(host.ctx(nic_irq_cpus=want("eth0")))["effective"]["nic"] == "eth0"
    host.virtual("usb7")
    seen = LEVER.observe(host.ctx(nic_irq_cpus=want("usb7")))
    assert (seen["supported"], seen["reason"]) == (False, "usb7 has no interrupts to place")


def test_the_card_of_the_profile_comes_back_where_auto_means_another(host, spread):
    """A leg that reads back as found knows no profile's card: it looks at the one that the value names."""
    host.card("eth1", "0000:00:04.0", ["eth1-TxRx-0"])
    ctx, before = host.ctx(nic_irq_cpus=want("eth1", "2")), host.files()
    seen = LEVER.observe(ctx)
    LEVER.write(ctx, want("eth1", "2"))
    assert LEVER.same(LEVER.observe(host.ctx()), want("eth1", "2"))
    LEVER.restore(host.ctx(), seen["record"])
    assert host.files() == before
    assert LEVER.holds(LEVER.observe(host.ctx()), seen["effective"])


def test_another_card_than_the_one_set_is_refused(host, spread):
    host.card("eth1", "0000:00:04.0", ["eth1-TxRx-0"])
    LEVER.write(host.ctx(), want("eth0"))
    ctx = host.ctx(nic_irq_cpus=want("eth1"))
    assert [item["what"] for item in LEVER.check(ctx, LEVER.observe(ctx), want("eth1"))] == [
        "another card is set already, and would keep its CPUs"
    ]


def test_after_a_reboot_queues_are_found_by_name(host, spread):
    """Other numbers, other masks, no mark: what was found comes back to the queue, not to the number."""
    host.irqbalance()
    before = host.files()
    seen = LEVER.observe(host.ctx(nic_irq_cpus=want()))
    LEVER.write(host.ctx(), want())
    root = host.tree
    host.file("proc/sys/kernel/random/boot_id", "boot-2\n")
    (root / "run/ldaptune-nic.irq_cpus.json").unlink()
    function = root / "sys/devices/pci0000:00/0000:00:03.0/msi_irqs"
    for item in function.iterdir():
        item.unlink()
    host.next = 90
    vectors = host.vectors("sys/devices/pci0000:00/0000:00:03.0", list(reversed(FOUR)))
    host.start()
    now = LEVER.observe(host.ctx())
    assert now["configured"] == {"nic": "eth0", "cpus": [3]}
    assert not LEVER.same(now, want())
    host.writes.clear()
    LEVER.restore(host.ctx(), seen["record"])
    assert [host.asked(vectors[name]) for name in FOUR[:4]] == ["0", "1", "2", "3"]
    assert {int(name.split("/")[2]) for name, _ in host.writes} == {vectors[name] for name in FOUR[:4]}
    assert host.files() == before


def test_cpus_and_queues_that_are_gone_are_remarks(make_host):
    host = make_host("0-7")
    vectors = host.card("eth0", "0000:00:03.0", ["eth0-TxRx-0", "eth0-TxRx-1"])
    host.put(str(host.tree / ("proc/irq/%d/smp_affinity_list" % vectors["eth0-TxRx-0"])), "7")
    seen = LEVER.observe(host.ctx(nic_irq_cpus=want()))
    LEVER.write(host.ctx(), want())
    host.cpus = "0-3"
    (host.tree / ("sys/devices/pci0000:00/0000:00:03.0/msi_irqs/%d" % vectors["eth0-TxRx-1"])).unlink()
    assert LEVER.restore(host.ctx(), seen["record"]) == [
        "eth0 has no TxRx-1 any more",
        "the CPUs of TxRx-0 are not online any more, so all are allowed",
    ]
    assert host.asked(vectors["eth0-TxRx-0"]) == "0,1,2,3"


def test_without_systemd_it_is_live_only(host):
    host.card("eth0", "0000:00:03.0", FOUR)
    before, ctx = host.files(), host.ctx(nic_irq_cpus=want())
    seen = LEVER.observe(ctx)
    LEVER.write(ctx, want())
    now = LEVER.observe(host.ctx())
    assert now["configured"] is None
    assert LEVER.same(now, want())
    assert not LEVER.lasts(host.ctx())
    assert not (host.tree / "etc").exists()
    LEVER.restore(host.ctx(), seen["record"])
    assert host.files() == before


def test_a_unit_that_someone_disabled_keeps_nothing(host, spread):
    LEVER.write(host.ctx(), want())
    (host.tree / "etc/systemd/system/multi-user.target.wants/ldaptune-nic.irq_cpus.service").unlink()
    seen = LEVER.observe(host.ctx())
    assert seen["configured"] is None
    assert not LEVER.same(seen, want())
    assert not LEVER.lasts(host.ctx())
    LEVER.write(host.ctx(), want())
    assert LEVER.lasts(host.ctx())


def test_a_step_that_found_ours_gives_ours_back(host, spread):
    """A second run goes back to the first one's CPUs, unit and lines, not to before all runs."""
    host.irqbalance()
    LEVER.write(host.ctx(), want(cpus="1"))
    ctx, before = host.ctx(nic_irq_cpus=want(cpus="2")), host.files()
    step = LEVER.observe(ctx)
    LEVER.write(ctx, want(cpus="2"))
    assert boot_unit.arguments(str(host.tree), KEY) == ["eth0", "2"]
    LEVER.restore(host.ctx(), json.loads(json.dumps(step["record"])))
    assert host.files() == before
    now = LEVER.observe(host.ctx())
    assert LEVER.same(now, want(cpus="1"))
    assert LEVER.is_home(now, step["record"])


def test_no_card_at_all(host):
    host.virtual("veth0")
    seen = LEVER.observe(host.ctx())
    assert (seen["supported"], seen["reason"]) == (False, "no network card here has interrupts")
