# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""udev rules: one file of our own for a setting, keyed by a name that lasts; rules of others that would win."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Sequence, Tuple

from . import block, conf_dirs

# In the order of their weight: a file of the same name in an earlier one hides the later one's (udev(7)).
FOLDERS = ("/etc/udev/rules.d", "/run/udev/rules.d", "/usr/local/lib/udev/rules.d", "/usr/lib/udev/rules.d",
           "/lib/udev/rules.d")  # fmt: skip
# What udev knows of a disk that another boot and another slot leave as it is, the best first.
_LASTING = ("DM_UUID", "MD_UUID", "ID_SERIAL", "ID_WWN", "ID_PART_TABLE_UUID", "ID_FS_UUID")
# Would be patterns in a rule, or end the text.
_PATTERN = re.compile(r'[*?|"\[\]\\]')
_RULE = re.compile(r'ENV\{(\w+)\}=="([^"]*)", ATTR\{([^}]+)\}="([^"]*)"')

Key = Tuple[str, str]


def here(root: str) -> bool:
    """Return whether udev runs on this host."""
    return os.path.isdir(os.path.join(root, "run/udev"))


def properties(root: str, device: str) -> Dict[str, str]:
    """Return what udev has found out of a block device, from its own records."""
    path = os.path.join(root, "run/udev/data", "b" + block.number(device))
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            lines = [line.rstrip("\n") for line in stream if line.startswith("E:")]
    except OSError:
        return {}
    return {line[2:].partition("=")[0]: line.partition("=")[2] for line in lines}


def lasting_key(root: str, device: str) -> Key | None:
    """Return (property, value) by which a rule finds this disk again; None where udev knows none, or does not run."""
    known = properties(root, device) if here(root) else {}
    for name in _LASTING:
        value = known.get(name, "")
        if value and not _PATTERN.search(value):
            return name, value
    return None


def path_of(lever: str) -> str:
    """Return the rules file that keeps a lever of ours."""
    return "/etc/udev/rules.d/90-ldaptune-%s.rules" % lever


def rules(keys: Sequence[Key], attribute: str, value: str) -> str:
    """Return the text of a rules file that sets one attribute of some disks."""
    line = 'ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{%s}=="%s", ATTR{%s}="%s"\n'
    return "# Written by ldaptune; rollback.yml takes it away.\n" + "".join(
        line % (name, wanted, attribute, value) for name, wanted in keys
    )


def kept(text: str, keys: Sequence[Key], attribute: str) -> str | None:
    """Return the value that a file of ours gives to all of these disks; None where it leaves one out, or differs."""
    found = {(name, key): value for name, key, path, value in _RULE.findall(text) if path == attribute}
    values = {found.get(key) for key in keys}
    return values.pop() if len(values) == 1 else None


def later(root: str, ours: str, attribute: str) -> List[Tuple[str, str]]:
    """Return (file, value) of the rules of others that are read after ours and set the same attribute of any disk."""
    sets = re.compile(r'ATTR\{%s\}\s*:?=\s*"([^"]*)"' % re.escape(attribute))
    found: List[Tuple[str, str]] = []
    for name, path in conf_dirs.merged(root, FOLDERS, ".rules").items():
        if name <= os.path.basename(ours):
            continue
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                lines = [line for line in stream if not line.lstrip().startswith("#")]
        except OSError:
            continue
        found.extend((path, value) for value in sets.findall("".join(lines)))
    return found
