# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a run directory: JSON that other tools can read, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from typing import Any

from .. import atomic
from ..problems import LdaptuneError, problem

# Their names in a run directory.
LEGS, VERDICT, RESULT, SUMMARY = "legs.json", "verdict.json", "result.json", "summary.txt"


def new_name(runs_dir: str, host: str) -> str:
    """Return a folder's path for a run of a host.

    Its last part is the run's name on that host, where runs of all controllers meet: two may start in one second.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return os.path.join(runs_dir, "%s-%s-%s" % (stamp, secrets.token_hex(3), host))


def new_folder(runs_dir: str, host: str) -> str:
    """Make a folder that was not there for a run of a host and return its path."""
    os.makedirs(runs_dir, exist_ok=True)
    while True:
        path = new_name(runs_dir, host)
        try:
            os.mkdir(path)
        except FileExistsError:
            continue
        return path


def finite(value: Any) -> Any:
    """Return the value with every NaN and infinity, at any depth, turned into None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def as_json(value: Any) -> str:
    """Return JSON text: keys sorted, ASCII only, NaN refused (ValueError), the same under every locale."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"


def write_text(path: str, text: str) -> None:
    """Write a file whole or not at all, and on disk before the call returns."""
    atomic.write(path, text.encode("utf-8"), 0o644)


def write_json(path: str, value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    write_text(path, as_json(value))


def read_json(path: str) -> Any:
    """Return the value of a JSON file, None when there is no such file; one that cannot be read is refused."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LdaptuneError(problem("cannot be read", path, str(error), "a JSON file")) from error
