# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small text files of the system, read for what they say."""

from __future__ import annotations


def read_text(path: str) -> str:
    """Return a file's text, empty when it is not there or not ours to read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
