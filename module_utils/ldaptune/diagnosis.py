# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was the limit? Rules over a sample (sample_summary.summarise); pure functions.

The rules are tried in the order of RULES, which is that of what hides what: a generator at its limit makes every other
figure its own, a lock in front of the log makes busy workers look idle. Each that holds gives one line; the first is
the diagnosis. A figure that was not measured holds no rule.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence

from .directory.passwords import is_slow

Sample = Mapping[str, Any]
Line = Dict[str, str]

# Per cent of one core, or of all a thing may use, from which it counts as full.
CORE_BUSY = 90.0
LISTENER_BUSY = 90.0
WORKERS_BUSY = 85.0
HOST_BUSY = 90.0
DISK_BUSY = 80.0
# A full core is the network card's where so much of its work is softirq and interrupts.
NETWORK_SHARE = 40.0
# So many of the workers that had work, in per cent, were in the log or waited for the disk.
LOG_BLOCKED = 30.0
DISK_WAITING = 20.0
# The CPU time of workers is hashing where stored passwords are slow and most of it is spent outside the kernel.
HASH_USER_SHARE = 75.0
HASH_WORKERS = 60.0
SLOW_PASSWORDS = 50.0
BINDS_SHARE = 30.0
# The pool is full where so much of it is active and operations wait.
POOL_ACTIVE = 95.0
PENDING = 1.0
STOLEN = 10.0
# Fewer looks than this at workers that had work say nothing about what they wait for.
LOOKS = 10


def diagnose(sample: Sample | None, limited_by: str = "", limited_why: str = "") -> List[Line]:
    """Return {"code", "text"} for everything that was at its limit, the one that explains most first; never empty.

    `limited_by` is the probe's own verdict on its generator.
    """
    lines: List[Line] = []
    if limited_by == "generator_limited":
        why = ": %s" % limited_why if limited_why else ""
        lines.append(_line("generator_bound", "the load generator was the limit, not the server%s" % why))
    if not sample or not sample.get("loaded_intervals"):
        return lines or [_line("undetermined", "what the limit was is not known: %s" % _why_not(sample))]
    for rule in RULES:
        lines.extend(rule(sample))
    return lines or [_line("nothing_found", _nothing(sample))]


def _line(code: str, text: str) -> Line:
    return {"code": code, "text": text}


def _why_not(sample: Sample | None) -> str:
    if not sample:
        return "nothing was sampled"
    return str(sample.get("reason") or "the load was shorter than the sampler's interval")


def _number(value: Any) -> float:
    """Return a figure, and 0 for one that was not measured."""
    return float(value) if value is not None else 0.0


def _workers(sample: Sample) -> Mapping[str, Any]:
    workers: Mapping[str, Any] = (sample.get("slapd") or {}).get("workers") or {}
    return workers


def _had_work(sample: Sample) -> int:
    looks = _workers(sample).get("looks") or {}
    return sum(int(count) for count in looks.values()) - int(looks.get("idle", 0))


def network_core(sample: Sample) -> List[Line]:
    """A core that is full, and much of it with the network card's work."""
    found = []
    for item in sample["cpus"]:
        network = _number(item["softirq"]) + _number(item["irq"])
        if item["busy"] >= CORE_BUSY and network >= NETWORK_SHARE / 100.0 * item["busy"]:
            text = "core %d is %.0f %% busy, %.0f %% of it softirq and interrupts%s" % (
                item["cpu"],
                item["busy"],
                100.0 * network / item["busy"],
                _queues_on(sample, item["cpu"]),
            )
            found.append((network, _line("network_core_saturated", text)))
    return [line for _, line in sorted(found, key=lambda pair: -pair[0])[:1]]


def _queues_on(sample: Sample, cpu: int) -> str:
    """Return which card's interrupts come to a core, in words; "" where none is known to."""
    queues = [
        item
        for item in sample.get("interrupts") or ()
        if _number(item["per_second"]) >= 1 and _number((item["cpu_percent"] or {}).get(str(cpu))) >= 50
    ]
    if not queues:
        return ""
    rate = sum(item["per_second"] for item in queues)
    cards = ", ".join(sorted({item["card"] for item in queues}))
    return " (%s: %d of %d queues, %.0f interrupts/s)" % (cards, len(queues), len(sample["interrupts"]), rate)


def listener(sample: Sample) -> List[Line]:
    """A listener thread that is at what one core can do."""
    listeners = (sample.get("slapd") or {}).get("listeners") or []
    busiest = max((_number(item["percent"]) for item in listeners), default=0.0)
    if busiest < LISTENER_BUSY:
        return []
    name = "the listener thread" if len(listeners) == 1 else "the busiest of %d listener threads" % len(listeners)
    return [_line("listener_saturated", "%s is at %.0f %%" % (name, min(100.0, busiest)))]


def log(sample: Sample) -> List[Line]:
    """Workers that send a log line, or wait until another one has."""
    share = _workers(sample).get("blocked_in_log_percent")
    if share is None or share < LOG_BLOCKED or _had_work(sample) < LOOKS:
        return []
    text = "%.0f %% of the workers that had work were sending a log line or waiting for one to be sent" % share
    return [_line("log_bound", text)]


