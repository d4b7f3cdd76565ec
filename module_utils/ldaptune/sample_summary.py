# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sampler saw, made into one result: the series, and means over the stretch under full load. Pure functions.

A sampler runs a little longer than the probe, and a leg has a stretch at a fixed lower rate. So means are taken over
the loaded intervals alone: those in which the server did at least 80 % of what it did in its best one. (The lower rate
is 70 % of what the host carried as found.)
"""

from __future__ import annotations

import statistics
from typing import Any, Dict, Iterable, List, Mapping, Sequence

SCHEMA = 1
LOADED_SHARE = 0.8
# Intervals shorter than this part of the sampler's own are too coarse to be the best one.
WHOLE_SHARE = 0.5

Record = Dict[str, Any]
Sample = Dict[str, Any]


def summarise(raw: Mapping[str, Any], passwords: Mapping[str, Any] | None = None, series: bool = True) -> Sample:
    """Return the sample of a raw record: totals, means over the loaded intervals, and the series where asked for."""
    records, facts = list(raw["records"]), raw["facts"]
    chosen = loaded(records, float(raw["interval"]))
    sample: Sample = {
        "schema": SCHEMA,
        "started": raw["started"],
        "seconds": raw["seconds"],
        "interval": raw["interval"],
        "ended": raw["ended"],
        "intervals": len(records),
        "loaded_intervals": len(chosen),
        "cpus": _cpus(chosen),
        "slapd": _slapd(chosen, facts),
        "interrupts": _interrupts(chosen, raw["queues"]),
        "memory": chosen[-1]["memory"] if chosen else None,
        "run_queue": _mean(item["run_queue"] for item in chosen),
        "blocked": _mean(item["blocked"] for item in chosen),
        "context_switches": _mean(item["context_switches"] for item in chosen),
        "disks": _disks(chosen, str(facts["database_disk"])),
        "monitor": _monitor(records, chosen, raw["database"]),
        "passwords": dict(passwords or {}) or None,
        "own": dict(raw["own"]),
        "own_cpu_percent": _share(raw["own_cpu_seconds"], raw["seconds"]),
        "notes": list(raw["notes"]),
    }
    return {**sample, "series": records} if series else sample


def loaded(records: Sequence[Record], interval: float) -> List[Record]:
    """Return the intervals under full load, by operations where cn=monitor tells them, else by slapd's CPU time.

    All of them where the server did nothing at all.
    """
    whole = [item for item in records if item["seconds"] >= WHOLE_SHARE * interval] or list(records)
    for measure in (_rate, _cpu):
        rates = [measure(item) for item in whole]
        best = max((rate for rate in rates if rate is not None), default=0.0)
        if best > 0:
            return [item for item, rate in zip(whole, rates) if rate is not None and rate >= LOADED_SHARE * best]
    return whole


def _rate(record: Record) -> float | None:
    monitor = record["monitor"]
    return monitor["operations_total"] / monitor["seconds"] if monitor and monitor["seconds"] else None


def _cpu(record: Record) -> float | None:
    slapd = record["slapd"]
    if not slapd:
        return None
    return float(slapd["workers"]["percent_total"] + sum(item["percent"] for item in slapd["listeners"]))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.fmean(known), 1) if known else None


def _share(part: float, whole: float) -> float | None:
    return round(100.0 * part / whole, 2) if whole else None


def _cpus(records: Sequence[Record]) -> List[Dict[str, Any]]:
    by_cpu: Dict[int, List[Dict[str, Any]]] = {}
    for record in records:
        for item in record["cpus"]:
            by_cpu.setdefault(item["cpu"], []).append(item)
    return [
        {"cpu": cpu, **{name: _mean(item[name] for item in items) for name in items[0] if name != "cpu"}}
        for cpu, items in sorted(by_cpu.items())
    ]


def _slapd(records: Sequence[Record], facts: Mapping[str, Any]) -> Dict[str, Any] | None:
    seen = [record["slapd"] for record in records if record["slapd"]]
    if not seen:
        return None
    listeners: Dict[int, List[float]] = {}
    for item in seen:
        for listener in item["listeners"]:
            listeners.setdefault(listener["tid"], []).append(listener["percent"])
    workers = [item["workers"] for item in seen]
    looks: Dict[str, int] = {}
    for item in workers:
        for state, count in item["looks"].items():
            looks[state] = looks.get(state, 0) + count
    names = ("percent_total", "user_percent", "system_percent", "busiest_percent")
    return {
        "pid": facts["pid"],
        # None where they cannot be told from workers.
        "listeners": [{"tid": tid, "percent": _mean(shares)} for tid, shares in sorted(listeners.items())]
        if facts["listeners_known"]
        else None,
        "workers": {
            "count": max(item["count"] for item in workers),
            "cpus": facts["worker_cpus"],
            **{name: _mean(item[name] for item in workers) for name in names},
            "looks": looks,
            "blocked_in_log_percent": blocked_in_log(looks, facts),
            "waiting_for_disk_percent": _share_of_busy(looks, "disk") if facts["states_known"] else None,
        },
    }


def _share_of_busy(looks: Mapping[str, int], state: str) -> float | None:
    """Return how many of the workers that had work were in a state, in per cent."""
    return _share(looks[state], sum(looks.values()) - looks["idle"])


def blocked_in_log(looks: Mapping[str, int], facts: Mapping[str, Any]) -> float | None:
    """Return how many of the workers that had work were sending a log line or waiting to, in per cent.

    None where it cannot be told: on a machine whose system calls are not known; and where threads wait for a lock of
    libc's but no send was ever seen, so that the lock may be another one.
    """
    if not facts["states_known"] or not sum(looks.values()) - looks["idle"]:
        return None
    if looks["log"] and not facts["log_sends"]:
        return None
    return _share_of_busy(looks, "log")


def _interrupts(records: Sequence[Record], queues: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    found = []
    for queue in queues:
        name = "%s %s" % (queue["card"], queue["queue"])
        rate = _mean(record["interrupts"].get(name) for record in records)
        total = sum(queue["cpus"].values())
        shares = {cpu: round(100.0 * count / total, 1) for cpu, count in queue["cpus"].items()} if total else {}
        found.append({"card": queue["card"], "queue": queue["queue"], "per_second": rate, "cpu_percent": shares})
    return found


def _disks(records: Sequence[Record], database: str) -> List[Dict[str, Any]]:
    by_disk: Dict[str, List[Dict[str, Any]]] = {}
    for record in records:
        for key, item in record["disks"].items():
            by_disk.setdefault(key, []).append(item)
    found = []
    for key, items in sorted(by_disk.items()):
        means = {name: _mean(item[name] for item in items) for name in items[0] if name != "name"}
        found.append({"name": items[0]["name"], "database": key == database, **means})
    return found


def _monitor(records: Sequence[Record], chosen: Sequence[Record], database: Mapping[str, Any]) -> Dict[str, Any] | None:
    seen = [record["monitor"] for record in records if record["monitor"]]
    full = [record["monitor"] for record in chosen if record["monitor"]]
    if not seen or not full:
        return None
    seconds = sum(item["seconds"] for item in full)
    totals = _sums(seen)

    return {
        "operations": totals,
        "operations_per_second": {kind: round(count / seconds, 1) for kind, count in _sums(full).items() if seconds},
        "threads": {name: _mean(item["threads"].get(name) for item in full) for name in full[0]["threads"]},
        **{name: _mean(item.get(name) for item in full) for name in ("connections", "read_waiters", "write_waiters")},
        "database": dict(database),
    }


def _sums(items: Iterable[Mapping[str, Any]]) -> Dict[str, int]:
    totals: Dict[str, int] = {}
    for item in items:
        for kind, count in item["operations"].items():
            totals[kind] = totals.get(kind, 0) + count
    return dict(sorted(totals.items()), total=sum(totals.values()))
