# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a run directory: JSON that other tools can read, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import tempfile
from typing import Any

from ..problems import LdaptuneError, problem

# Their names in a run directory.
LEGS, VERDICT, RESULT, SUMMARY = "legs.json", "verdict.json", "result.json", "summary.txt"


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
    folder = os.path.dirname(path) or "."
    handle, temporary = tempfile.mkstemp(prefix=".%s." % os.path.basename(path), dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder_handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(folder_handle)
    finally:
        os.close(folder_handle)


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