def disk(sample: Sample) -> List[Line]:
    """A disk that is busy all the time while workers wait for it."""
    waiting = _number(_workers(sample).get("waiting_for_disk_percent"))
    iowait = max((_number(item["iowait"]) for item in sample["cpus"]), default=0.0)
    disks = [item for item in sample["disks"] if _number(item["busy_percent"]) >= DISK_BUSY]
    # Where the database's disk is known, another one's work is not the database's.
    if any(item["database"] for item in sample["disks"]):
        disks = [item for item in disks if item["database"]]
    if not disks or not (waiting >= DISK_WAITING and _had_work(sample) >= LOOKS or iowait >= DISK_WAITING):
        return []
    item = max(disks, key=lambda each: each["busy_percent"])
    what = "%.0f %% of the workers that had work were waiting for a disk" % waiting
    if waiting < DISK_WAITING:
        what = "a core waits for it %.0f %% of its time" % iowait
    return [_line("disk_bound", "disk %s is %.0f %% busy and %s" % (item["name"], item["busy_percent"], what))]


def hashing(sample: Sample) -> List[Line]:
    """Workers whose CPU time goes into slow password hashes."""
    passwords, workers = sample.get("passwords") or {}, _workers(sample)
    rates = (sample.get("monitor") or {}).get("operations_per_second") or {}
    slow = [name for name in passwords.get("schemes") or {} if is_slow(name)]
    total = _number(workers.get("percent_total"))
    if not slow or _number(passwords.get("slow_percent")) < SLOW_PASSWORDS or not total:
        return []
    binds, all_kinds = _number(rates.get("bind")), _number(rates.get("total"))
    if not all_kinds or 100.0 * binds / all_kinds < BINDS_SHARE:
        return []
    user = 100.0 * _number(workers.get("user_percent")) / total
    if user < HASH_USER_SHARE or _of_their_cpus(workers) < HASH_WORKERS:
        return []
    text = "workers take %.0f %% of a core and %.0f %% of that outside the kernel: binds verify %s" % (
        total,
        user,
        ", ".join(slow),
    )
    return [_line("hash_bound", text)]


def _of_their_cpus(workers: Mapping[str, Any]) -> float:
    cpus = len(workers.get("cpus") or ())
    return _number(workers.get("percent_total")) / cpus if cpus else 0.0


def workers_full(sample: Sample) -> List[Line]:
    """Workers that take all the CPU they may, or a pool without an idle thread while operations wait."""
    workers = _workers(sample)
    share = _of_their_cpus(workers)
    if share >= WORKERS_BUSY:
        text = "workers take %.0f %% of the %d cores they may use" % (share, len(workers["cpus"]))
        return [_line("workers_saturated", text)]
    pool = (sample.get("monitor") or {}).get("threads") or {}
    active, most, pending = (_number(pool.get(name)) for name in ("active", "max", "pending"))
    if most and 100.0 * active / most >= POOL_ACTIVE and pending >= PENDING:
        text = "all %.0f threads of the pool are active and %.0f operations wait for one" % (most, pending)
        return [_line("workers_saturated", text)]
    return []


def whole_host(sample: Sample) -> List[Line]:
    """Every core is full, with slapd's work or another's."""
    cpus = sample["cpus"]
    if not cpus or min(_number(item["busy"]) + _number(item["steal"]) for item in cpus) < HOST_BUSY:
        return []
    slapd = _number(_workers(sample).get("percent_total"))
    slapd += sum(_number(item["percent"]) for item in (sample.get("slapd") or {}).get("listeners") or ())
    stolen = sum(_number(item["steal"]) for item in cpus) / len(cpus)
    busy = sum(_number(item["busy"]) for item in cpus) / len(cpus)
    text = "all %d cores of the host are busy (%.0f %%), slapd's threads take %.0f %% of them" % (
        len(cpus),
        busy,
        slapd / len(cpus),
    )
    return [_line("host_saturated", text + (", %.0f %% is stolen" % stolen if stolen >= 1 else ""))]


def stolen(sample: Sample) -> List[Line]:
    """Time that the hypervisor gave to others."""
    worst = max(sample["cpus"], key=lambda item: _number(item["steal"]), default=None)
    if worst is None or _number(worst["steal"]) < STOLEN:
        return []
    text = "the hypervisor kept %.0f %% of core %d for others" % (worst["steal"], worst["cpu"])
    return [_line("cpu_stolen", text)]


def _nothing(sample: Sample) -> str:
    """Return a line that says how far things were from their limits."""
    parts = []
    busiest = max(sample["cpus"], key=lambda item: _number(item["busy"]), default=None)
    if busiest:
        parts.append("busiest core %d at %.0f %%" % (busiest["cpu"], busiest["busy"]))
    listeners = (sample.get("slapd") or {}).get("listeners")
    if listeners:
        parts.append("listener at %.0f %%" % max(_number(item["percent"]) for item in listeners))
    workers = _workers(sample)
    if workers:
        parts.append("workers at %.0f %% of their cores" % _of_their_cpus(workers))
    return "no limit was found on this host: %s" % (", ".join(parts) or "nothing was measured")


RULES: Sequence[Callable[[Sample], List[Line]]] = (
    network_core,
    listener,
    log,
    disk,
    hashing,
    workers_full,
    whole_host,
    stolen,
)
