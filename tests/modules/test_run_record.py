# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The face of run_record."""

from __future__ import annotations

import json


def test_documents_are_written_as_json(run_module, tmp_path):
    folder = tmp_path / "runs" / "r1"
    result = run_module("run_record", {"run_dir": str(folder), "documents": {"plan": {"b": 1, "a": None}, "facts": {}}})
    assert result["changed"] is False
    assert sorted(path.name for path in folder.iterdir()) == ["facts.json", "plan.json"]
    assert json.loads((folder / "plan.json").read_text()) == {"a": None, "b": 1}
    assert result["files"] == [str(folder / "plan.json"), str(folder / "facts.json")]


def test_check_mode_writes_nothing(run_module, tmp_path):
    folder = tmp_path / "r1"
    run_module("run_record", {"run_dir": str(folder), "documents": {"plan": {}}}, check=True)
    assert not folder.exists()


def test_a_folder_that_cannot_be_is_said(run_module, tmp_path):
    (tmp_path / "file").write_text("")
    result = run_module("run_record", {"run_dir": str(tmp_path / "file" / "r1"), "documents": {"plan": {}}})
    assert result["failed"] is True
    assert str(tmp_path / "file") in result["msg"]
