# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A slapd that runs in another root or behind other mounts is never taken for this host's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import pytest
from ldaptune.host import service
from ldaptune.host.process import choose_slapd, find_slapds, here
from ldaptune.lab import process as lab_process
from ldaptune.opening import open_target
from ldaptune.problems import LdaptuneError

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and mount namespaces"
)

# $1 is the lab's root here, $2 what lies at the same path there; the rest is the command.
CHROOT = """
top=$1/chroot; mkdir -p "$top"; mount -t tmpfs tmpfs "$top"
for name in usr lib lib64 bin sbin etc var dev proc; do
    if [ -L "/$name" ]; then cp -a "/$name" "$top/$name"
    elif [ -d "/$name" ]; then mkdir "$top/$name"; mount --rbind "/$name" "$top/$name"; fi
done
mkdir -p "$top$1" "$top$2"; chmod -R 755 "$top${1%/*}" "$top${2%/*}"
mount --bind "$2" "$top$2"; mount --bind "$2" "$top$1"
shift 2; exec chroot "$top" "$@"
"""
MOUNTS = 'mount --bind "$2/slapd.d" "$1/slapd.d"; mount --bind "$2/run" "$1/run"; shift 2; exec "$@"'


@pytest.fixture(params=["chroot", "mounts"])
def twins(request, make_slapd):
    """This host's slapd, and a process with the very same paths in its arguments in another root."""
    lab = make_slapd(users=3)
    other = make_slapd(users=3, start=False)
    command = [shutil.which("slapd", path="/usr/sbin:/usr/libexec:/sbin"), "-d", "0"]
    # Joined, so that the lab does not take it for its own when it restarts.
    command += ["-F%s" % lab.config_dir, "-h", "%s/ %s/" % (other.uri, lab.ldapi), "-u", "openldap", "-g", "openldap"]
    script = CHROOT if request.param == "chroot" else MOUNTS
    roots = [str(lab.root), str(other.root)]
    apart = subprocess.Popen(["unshare", "-m", "sh", "-e", "-c", script, "sh", *roots, *command])
    try:
        deadline = time.monotonic() + 30
        while not lab_process.answers("127.0.0.1", other.port):
            assert apart.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        yield lab, apart.pid
    finally:
        apart.kill()
        apart.wait()


def of(lab, pid):
    """The two of all slapds on this machine, of which other tests may have some."""
    return [item for item in find_slapds() if item.pid in (lab.pid, pid)]


def test_the_same_path_elsewhere_is_another_file(twins):
    lab, pid = twins
    both = of(lab, pid)
    assert {item.config_dir for item in both} == {str(lab.config_dir)}
    assert {item.pid: here(item) for item in both} == {lab.pid: True, pid: False}
    (lab_item,) = [item for item in both if item.pid == lab.pid]
    for instance in (str(lab.config_dir), lab.ldapi, ""):
        assert choose_slapd(both, instance).pid == lab.pid
    assert choose_slapd(both, uri=lab.ldapi).pid == lab.pid
    with open_target(lab.server).ctx as ctx:
        assert ctx.slapd == lab_item


def test_it_is_named_apart_where_none_is_here(twins):
    lab, pid = twins
    only = [item for item in of(lab, pid) if item.pid == pid]
    for instance in (str(lab.config_dir), ""):
        with pytest.raises(LdaptuneError) as caught:
            choose_slapd(only, instance)
        (found,) = caught.value.problems
        assert "no slapd is running on this host itself" in found["what"] and "pid %d" % pid in found["found"]


def test_a_pid_file_that_names_it_chooses_nothing(twins, tmp_path):
    lab, pid = twins
    (tmp_path / "pid").write_text("%d\n" % pid)
    with pytest.raises(LdaptuneError, match="apart"):
        choose_slapd(of(lab, pid), str(tmp_path / "pid"))


def test_a_restart_waits_for_the_own_one(twins):
    lab, _ = twins
    (old,) = [item for item in find_slapds() if item.pid == lab.pid]
    fresh = service.restart(old, "", lab.server["restart_command"], 30)
    assert fresh.pid == lab.pid != old.pid
