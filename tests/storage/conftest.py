# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loop devices, mounts that nobody else sees, and a host's tree of files around them."""

from __future__ import annotations

import ctypes
import os
import pickle
import re
import shutil
import subprocess
import traceback
import types
import uuid
from pathlib import Path

import pytest

os.environ["PATH"] += os.pathsep + "/usr/sbin" + os.pathsep + "/sbin"

_CLONE_NEWNS = 0x00020000


def sh(*words, check=True):
    """Run a command of the test's own and return what it printed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, "%s: %s%s" % (words, done.stdout, done.stderr)
    return done.stdout.strip()


def need(*tools):
    """Skip a test where one of these programs is missing."""
    missing = [name for name in tools if not shutil.which(name)]
    if missing:
        pytest.skip("not installed: %s" % ", ".join(missing))


def _unshare():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    sh("mount", "--make-rprivate", "/")


@pytest.fixture
def apart():
    """Run a function in a process with mounts of its own: apart(function, *arguments) -> what it returned."""
    if os.geteuid():
        pytest.skip("mounts need root")

    def run(function, *arguments):
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.close(read)
                _unshare()
                told = ("done", function(*arguments))
            except pytest.skip.Exception as why:
                told = ("skipped", str(why))
            except BaseException:  # noqa: BLE001 - the other side tells it
                told = ("failed", traceback.format_exc())
            with os.fdopen(write, "wb") as stream:
                pickle.dump(told, stream)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            data = stream.read()
        os.waitpid(pid, 0)
        state, value = pickle.loads(data)
        if state == "skipped":
            pytest.skip(value)
        if state == "failed":
            pytest.fail("apart:\n" + value, pytrace=False)
        return value

    return run


def _queue(device):
    queue = Path("/sys/block", os.path.basename(device), "queue")
    scheduler = re.search(r"\[(.+)\]", (queue / "scheduler").read_text())
    found = {queue / "read_ahead_kb": (queue / "read_ahead_kb").read_text()}
    return {**found, **({queue / "scheduler": scheduler.group(1)} if scheduler else {})}


@pytest.fixture
def loop(tmp_path):
    """Make loop devices of this test's own: loop(MiB) -> /dev/loopN."""
    if os.geteuid():
        pytest.skip("loop devices need root")
    need("losetup")
    made = []

    def make(size=400):
        path = tmp_path / ("disk%d" % len(made))
        with path.open("wb") as stream:
            stream.truncate(size << 20)
        done = subprocess.run(["losetup", "-f", "--show", path], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip("no loop device here: %s" % done.stderr.strip())
        device = done.stdout.strip()
        made.append((device, _queue(device)))
        return device

    yield make
    for device, queue in made:
        # They outlive the device: the next one of this number would have ours.
        for path, text in queue.items():
            path.write_text(text)
        sh("losetup", "-d", device)


@pytest.fixture
def label():
    """A label that no other test of this machine has at the same time."""
    return "t" + uuid.uuid4().hex[:9]


class Host:
    """A tree with an /etc and a /run of its own; /proc, /sys and /dev are this machine's unless they are made."""

    def __init__(self, tree, real=True):
        self.tree = tree
        for name in ("proc", "sys", "dev") if real else ():
            (tree / name).symlink_to("/" + name)
        (tree / "etc").mkdir()
        self.restarts = 0

    def put(self, path, text):
        where = self.tree / path.lstrip("/")
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text)
        return where

    def text(self, path):
        return (self.tree / path.lstrip("/")).read_text()

    def fstab(self, text):
        return self.put("etc/fstab", text)

    def udev(self, device, **properties):
        """Let udev know a device."""
        number = os.stat(device).st_rdev
        lines = "".join("E:%s=%s\n" % item for item in properties.items())
        self.put("run/udev/data/b%d:%d" % (os.major(number), os.minor(number)), "I:1\n" + lines)

    def files(self):
        """Return {path: octets, or None for a directory} of /etc, /run and /var."""
        found = {}
        for top in ("etc", "run", "var"):
            for folder, folders, names in os.walk(self.tree / top):
                found.update((os.path.relpath(os.path.join(folder, name), self.tree), None) for name in folders)
                for name in names:
                    path = Path(folder, name)
                    found[str(path.relative_to(self.tree))] = path.read_bytes()
        return found

    def ctx(self, directory, pid=None, **more):
        def restart():
            self.restarts += 1

        given = {"host": {"kernel": os.uname().release}, "wanted": {}, "server": {}, "switching": False, **more}
        return types.SimpleNamespace(
            root=str(self.tree),
            slapd=types.SimpleNamespace(pid=pid or os.getpid()),
            database={"directory": str(directory)},
            restart=restart,
            restart_problems=list,
            **given,
        )


@pytest.fixture
def host(tmp_path):
    """This machine's kernel below an /etc of the test's own."""
    (tmp_path / "host").mkdir()
    return Host(tmp_path / "host")


@pytest.fixture
def fake_host(tmp_path):
    """A host that is files alone."""
    (tmp_path / "host").mkdir()
    return Host(tmp_path / "host", real=False)


@pytest.fixture
def tools():
    """The helpers of this file: tools.sh(...), tools.need(...)."""
    return types.SimpleNamespace(sh=sh, need=need)
