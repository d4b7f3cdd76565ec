# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a profile's name to the values for one host: inherit, evaluate, type, digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from ..levers.table import LeverSpec, risk_by_value
from ..problems import Problem, problem
from . import expression, library
from .cpuset import CpuSet, ranges
from .names import advice, nearest_lever
from .schema import RawLever, RawProfile
from .value_type import ValueRefused

SCHEMA = 1
_EXPECT_DEFAULTS = {"min_effect_percent": 3, "max_p99_increase_percent": 20, "max_error_percent": 0.1}


class Static(NamedTuple):
    """A profile as far as it is known without a host: nothing evaluated, everything else checked."""

    name: str
    summary: str
    extends: List[str]
    levers: Dict[str, RawLever]
    excluded: List[str]
    expect: Dict[str, Any]


def load(name: str, search_paths: Sequence[str], table: Mapping[str, LeverSpec], exclude: Sequence[str] = ()) -> Tuple[
        Static | None, List[Problem]]:
    """Return a profile with what it inherits, and every problem that can be known without a host.

    With problems the profile holds what is right of it, for further checks only; it is None when there is none.
    """
    problems = [
        problem("there is no lever %s" % key, where="tuning_exclude",
                do=advice(key, table, nearest_lever(key, table)))
        for key in exclude if key not in table
    ]
    if not name:
        return None, [*problems, library.unset(search_paths)]
    chain, found = library.chain(name, search_paths, table)
    problems.extend(found)
    levers: Dict[str, RawLever] = {}
    expect: Dict[str, Any] = dict(_EXPECT_DEFAULTS)
    for profile in reversed(chain):
        levers.update(profile.levers)
        expect.update(profile.expect)
    if chain and not found:
        problems.extend(_promise(chain[0], expect))
        problems.extend(_two_rests(levers.values(), exclude))
    if not chain:
        return None, problems
    kept = {key: levers[key] for key in table if key in levers and key not in exclude}
    excluded = [key for key in table if key in levers and key in exclude]
    return Static(name, chain[0].summary, [profile.name for profile in chain[1:]], kept, excluded, expect), problems


def resolve(name: str, search_paths: Sequence[str], facts: Mapping[str, Any], table: Mapping[str, LeverSpec],
            exclude: Sequence[str] = ()) -> Tuple[Dict[str, Any] | None, List[Problem]]:
    """Return the resolved profile for the host with these facts, or every problem with it.

    Its levers stand in the table's order; a CPU set is a list of CPU numbers.
    """
    static, problems = load(name, search_paths, table, exclude)
    if static is None:
        return None, problems
    levers: Dict[str, Dict[str, Any]] = {}
    for key, raw in static.levers.items():
        try:
            value = _value(raw, table[key], facts)
        except ValueRefused as refused:
            problems.append(_refusal(raw, refused, facts))
            continue
        levers[key] = {
            "op": raw.op, "value": value, "why": raw.why, "when_unsupported": raw.when_unsupported,
            "from": raw.source,
        }
    problems.extend(_resolve_cpus(levers, static.levers, table, facts))
    if problems:
        return None, problems
    return {
        "schema": SCHEMA,
        "name": static.name,
        "summary": static.summary,
        "digest": digest(levers, static.expect),
        "extends": static.extends,
        "levers": levers,
        "excluded": static.excluded,
        "expect": static.expect,
    }, []


