#!/usr/bin/env python3
# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the probe costs: alternating runs against one slapd of our own, medians and ratios, as docs/performance.md.

    tests/bench/bench.py [--rounds 10] [--seconds 2] [--only NAME,NAME] [--write docs/performance.md]

It builds and loads a private slapd on loopback, for some minutes, and needs root, slapd, a C compiler and ldap3.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "module_utils"))

from ldaptune.lab.slapd import LabSlapd, free_port  # noqa: E402
from ldaptune.levers.context import open_context  # noqa: E402
from ldaptune.load import credentials, patterns, wire  # noqa: E402

USERS = 10000
CLEAR = 100  # accounts with a password in clear text, which SASL PLAIN needs
# The interpreter that a play finds on a host; how it was built makes a tenth of the cost.
PYTHON = "/usr/bin/python3"
MARK = "<!-- what follows is written by make bench -->\n"
ROOT_DN = "gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth"


class Bench:
    """The server, and one way to run each side against it."""

    def __init__(self, folder: Path, given: argparse.Namespace) -> None:
        self.folder, self.given = folder, given
        self.loop = folder / "bindloop"
        subprocess.run(["cc", "-O2", "-o", self.loop, Path(__file__).with_name("bindloop.c")], check=True)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.descriptors = hard
        self.ldaps = "ldaps://127.0.0.1:%d" % free_port()
        self.lab = self._lab()
        self.data = folder / "requests"
        self.data.touch(mode=0o600)
        self.data.write_bytes(self._binds())

    def _lab(self) -> LabSlapd:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            + ["-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"]
            + ["-keyout", str(self.folder / "key.pem"), "-out", str(self.folder / "cert.pem")],
            check=True, capture_output=True,
        )  # fmt: skip
        lab = LabSlapd(
            self.folder / "lab", users=USERS, log_level="none", extra_uris=[self.ldaps + "/"],
            global_lines=[
                "olcSaslSecProps: none",
                "olcAuthzRegexp: uid=([^,]+),cn=plain,cn=auth uid=$1,ou=people,dc=lab,dc=test",
                "olcTLSCertificateFile: @ROOT@/cert.pem",
                "olcTLSCertificateKeyFile: @ROOT@/key.pem",
            ],
        ).build()  # fmt: skip
        for name in ("cert.pem", "key.pem"):
            shutil.copy(self.folder / name, lab.root)
            os.chmod(os.path.join(lab.root, name), 0o644)
        lab.start()
        with open_context(lab.server) as ctx:
            ctx.directory.modify(ctx.database["dn"], [("replace", "olcRootDN", [ROOT_DN])])
            for number in range(CLEAR):
                dn = "uid=user.%d,ou=people,dc=lab,dc=test" % number
                ctx.directory.modify(dn, [("replace", "userPassword", [lab.password])])
        return lab

    def _binds(self) -> bytes:
        """The binds of all accounts in the form that the C loop reads."""
        dns = patterns.expand(self.lab.accounts).dns
        found = credentials.passwords(credentials.read(self.lab.password_file), dns, "")
        binds = [wire.envelope(1, wire.simple_bind(dn.encode(), password)) for dn, password in zip(dns, found)]
        return b"".join(struct.pack("<I", len(bind)) + bind for bind in binds)

    def bare(self, connections: int, *loop: object) -> tuple[float, float]:
        """One run of the C loop (or of another one): operations a second, CPU seconds an operation."""
        given = ("127.0.0.1", str(self.lab.port), str(connections), str(self.given.seconds), self.data)
        command = [*(loop or [self.loop]), *given]
        done, wall, cpu = map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
        return done / wall, cpu / done

    def result(self, *arguments: str, watch: list[float] | None = None) -> dict:
        """The whole result of a run of bin/authrate; `watch` gets the memory of its processes, in bytes."""
        command = [PYTHON, CHECKOUT / "bin/authrate", "--password-file", self.lab.password_file]
        if "--uri" not in arguments:
            command += ["--uri", self.lab.uri]
        if "--accounts" not in arguments:
            command += ["--accounts", self.lab.accounts]
        command += ["--seconds", str(self.given.seconds), "--warmup", "1", "--json", "-", "--quiet", *arguments]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if watch is not None:
            threading.Thread(target=watch_memory, args=(running.pid, watch), daemon=True).start()
        out, err = running.communicate()
        if not out:
            sys.exit(err)
        return json.loads(out)

    def probe(self, *arguments: str) -> tuple[float, float]:
        """One run of bin/authrate: operations a second, CPU seconds an operation."""
        phase = self.result(*arguments)["phases"]["goal"]
        cpu = sum(process["cpu_seconds"] for process in phase["processes"])
        return phase["operations"] / phase["seconds"], cpu / phase["operations"]

    def ldap3(self, _connections: int = 1) -> tuple[float, float]:
        """The same of ldap3's rebind in a loop, on one connection."""
        import ldap3

        server = ldap3.Server("127.0.0.1", self.lab.port, get_info=ldap3.NONE)
        dns = patterns.expand(self.lab.accounts).dns
        connection = ldap3.Connection(server, dns[0], self.lab.password, auto_bind=True)
        until, done = time.monotonic() + self.given.seconds, 0
        started, cpu = time.monotonic(), time.process_time()
        while time.monotonic() < until:
            connection.rebind(dns[done % len(dns)], self.lab.password)
            done += 1
        found = done / (time.monotonic() - started), (time.process_time() - cpu) / done
        connection.unbind()
        return found

    def alternate(self, sides: dict, rounds: int) -> dict:
        """Median (rate, CPU) of each side."""
        found: dict = {name: [] for name in sides}
        for number in range(rounds):
            for name in list(sides)[:: -1 if number % 2 else 1]:
                found[name].append(sides[name]())
        return {name: [statistics.median(column) for column in zip(*runs)] for name, runs in found.items()}


