# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house, checked on every tracked file."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
CORE = ROOT / "module_utils" / "ldaptune"
LISTED = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
TRACKED = [ROOT / name for name in LISTED.split("\0") if name and (ROOT / name).is_file()]
PYTHON = [path for path in TRACKED if path.suffix == ".py"]
MODULES = [path for path in PYTHON if path.parent == ROOT / "library"]
CORE_FILES = [path for path in PYTHON if CORE in path.parents]
ROLES = sorted({path.parent.parent for path in TRACKED if path.match("roles/*/defaults/main.yml")})
TASK_FILES = [
    path for path in TRACKED if path.suffix == ".yml" and path.relative_to(ROOT).parts[0] in ("roles", "playbooks")
]

COPYRIGHT = "# Copyright: the ldaptune authors"
LICENCE = "# SPDX-License-Identifier: GPL-3.0-or-later"

# What must never be in a file, as regular expressions; each in two halves, so that this file is not its own culprit.
FORBIDDEN = {
    "a path of one machine": "/wo"
    + r"rk/|\.\./sh"
    + r"ared\b|/opt/(wheels|py"
    + r"pi)|/root/\.py"
    + "env|/home/[a-z]+/",
    "a package registry": "py" + r"pi\.org|python" + r"hosted\.org|deb\." + r"debian\.org|snapshot\." + r"debian\.org",
    "a private key": "BEGIN [A-Z ]*PRIVATE" + " KEY",
    "a token": r"\b(gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}|xox[bp]-[0-9A-Za-z-]{20,})\b",
    "an encrypted vault": r"^\$ANSIBLE_" + "VAULT;",
    "an open task": r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b",
}

# Which packages of the core may import which; those not named here are top-level parts and may use all of them.
# `levers.table` is pure data and everybody's.
ARROWS = {
    "load": {"load"},
    "evidence": {"evidence"},
    "profile": {"profile"},
    "report": {"report"},
    "host": {"host"},
    "directory": {"directory", "host"},
    "levers": {"levers", "host", "directory", "profile"},
    "lab": {"lab"},
}


