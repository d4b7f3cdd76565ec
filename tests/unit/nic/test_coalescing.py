# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Coalescing: on a stand-in for ethtool with the drivers' rules, and on real devices in a network namespace."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import types
from pathlib import Path

import pytest
from ldaptune.host import ethtool, ethtool_text, nic_owners
from ldaptune.levers.registry import behaviour
from ldaptune.problems import LdaptuneError
from ldaptune.profile.coalescing import Coalescing, near
from ldaptune.profile.value_type import ValueRefused

KEY = "nic.coalescing"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(ethtool, "SETTLE_SECONDS", 0)


@pytest.fixture
def ctx(tmp_path):
    (tmp_path / "root/run/systemd/system").mkdir(parents=True)
    (tmp_path / "root/sys/class/net/eth0/device").mkdir(parents=True)
    return types.SimpleNamespace(root=str(tmp_path / "root"), wanted={}, host={"online_cpus": [0]})


@pytest.fixture
def card(tmp_path, monkeypatch):
    """Make the stand-in: card(driver, version, **values); its state is what the returned function reads."""

    def make(driver, version=6.1, **values):
        place = tmp_path / "card.json"
        named = {name.replace("_", "-"): value for name, value in values.items()}
        place.write_text(json.dumps({"driver": driver, "version": version, "values": named, "log": []}))
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "ethtool"
        fake = Path(__file__).with_name("fake_ethtool.py")
        program.write_text('#!/bin/sh\nexec %s %s "$@"\n' % (sys.executable, fake))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", "%s:%s" % (folder, os.environ["PATH"]))
        monkeypatch.setenv("FAKE_ETHTOOL", str(place))
        return lambda: json.loads(place.read_text())

    return make


def tree_of(path):
    return {str(item): item.read_bytes() if item.is_file() else None for item in sorted(Path(path).rglob("*"))}


def wanted(**settings):
    return Coalescing().parse({"nic": "eth0", **settings})


@pytest.mark.parametrize("version", [6.1, 6.2])
def test_text_and_json_say_the_same(card, version):
    card("ice", version, adaptive_rx=True, adaptive_tx=None, rx_usecs=50, tx_usecs=0, rx_frames=None)
    found = {key: value for key, value in ethtool.read("eth0").items() if value is not None}
    assert found == {"adaptive_rx": True, "rx_usecs": 50, "tx_usecs": 0}


def test_neither_the_cqe_line_nor_a_singular_label_is_taken_for_another():
    text = "Adaptive RX: off  TX: n/a\nrx-frame-low: 7\nCQE mode RX: on  TX: on\nrx-usecs: 0\ntx-usecs:\tn/a\n"
    assert ethtool_text.read_text(text) == {"adaptive_rx": False, "adaptive_tx": None, "rx_usecs": 0, "tx_usecs": None}


def test_set_kept_and_put_back_without_a_trace(card, ctx):
    state, lever, before = card("ice", adaptive_rx=True, rx_usecs=50, tx_usecs=0), behaviour(KEY), tree_of(ctx.root)
    want = ctx.wanted[KEY] = wanted(adaptive_rx=False, rx_usecs=20, rx_frames=8)
    seen = lever.observe(ctx)
    assert "eth0 has no rx_frames, left out" in seen["reason"]
    assert not lever.same(seen, want)
    assert lever.check(ctx, seen, want) == []
    lever.write(ctx, want)
    assert state()["values"] == {"adaptive-rx": False, "rx-usecs": 20, "tx-usecs": 0}
    now = lever.observe(ctx)
    assert lever.same(now, want)
    assert lever.lasts(ctx)
    unit = Path(ctx.root, "etc/systemd/system/ldaptune-nic.coalescing.service").read_text()
    assert "nic.coalescing eth0 adaptive_rx=off rx_usecs=20" in unit
    lever.restore(ctx, seen["record"])
    # ice takes a number only while it does not adapt: two steps.
    assert state()["log"][-2:] == [{"rx-usecs": "50"}, {"adaptive-rx": "on"}]
    assert state()["values"] == {"adaptive-rx": True, "rx-usecs": 50, "tx-usecs": 0}
    assert tree_of(ctx.root) == before
    assert lever.is_home(lever.observe(ctx), seen["record"])


