# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test looks at on a lab slapd, by another way than the code under test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

from ldaptune.directory.openldap import connect

# LDAP cannot restore these three.
STAMPS = ("entryCSN:", "modifyTimestamp:", "modifiersName:")


def settings(lab):
    """cn=config as the lines of each entry, whatever their order, less the stamps."""
    entries = lab.slapcat(0).replace("\n ", "").split("\n\n")
    return sorted(sorted(line for line in entry.splitlines() if not line.startswith(STAMPS)) for entry in entries)


def log_level(lab):
    """The configured log level as slapd returns it."""
    directory = connect(lab.server)
    try:
        return directory.read("cn=config", ["olcLogLevel"]).get("olcLogLevel")
    finally:
        directory.close()


def binds(lab):
    """How many binds the server has seen."""
    directory = connect(lab.server)
    try:
        return directory.counters()["operations"]["bind"]
    finally:
        directory.close()


def open_connections(lab):
    """How many clients other than this reader are connected."""
    directory = connect(lab.server)
    try:
        return directory.monitor()["connections"]["current"] - 1
    finally:
        directory.close()


def state_files(lab):
    """Everything in the host's state directory."""
    top = lab.server["state_dir"]
    return [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]


@contextlib.contextmanager
def foreign_client(lab):
    """Somebody else's binds on this slapd, bounded in time, until the block ends."""
    command = ["bin/authrate", "--uri", lab.uri, "--accounts", lab.accounts, "--password-file", str(lab.password_file)]
    client = subprocess.Popen(
        [*command, "--connections", "4", "--seconds", "30"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        client.send_signal(signal.SIGINT)
        client.wait(timeout=30)
