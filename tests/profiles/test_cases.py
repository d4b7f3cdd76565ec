# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each file of good/ resolves to what its first comments say; each file of bad/ is refused with what they say.

Comments at the top of a case:
    # resolves: KEY OP JSON     the lever's operation and value (good)
    # resolves: PATH JSON       any other part of the result, as expect.goal (good)
    # says: TEXT                a part of the message (bad, first line)
    # problems: N               how many problems there are; 1 unless said
    # facts: {group: {name: value}}, # exclude: [key]
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from ldaptune.levers.table import LEVERS
from ldaptune.problems import render
from ldaptune.profile.resolve import load, resolve

HERE = Path(__file__).parent
SUPPLIED = HERE.parent.parent / "tuning_profiles"
GOOD = sorted((HERE / "good").glob("*.yml"))
BAD = sorted((HERE / "bad").glob("*.yml"))


def host(changes):
    facts = {
        "host": {"name": "host1", "cpus": 8, "online_cpus": list(range(8)), "memory_bytes": 8 << 30, "numa_nodes": 1},
        "slapd": {"threads": 16},
        "database": {"size_bytes": 1 << 20, "map_size_bytes": 1 << 30, "used_bytes": 1 << 20},
    }
    for group, values in changes.items():
        facts[group].update(values)
    return facts


def case(path):
    """Return the directives at the top of a case: {"resolves": [...], "facts": {...}, ...}."""
    found = {"resolves": [], "facts": {}, "exclude": [], "problems": 1, "says": ""}
    for line in path.read_bytes().decode("utf-8", "replace").splitlines():
        if not line.startswith("# "):
            break
        word, _, rest = line[2:].partition(": ")
        if word == "resolves":
            found["resolves"].append(rest)
        elif word == "says":
            found["says"] = rest
        else:
            found[word] = yaml.safe_load(rest)
    return found


def part(resolved, path):
    for key in path.split("."):
        resolved = resolved[key]
    return resolved


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good(path):
    said = case(path)
    resolved, problems = resolve(path.stem, [str(HERE / "good")], host(said["facts"]), LEVERS, said["exclude"])
    assert [render(item) for item in problems] == []
    assert said["resolves"], "a good case must say what it resolves to"
    for line in said["resolves"]:
        key, rest = line.split(" ", 1)
        if key in LEVERS:
            op, value = rest.split(" ", 1)
            lever = resolved["levers"][key]
            assert (lever["op"], lever["value"]) == (op, json.loads(value))
        else:
            assert part(resolved, key) == json.loads(rest)
    json.dumps(resolved, allow_nan=False)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_bad(path):
    said = case(path)
    resolved, problems = resolve(path.stem, [str(HERE / "bad")], host(said["facts"]), LEVERS, said["exclude"])
    messages = "\n".join(render(item) for item in problems)
    assert resolved is None
    assert said["says"], "a bad case must name its message"
    assert said["says"] in messages
    assert len(problems) == said["problems"], messages


def test_enough_cases():
    assert len(GOOD) >= 15
    assert len(BAD) >= 40


@pytest.mark.parametrize("path", sorted(SUPPLIED.glob("*.yml")), ids=lambda path: path.stem)
@pytest.mark.parametrize("cpus", [1, 2, 16, 512])
def test_supplied_profiles_resolve_everywhere(path, cpus):
    facts = host({"host": {"cpus": cpus, "online_cpus": list(range(cpus))}})
    resolved, problems = resolve(path.stem, [str(SUPPLIED)], facts, LEVERS)
    assert [render(item) for item in problems] == []
    assert "slapd.listener_threads" not in resolved["levers"]
    assert not any(key.startswith("cpu.") for key in resolved["levers"])
    assert all(LEVERS[key].risk != "durability" for key in resolved["levers"])
    threads = resolved["levers"].get("slapd.threads", {"value": 2})["value"]
    assert resolved["levers"].get("database.max_readers", {"value": 126})["value"] > max(threads, 16)


def test_every_supplied_value_names_its_default_and_source():
    for path in SUPPLIED.glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        static, _ = load(path.stem, [str(SUPPLIED)], LEVERS)
        own = [key for key, lever in static.levers.items() if lever.source == path.name]
        assert text.count("Source: ") >= (len(own) if path.stem != "low_latency" else 1), path.name
