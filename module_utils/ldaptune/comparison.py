# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison in a run directory: planned, primed, legs added, judged. Everything starts again from legs.json.

The verdict and its report are imported where they are asked for: most legs come before a look and need neither.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List

from .diagnosis import diagnose
from .evidence.expect import normal_expect, wants_p99
from .evidence.legs import Judged, judge_leg
from .evidence.schedule import make_schedule, next_legs, with_rate
from .problems import LdaptuneError, problem
from .report.files import LEGS, RESULT, SUMMARY, VERDICT, finite, read_json, write_json, write_text
from .report.lines import leg_line

if TYPE_CHECKING:
    from .evidence.verdict import Verdict

Record = Dict[str, Any]
Answer = Dict[str, Any]

SCHEMA = 1
# What the play put beside the legs; none of it is needed to judge.
BESIDE = ("plan", "applied", "resolved", "facts")


def planned(
    run_dir: str,
    *,
    kind: str,
    seed: int,
    restart: bool,
    expect: Dict[str, Any] | None,
    about: Dict[str, str],
    aa: bool = False,
    overhead: Dict[str, float] | None = None,
    write: bool = True,
) -> Answer:
    """Make the schedule and begin the record; a run that already has legs is refused.

    `about` holds host, profile and digest; `overhead` the keywords of `make_schedule`.
    """
    asked = normal_expect(expect)
    before = read_json(os.path.join(run_dir, LEGS))
    if before and before["legs"]:
        raise LdaptuneError(problem("this run already has legs", run_dir, do="Give every run a directory of its own."))
    schedule = make_schedule(kind, seed, restart, wants_p99(asked), **(overhead or {}))
    record = {"schema": SCHEMA, **about, "aa": aa, "expect": asked, "schedule": schedule, "legs": []}
    if write:
        os.makedirs(run_dir, exist_ok=True)
        write_json(os.path.join(run_dir, LEGS), record)
    line = "%s schedule: %d legs to the first look, about %s; at most %d legs, %s at the worst" % (
        kind,
        schedule["looks"][0] * 4,
        _duration(schedule["seconds"]["expected"]),
        len(schedule["legs"]),
        _duration(schedule["seconds"]["worst"]),
    )
    return _answer(record, line, schedule=schedule, prime=schedule["prime"], **{"continue": True})


def primed(run_dir: str, probe: Dict[str, Any], write: bool = True) -> Answer:
    """Take what priming as found showed: its goodput gives the offered rate of the fixed phases."""
    record = load(run_dir)
    dropped = [item["text"] for item in probe.get("dropped_out") or []]
    if dropped:
        raise LdaptuneError(problem("the load was not whole", "priming", "; ".join(dropped)))
    phases = finite(probe).get("phases") or {}
    goodput = (phases.get("goal") or {}).get("goodput")
    seconds = (phases.get("prime") or {}).get("seconds") or 0.0
    record["schedule"] = schedule = with_rate(record["schedule"], goodput, seconds)
    if write:
        write_json(os.path.join(run_dir, LEGS), record)
    line = "primed: %d operations/s as found; offered rate of the fixed phases %d/s; %s at the worst" % (
        schedule["fixed"]["as_found_goodput"],
        schedule["fixed"]["rate"],
        _duration(schedule["seconds"]["worst"]),
    )
    return _answer(record, line, schedule=schedule, next=_next(record), **{"continue": True})


def added(run_dir: str, leg: Dict[str, Any], write: bool = True) -> Answer:
    """Add a leg to the record, on disk before it is judged; after a look, or an invalid leg, give the verdict."""
    record = load(run_dir)
    record["legs"].append(_expected(record, finite(leg)))
    if write:
        write_json(os.path.join(run_dir, LEGS), record)
    judged = judge_legs(record)
    done, schedule = len(judged), record["schedule"]
    line = leg_line(judged[-1], len(schedule["legs"]))
    looked = done % 4 == 0 and done // 4 in schedule["looks"]
    if looked or not judged[-1]["valid"]:
        from .evidence.verdict import judge, settled

        verdict = judge(judged, schedule, record["expect"], record["aa"])
        if settled(verdict) or done == len(schedule["legs"]):
            if write:
                _write_verdict(run_dir, record, judged, verdict)
            return _answer(record, line, judged=judged[-1], verdict=verdict)
    return _answer(record, line, judged=judged[-1], next=_next(record), **{"continue": True})


