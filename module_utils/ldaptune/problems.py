# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a refusal is told: what, where, found, wanted, what to do."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Union

Problem = Dict[str, str]


def plain(value: Any) -> Any:
    """Return a value with every text in it fit for UTF-8: a path's bytes that are not come as surrogates."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {plain(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def problem(what: str, where: str = "", found: str = "", wanted: str = "", do: str = "") -> Problem:
    """Return one refusal as plain data; only `what` is required."""
    parts = {"what": what, "where": where, "found": found, "wanted": wanted, "do": do}
    return {name: str(plain(text)) for name, text in parts.items()}


def render(item: Problem) -> str:
    """Return one refusal as one line of text, empty parts left out."""
    text = item["what"]
    if item.get("where"):
        text = "%s: %s" % (item["where"], text)
    details = ["%s %s" % (name, item[name]) for name in ("found", "wanted") if item.get(name)]
    if details:
        text += " (%s)" % "; ".join(details)
    if item.get("do"):
        text += ". %s" % item["do"]
    return text


def render_all(items: Iterable[Problem]) -> str:
    """Return several refusals as text, one a line."""
    return "\n".join(render(item) for item in items)


class LdaptuneError(Exception):
    """A refusal or failure that carries its problems; `str()` gives the text."""

    def __init__(self, problems: Union[Problem, List[Problem]]) -> None:
        self.problems: List[Problem] = [problems] if isinstance(problems, dict) else list(problems)
        super().__init__(render_all(self.problems))


def collect_problems(results: Iterable[Dict[str, Any]]) -> List[Problem]:
    """Return the problems carried by registered module results, in order and each once.

    A result of a module that broke (it carries `exception` or raw output and no
    problems) counts as a problem, or a crash would pass as "nothing is wrong".
    """
    found: List[Problem] = []
    for result in results:
        problems = list(result.get("problems") or [])
        broke = any(name in result for name in ("exception", "module_stderr", "module_stdout"))
        if not problems and (broke or result.get("failed")):
            lines = [line for line in str(result.get("module_stderr") or "").splitlines() if line.strip()]
            problems = [
                problem(
                    "a check broke instead of answering",
                    found=str(result.get("msg", "")) + (": " + lines[-1] if lines else ""),
                    do="Run again with -vvv and report this as a fault of ldaptune.",
                )
            ]
        fresh = [item for item in problems if item not in found]
        if isinstance(result.get("item"), str):  # of a loop over hosts: which one says so
            fresh = [{**item, "where": ": ".join(filter(None, (result["item"], item["where"])))} for item in fresh]
        found.extend(fresh)
    return found
