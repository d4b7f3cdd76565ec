# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole run of the probe: check everything, connect, run the phases on the same connections, judge the generator."""

from __future__ import annotations

import signal
from typing import Any, Dict, Tuple

from ..problems import LdaptuneError, problem
from . import limits, phase
from .prepare import Ready, Settings
from .summary import sentence
from .workers import Progress, WorkerDied, Workers

SAMPLE_SECONDS = 30
#: The version of the result's form, docs/authrate.schema.json.
SCHEMA = 1


def head(settings: Settings) -> Dict[str, Any]:
    """Return what each result begins with: the version of its form, and what was asked for."""
    names = ("workload", "auth", "uri", "starttls", "insecure")
    return {"schema": SCHEMA, "workload": {name: getattr(settings, name) for name in names}}


def run(ready: Ready, progress: Progress = None) -> Dict[str, Any]:
    """Run all phases and return the result; `progress` gets (phase, rows) each second.

    Raises LdaptuneError when nothing could be measured: no connection, or a sample bind that failed. A run that was
    interrupted or lost a worker process returns what it has, marked as cut short.
    """
    settings = ready.settings
    budget = sum(spec["seconds"] + 2 * settings.timeout + 1 for spec in settings.phases)
    deadline = int(budget + SAMPLE_SECONDS + ready.connect_seconds + 30)
    signal.alarm(deadline + 10)
    workers = Workers(ready.jobs(progress is not None), deadline)
    previous = [
        (number, signal.signal(number, lambda *_: workers.stop())) for number in (signal.SIGINT, signal.SIGTERM)
    ]
    try:
        return _phases(ready, workers, progress)
    finally:
        workers.close()
        signal.alarm(0)
        for number, handler in previous:
            signal.signal(number, handler)


def _phases(ready: Ready, workers: Workers, progress: Progress) -> Dict[str, Any]:
    settings = ready.settings
    workers.connect(ready.connect_seconds)
    done: Dict[str, Any] = {}
    remarks: Dict[Tuple[str, str], int] = {}
    verdicts: Dict[str, Tuple[str, str]] = {}
    died = ""
    totals: Dict[str, int] = {}
    sample: Dict[str, Any] | None = None
    try:
        if settings.sample:
            sample = _sample(workers, settings.sample, settings.timeout)
        for spec in settings.phases:
            if workers.interrupted:
                break
            before, waiting = limits.host_cpu(), limits.time_wait()
            states = workers.phase(spec, settings.timeout, progress)
            after = limits.host_cpu()
            result = phase.merge(spec, states)
            result["time_wait"] = {"before": waiting, "after": limits.time_wait()}
            done[spec["name"]] = result
            verdicts[spec["name"]] = judged = limits.judge(result, before, after, ready.local)
            result["limited_by"], result["limited_why"] = judged
            for state in states:
                for what, text, times in state["remarks"]:
                    remarks[(what, text)] = remarks.get((what, text), 0) + times
        totals = workers.leave()
    except WorkerDied as error:
        died = str(error)
    judged = _judged(settings.phases, verdicts)
    found: Dict[str, Any] = {
        **head(settings),
        "phases": done,
        "totals": {
            "operations": {name: totals.get(name, 0) for name in ("bind", "search", "unbind", "extended")},
            "connections": totals.get("connections", 0),
        },
        "limited_by": judged[0],
        "limited_why": judged[1],
        "accounts": ready.workload.accounts,
        "interrupted": workers.interrupted,
        "remarks": [{"what": w, "text": text, "count": times} for (w, text), times in sorted(remarks.items())],
    }
    if sample is not None:
        found["sample"] = sample
    if died:
        found["worker_died"] = died
        found["limited_by"], found["limited_why"] = "generator_limited", died
    found["line"] = sentence(found)
    return found


def _judged(specs: Any, verdicts: Dict[str, Tuple[str, str]]) -> Tuple[str, str]:
    """Return the judgement on the phase that counts: goal, or else the last closed one, or else the last."""
    order = [spec["name"] for spec in specs if spec["name"] in verdicts]
    closed = [spec["name"] for spec in specs if spec["mode"] == "closed" and spec["name"] in verdicts]
    for name in (["goal"] if "goal" in verdicts else []) + closed[-1:] + order[-1:]:
        return verdicts[name]
    return "undetermined", "no phase was run"


def _sample(workers: Workers, wanted: int, timeout: float) -> Dict[str, Any]:
    """Try a few accounts once each before any load; a wrong password must not lock thousands of accounts."""
    spec = {"name": "sample", "mode": "sample", "seconds": SAMPLE_SECONDS, "rate": 0, "many": wanted}
    states = workers.phase(spec, timeout)
    result = phase.merge({"mode": "pass"}, states)
    if result["errors"] or not result["successes"]:
        counts = {**result["codes"], **result["failures"]}
        texts = [text for state in states for _, text, _ in state["remarks"]]
        workers.leave()
        raise LdaptuneError(
            problem(
                "the sample before the load failed",
                "accounts",
                ", ".join("%s %d times" % (name, times) for name, times in sorted(counts.items()))
                + ("; " + "; ".join(texts[:3]) if texts else ""),
                "success for each account tried",
                "Correct accounts or password file first; no account was tried twice and no load was sent",
            )
        )
    return {"tried": result["operations"], "codes": result["codes"]}
