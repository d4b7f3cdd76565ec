# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole run of the probe: check everything, connect, run the phases on the same connections, judge the generator."""

from __future__ import annotations

import os
import signal
from typing import Any, Callable, Dict, Tuple

from ..problems import LdaptuneError, problem
from . import limits, phase
from .agreed import MOST_AHEAD, MOST_WAIT, Agreed, told
from .prepare import Ready, Settings
from .summary import sentence
from .tally import SECOND
from .workers import Progress, WorkerDied, Workers

SAMPLE_SECONDS = 30
#: The version of the result's form, docs/authrate.schema.json.
SCHEMA = 1


def head(settings: Settings) -> Dict[str, Any]:
    """Return what each result begins with: the version of its form, and what was asked for."""
    names = ("workload", "auth", "uri", "starttls", "insecure")
    return {"schema": SCHEMA, "workload": {name: getattr(settings, name) for name in names}}


def run(ready: Ready, progress: Progress = None, begun: Callable[[], None] = lambda: None) -> Dict[str, Any]:
    """Run all phases and return the result; `progress` gets (phase, rows) each second.

    `begun` is called once the connections stand and the sample has passed, before any wait for an agreed start.

    Raises LdaptuneError when nothing could be measured: no connection, or a sample bind that failed. A run that was
    interrupted or lost a worker process returns what it has, marked as cut short.
    """
    settings = ready.settings
    budget = sum(spec["seconds"] + 2 * settings.timeout + 1 for spec in settings.phases)
    agreed = Agreed(settings.start_at, settings.phases)
    waiting = MOST_WAIT + MOST_AHEAD if settings.start_file else 0
    deadline = int(budget + SAMPLE_SECONDS + ready.connect_seconds + agreed.spare_seconds + waiting + 30)
    signal.alarm(deadline + 10)
    workers = Workers(ready.jobs(progress is not None), deadline)
    previous = [
        (number, signal.signal(number, lambda *_: workers.stop())) for number in (signal.SIGINT, signal.SIGTERM)
    ]
    try:
        return _phases(ready, workers, progress, agreed, begun)
    finally:
        workers.close()
        signal.alarm(0)
        for number, handler in previous:
            signal.signal(number, handler)


def _phases(
    ready: Ready, workers: Workers, progress: Progress, agreed: Agreed, begun: Callable[[], None]
) -> Dict[str, Any]:
    settings = ready.settings
    workers.connect(ready.connect_seconds)
    done: Dict[str, Any] = {}
    remarks: Dict[Tuple[str, str], int] = {}
    verdicts: Dict[str, Tuple[str, str]] = {}
    died = ""
    totals: Dict[str, int] = {}
    sample: Dict[str, Any] | None = None

    def gone() -> bool:
        if settings.folder and not os.path.isdir(settings.folder):
            workers.stop()
        return workers.interrupted

    try:
        if settings.sample and not settings.part:
            sample = _sample(workers, settings.sample, settings.timeout)
        agreed.refuse_past()
        begun()
        if settings.start_file:
            agreed = Agreed(told(settings.start_file, gone), settings.phases)
        for number, spec in enumerate(settings.phases):
            start = agreed.wait(number, gone)
            if gone():
                break
            before, waiting = limits.host_cpu(), limits.time_wait()
            states = workers.phase(spec, settings.timeout, progress, start)
            after = limits.host_cpu()
            result = phase.merge(spec, states)
            result["time_wait"] = {"before": waiting, "after": limits.time_wait()}
            if agreed.at:
                result["started_late_seconds"] = max(state["started_late_ns"] for state in states) / SECOND
            if settings.parts > 1:
                result["states"] = states
            done[spec["name"]] = result
            verdicts[spec["name"]] = judged = limits.judge(result, before, after, ready.local)
            result["limited_by"], result["limited_why"] = judged
            for state in states:
                for what, text, times in state["remarks"]:
                    remarks[(what, text)] = remarks.get((what, text), 0) + times
        totals = workers.leave()
    except WorkerDied as error:
        died = str(error)
    judged = judged_by(settings.phases, verdicts)
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


def judged_by(specs: Any, verdicts: Dict[str, Tuple[str, str]]) -> Tuple[str, str]:
    """Return the judgement on the phase that counts: goal; else the first that the generator limited, or the last.

    What only fills caches or settles counts where there is nothing else.
    """
    order = [spec["name"] for spec in specs if spec["name"] in verdicts]
    if "goal" in order:
        return verdicts["goal"]
    counting = [spec["name"] for spec in specs if spec["mode"] != "pass" and spec["name"] != "settle"]
    found = [(name, *verdicts[name]) for name in order if name in counting]
    for name, verdict, why in found:
        if verdict == "generator_limited":
            return verdict, "%s: %s" % (name, why)
    if found:
        return found[-1][1:]
    return verdicts[order[-1]] if order else ("undetermined", "no phase was run")


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
