# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nic.rps_cpus: on hosts of files, and on a real veth of a network namespace of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ldaptune.host import nic_place
from ldaptune.levers.registry import behaviour
from ldaptune.problems import LdaptuneError

KEY = "nic.rps_cpus"
LEVER = behaviour(KEY)
WANTED = {"nic": "eth0", "cpus": "0-2"}


def mask(host, nic="eth0", queue=0):
    return (host.tree / ("sys/class/net/%s/queues/rx-%d/rps_cpus" % (nic, queue))).read_text().strip()


def test_written_kept_read_back_and_put_back_without_a_trace(host):
    host.systemd()
    host.card("eth0", "0000:00:03.0", ["eth0-TxRx-0"], rx=2)
    (host.tree / "sys/class/net/eth0/queues/rx-1/rps_cpus").write_text("00000000,00000008\n")
    ctx, before = host.ctx(nic_rps_cpus=WANTED), host.files()
    seen = LEVER.observe(ctx)
    assert seen["effective"] == {"nic": "eth0", "cpus": {"rx-0": [], "rx-1": [3]}}
    assert LEVER.check(ctx, seen, WANTED) == []
    record = json.loads(json.dumps(seen["record"]))
    LEVER.write(ctx, WANTED)
    now = LEVER.observe(host.ctx())
    assert LEVER.same(now, WANTED)
    assert LEVER.lasts(host.ctx())
    assert mask(host) == mask(host, queue=1) == "00000007"
    LEVER.restore(host.ctx(), record)
    assert (mask(host), mask(host, queue=1)) == ("00000000", "00000008")
    assert host.files() == before
    home = LEVER.observe(host.ctx())
    assert LEVER.is_home(home, record)
    assert LEVER.holds(home, seen["effective"])


@pytest.mark.parametrize(("rx", "said"), [(3, []), (4, ["4 receive queues for 4 CPUs"]), (8, ["8 receive queues"])])
def test_where_each_cpu_has_a_queue_it_is_said_and_not_refused(host, rx, said):
    host.card("eth0", "0000:00:03.0", ["eth0-TxRx-0"], rx=rx)
    ctx = host.ctx(nic_rps_cpus=WANTED)
    seen = LEVER.observe(ctx)
    remarks = LEVER.remarks(ctx, seen, WANTED)
    assert len(remarks) == len(said)
    assert all(part in text for part, text in zip(said, remarks))
    assert LEVER.check(ctx, seen, WANTED) == []


def test_a_queue_that_refuses_is_a_failure(host):
    host.card("eth0", "0000:00:03.0", ["eth0-TxRx-0"], rx=2)
    path = next(host.tree.glob("sys/devices/pci0000:00/*/net/eth0/queues/rx-1/rps_cpus"))
    host.errors[str(path.relative_to(host.tree))] = 22
    host.errors["sys/class/net/eth0/queues/rx-1/rps_cpus"] = 22
    before, ctx = host.files(), host.ctx(nic_rps_cpus=WANTED)
    seen = LEVER.observe(ctx)
    with pytest.raises(LdaptuneError, match="eth0 rx-1"):
        LEVER.write(ctx, WANTED)
    assert LEVER.holds(LEVER.observe(ctx), seen["effective"])
    host.errors.clear()
    LEVER.restore(ctx, seen["record"])
    assert host.files() == before
    assert mask(host) == "00000000"


def test_a_kernel_without_it_is_not_supported(host):
    host.card("eth0", "0000:00:03.0", ["eth0-TxRx-0"])
    next(host.tree.glob("sys/devices/pci0000:00/*/net/eth0/queues/rx-0/rps_cpus")).unlink()
    seen = LEVER.observe(host.ctx(nic_rps_cpus=WANTED))
    assert (seen["supported"], seen["reason"]) == (False, "eth0 has no receive queues to place")


def test_irqbalance_is_none_of_its_business(host):
    host.systemd()
    host.card("eth0", "0000:00:03.0", ["eth0-TxRx-0"])
    options = host.irqbalance()
    text, ctx = options.read_text(), host.ctx(nic_rps_cpus=WANTED)
    seen = LEVER.observe(ctx)
    LEVER.write(ctx, WANTED)
    LEVER.restore(ctx, seen["record"])
    assert (options.read_text(), host.commands) == (text, [])


INSIDE = """
import json, sys, types
from ldaptune.host.facts import online_cpus
from ldaptune.levers.registry import behaviour

root, last = sys.argv[1], max(online_cpus())
wanted = {"nic": "dir0", "cpus": "last"}
ctx = types.SimpleNamespace(root=root, host={"online_cpus": online_cpus(), "name": "here"}, wanted={KEY: wanted})
lever = behaviour(KEY)
show = lambda: open("/sys/class/net/dir0/queues/rx-0/rps_cpus").read().strip()
seen = lever.observe(ctx)
problems = lever.check(ctx, seen, wanted)
lever.write(ctx, wanted)
now, mask = lever.observe(ctx), show()
remarks = lever.restore(ctx, seen["record"])
home = lever.observe(ctx)
print(json.dumps({
    "before": seen["effective"], "problems": problems, "same": lever.same(now, wanted), "mask": mask, "last": last,
    "lasts": lever.lasts(ctx), "now": now["effective"], "remarks": remarks, "home": lever.is_home(home, seen["record"]),
    "after": home["effective"], "end": show()}))
"""


@pytest.fixture
def namespace():
    """A network namespace of our own with a pair of veth in it, dir0 and dir1."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("needs root and ip")
    name = "ldaptune-%d" % os.getpid()
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip("no network namespaces here: %s" % made.stderr.strip())
    try:
        pair = ["link", "add", "dir0", "type", "veth", "peer", "name", "dir1"]
        subprocess.run(["ip", "-n", name, *pair], check=True, capture_output=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_a_real_veth(namespace, tmp_path, checkout):
    """ip netns exec mounts a /sys of the namespace's own. Only /sys and /proc are the real ones, by links."""
    for name in ("sys", "proc"):
        (tmp_path / name).symlink_to("/" + name)
    (tmp_path / "run").mkdir()
    code = "KEY = %r\n%s" % (KEY, INSIDE)
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, sys.executable, "-c", code, str(tmp_path)],
        env=dict(os.environ, PYTHONPATH=str(Path(checkout) / "module_utils")),
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    last = found["last"]
    assert found["before"] == found["after"] == {"nic": "dir0", "cpus": []}
    assert found["problems"] == found["remarks"] == []
    assert found["now"] == {"nic": "dir0", "cpus": [last]}
    assert int(found["mask"].replace(",", ""), 16) == 1 << last
    assert int(found["end"].replace(",", ""), 16) == 0
    assert (found["same"], found["home"], found["lasts"]) == (True, True, False)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["proc", "run", "sys"]
    assert not list((tmp_path / "run").iterdir())
    assert nic_place.read_mark(str(tmp_path), KEY) is None
