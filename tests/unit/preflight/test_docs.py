# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/preflight.md has every message of the preflight."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
FILES = sorted((CHECKOUT / "module_utils" / "ldaptune" / "preflight").glob("*.py"))


def messages(path):
    """The texts that a file gives as `what`: first arguments of problem(...) and values of variables of that name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        value = None
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("problem", "no_right"):
            value = node.args[0]
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "what":
            value = node.value
        if isinstance(value, ast.BinOp):
            value = value.left
        if isinstance(value, ast.Constant):
            yield value.value


@pytest.mark.parametrize("text", sorted({text for path in FILES for text in messages(path)}))
def test_the_table_has_it(text):
    table = (CHECKOUT / "docs" / "preflight.md").read_text(encoding="utf-8")
    longest = max(re.split(r"%[sdg]", text), key=len).strip()
    assert longest in table


def test_there_are_messages():
    assert len([text for path in FILES for text in messages(path)]) > 20
