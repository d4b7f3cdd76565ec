# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a run directory: whole or not at all, no NaN."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldaptune.problems import LdaptuneError
from ldaptune.report.files import as_json, finite, read_json, write_json, write_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_whatever_is_measured_can_be_written(value):
    text = as_json(finite(value))
    assert text.isascii()
    json.loads(text, parse_constant=pytest.fail)


def test_nan_is_refused_rather_than_written():
    with pytest.raises(ValueError, match="JSON compliant"):
        as_json({"a": float("nan")})


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "legs.json"
    write_json(str(path), {"a": 1})

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="disk full"):
        write_json(str(path), {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["legs.json"]


def test_a_value_that_cannot_be_written_touches_nothing(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(str(tmp_path / "x.json"), float("inf"))
    assert list(tmp_path.iterdir()) == []


def test_written_to_disk_before_it_is_named(tmp_path, monkeypatch):
    order = []
    sync, replace = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "rename", lambda *names: (order.append("replace"), replace(*names)))
    write_text(str(tmp_path / "a"), "x")
    assert order == ["sync", "replace", "sync"]


def test_reading(tmp_path):
    assert read_json(str(tmp_path / "none.json")) is None
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(LdaptuneError, match="cannot be read"):
        read_json(str(tmp_path / "bad.json"))
