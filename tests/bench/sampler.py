# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sampler costs, and how well it tells workers in the log: beside a private slapd, idle and under full load.

PYTHONPATH=module_utils python tests/bench/sampler.py [seconds]
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from ldaptune.figures import MISSING, whole
from ldaptune.lab.slapd import LabSlapd
from ldaptune.load.prepare import Settings, prepare
from ldaptune.load.run import run
from ldaptune.opening import open_target
from ldaptune.sample_summary import summarise
from ldaptune.sampler import Subject
from ldaptune.sampling import Place, start, stop


def measure(lab, seconds, connections):
    """Return operations a second, the sample, and the ms of its start and end, with so many connections (0: idle)."""
    target = open_target(lab.server)
    with target.ctx as ctx:
        place = Place(target.store.root)
        begun = time.monotonic()
        start(place, Subject(ctx.slapd, ctx.server, ctx.database), 2 * seconds + 30).release()
        started = time.monotonic()
        rate = 0.0
        if connections:
            phases = [{"name": "goal", "mode": "closed", "seconds": seconds, "rate": 0}]
            settings = Settings(
                uri=lab.uri,
                accounts=lab.accounts,
                password_file=lab.password_file,
                connections=connections,
                phases=phases,
            )
            rate = run(prepare(settings))["phases"]["goal"]["goodput"]
        else:
            time.sleep(seconds)
        ending = time.monotonic()
        raw = stop(place)
        times = (1000 * (started - begun), 1000 * (time.monotonic() - ending))
    return rate, summarise(raw, series=False), times


def main():
    """Print a table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    top = Path(tempfile.mkdtemp(prefix="ldt-%d-" % os.getpid()))
    top.chmod(0o755)
    heads = ("log level, load", "operations/s", "own CPU, % of a core", "workers in the log, %", "start, end, ms")
    print("| %s |" % " | ".join(heads))
    print("|---|---|---|---|---|")
    try:
        for level in ("none", "stats"):
            lab = LabSlapd(top / level, log_level=level, syslog=True)
            try:
                lab.build()
                lab.start()
                for connections in (0, 16):
                    rate, sample, times = measure(lab, seconds, connections)
                    load = "%d connections" % connections if connections else "idle"
                    log = sample["slapd"]["workers"]["blocked_in_log_percent"] if connections else None
                    row = (level, load, whole(rate), sample["own_cpu_percent"], MISSING if log is None else log)
                    print("| `%s`, %s | %s | %s | %s | %.0f and %.0f |" % (*row, *times))
            finally:
                lab.destroy()
    finally:
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    main()
