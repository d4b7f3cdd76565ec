# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Promises of the roles and modules that a reader can check without a host."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
TASK_FILES = sorted([*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/*.yml")])
MODULES = sorted(ROOT.glob("library/*.py"))


def tasks_in(data):
    """Yield every task of a task file or playbook, those in blocks too."""
    for item in data or []:
        yield item
        for part in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from tasks_in(item.get(part))


def tasks_of(path):
    return list(tasks_in(yaml.safe_load(path.read_text(encoding="utf-8"))))


def test_only_directory_hosts_can_be_targets():
    """The first play of each story is about them; groups of our own are made of its hosts alone."""
    seen = set()
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        first, *others = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert first["hosts"] == ("localhost" if path.stem == "lab" else "ldaphosts"), path.name
        makers = [task for task in tasks_in(first["tasks"]) if "ansible.builtin.group_by" in task]
        assert not others or makers, path.name
        for play in others:
            assert play["hosts"].partition(":")[0] == "ldaphosts" or play["hosts"].startswith("ldaptune_"), path.name
        seen.add(path.stem)
    assert {"tune", "rollback", "audit", "test_accounts"} <= seen


def test_requirements_are_installed_first_and_only_when_told():
    tasks = tasks_of(ROOT / "roles/tuning/tasks/preflight.yml")
    assert tasks[0]["ansible.builtin.package"] == {"name": "python3-ldap3", "state": "present"}
    assert tasks[0]["when"] == "tuning_install_requirements | bool"
    defaults = yaml.safe_load((ROOT / "roles/tuning/defaults/main.yml").read_text(encoding="utf-8"))
    assert defaults["tuning_install_requirements"] is False
    specs = yaml.safe_load((ROOT / "roles/tuning/meta/argument_specs.yml").read_text(encoding="utf-8"))
    for entry in specs["argument_specs"].values():
        assert entry["options"]["tuning_install_requirements"]["type"] == "bool"
    installing = [
        path.name
        for path in TASK_FILES
        for task in tasks_of(path)
        if {"ansible.builtin.package", "ansible.builtin.apt", "ansible.builtin.dnf", "ansible.builtin.pip"} & set(task)
    ]
    assert installing == ["preflight.yml"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_module_has_a_secret_among_its_arguments(path):
    """Ansible cuts a secret's text out of everything a module returns: with `10` for a password, out of its figures."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                if isinstance(key, ast.Constant) and key.value == "no_log":
                    assert isinstance(value, ast.Constant)
                    assert value.value is False


def test_no_result_that_a_play_needs_is_hidden():
    for path in TASK_FILES:
        for task in tasks_of(path):
            assert not ("no_log" in task and "register" in task), path.name


def test_no_secret_stands_in_an_argument_or_in_an_environment():
    # In a template, where its value would be; a message may name the variable.
    secret = re.compile(r"\{\{[^}]*\b\w*_password\b[^}]*\}\}")
    allowed = {"ansible.builtin.copy", "vars"}
    for path in TASK_FILES:
        for task in tasks_of(path):
            assert "environment" not in task, path.name
            for name, value in task.items():
                if name not in {"tasks", "block", "rescue", "always"} and secret.search(str(value)):
                    assert name in allowed, "%s: %s" % (path.name, task.get("name"))
                    assert name == "vars" or task["no_log"] is True
                    assert name == "vars" or task["diff"] is False


def test_nothing_is_left_to_run_once_or_in_the_background():
    """What runs once is silent when its host was skipped; what runs in the background is lost with another HOME."""
    for path in TASK_FILES:
        for task in tasks_of(path):
            assert not {"run_once", "async", "poll"} & set(task), path.name


def test_a_rescue_ends_by_failing():
    """A rescued host counts as healthy, and the roll would go on."""
    for path in TASK_FILES:
        for task in tasks_of(path):
            if "rescue" not in task:
                continue
            last = task["rescue"][-1]
            if "ansible.builtin.include_tasks" in last:
                last = tasks_of(path.parent / last["ansible.builtin.include_tasks"])[-1]
            assert "ansible.builtin.fail" in last, path.name
            assert "when" not in last
