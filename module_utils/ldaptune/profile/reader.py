# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a profile's YAML text as plain data that remembers its lines.

Stricter than a common YAML reader where that would lose something without a word: a key given twice, a scalar
that YAML 1.1 takes for something else, a second document, an alias, a tag.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, NamedTuple, Pattern, Tuple

from ..problems import Problem, problem
from .value_type import Surprise

Path = Tuple[str, ...]

_PLAIN_INT = re.compile(r"^[-+]?(0|[1-9][0-9]*)$|^0x[0-9a-fA-F]+$")
_PLAIN_FLOAT = re.compile(r"^[-+]?(0|[1-9][0-9]*)\.([0-9]|[0-9]*[1-9])$")
_TAG = "tag:yaml.org,2002:"


class Document(NamedTuple):
    """data: mappings, lists and scalars; lines: the line (from 1) of each value, by its path of keys."""

    data: Any
    lines: Dict[Path, int]
    problems: List[Problem]


def read(text: str, where: str) -> Document:
    """Return the one document of `text`; `where` (a file name) goes into the problems."""
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).split("\n")[0]
        if "but found another document" in str(error):
            reason = "it holds more than one YAML document"
        place = "%s:%d" % (where, mark.line + 1) if mark else where
        return Document(None, {}, [problem("this is not YAML as a profile needs it: %s" % reason, where=place)])
    walk = _Walk(where)
    data = walk.value(node, ()) if node is not None else None
    return Document(data, walk.lines, walk.problems)


class _Walk:
    """One pass over the node tree."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.lines: Dict[Path, int] = {}
        self.problems: List[Problem] = []
        self._seen: Dict[int, bool] = {}

    def value(self, node: Any, path: Path) -> Any:
        line = node.start_mark.line + 1
        self.lines[path] = line
        if node.id != "scalar" and self._seen.setdefault(id(node), False):
            self._add("an alias (*name) stands here", line, do="Write the value out")
            return None
        self._seen[id(node)] = True
        kind = str(node.tag)[len(_TAG):] if str(node.tag).startswith(_TAG) else ""
        if node.id == "scalar" and kind not in _SCALARS or node.id != "scalar" and kind not in ("map", "seq"):
            self._add("the tag %s means nothing in a profile" % node.tag, line, do="Write a plain value")
            return None
        if node.id == "mapping":
            return self._mapping(node, path)
        if node.id == "sequence":
            return [self.value(item, (*path, str(index))) for index, item in enumerate(node.value)]
        return _SCALARS[kind](node)

    def _mapping(self, node: Any, path: Path) -> Dict[str, Any]:
        result: Dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.id != "scalar":
                self._add("a key is no plain word", line)
                continue
            key = str(key_node.value)
            inner = (*path, key)
            if key in result:
                self._add("the key %s stands here twice" % key, line,
                          do="Line %d has it too: keep one" % self.lines[inner])
                continue
            result[key] = self.value(value_node, inner)
            self.lines[inner] = line
        return result

    def _add(self, what: str, line: int, do: str = "") -> None:
        self.problems.append(problem(what, where="%s:%d" % (self.where, line), do=do))


def _boolean(node: Any) -> Any:
    reads_as = str(node.value).lower() in ("true", "yes", "on")
    return reads_as if str(node.value) in ("true", "false", "True", "False", "TRUE", "FALSE") else Surprise(
        node.value, reads_as)


def _number(node: Any, plain: Pattern[str], kind: str) -> Any:
    import yaml

    try:
        number = getattr(yaml.SafeLoader(""), "construct_yaml_" + kind)(node)
    except ValueError:
        return str(node.value)
    return number if plain.match(node.value) else Surprise(node.value, number)


def _integer(node: Any) -> Any:
    return _number(node, _PLAIN_INT, "int")


def _float(node: Any) -> Any:
    return _number(node, _PLAIN_FLOAT, "float")


def _text(node: Any) -> str:
    return str(node.value)


_SCALARS: Dict[str, Callable[[Any], Any]] = {
    "str": _text, "timestamp": _text, "value": _text, "merge": _text, "null": lambda node: None, "bool": _boolean,
    "int": _integer, "float": _float,
}
