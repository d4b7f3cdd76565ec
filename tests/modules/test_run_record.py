# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The face of run_record."""

from __future__ import annotations

import json
import re
import time


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


def start(run_module, tmp_path, **more):
    arguments = {"runs_dir": str(tmp_path / "runs"), "host": "lab1", "documents": {"plan": {}}}
    return run_module("run_record", arguments, **more)


def test_two_runs_of_one_host_in_one_second_have_a_folder_each(run_module, tmp_path, monkeypatch):
    now = time.gmtime()
    monkeypatch.setattr(time, "gmtime", lambda *_: now)
    # The third draws the second's number first.
    drawn = iter(["aaaaaa", "bbbbbb", "bbbbbb", "cccccc"])
    monkeypatch.setattr("secrets.token_hex", lambda size: next(drawn))
    folders = [start(run_module, tmp_path)["run_dir"] for _ in range(3)]
    stamp = time.strftime("%Y%m%dT%H%M%SZ", now)
    names = ["%s-%s-lab1" % (stamp, number) for number in ("aaaaaa", "bbbbbb", "cccccc")]
    assert folders == [str(tmp_path / "runs" / name) for name in names]
    assert sorted(path.parent.name for path in tmp_path.glob("runs/*/plan.json")) == names


def test_check_mode_makes_no_folder_of_a_new_run(run_module, tmp_path):
    result = start(run_module, tmp_path, check=True)
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}-lab1", result["run_dir"].rpartition("/")[2])
    assert list(tmp_path.iterdir()) == []
