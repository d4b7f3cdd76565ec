# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find profiles by name, list them, and read one with all that it extends."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ..levers.table import LeverSpec
from ..problems import Problem, problem
from .names import advice
from .reader import read
from .schema import RawProfile, check_profile

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]*$")
_ENDINGS = (".yml", ".yaml")


class Listed(NamedTuple):
    """A profile that can be named; a summary that cannot be read is empty."""

    name: str
    summary: str
    path: str


def profiles(search_paths: Sequence[str]) -> List[Listed]:
    """Return all profiles under the search paths, by name."""
    return [Listed(name, _summary(path), path) for name, path in sorted(_paths(search_paths).items())]


def _paths(search_paths: Sequence[str]) -> Dict[str, str]:
    """Return the file of each profile, by name; of two with one name the first path's."""
    found: Dict[str, str] = {}
    for directory in search_paths:
        if not os.path.isdir(directory):
            continue
        for entry in sorted(os.listdir(directory)):
            name, ending = os.path.splitext(entry)
            if ending in _ENDINGS and _NAME.match(name):
                found.setdefault(name, os.path.join(directory, entry))
    return found


def _summary(path: str) -> str:
    text, problems = _content(path)
    data = read(text, path).data if not problems else None
    summary = data.get("summary") if isinstance(data, dict) else None
    return " ".join(summary.split()) if isinstance(summary, str) else ""


def chain(name: str, search_paths: Sequence[str], table: Mapping[str, LeverSpec]) -> Tuple[
        List[RawProfile], List[Problem]]:
    """Return a profile and those it extends, the named one first, and everything wrong in any of them."""
    known = _paths(search_paths)
    result: List[RawProfile] = []
    problems: List[Problem] = []
    wanted: str | None = name
    asked_by = ""
    while wanted:
        visited = [profile.name for profile in result]
        if wanted in visited:
            problems.append(problem("the profiles extend each other in a circle", where=asked_by,
                                    found=" -> ".join([*visited[visited.index(wanted):], wanted])))
            break
        if wanted not in known:
            problems.append(_unknown(wanted, asked_by, search_paths, known))
            break
        profile, found = _load(wanted, known[wanted], table)
        problems.extend(found)
        result.append(profile)
        asked_by = "%s: extends" % os.path.basename(known[wanted])
        wanted = profile.extends
    return result, problems


def unset(search_paths: Sequence[str]) -> Problem:
    """Return the refusal of a run that names no profile: it lists them."""
    listed = profiles(search_paths)
    lines = ["%s: %s" % (item.name, item.summary or "(cannot be read)") for item in listed]
    return problem("no profile is named", where="tuning_profile", wanted="the name of a profile",
                   do="\n  ".join(["There are:", *lines]) if lines else _nothing_in(search_paths))


def _unknown(name: str, where: str, search_paths: Sequence[str], known: Mapping[str, str]) -> Problem:
    do = advice(name, known) if known else _nothing_in(search_paths)
    return problem("there is no profile %s" % name, where=where or "tuning_profile", do=do)


def _nothing_in(search_paths: Sequence[str]) -> str:
    return "No profile (a file NAME.yml) lies in %s" % (", ".join(search_paths) or "any search path")


def _load(name: str, path: str, table: Mapping[str, LeverSpec]) -> Tuple[RawProfile, List[Problem]]:
    source = os.path.basename(path)
    text, problems = _content(path)
    if problems:
        return RawProfile(name, "", None, {}, {}), problems
    return check_profile(read(text, source), source, name, table)


def _content(path: str) -> Tuple[str, List[Problem]]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read(), []
    except UnicodeDecodeError as error:
        return "", [problem("the file is not UTF-8", where=os.path.basename(path), found="byte %d" % error.start)]
    except OSError as error:
        return "", [problem("the file cannot be read", where=path, found=str(error.strerror))]