def digest(levers: Mapping[str, Any], expect: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of levers and expect as canonical JSON: the same for any order of keys."""
    text = json.dumps({"levers": levers, "expect": expect}, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def consents(levers: Mapping[str, Any], table: Mapping[str, LeverSpec]) -> List[str]:
    """Return the costs and risks a profile may need consent for, if every lever has to change.

    levers: value by key (a value not known yet is None and counts at its worst).
    """
    needed = set()
    for key, value in levers.items():
        needed.add(table[key].cost)
        needed.add(table[key].risk if value is None else risk_by_value(key, value))
    return sorted(needed - {"live", "safe"})


def _value(raw: RawLever, spec: LeverSpec, facts: Mapping[str, Any]) -> Any:
    if raw.expr is None:
        return raw.normal
    result = expression.evaluate(raw.expr, facts)
    try:
        return spec.type.parse(result)
    except ValueRefused as refused:
        do = "Use // or | int for a whole number" if isinstance(result, float) else refused.do
        raise ValueRefused('"%s", which gives %s here' % (raw.expr, refused.found), refused.wanted, do) from None


def _refusal(raw: RawLever, refused: ValueRefused, facts: Mapping[str, Any]) -> Problem:
    host = (facts.get("host") or {}).get("name")
    return problem("this value does not fit %s%s" % (raw.key, " on %s" % host if host else ""),
                   where=raw.where, found=refused.found, wanted=refused.wanted, do=refused.do)


def _promise(profile: RawProfile, expect: Mapping[str, Any]) -> List[Problem]:
    """Check that the profile says, itself or by what it extends, what is to come of it."""
    missing = [key for key in ("goal", "require") if key not in expect]
    where = "%s: expect" % profile.name
    if missing:
        return [problem("it does not say its %s" % " and ".join(missing), where=where,
                        do="Say what the profile promises, or goal: none and require: none")]
    if expect["goal"] == "none" and expect["require"] != "none":
        return [problem("without a goal nothing can be required", where=where,
                        found="goal none, require %s" % expect["require"],
                        do="Name the goal (goodput, p99 or cpu_per_op) or write require: none")]
    return []


def _two_rests(levers: Iterable[RawLever], exclude: Sequence[str]) -> List[Problem]:
    rests = [raw for raw in levers if raw.normal == "rest" and raw.key.startswith("cpu.") and raw.key not in exclude]
    if len(rests) < 2:
        return []
    return [problem("only one lever can have the rest", where=rests[1].where,
                    found=" and ".join(raw.key for raw in rests), do="Name the CPUs of the other")]


# Both are parts of the process that cpu.service places.
_THREADS = ("cpu.listener", "cpu.workers")


def _resolve_cpus(levers: Dict[str, Dict[str, Any]], raws: Mapping[str, RawLever], table: Mapping[str, LeverSpec],
                  facts: Mapping[str, Any]) -> List[Problem]:
    """Turn CPU sets into CPU numbers in place, `rest` last, and refuse sets that overlap.

    Those of threads share out what cpu.service leaves to slapd. Two rests are refused before this and left alone here.
    """
    keys = [key for key in levers if isinstance(table[key].type, CpuSet)]
    if not keys or [levers[key]["value"] for key in keys].count("rest") > 1:
        return []
    online = (facts.get("host") or {}).get("online_cpus")
    if not online:
        return [problem("the CPUs of this host are not known", where=raws[key].where) for key in keys]
    problems: List[Problem] = []
    taken: Dict[str, List[int]] = {}
    room = list(online)
    for key in sorted(keys, key=lambda name: (name in _THREADS, bool(levers[name]["value"] == "rest"))):
        try:
            cpus = CpuSet().resolve(levers[key]["value"], room if key in _THREADS else online, taken)
        except ValueRefused as refused:
            if key in _THREADS and room != list(online):
                refused = ValueRefused(refused.found, "CPUs that cpu.service leaves to slapd: %s" % ranges(room))
            problems.append(_refusal(raws[key], refused, facts))
            continue
        if key == "cpu.service":
            room = levers[key]["value"] = cpus
            continue
        for other, others in taken.items():
            shared = sorted(set(cpus) & set(others))
            if shared:
                problems.append(problem("%s and %s share CPUs, so nothing would be kept apart" % (other, key),
                                        where=raws[key].where, found="CPU %s in both" % ranges(shared),
                                        do="Write rest for one of them"))
        taken[key] = cpus
        levers[key]["value"] = cpus
    return problems