def name_of(path):
    return str(path.relative_to(ROOT))


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def at_import(tree):
    """Yield the import statements that run when the module is imported, those in functions left out."""
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            pending.extend(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            pending.extend(ast.iter_child_nodes(node))


def absolute_names(node):
    """Return the modules an absolute import statement names; none for anything else."""
    if isinstance(node, ast.Import):
        return [item.name for item in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module or ""]
    return []


def core_module(path, node):
    """Return the dotted core module a relative import names, such as "levers.table"; "" for the core's root."""
    package = [*path.relative_to(CORE).parts[:-1]]
    base = package[: len(package) - (node.level - 1)]
    return ".".join([*base, *(node.module or "").split(".")]).strip(".")


def core_imports(path, tree):
    """Yield every core module that the file imports anywhere, as dotted names below ldaptune."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = core_module(path, node)
            yield from ["%s.%s" % (module, item.name) if module else item.name for item in node.names]


def none_of(complaints):
    """Fail with all complaints at once, so that one run shows every file to mend."""
    found = list(complaints)
    assert not found, "\n" + "\n".join(found)


def test_nothing_forbidden_is_in_a_file():
    def complaints():
        for path in TRACKED:
            text = path.read_bytes().decode("utf-8", "replace")
            for what, pattern in FORBIDDEN.items():
                for found in re.finditer(pattern, text, re.MULTILINE):
                    yield "%s has %s: %r" % (name_of(path), what, found.group(0))

    none_of(complaints())


def test_python_files_say_whose_they_are():
    def complaints():
        for path in PYTHON:
            lines = path.read_text(encoding="utf-8").splitlines()
            lines = lines[1:] if lines and lines[0].startswith("#!") else lines
            # A file with nothing in it is nobody's.
            if lines and (lines[0] != COPYRIGHT or LICENCE not in lines[1:3]):
                yield name_of(path)

    none_of(complaints())


def test_code_for_hosts_is_python_38():
    def complaints():
        for path in [*MODULES, *CORE_FILES]:
            text = path.read_text(encoding="utf-8")
            try:
                ast.parse(text, str(path), feature_version=(3, 8))
            except SyntaxError as error:
                yield "%s: %s" % (name_of(path), error)
            if "from __future__ import annotations" not in text and len(tree_of(path).body) > 1:
                yield "%s: no future annotations" % name_of(path)

    none_of(complaints())


def test_files_stay_small():
    # The lever table is data: one row a lever.
    sizes = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in [*MODULES, *CORE_FILES]}
    del sizes["module_utils/ldaptune/levers/table.py"]
    none_of("%s: %d lines" % item for item in sizes.items() if item[1] > 400)


def test_the_core_imports_only_the_standard_library():
    def complaints():
        for path in CORE_FILES:
            for node in at_import(tree_of(path)):
                for name in absolute_names(node):
                    if name.split(".")[0] not in sys.stdlib_module_names:
                        yield "%s imports %s" % (name_of(path), name)

    none_of(complaints())


def test_the_core_knows_no_ansible_and_ships_what_it_imports():
    # importlib, because Ansible ships only what a statement imports; ldaptune, because the core has two names.
    def complaints():
        for path in CORE_FILES:
            for node in ast.walk(tree_of(path)):
                for name in absolute_names(node):
                    if name.split(".")[0] in ("ansible", "importlib", "ldaptune"):
                        yield "%s imports %s" % (name_of(path), name)

    none_of(complaints())


def test_arrows_point_one_way():
    packages = {item.parent.name for item in CORE_FILES if item.name == "__init__.py" and item.parent != CORE}

    def complaints():
        for path in CORE_FILES:
            part = path.relative_to(CORE).parts[0]
            for module in core_imports(path, tree_of(path)) if part in ARROWS else ():
                target = module.split(".")[0]
                if target in packages - ARROWS[part] and not module.startswith("levers.table."):
                    yield "%s uses %s" % (name_of(path), module)

    none_of(complaints())


def constant(tree, name):
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return yaml.safe_load(ast.literal_eval(node.value))
    return None


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_documented(path):
    text = path.read_text(encoding="utf-8")
    tree = tree_of(path)
    assert text.startswith("#!/usr/bin/python\n")
    assert "GNU General Public License v3.0+" in "\n".join(text.splitlines()[:5])
    documentation = constant(tree, "DOCUMENTATION")
    assert documentation["module"] == path.stem
    assert {"check_mode", "diff_mode", "platform"} <= set(documentation["attributes"])
    assert any(path.stem in task for task in constant(tree, "EXAMPLES"))
    for key, item in constant(tree, "RETURN").items():
        assert {"description", "returned", "type"} <= set(item), key


def test_modules_import_the_core_in_the_one_form_that_works_everywhere():
    def complaints():
        for path in MODULES:
            for node in ast.walk(tree_of(path)):
                names = absolute_names(node)
                if isinstance(node, ast.ImportFrom) and node.level:
                    names = [] if node.level == 2 and node.module.startswith("module_utils.ldaptune") else [node.module]
                    names = [name or "ldaptune" for name in names]
                if any("ldaptune" in name for name in names):
                    yield "%s: line %d" % (name_of(path), node.lineno)

    none_of(complaints())


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_role_defaults_equal_their_argument_specs(role):
    defaults = yaml.safe_load((role / "defaults" / "main.yml").read_text(encoding="utf-8")) or {}
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    options = {}
    for entry in specs.values():
        options.update(entry.get("options") or {})
    assert {name: item["default"] for name, item in options.items() if "default" in item} == defaults
    assert all(name.startswith(role.name + "_") for name in options)


def tasks_in(data):
    """Yield every task of a task file or playbook, those in blocks too."""
    for item in data or []:
        yield item
        for part in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from tasks_in(item.get(part))


def test_tasks_on_the_controller_are_safe_from_the_inventory():
    def complaints():
        for path in TASK_FILES:
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
            for task in tasks_in(data if isinstance(data, list) else []):
                if task.get("delegate_to") != "localhost":
                    continue
                given = task.get("vars", {})
                # A variable of the inventory is stronger than the keyword, so both are set.
                stands = task.get("become") is False and given.get("ansible_become") is False
                if not stands or "ansible_python_interpreter" not in given:
                    yield "%s: %s" % (name_of(path), task.get("name"))

    none_of(complaints())


def test_requirements_are_bounded_and_pinned():
    def lines(name):
        text = (ROOT / name).read_text(encoding="utf-8")
        return [line for line in text.splitlines() if line and not line.startswith("#")]

    for line in lines("requirements.txt"):
        assert re.fullmatch(r"[a-z0-9-]+>=[0-9.]+,<[0-9.]+", line)
    pins = [line.split("==") for line in lines("constraints.txt")]
    assert all(len(pin) == 2 for pin in pins)
    pinned = {name.lower().replace("_", "-") for name, _ in pins}
    for line in [*lines("requirements.txt"), *lines("requirements-dev.txt")]:
        assert re.split("[<>=]", line)[0].lower() in pinned