def watch_memory(pid: int, found: list[float]) -> None:
    """Note, again and again, the proportional memory of a process and its children, in bytes."""
    while True:
        total = 0
        try:
            children = Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()
            for number in (str(pid), *children):
                lines = Path("/proc", number, "smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):
            return
        found.append(total)
        time.sleep(0.5)


def against_c(bench: Bench) -> list[str]:
    """Binds over kept connections beside the bare loops in C and Python, and ldap3."""
    head = "| connections | C loop | same in Python | authrate | rate | CPU | ldap3, one connection | CPU of ldap3 |"
    rows = [head, "|---" * 8 + "|"]
    python = (PYTHON, Path(__file__).with_name("bindloop.py"))
    for connections in (16, 64, 256):
        asked = ("--connections", str(connections))
        sides = {
            "c": lambda c=connections: bench.bare(c),
            "python": lambda c=connections: bench.bare(c, *python),
            "probe": lambda a=asked: bench.probe(*a),
        }
        found = bench.alternate(sides, bench.given.rounds)
        slow = bench.alternate({"ldap3": bench.ldap3}, 3)["ldap3"]
        (c_rate, c_cpu), (rate, cpu) = found["c"], found["probe"]
        rows.append(
            "| %d | %.1fk/s, %.2f us | %.1fk/s, %.2f us (x%.2f) | %.1fk/s, %.2f us | x%.2f | x%.2f "
            "| %.1fk/s, %.0f us | x%.0f |"
            % (connections, c_rate / 1e3, c_cpu * 1e6, found["python"][0] / 1e3, found["python"][1] * 1e6,
               found["python"][1] / c_cpu, rate / 1e3, cpu * 1e6, rate / c_rate, cpu / c_cpu,
               slow[0] / 1e3, slow[1] * 1e6, slow[1] / cpu)
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def workloads(bench: Bench) -> list[str]:
    """What each way of using a server costs the generator, 16 clients."""
    clear = "uid=user.[0-%d],ou=people,dc=lab,dc=test" % (CLEAR - 1)
    ca_file = str(bench.folder / "cert.pem")
    asked = {
        "bind": (),
        "bind, TLS": ("--uri", bench.ldaps, "--ca-file", ca_file),
        "bind, SASL PLAIN": ("--auth", "plain", "--accounts", clear),
        "bind, 5 % wrong passwords": ("--fail", "wrong_password=5"),
        "search": ("--workload", "search"),
        "search, 8 outstanding": ("--workload", "search", "--window", "8"),
        "mixed, 70 % binds": ("--workload", "mixed", "--mix", "bind=70,search=30"),
        "search_bind": ("--workload", "search_bind"),
        "connect_bind": ("--workload", "connect_bind"),
        "connect_bind, TLS": ("--workload", "connect_bind", "--uri", bench.ldaps, "--ca-file", ca_file),
        "paged_search, 500 a page": ("--workload", "paged_search", "--base", "ou=people,dc=lab,dc=test")
        + ("--bind-dn", "uid=user.1,ou=people,dc=lab,dc=test"),
    }
    sides = {name: lambda given=given: bench.probe(*given) for name, given in asked.items()}
    found = bench.alternate(sides, max(1, bench.given.rounds // 2))
    rows = ["| workload | operations/s | CPU an operation |", "|---" * 3 + "|"]
    rows += ["| %s | %.1fk | %.1f us |" % (name, rate / 1e3, cpu * 1e6) for name, (rate, cpu) in found.items()]
    return rows


def open_loop(bench: Bench) -> list[str]:
    """A fixed rate: how much of it was sent, and how late."""
    achieved, late = [], []
    for _ in range(bench.given.rounds):
        phase = bench.result("--rate", "5000")["phases"]["goal"]
        achieved.append(100 * (phase["planned"] - phase["dropped"]) / phase["planned"])
        late.append(max(process["lag_p99_ns"] for process in phase["processes"]) / 1e6)
    return [
        "| offered | sent of it, median (lowest) | p99 of how late, median (highest) |", "|---" * 3 + "|",
        "| 5,000/s | %.2f %% (%.2f %%) | %.2f ms (%.2f ms) |"
        % (statistics.median(achieved), min(achieved), statistics.median(late), max(late)),
    ]  # fmt: skip


def many(bench: Bench) -> list[str]:
    """10,000 open connections."""
    if bench.descriptors < 10200:
        return ["Not measured: %d descriptors are allowed here." % bench.descriptors]
    memory: list[float] = []
    rates: dict = {64: [], 10000: []}
    for _ in range(3):
        for connections, found in rates.items():
            watch = memory if connections == 10000 else None
            phase = bench.result("--connections", str(connections), "--warmup", "4", watch=watch)["phases"]["goal"]
            found.append(phase["goodput"] or 0)
    few, lots = (statistics.median(found) for found in rates.values())
    return [
        "| connections | binds/s | memory of all its processes |", "|---" * 3 + "|", "| 64 | %.1fk | |" % (few / 1e3),
        "| 10,000 | %.1fk (x%.2f) | at most %.0f MB |" % (lots / 1e3, lots / few, max(memory) / 1e6),
    ]  # fmt: skip


PARTS = {
    "against-c": ("Binds over kept connections", against_c),
    "open": ("A fixed rate", open_loop),
    "many": ("Many connections", many),
    "workloads": ("What each workload costs the generator", workloads),
}


def main() -> None:
    """Run what is asked for, print it, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--write", default="", metavar="FILE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ldaptune-bench-") as name:
        os.chmod(name, 0o755)  # slapd's own account must get in
        bench = Bench(Path(name), given)
        busy = os.getloadavg()[0]
        try:
            found = []
            for part in given.only.split(","):
                title, act = PARTS[part]
                found += ["## " + title, "", *act(bench), ""]
                print("\n".join(found[-12:]), flush=True)
        finally:
            bench.lab.destroy()
    where = (os.cpu_count() or 0, platform.release().split("-")[0], platform.python_version())
    text = "%d CPUs, Linux %s, Python %s, " % where
    text += "slapd with %d users in mdb, log level none; %d rounds of %g s.\n" % (USERS, given.rounds, given.seconds)
    text += "Load average before it began: %.1f.\n\n" % busy
    if given.write:
        page = Path(given.write)
        page.write_text(page.read_text().partition(MARK)[0] + MARK + "\n" + text + "\n".join(found), encoding="utf-8")


if __name__ == "__main__":
    main()