def test_what_the_driver_rounds_is_taken_and_stays(card, ctx):
    state, lever = card("e1000e", rx_usecs=3), behaviour(KEY)
    want = ctx.wanted[KEY] = wanted(rx_usecs=9998)
    lever.write(ctx, want)
    assert state()["values"]["rx-usecs"] != 9998
    assert lever.same(lever.observe(ctx), want)
    many = len(state()["log"])
    assert lever.lasts(ctx)
    assert len(state()["log"]) == many


def test_what_the_driver_clamps_is_a_failure_and_set_back(card, ctx):
    state, lever = card("bnx2", rx_usecs=18, tx_usecs=80, rx_frames=12, tx_frames=20), behaviour(KEY)
    with pytest.raises(LdaptuneError) as caught:
        lever.write(ctx, wanted(rx_usecs=2000))
    assert "rx_usecs=1023" in str(caught.value)
    assert "rx_usecs=2000" in str(caught.value)
    assert state()["values"]["rx-usecs"] == 18
    assert not Path(ctx.root, "etc").exists()


@pytest.mark.parametrize(
    ("driver", "settings", "said"),
    [
        ("virtio", {"rx_usecs": 8}, "Operation not supported"),
        ("e1000e", {"rx_usecs": 7}, "Invalid argument"),
        ("ixgbe", {"tx_usecs": 20}, "Invalid argument"),
    ],
)
def test_a_refusal_is_told_in_the_kernels_words(card, ctx, driver, settings, said):
    """A number that ethtool shows does not prove that it can be set."""
    state, lever = card(driver, rx_usecs=0, tx_usecs=0), behaviour(KEY)
    with pytest.raises(LdaptuneError, match=said):
        lever.write(ctx, wanted(**settings))
    assert state()["values"] == {"rx-usecs": 0, "tx-usecs": 0}


def test_a_card_without_any_of_it_and_a_host_without_ethtool(card, ctx, monkeypatch):
    card("e1000e", rx_usecs=3)
    ctx.wanted[KEY] = wanted(adaptive_rx=True)
    seen = behaviour(KEY).observe(ctx)
    assert (seen["supported"], seen["reason"]) == (False, "eth0 has none of adaptive_rx")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "ethtool" in behaviour(KEY).observe(ctx)["reason"]


def test_what_is_in_the_unit_is_set_at_boot(card):
    state = card("ice", adaptive_rx=True, rx_usecs=50)
    assert ethtool.main([KEY, "eth0", "adaptive_rx=off", "rx_usecs=20"], seconds=0) == 0
    assert state()["values"] == {"adaptive-rx": False, "rx-usecs": 20}
    assert ethtool.main([KEY, "eth0", "rx_frames=20"], seconds=0) == 1


UP = "iface %s inet dhcp\n  post-up ethtool -C %s rx-usecs 9\n"


@pytest.mark.parametrize(
    ("path", "text", "who"),
    [
        ("etc/NetworkManager/system-connections/a.nmconnection", "[ethtool]\ncoalesce-rx-usecs=9\n", "NetworkManager"),
        ("etc/systemd/network/10-x.link", "[Match]\nOriginalName=eth*\n[Link]\nRxCoalesceSec=20us\n", "systemd"),
        ("etc/network/interfaces", "auto eth0\n" + UP % ("eth0", "eth0"), "ifupdown"),
        ("etc/network/interfaces", UP % ("eth1", "eth1") + "iface eth0 inet dhcp\n", ""),
        ("etc/systemd/network/10-x.link", "[Match]\nOriginalName=eth1\n[Link]\nRxCoalesceSec=20us\n", ""),
        ("etc/systemd/network/10-x.link", "[Match]\nOriginalName=eth0\n[Link]\nMTUBytes=9000\n", ""),
    ],
)
def test_another_owner_is_named(card, ctx, path, text, who):
    card("ice", adaptive_rx=True, rx_usecs=50)
    place = Path(ctx.root, path)
    place.parent.mkdir(parents=True)
    place.write_text(text)
    want = ctx.wanted[KEY] = wanted(rx_usecs=20)
    found = behaviour(KEY).check(ctx, behaviour(KEY).observe(ctx), want)
    assert [item["where"] for item in found] == ([str(place)] if who else [])
    assert [name for name, _ in nic_owners.owners(ctx.root, "eth0")] == ([who] if who else [])


