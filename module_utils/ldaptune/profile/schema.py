# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what one profile file says, all of it at once, and type it."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Tuple

from ..levers.table import LeverSpec
from ..problems import Problem, problem
from . import expression
from .names import advice, nearest_lever
from .reader import Document, Path
from .value_type import ValueRefused, found_text

OPERATIONS = ("value", "at_least", "at_most")
WHEN_UNSUPPORTED = ("fail", "skip")
_TOP = ("name", "summary", "extends", "levers", "expect")
_LEVER = (*OPERATIONS, "why", "when_unsupported")
_CHOICES = {"goal": ("goodput", "p99", "cpu_per_op", "none"), "require": ("improved", "no_regression", "none")}
_PERCENTS = {"min_effect_percent": 100, "max_p99_increase_percent": 1000, "max_error_percent": 100}


class RawLever(NamedTuple):
    """One lever as a file has it: either a typed `normal` value or an `expr` still to be evaluated."""

    key: str
    op: str
    normal: Any
    expr: str | None
    why: str
    when_unsupported: str
    source: str
    where: str


class RawProfile(NamedTuple):
    """One profile file before inheritance; expect holds only what the file itself says."""

    name: str
    summary: str
    extends: str | None
    levers: Dict[str, RawLever]
    expect: Dict[str, Any]


def check_profile(document: Document, source: str, name: str, table: Mapping[str, LeverSpec]) -> Tuple[
        RawProfile, List[Problem]]:
    """Return what a file says and everything wrong with it.

    source: the file's name, for the problems. name: the profile's name, which the file must have too.
    """
    return _Check(document, source, table).profile(name)


class _Check:
    def __init__(self, document: Document, source: str, table: Mapping[str, LeverSpec]) -> None:
        self.document = document
        self.source = source
        self.table = table
        self.problems: List[Problem] = list(document.problems)

    def profile(self, name: str) -> Tuple[RawProfile, List[Problem]]:
        data = self.document.data
        if not isinstance(data, dict):
            if not self.problems:
                self._add("a profile is a mapping with name, summary, levers and expect", (), found=found_text(data))
            return RawProfile(name, "", None, {}, {}), self.problems
        self._known(data, _TOP, ())
        found = self._text(data, "name", ())
        if found and found != name:
            self._add("the name in the file is not the name of the file", ("name",), found=found, wanted=name)
        summary = self._text(data, "summary", ())
        extends = self._text(data, "extends", ()) if "extends" in data else None
        levers = self._mapping(data, "levers")
        raw = {key: self._lever(key, body) for key, body in levers.items()}
        expect = self._expect(self._mapping(data, "expect"))
        kept = {key: lever for key, lever in raw.items() if lever is not None}
        return RawProfile(name, summary, extends or None, kept, expect), self.problems

    def _lever(self, key: str, body: Any) -> RawLever | None:
        path: Path = ("levers", key)
        spec = self.table.get(key)
        if spec is None:
            self._add("there is no lever %s" % key, path,
                      do=advice(key, self.table, nearest_lever(key, self.table)))
        if not isinstance(body, dict):
            self._add("a lever is a mapping", path, found=found_text(body),
                      wanted="value, at_least or at_most, and why", do="Write value: and why: below the lever")
            return None
        self._known(body, _LEVER, path)
        why = self._text(body, "why", path)
        when = body.get("when_unsupported", "fail")
        if when not in WHEN_UNSUPPORTED:
            self._add("when_unsupported is not known", (*path, "when_unsupported"), found=found_text(when),
                      wanted=" or ".join(WHEN_UNSUPPORTED))
        operations = [op for op in OPERATIONS if op in body]
        if len(operations) != 1:
            self._add("a lever needs exactly one of value, at_least and at_most", path,
                      found=" and ".join(operations) or "none of them")
            return None
        if spec is None:
            return None
        value = self._value(spec, operations[0], body[operations[0]], (*path, operations[0]))
        if value is None:
            return None
        return RawLever(key, operations[0], value[0], value[1], why, str(when), self.source,
                        self._where((*path, operations[0])))

    def _value(self, spec: LeverSpec, op: str, raw: Any, path: Path) -> Tuple[Any, str | None] | None:
        """Return (normal, None) or (None, expression); None after a problem."""
        if op != "value" and not spec.type.ordered:
            self._add("%s cannot be used here: more and less mean nothing for %s" % (op, spec.key), path,
                      wanted="value")
        try:
            if isinstance(raw, dict) and "expr" in raw:
                self._known(raw, ("expr",), path)
                return None, expression.check(raw["expr"])
            template = _template(raw)
            if template is not None:
                raise ValueRefused('"%s"' % template, spec.type.wanted(),
                                   'Profiles are not templated: write {expr: "%s"}' % _bare(template))
            return spec.type.parse(raw), None
        except ValueRefused as refused:
            self._add("this value does not fit %s" % spec.key, path, refused.found, refused.wanted, refused.do)
            return None

    def _expect(self, data: Dict[str, Any]) -> Dict[str, Any]:
        self._known(data, (*_CHOICES, *_PERCENTS), ("expect",))
        result: Dict[str, Any] = {}
        for key, raw in data.items():
            path = ("expect", key)
            if key in _CHOICES:
                if isinstance(raw, str) and raw in _CHOICES[key]:
                    result[key] = raw
                else:
                    self._add("%s is not known" % key, path, found_text(raw), "one of %s" % ", ".join(_CHOICES[key]))
            elif key in _PERCENTS:
                top = _PERCENTS[key]
                number = isinstance(raw, (int, float)) and not isinstance(raw, bool) and 0 <= raw <= top
                if number or (raw is None and key == "max_p99_increase_percent"):
                    result[key] = int(raw) if number and raw == int(raw) else raw
                else:
                    self._add("%s is no such percentage" % key, path, found_text(raw), "a number from 0 to %d" % top)
        return result

    def _mapping(self, data: Dict[str, Any], key: str) -> Dict[str, Any]:
        value = data.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._add("%s is a mapping" % key, (key,), found=found_text(value))
            return {}
        return value

    def _text(self, data: Dict[str, Any], key: str, path: Path) -> str:
        value = data.get(key)
        if isinstance(value, str) and value.strip():
            return " ".join(value.split())
        if key not in data:
            self._add("%s is missing" % key, path, wanted="%s: text" % key,
                      do="Say why this value is right, for whoever reads it next" if key == "why" else "")
        else:
            self._add("%s is text that is not empty" % key, (*path, key), found=found_text(value), do="Quote it")
        return ""

    def _known(self, data: Dict[str, Any], known: Iterable[str], path: Path) -> None:
        names = list(known)
        for key in data:
            if key not in names:
                self._add("there is no key %s here" % key, (*path, key), do=advice(key, names))

    def _where(self, path: Path) -> str:
        line = self.document.lines.get(path)
        place = "%s:%d" % (self.source, line) if line else self.source
        return "%s: %s" % (place, ".".join(path)) if path else place

    def _add(self, what: str, path: Path, found: str = "", wanted: str = "", do: str = "") -> None:
        self.problems.append(problem(what, where=self._where(path), found=found, wanted=wanted, do=do))


def _template(raw: Any) -> str | None:
    """Return the first text in a raw value that has a template's braces."""
    if isinstance(raw, str):
        return raw if "{{" in raw or "{%" in raw else None
    items: Iterable[Any] = raw.values() if isinstance(raw, dict) else raw if isinstance(raw, list) else ()
    return next((text for text in map(_template, items) if text is not None), None)


def _bare(template: str) -> str:
    return template.replace("{{", "").replace("}}", "").strip()
