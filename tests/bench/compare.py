#!/usr/bin/env python3
# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set bin/authrate beside the bare C loop: binds against one slapd, alternating; medians and ratios.

    tests/bench/compare.py ADDRESS PORT ACCOUNTS PASSWORD_FILE [CONNECTIONS [ROUNDS [SECONDS]]]

The server gets full load for ROUNDS times twice SECONDS, and must be one that nobody uses (make lab).
"""

from __future__ import annotations

import json
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "module_utils"))

from ldaptune.load import credentials, patterns, wire  # noqa: E402


def requests(accounts: str, password_file: str) -> bytes:
    """The binds of all accounts in the form that the C loop reads."""
    dns = patterns.expand(accounts).dns
    found = credentials.passwords(credentials.read(password_file), dns, password_file)
    binds = [wire.envelope(1, wire.simple_bind(dn.encode(), password)) for dn, password in zip(dns, found)]
    return b"".join(struct.pack("<I", len(bind)) + bind for bind in binds)


def loop(binary: Path, data: Path, address: str, port: str, connections: str, seconds: str) -> tuple[float, float]:
    """One run of the C loop: operations a second and CPU seconds an operation."""
    command = [binary, address, port, connections, seconds, data]
    done, wall, cpu = map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    return done / wall, cpu / done


def probe(uri: str, accounts: str, password_file: str, connections: str, seconds: str) -> tuple[float, float]:
    """The same of one run of bin/authrate."""
    command = [sys.executable, CHECKOUT / "bin/authrate", "--uri", uri, "--accounts", accounts]
    command += ["--password-file", password_file, "--connections", connections]
    command += ["--warmup", "1", "--seconds", seconds, "--json", "-"]
    done = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    phase = list(json.loads(done)["phases"].values())[-1]
    cpu = sum(process["cpu_seconds"] for process in phase["processes"])
    return phase["operations"] / phase["seconds"], cpu / phase["operations"]


def main(address, port, accounts, password_file, connections="16", rounds="10", seconds="2"):
    """Alternate, and print a line for each side."""
    with tempfile.TemporaryDirectory() as folder:
        binary, data = Path(folder, "bindloop"), Path(folder, "requests")
        subprocess.run(["cc", "-O2", "-o", binary, Path(__file__).with_name("bindloop.c")], check=True)
        data.touch(mode=0o600)
        data.write_bytes(requests(accounts, password_file))
        sides = {
            "C loop": lambda: loop(binary, data, address, port, connections, seconds),
            "authrate": lambda: probe("ldap://%s:%s" % (address, port), accounts, password_file, connections, seconds),
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        for number in range(int(rounds)):
            for name in list(sides)[:: -1 if number % 2 else 1]:
                found[name].append(sides[name]())
    medians = {name: [statistics.median(column) for column in zip(*runs)] for name, runs in found.items()}
    for name, (rate, cpu) in medians.items():
        base_rate, base_cpu = medians["C loop"]
        print("%-8s  %8.0f/s  %6.2f us of CPU  rate x%.2f  CPU x%.2f"
              % (name, rate, cpu * 1e6, rate / base_rate, cpu / base_cpu))  # fmt: skip


if __name__ == "__main__":
    if not 5 <= len(sys.argv) <= 8:
        sys.exit(__doc__)
    main(*sys.argv[1:])
