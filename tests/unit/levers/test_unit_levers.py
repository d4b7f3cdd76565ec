# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Levers of slapd's unit, on a tree of files shaped like a Debian 12 host's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ldaptune.host import unit
from ldaptune.levers import allocator, cpu_service
from ldaptune.levers.registry import behaviour
from ldaptune.problems import LdaptuneError
from ldaptune.profile.values import ValueRefused

sys.path.insert(0, str(Path(__file__).parent))
from fake_systemd import Host  # noqa: E402

JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
LIMIT = {"burst": 5000, "interval": 2}
D = "etc/systemd/system/slapd.service.d/"


@pytest.fixture
def host(tmp_path, monkeypatch):
    made = Host(tmp_path)
    made.put(JEMALLOC.lstrip("/"), "")
    monkeypatch.setattr(unit, "run", made.run)
    monkeypatch.setattr(allocator.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(cpu_service, "_SETTLE_SECONDS", 0.05)
    return made


CASES = pytest.mark.parametrize(
    ("key", "value", "line", "found"),
    [
        ("service.open_files", 4096, "LimitNOFILE=4096", 1024),
        ("service.allocator", "jemalloc", "Environment=LD_PRELOAD=" + JEMALLOC, "glibc"),
        ("journal.rate_limit", LIMIT, "LogRateLimitIntervalSec=2s\nLogRateLimitBurst=5000", None),
        ("cpu.service", [0, 1], "AllowedCPUs=0-1", [0, 1, 2, 3]),
    ],
)


@CASES
def test_written_in_force_kept_and_put_back_without_a_trace(host, key, value, line, found):
    lever, before = behaviour(key), host.files()
    seen = lever.observe(host.ctx)
    assert (seen["supported"], seen["configured"], seen["effective"]) == (True, None, found)
    assert lever.check(host.ctx, seen, value) == []
    record, restarts = json.loads(json.dumps(seen["record"])), host.ctx.restarts
    lever.write(host.ctx, value)
    assert host.log == ["daemon-reload"]
    assert host.ctx.restarts - restarts == (lever.spec.cost == "restart")
    assert (host.tree / D / ("90-ldaptune-%s.conf" % key)).read_text().endswith("[Service]\n%s\n" % line)
    now = lever.observe(host.ctx)
    assert lever.same(now, value)
    assert lever.lasts(host.ctx)
    assert not lever.is_home(now, record)
    host.ctx.restart()
    assert lever.same(lever.observe(host.ctx), value)
    assert lever.restore(host.ctx, record) == []
    home = lever.observe(host.ctx)
    assert lever.is_home(home, record)
    assert (home["configured"], home["effective"]) == (None, found)
    assert host.files() == before  # the generated unit and the boot script, too


@CASES
def test_a_file_of_ours_that_was_there_comes_back(host, key, value, line, found):
    """A second run finds the first one's value, and goes back to that."""
    other = {"service.open_files": 2048, "service.allocator": "tcmalloc", "cpu.service": [3],
             "journal.rate_limit": {"burst": 700, "interval": 1}}[key]
    host.put("usr/lib64/libtcmalloc.so.4", "")
    lever = behaviour(key)
    lever.write(host.ctx, other)
    before, seen = host.files(), lever.observe(host.ctx)
    assert seen["configured"] == seen["effective"] == other
    assert lever.check(host.ctx, seen, value) == []
    lever.write(host.ctx, value)
    assert lever.same(lever.observe(host.ctx), value)
    lever.restore(host.ctx, seen["record"])
    assert host.files() == before
    assert lever.observe(host.ctx)["effective"] == other


@CASES
def test_written_but_not_in_force_does_not_pass(host, key, value, line, found):
    """What systemd has not taken up, and what a file only says, is not there."""
    host.put(D + "90-ldaptune-%s.conf" % key, "[Service]\n%s\n" % line)
    lever = behaviour(key)
    seen = lever.observe(host.ctx)
    assert (seen["configured"], seen["effective"]) == (value, found)
    assert not lever.same(seen, value)
    assert not lever.lasts(host.ctx)


@pytest.mark.parametrize("key", ["service.open_files", "service.allocator", "journal.rate_limit", "cpu.service"])
def test_without_systemd_or_out_of_the_unit_it_is_unsupported(host, key):
    lever = behaviour(key)
    host.ctx.server["service"] = "symas-openldap-servers"
    assert "does not run in symas-openldap-servers.service: set tuning_service" in lever.observe(host.ctx)["reason"]
    (host.tree / "run/systemd/system").rmdir()
    seen = lever.observe(host.ctx)
    assert not seen["supported"]
    assert "systemd does not run this host (no /run/systemd/system)" in seen["reason"]


def test_a_reload_that_fails_is_told_with_its_words(host):
    host.refuses = "daemon-reload"
    with pytest.raises(LdaptuneError, match="systemctl daemon-reload: systemctl failed.*Access denied"):
        behaviour("service.open_files").write(host.ctx, 4096)


@pytest.mark.parametrize("first", ["service.open_files", "journal.rate_limit"])
def test_several_levers_go_home_in_any_order(host, first):
    """A later run records while the first one's directory is there already: it must not stay behind."""
    before = host.files()
    limit, rate = behaviour("service.open_files"), behaviour("journal.rate_limit")
    a = limit.observe(host.ctx)["record"]
    limit.write(host.ctx, 4096)
    b = rate.observe(host.ctx)["record"]
    rate.write(host.ctx, {"burst": 500, "interval": 1})
    order = [(limit, a), (rate, b)]
    for lever, record in order if first == "service.open_files" else order[::-1]:
        lever.restore(host.ctx, record)
        assert lever.is_home(lever.observe(host.ctx), record)
    assert host.files() == before


def test_a_drop_in_that_would_win_is_named(host):
    """systemctl edit writes override.conf, which is read after ours."""
    lever = behaviour("service.open_files")
    early = host.put(D + "50-x.conf", "[Service]\nLimitNOFILE=100\n")
    assert lever.check(host.ctx, lever.observe(host.ctx), 4096) == []
    late = host.put(D + "override.conf", "[Service]\n# LimitNOFILE=1\nLimitNOFILE=\\\n 2048:4096\n[Unit]\nX=9\n")
    (found,) = lever.check(host.ctx, lever.observe(host.ctx), 4096)
    assert (found["where"], found["found"]) == (str(late), "LimitNOFILE=2048:4096")
    late.write_text("[Service]\nLimitNOFILE=4096\n")
    assert lever.check(host.ctx, lever.observe(host.ctx), 4096) == []
    assert early.exists()


# -- descriptors


@pytest.mark.parametrize(("memory", "wanted", "refused"), [
    (512 << 20, 1048576, True), (512 << 20, 38130, False), (512 << 20, 38131, True), (64 << 30, 1048576, False)])
def test_memory_follows_the_limit_of_descriptors(host, memory, wanted, refused):
    """A container's default of a million has cost 700 MB: planned before, against this host's memory."""
    host.ctx.host["memory_bytes"] = memory
    lever = behaviour("service.open_files")
    found = lever.check(host.ctx, lever.observe(host.ctx), wanted)
    assert bool(found) is refused
    if refused:
        assert "%d x 704 bytes" % wanted in found[0]["found"]
        assert "at most 5 % of this host's memory (25.6 MiB): 38130" in found[0]["wanted"]


@pytest.mark.parametrize("raw", ["infinity", "abc", -1, 0, 4294967296, True, "1024k"])
def test_no_limit_is_no_value(raw):
    with pytest.raises(ValueRefused, match="a whole number from 256"):
        behaviour("service.open_files").spec.type.parse(raw)


def test_the_limit_is_that_of_the_process(host):
    """Not that of another shell, nor what the unit's files say."""
    pid = host.ctx.slapd.pid
    host.put("proc/%d/limits" % pid, "Max open files            4096                 524288               files     \n")
    lever = behaviour("service.open_files")
    assert lever.observe(host.ctx)["effective"] == 4096
    host.put("proc/%d/limits" % pid, "Max open files            unlimited            unlimited            files     \n")
    assert lever.observe(host.ctx)["effective"] is None


def test_what_the_kernel_or_a_shell_would_not_have(host):
    lever = behaviour("service.open_files")
    seen = lever.observe(host.ctx)
    host.put("proc/sys/fs/nr_open", "4000\n")
    assert [item["where"] for item in lever.check(host.ctx, seen, 4096)] == ["fs.nr_open"]
    host.put("proc/sys/fs/nr_open", "1048576\n")
    path = host.put("etc/default/slapd", "# ulimit -n 1\nulimit -Hn 8192 || true\n")
    (found,) = lever.check(host.ctx, seen, 4096)
    assert (found["where"], found["found"]) == ("/" + str(path.relative_to(host.tree)), "ulimit -Hn 8192")


def test_fewer_than_are_open_are_refused(host):
    lever = behaviour("service.open_files")
    for number in range(300):
        host.put("proc/%d/fd/%d" % (host.ctx.slapd.pid, number), "")
    (found,) = lever.check(host.ctx, lever.observe(host.ctx), 256)
    assert (found["found"], found["wanted"]) == ("300", "256")
    assert lever.check(host.ctx, lever.observe(host.ctx), 512) == []


def test_what_a_unit_starts_with_lasts(host):
    """at_least that holds already is no claim of ours, and nothing that a restart would take away."""
    lever = behaviour("service.open_files")
    assert lever.observe(host.ctx)["configured"] is None
    assert lever.lasts(host.ctx)


# -- malloc


def test_glibc_is_no_preload_of_ours(host):
    lever = behaviour("service.allocator")
    seen = lever.observe(host.ctx)
    assert lever.same(seen, "glibc")
    lever.write(host.ctx, "jemalloc")
    lever.write(host.ctx, "glibc")
    assert not (host.tree / D).exists()
    assert lever.same(lever.observe(host.ctx), "glibc")


def test_a_library_that_is_missing_is_named_with_its_package(host):
    lever = behaviour("service.allocator")
    (found,) = lever.check(host.ctx, lever.observe(host.ctx), "tcmalloc")
    assert "libtcmalloc-minimal4 (Debian 12)" in found["do"]
    host.put("usr/lib/i386-linux-gnu/libtcmalloc_minimal.so.4", "")
    assert lever.check(host.ctx, lever.observe(host.ctx), "tcmalloc") != []
    host.put("usr/lib64/libtcmalloc_minimal.so.4", "")
    assert lever.check(host.ctx, lever.observe(host.ctx), "tcmalloc") == []


def test_a_library_that_the_loader_passed_over_is_not_in_force(host):
    """The loader only warns on stderr: the file says jemalloc, the environment says it, the maps do not."""
    lever = behaviour("service.allocator")
    (host.tree / JEMALLOC.lstrip("/")).unlink()
    lever.write(host.ctx, "jemalloc")
    seen = lever.observe(host.ctx)
    assert (seen["configured"], seen["effective"]) == ("jemalloc", "glibc")
    assert not lever.same(seen, "jemalloc")


@pytest.mark.parametrize(("path", "text"), [
    (D + "override.conf", '[Service]\nEnvironment="A=b c" LD_PRELOAD=/opt/libfoo.so\n'),
    (D + "10-x.conf", "[Service]\nEnvironment=LD_PRELOAD=/usr/lib64/libjemalloc.so.2\n"),
    (D + "zz.conf", "[Service]\nEnvironment=\n"),
    (D + "zz.conf", "[Service]\nUnsetEnvironment=LD_PRELOAD\n"),
    ("usr/lib/systemd/system/slapd.service.d/x.conf", "[Service]\nEnvironment=LD_PRELOAD=/lib64/libjemalloc.so.2\n"),
    ("run/systemd/system/service.d/x.conf", "[Service]\nEnvironment=LD_PRELOAD=/lib64/libjemalloc.so.2\n"),
    ("etc/default/slapd", "export LD_PRELOAD='/usr/lib/libjemalloc.so.2'\n"),
    ("etc/ld.so.preload", "/usr/lib/libjemalloc.so.2\n"),
])
def test_a_preload_of_someone_else_is_named(host, path, text):
    owner = host.put(path, text)
    lever = behaviour("service.allocator")
    for wanted in ("jemalloc", "glibc"):
        (found,) = lever.check(host.ctx, lever.observe(host.ctx), wanted)
        assert "belongs to someone else" in found["what"]
        assert found["where"] in (str(owner), "/" + path)


def test_an_environment_file_is_read_too(host):
    host.put(D + "10-x.conf", "[Service]\nEnvironmentFile=-/etc/sysconfig/slapd\n")
    lever = behaviour("service.allocator")
    assert lever.check(host.ctx, lever.observe(host.ctx), "jemalloc") == []
    path = host.put("etc/sysconfig/slapd", "SLAPD_URLS=ldapi:///\nLD_PRELOAD=/usr/lib64/libtcmalloc.so.4\n")
    (found,) = lever.check(host.ctx, lever.observe(host.ctx), "jemalloc")
    assert found["where"] == str(path)


def test_389_ds_brings_its_own(host):
    """Its package preloads jemalloc for every instance, by a drop-in of the template."""
    text = "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/x86_64-linux-gnu/dirsrv/lib/libjemalloc.so.2\n"
    path = host.put("usr/lib/systemd/system/dirsrv@.service.d/custom.conf", text)
    host.put("proc/%d/cgroup" % host.ctx.slapd.pid, "0::/system.slice/system-dirsrv.slice/dirsrv@t1.service\n")
    host.ctx.server["service"] = "dirsrv@t1"
    lever = behaviour("service.allocator")
    (found,) = lever.check(host.ctx, lever.observe(host.ctx), "jemalloc")
    assert found["where"] == str(path)


def test_a_preload_that_nobody_admits_to_is_seen_in_the_process(host):
    lever = behaviour("service.allocator")
    pid = host.ctx.slapd.pid
    host.put("proc/%d/environ" % pid, "A=b\0LD_PRELOAD=/opt/libjemalloc.so.2\0")
    (found,) = lever.check(host.ctx, lever.observe(host.ctx), "jemalloc")
    assert found["found"] == "LD_PRELOAD=/opt/libjemalloc.so.2"


def test_a_slapd_that_is_linked_with_another_is_told(host):
    pid = host.ctx.slapd.pid
    host.put("proc/%d/maps" % pid, "7f6ad9a00000-7f6ad9a08000 r--p 00000000 fe:00 1319 /opt/lib/libtcmalloc.so.4\n")
    lever = behaviour("service.allocator")
    seen = lever.observe(host.ctx)
    assert seen["effective"] == "tcmalloc"
    assert lever.same(seen, "tcmalloc")
    assert "linked with an allocator" in lever.check(host.ctx, seen, "glibc")[0]["what"]


# -- journald's limit


def test_a_reload_alone_does_not_reach_journald(host):
    """systemctl show says the new value at once; what journald reads changes with slapd's next start."""
    text = "[Service]\nLogRateLimitIntervalSec=2s\nLogRateLimitBurst=777\n"
    host.put(D + "90-ldaptune-journal.rate_limit.conf", text)
    host.reload()
    lever = behaviour("journal.rate_limit")
    assert lever.observe(host.ctx)["effective"] is None
    host.ctx.restart()
    assert lever.observe(host.ctx)["effective"] == {"burst": 777, "interval": 2}


@pytest.mark.parametrize(("raw", "normal"), [
    (0, {"burst": 1000000, "interval": 1}),
    ({"burst": 0, "interval": 30}, {"burst": 1000000, "interval": 1}),
    ({"burst": "10000", "interval": 30}, {"burst": 10000, "interval": 30}),
])
def test_off_is_a_limit_that_nothing_reaches(raw, normal):
    """systemd takes 0 for "as journald has it", so a 0 in the file would leave the limit on."""
    kind = behaviour("journal.rate_limit").spec.type
    assert kind.parse(raw) == normal
    assert kind.parse(kind.parse(raw)) == normal


@pytest.mark.parametrize("raw", [
    5, False, "off", {"burst": 5}, {"burst": 5, "interval": 1}, {"burst": 1000, "interval": "20s"},
    {"burst": -1, "interval": 1}, {"burst": True, "interval": 1}, {"burst": 1000, "interval": 1, "x": 1}])
def test_what_is_no_limit_is_refused(raw):
    with pytest.raises(ValueRefused):
        behaviour("journal.rate_limit").spec.type.parse(raw)


def test_a_later_half_of_the_limit_is_named(host):
    lever = behaviour("journal.rate_limit")
    late = host.put(D + "override.conf", "[Service]\nLogRateLimitIntervalSec=0\n")
    wanted = {"burst": 5000, "interval": 2}
    (found,) = lever.check(host.ctx, lever.observe(host.ctx), wanted)
    assert (found["where"], found["wanted"]) == (str(late), "LogRateLimitIntervalSec=2s")
    late.write_text("[Service]\nLogRateLimitIntervalSec=2000ms\n")
    assert lever.check(host.ctx, lever.observe(host.ctx), wanted) == []


@pytest.mark.parametrize(("text", "words"), [
    ('module(load="imuxsock") # local\n', ""),
    ('module(load="imjournal" StateFile="x")\n', "imjournal by default 20000 lines in 600 s"),
    ('module(load="imjournal"\n  Ratelimit.Burst="99" Ratelimit.Interval="5")\n',
     'imjournal Ratelimit.Burst="99"; imjournal Ratelimit.Interval="5"'),
    ('# module(load="imjournal")\nmodule(load="imuxsock" SysSock.RateLimit.Interval="2")\n',
     'imuxsock SysSock.RateLimit.Interval="2"'),
    ("$ModLoad imuxsock\n$SystemLogRateLimitInterval 2\n", "$SystemLogRateLimitInterval 2"),
    ("$imjournalRatelimitBurst 500\n", "$imjournalRatelimitBurst 500"),
])
def test_rsyslog_s_own_limits_are_named(host, text, words):
    lever = behaviour("journal.rate_limit")
    path = host.put("etc/rsyslog.d/10-in.conf", text)
    found = lever.remarks(host.ctx, lever.observe(host.ctx), {"burst": 5000, "interval": 2})
    assert "journald takes" in found[0]
    shown = ", ".join("%s (%s)" % (word, path) for word in words.split("; ")) if words else ""
    assert found[1:] == (["rsyslog has a limit of its own: " + shown] if shown else [])


# -- the CPUs of the process


def test_a_cpuset_goes_away_where_a_neighbour_has_one(host):
    """Seen on systemd 252: without the line the last cpuset stays in force while another unit of the slice has one."""
    lever = behaviour("cpu.service")
    host.sibling = True
    seen = lever.observe(host.ctx)
    lever.write(host.ctx, [1])
    assert lever.observe(host.ctx)["effective"] == [1]
    lever.restore(host.ctx, seen["record"])
    now = lever.observe(host.ctx)
    assert (now["configured"], now["effective"]) == (None, [0, 1, 2, 3])
    assert not (host.tree / D).exists()


def test_one_thread_outside_and_it_is_not_in_force(host):
    """Threads that came late, too: all are looked at."""
    lever = behaviour("cpu.service")
    lever.write(host.ctx, [0, 1])
    pid = host.ctx.slapd.pid
    late = host.put("proc/%d/task/%d/status" % (pid, pid + 9), "Cpus_allowed_list:\t1\n")
    assert lever.observe(host.ctx)["effective"] == [0, 1]  # pinned within, as cpu.listener does
    late.write_text("Cpus_allowed_list:\t2-3\n")
    assert lever.observe(host.ctx)["effective"] is None
    assert not lever.same(lever.observe(host.ctx), [0, 1])


def test_without_the_controller_of_v2_it_is_unsupported(host):
    host.put("sys/fs/cgroup/cgroup.controllers", "hugetlb\n")
    assert "no cpuset controller" in behaviour("cpu.service").observe(host.ctx)["reason"]


@pytest.mark.parametrize(("wanted", "refused"), [([0, 1], False), ([1, 2], True), ([7], True), ([], True)])
def test_cpus_beyond_the_slice_s_are_refused(host, wanted, refused):
    """systemd passes over a CPU that is not there without a word."""
    host.put("sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-1\n")
    lever = behaviour("cpu.service")
    found = lever.check(host.ctx, lever.observe(host.ctx), wanted)
    assert bool(found) is refused
    if refused:
        assert found[0]["found"] == "CPUs 0-3 online, 0-1 for what contains the unit"


def test_a_second_run_may_widen_what_the_first_narrowed(host):
    """The unit's own cpuset is no ceiling: only what contains it is."""
    lever = behaviour("cpu.service")
    lever.write(host.ctx, [0])
    assert lever.check(host.ctx, lever.observe(host.ctx), [0, 1, 2, 3]) == []


def test_nodes_that_are_crossed_are_named(host):
    lever = behaviour("cpu.service")
    seen = lever.observe(host.ctx)
    assert lever.remarks(host.ctx, seen, [0, 1]) == []
    assert lever.remarks(host.ctx, seen, [1, 2]) == ["these CPUs lie on several NUMA nodes: node0, node1"]


def test_a_unit_that_pins_by_affinity_is_named(host):
    path = host.put(D + "10-pin.conf", "[Service]\nCPUAffinity=0\n")
    lever = behaviour("cpu.service")
    (found,) = lever.check(host.ctx, lever.observe(host.ctx), [0, 1])
    assert found["where"] == str(path)
