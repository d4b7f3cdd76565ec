# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The strict YAML reader: lines are kept, what would be lost is refused."""

from __future__ import annotations

import pytest
from ldaptune.problems import render
from ldaptune.profile.reader import read
from ldaptune.profile.values import Surprise


@pytest.mark.parametrize("text, value", [
    ("1", 1), ("-1", -1), ("0", 0), ("0x100", 256), ("1.5", 1.5), ("0.1", 0.1), ("3.0", 3.0), ("true", True),
    ("False", False), ("null", None), ("~", None), ("", None), ("none", "none"), ('"on"', "on"), ("'0755'", "0755"),
    ("1-last", "1-last"), ("0,2-3", "0,2-3"), ("2022-12-01", "2022-12-01"), ("512 30", "512 30"), ("y", "y"),
    ("0o755", "0o755"), ("!!str 5", "5"), ("0b_", "0b_"),
])
def test_scalars(text, value):
    document = read("a: %s" % text, "x")
    assert document.problems == []
    assert document.data == {"a": value}
    assert type(document.data["a"]) is type(value)


@pytest.mark.parametrize("text", [
    "on", "Off", "YES", "no", "0755", "00", "1_000", "2.10", "1:30", "0b1", "1e3", ".inf", ".nan", "-.inf", "1.50",
    "08.5",
])
def test_surprises_keep_their_text(text):
    value = read("a: %s" % text, "x").data["a"]
    assert value == Surprise(text, None) or value == text  # 1e3 is text in YAML 1.1
    assert repr(value).strip("'") == text


def test_lines():
    document = read("a: 1\nb:\n  c: 2\n  d:\n  - 5\n  - 6\n", "x")
    assert document.lines[("a",)] == 1
    assert document.lines[("b", "c")] == 3
    assert document.lines[("b", "d", "1")] == 6


@pytest.mark.parametrize("text, message", [
    ("a: 1\na: 2\n", "x:2: the key a stands here twice. Line 1 has it too: keep one"),
    ("b:\n  a: 1\n  a: 1\n", "x:3: the key a stands here twice. Line 2 has it too: keep one"),
    ("a: &n {b: 1}\nc: *n\n", "x:1: an alias (*name) stands here. Write the value out"),
    ("a: &n [*n]\n", "x:1: an alias (*name) stands here. Write the value out"),
    ("? [a]\n: 1\n", "x:1: a key is no plain word"),
    ("a: !vault x\n", "x:1: the tag !vault means nothing in a profile. Write a plain value"),
    ("a: !!binary aGk=\n", "x:1: the tag tag:yaml.org,2002:binary means nothing in a profile. Write a plain value"),
    ("a: !!set {b}\n", "x:1: the tag tag:yaml.org,2002:set means nothing in a profile. Write a plain value"),
    ("a: 1\n---\nb: 1\n", "x:2: this is not YAML as a profile needs it: it holds more than one YAML document"),
    ("a: [1\n", "x:2: this is not YAML as a profile needs it: expected ',' or ']', but got '<stream end>'"),
])
def test_refused(text, message):
    assert [render(item) for item in read(text, "x").problems] == [message]


@pytest.mark.parametrize("text", ["a: \x00", "a: " + "[" * 5000, "%YAML 3.0\n---\na: 1", "a: *b", "\ta: 1", "a: b: c"])
def test_anything_else_is_a_problem_and_no_traceback(text):
    document = read(text, "x")
    assert document.problems
    assert document.data is None


def test_empty_text():
    assert read("", "x") == (None, {}, [])
