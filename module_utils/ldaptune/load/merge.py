# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of several generators as one, of the same form (docs/authrate.schema.json).

A phase is put together from the tallies of all processes of all generators, just as the phase of one generator is from
those of its own: counts and histograms are added, no percentile is averaged.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from . import phase
from .dropouts import Dropout, dropout, of_phase, of_run, whole_seconds
from .run import SCHEMA, judged_by
from .summary import sentence
from .tally import count

Result = Dict[str, Any]

#: From this lateness of a generator on, the first second is no whole second of all of them.
RAGGED = 0.05
WORST_FIRST = ("generator_limited", "undetermined", "server_limited")
NOTHING: Dict[str, Any] = {"operations": {"bind": 0, "search": 0, "unbind": 0, "extended": 0}, "connections": 0}
KEPT = ("seconds", "connections", "operations", "errors", "goodput", "latency_ns", "connections_lost", "cut_short")


def merge(asked: Dict[str, Any], results: Dict[str, Dict[str, Any]]) -> Result:
    """Return one result of all generators; `dropped_out` names what is missing, and makes it a result not to be used.

    `asked` is from `together.agree`; `results` has for each generator its `result`, or why there is none as `ended`.
    """
    whole = {name: results[name]["result"] for name in asked["generators"] if "result" in results.get(name, {})}
    dropped = [dropout(name, "gave no result: %s" % why) for name, why in asked["lost"].items()]
    if not dropped:
        dropped = [
            dropout(name, "gave no result: %s" % results.get(name, {}).get("ended", "nothing was fetched"))
            for name in asked["generators"]
            if name not in whole
        ]
    for name, result in whole.items():
        dropped += of_run(name, result, asked["phases"])
    phases: Dict[str, Any] = {}
    for spec in asked["phases"]:
        ran = {name: each["phases"][spec["name"]] for name, each in whole.items() if spec["name"] in each["phases"]}
        for name in ran:
            dropped += of_phase(name, spec, ran, asked["generators"][name]["connections"])
        if ran:
            phases[spec["name"]] = _phase(spec, ran)
    first: Result = next(iter(whole.values()), {})
    judged = judged_by(
        asked["phases"], {name: (item["limited_by"], item["limited_why"]) for name, item in phases.items()}
    )
    died = "; ".join("generator %s: %s" % (name, each["worker_died"]) for name, each in whole.items()
                     if each.get("worker_died"))  # fmt: skip
    found: Result = {
        "schema": SCHEMA,
        "workload": first.get("workload"),
        "phases": phases,
        "totals": _totals(list(whole.values())),
        "limited_by": "generator_limited" if died else judged[0],
        "limited_why": died or judged[1],
        "accounts": max((each["accounts"] for each in whole.values()), default=0),
        "interrupted": any(each["interrupted"] for each in whole.values()),
        "remarks": _remarks(list(whole.values())),
        "generators": {name: _generator(given, whole.get(name)) for name, given in asked["generators"].items()},
        "dropped_out": dropped,
    }
    for name, value in (("sample", first.get("sample")), ("worker_died", died)):
        if value:
            found[name] = value
    found["line"] = _line(found, dropped)
    return found


def _line(found: Result, dropped: List[Dropout]) -> str:
    return "; ".join([sentence(found)] + [item["text"] for item in dropped])


def _phase(spec: Dict[str, Any], ran: Dict[str, Result]) -> Result:
    merged = phase.merge(spec, [state for each in ran.values() for state in each["states"]])
    late = max(each.get("started_late_seconds") or 0.0 for each in ran.values())
    whole = range(1 if late > RAGGED else 0, min(whole_seconds(each) for each in ran.values()))
    merged["series"] = [row for row in merged["series"] if row["second"] in whole]
    merged["processes"] = [{**row, "generator": name} for name, each in ran.items() for row in each["processes"]]
    merged["started_late_seconds"] = late
    waits = [each["time_wait"] for each in ran.values()]
    merged["time_wait"] = {end: _sum([wait[end] for wait in waits]) for end in ("before", "after")}
    merged["limited_by"], merged["limited_why"] = _limited(ran)
    return merged


def _limited(ran: Dict[str, Result]) -> Tuple[str, str]:
    """Return the worst judgement, with the generators it is about."""
    for verdict in WORST_FIRST:
        whys = ["generator %s: %s" % (name, each["limited_why"])
                for name, each in ran.items() if each["limited_by"] == verdict]  # fmt: skip
        if whys:
            return verdict, "; ".join(whys)
    return "undetermined", "no generator ran"


def _sum(values: List[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _totals(results: List[Result]) -> Dict[str, Any]:
    rows = [NOTHING] + [each["totals"] for each in results]
    operations: Dict[str, int] = {}
    for row in rows:
        for name, times in row["operations"].items():
            count(operations, name, times)
    return {"operations": operations, "connections": sum(row["connections"] for row in rows)}


def _remarks(results: List[Result]) -> List[Dict[str, Any]]:
    counts: Dict[Tuple[str, str], int] = {}
    for each in results:
        for item in each["remarks"]:
            key = (item["what"], item["text"])
            counts[key] = counts.get(key, 0) + item["count"]
    return [{"what": what, "text": text, "count": times} for (what, text), times in sorted(counts.items())]


def _generator(given: Dict[str, Any], result: Result | None) -> Dict[str, Any]:
    """Return the short account of one generator."""
    found: Dict[str, Any] = {**given, "phases": {}, "totals": None, "limited_by": None, "limited_why": None}
    if result is None:
        return found
    for name in ("totals", "limited_by", "limited_why"):
        found[name] = result[name]
    for name, ran in result["phases"].items():
        found["phases"][name] = {
            **{key: ran[key] for key in KEPT},
            "started_late_seconds": ran.get("started_late_seconds"),
            "operations_by_second": [row["operations"] for row in ran["series"]],
        }
    return found