def judged_again(run_dir: str, broken: str = "", outcome: str = "", write: bool = True, **said: Any) -> Answer:
    """Judge the stored legs (again).

    `broken` says why the run could not go on and `outcome` what became of the host ("kept on lab1"); both stay in the
    record. `said` goes to `make_result`.
    """
    from .evidence.verdict import judge

    record = load(run_dir)
    ended: Record = {"text": outcome, "lost": said.get("live_only") or []} if outcome else record.get("outcome") or {}
    for name, value in (("broken", broken), ("outcome", ended)):
        if value and write and record.get(name) != value:
            record[name] = value
            write_json(os.path.join(run_dir, LEGS), record)
    judged = judge_legs(record)
    verdict = judge(judged, record["schedule"], record["expect"], record["aa"], broken or record.get("broken", ""))
    if ended:
        verdict["closing"] = _closing(run_dir, verdict, ended)
    if write:
        _write_verdict(run_dir, record, judged, verdict, **said)
    return _answer(record, str(verdict.get("closing") or verdict["sentence"]), verdict=verdict)


def _closing(run_dir: str, verdict: Verdict, ended: Record) -> str:
    """Return the sentence of the whole run: what was shown, what became of the host, what will be lost, the report."""
    parent, name = os.path.split(os.path.abspath(run_dir))
    report = os.path.join(os.path.basename(parent), name)
    kept = verdict["action"] == "keep"
    lost = "; lost at next restart: %s" % (", ".join(ended["lost"]) or "nothing") if kept else ""
    return "%s, %s%s; report: %s" % (verdict["sentence"], ended["text"], lost, report)


def load(run_dir: str) -> Record:
    """Return the record of a run; refused when there is none or it is of another schema."""
    path = os.path.join(run_dir, LEGS)
    record = read_json(path)
    if record is None:
        raise LdaptuneError(problem("no such run", path, do="Begin one with state planned."))
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise LdaptuneError(problem("a record of another schema", path, wanted="schema %d" % SCHEMA))
    return record


def judge_legs(record: Record) -> List[Judged]:
    """Return every leg of the record judged, in run order."""
    legs, limit = record["legs"], record["expect"]["max_error_percent"]
    return [
        {
            **judge_leg(leg, record["schedule"], limit, legs[index - 1] if index else None),
            "diagnosis": _diagnosis(leg),
        }
        for index, leg in enumerate(legs)
    ]


def _diagnosis(leg: Dict[str, Any]) -> List[Dict[str, str]]:
    """Return what was at its limit; none where nobody asked for samples."""
    probe = leg.get("probe") or {}
    if not leg.get("sample"):
        return []
    return diagnose(leg["sample"], str(probe.get("limited_by") or ""), str(probe.get("limited_why") or ""))


def _expected(record: Record, leg: Dict[str, Any]) -> Dict[str, Any]:
    """Return the leg if it is the one that is due, with block and position; refused otherwise."""
    legs, done = record["schedule"]["legs"], len(record["legs"])
    if done >= len(legs):
        raise LdaptuneError(problem("all legs of this schedule have run", "leg", str(leg.get("index"))))
    due = legs[done]
    for key in ("index", "arm"):
        if leg.get(key) != due[key]:
            raise LdaptuneError(problem("not the leg that is due", "leg.%s" % key, str(leg.get(key)), str(due[key])))
    return {**leg, "block": due["block"], "position": due["position"]}


def _next(record: Record) -> Dict[str, Any] | None:
    legs = next_legs(record["schedule"], len(record["legs"]))
    return {"block": legs[0]["block"], "legs": legs} if legs else None


def _answer(record: Record, line: str, **more: Any) -> Answer:
    empty: Answer = {"continue": False, "next": None, "verdict": None, "legs_done": len(record["legs"])}
    return {**empty, "line": line, **more}


def _write_verdict(run_dir: str, record: Record, judged: List[Judged], verdict: Verdict, **said: Any) -> None:
    from .report.model import make_result
    from .report.text import summary

    beside = {name: read_json(os.path.join(run_dir, "%s.json" % name)) for name in BESIDE}
    result = make_result(os.path.basename(os.path.abspath(run_dir)), record, judged, verdict, beside, **said)
    write_json(os.path.join(run_dir, RESULT), result)
    write_text(os.path.join(run_dir, SUMMARY), summary(result))
    write_json(os.path.join(run_dir, VERDICT), verdict)  # last: who finds it finds the others


def _duration(seconds: float) -> str:
    return "%d s" % round(seconds) if seconds < 120 else "%.0f min" % (seconds / 60)
