# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the lab's processes come to run: files, ownership, a private /dev, and the lab's own control script."""

from __future__ import annotations

import os
import pkgutil
import shlex
import subprocess
import sys
from typing import List, Sequence

# What a lab's own copy of this package needs, so that it works when the checkout (or the module's payload) is gone.
PARTS = ("__init__", "config", "control", "launch", "process", "settings", "slapd", "syslog", "users")
DEVICES = ("null", "zero", "full", "random", "urandom")

START = """#!/bin/sh
# Starts this lab's slapd. The caller has given us a mount namespace of our own, so that /dev here can have the lab's
# log socket (or none at all) instead of the host's: whatever slapd logs, the host's log gets nothing.
set -eu
dev=%(root)s/run/dev
mkdir -p "$dev"
mount -t tmpfs -o mode=0755,nosuid,size=64k tmpfs "$dev"
for name in %(devices)s; do
    : > "$dev/$name"
    mount --bind "/dev/$name" "$dev/$name"
done
if [ "$1" = log ]; then ln -s %(root)s/run/log "$dev/log"; fi
shift
mount --move "$dev" /dev
exec "$@"
"""

CONTROL = """#!%(python)s -I
# Controls this lab's slapd: start, stop or restart.
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, %(lib)r)
from ldaptune.lab.control import main

sys.exit(main(%(root)r, sys.argv[1:]))
"""


def interpreter() -> str:
    """Return the Python the lab's own processes run with: a system one, which outlives a virtual environment."""
    return os.path.realpath(sys.executable)


def write_file(path: str, text: str, mode: int) -> None:
    """Write a file that has `mode` from its first byte on."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as handle:
        handle.write(text)
    os.chmod(path, mode)


def chown_tree(top: str, uid: int, gid: int) -> None:
    """Give a directory and everything in it to one owner."""
    os.lchown(top, uid, gid)
    for parent, folders, files in os.walk(top):
        for name in folders + files:
            os.lchown(os.path.join(parent, name), uid, gid)


def _source(module: str) -> str:
    package, _, name = module.rpartition(".")
    data = pkgutil.get_data(package, name + ".py")
    if data is None:
        raise OSError("cannot read the source of %s" % module)
    return data.decode("utf-8")


def write_control(root: str) -> None:
    """Put the start and control scripts and a copy of this package into the lab's directory."""
    lab = __name__.rpartition(".")[0]
    base = lab.rpartition(".")[0]
    target = os.path.join(root, "lib", "ldaptune")
    os.makedirs(os.path.join(target, "lab"))
    write_file(os.path.join(target, "__init__.py"), "", 0o644)
    for part in ("problems", "ssha"):
        write_file(os.path.join(target, part + ".py"), _source("%s.%s" % (base, part)), 0o644)
    for part in PARTS:
        text = "" if part == "__init__" else _source("%s.%s" % (lab, part))
        write_file(os.path.join(target, "lab", part + ".py"), text, 0o644)
    values = {"root": shlex.quote(root), "devices": " ".join(DEVICES)}
    write_file(os.path.join(root, "start.sh"), START % values, 0o755)
    control = CONTROL % {"python": interpreter(), "root": root, "lib": os.path.join(root, "lib")}
    write_file(os.path.join(root, "ctl"), control, 0o755)


def can_unshare() -> bool:
    """Tell whether we may have a mount namespace of our own (root may, outside narrow containers)."""
    if os.geteuid() != 0:
        return False
    done = subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def run_daemon(root: str, command: Sequence[str], log: bool) -> subprocess.CompletedProcess[str]:
    """Run a command that puts itself into the background, behind a private /dev; return how its first part ended.

    Without the right to make a namespace the command runs as it is, and then must not be given a log.
    """
    start: List[str] = list(command)
    if log or can_unshare():
        script = [os.path.join(root, "start.sh"), "log" if log else "nolog"]
        start = ["unshare", "--mount", "--propagation", "private", "--", "sh", *script, *start]
    said = os.path.join(root, "run", "start.err")
    # A file, not a pipe: the daemon keeps what it inherits open.
    with open(said, "w", encoding="utf-8") as handle:
        done = subprocess.run(
            start,
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            cwd="/",
            start_new_session=True,
            timeout=60,
            check=False,
        )
    with open(said, encoding="utf-8", errors="replace") as handle:
        return subprocess.CompletedProcess(start, done.returncode, "", handle.read())