def test_tuned_owns_it_only_by_its_active_profile(ctx):
    for name, text in (("mine", "[net]\ncoalesce=adaptive-rx on\n"), ("other", "[net]\ncoalesce=rx-usecs 3\n")):
        path = Path(ctx.root, "etc/tuned", name, "tuned.conf")
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert nic_owners.owners(ctx.root, "eth0") == []
    Path(ctx.root, "etc/tuned/active_profile").write_text("mine\n")
    assert [who for who, _ in nic_owners.owners(ctx.root, "eth0")] == ["tuned"]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"nic": "eth0", "rx_usec": 3}, "rx_usecs"),
        ({"nic": "eth0", "adaptive_rx": 1}, "true or false"),
        ({"nic": "eth0", "rx_usecs": -1}, "0 to"),
        ({"nic": "eth0", "rx_usecs": True}, "0 to"),
        ({"nic": "eth 0", "rx_usecs": 3}, "interface"),
        ({"nic": "eth0"}, "mapping"),
        ("eth0", "mapping"),
    ],
)
def test_what_no_profile_may_ask_for(raw, said):
    with pytest.raises(ValueRefused) as caught:
        Coalescing().parse(raw)
    assert said in "%s %s" % (caught.value.wanted, caught.value.do)


def test_rounding_is_no_clamping():
    assert near(523, 522)
    assert near(10000, 9999)
    assert not near(64, 100)
    assert not near(0, 1)
    assert not near(None, 0)
    assert not near(False, 0)


@pytest.fixture
def space(tmp_path, monkeypatch):
    """A network namespace with a tap and a veth, in which `ethtool` runs."""
    real = shutil.which("ethtool") or ("/usr/sbin/ethtool" if os.path.exists("/usr/sbin/ethtool") else None)
    if os.geteuid() != 0 or not real or not shutil.which("ip"):
        pytest.skip("needs root, ethtool and ip")
    name = "ldt-nic-%d" % os.getpid()
    subprocess.run(["ip", "netns", "add", name], check=True)
    for words in ("tuntap add dev tap0 mode tap", "link add v0 type veth peer name v1"):
        subprocess.run(["ip", "-n", name, *words.split()], check=True)
    folder = tmp_path / "real"
    folder.mkdir()
    (folder / "ethtool").write_text('#!/bin/sh\nexec ip netns exec %s %s "$@"\n' % (name, real))
    (folder / "ethtool").chmod(0o755)
    monkeypatch.setenv("PATH", "%s:%s" % (folder, os.environ["PATH"]))
    yield name
    subprocess.run(["ip", "netns", "del", name], check=True)


def test_a_real_tap_clamps_and_a_real_veth_refuses(space, ctx):
    lever = behaviour(KEY)
    want = ctx.wanted[KEY] = Coalescing().parse({"nic": "tap0", "rx_frames": 32, "rx_usecs": 9})
    seen = lever.observe(ctx)
    assert "no rx_usecs, left out" in seen["reason"]
    lever.write(ctx, want)
    assert lever.same(lever.observe(ctx), want)
    with pytest.raises(LdaptuneError, match="rx_frames=64"):
        lever.write(ctx, Coalescing().parse({"nic": "tap0", "rx_frames": 100}))
    assert ethtool.read("tap0")["rx_frames"] == 32
    lever.restore(ctx, seen["record"])
    assert ethtool.read("tap0")["rx_frames"] == seen["record"]["values"]["rx_frames"]
    ctx.wanted[KEY] = Coalescing().parse({"nic": "v0", "rx_frames": 1})
    veth = lever.observe(ctx)
    assert (veth["supported"], "not supported" in veth["reason"]) == (False, True)
