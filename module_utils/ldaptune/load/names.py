# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""DNs as far as the probe needs them: the first RDN's type and value, and a form for comparing (RFC 4514)."""

from __future__ import annotations

import functools
import re
from typing import List, Tuple

_HEX = re.compile(rb"\\([0-9A-Fa-f]{2})|\\(.)", re.DOTALL)


def _split(text: str, separators: str) -> List[str]:
    """Split at separators that no backslash stands before."""
    parts, current, escaped = [], "", False
    for char in text:
        if escaped or char not in separators:
            current += char
            escaped = char == "\\" and not escaped
        else:
            parts.append(current)
            current = ""
    parts.append(current)
    return parts


def _strip(text: str) -> str:
    """Drop spaces around a value, but not one that a backslash protects."""
    text = text.lstrip(" ")
    stripped = text.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and stripped != text else stripped


def unescape(value: str) -> bytes:
    """Return the bytes that an RDN value stands for."""
    return _HEX.sub(
        lambda found: bytes((int(found.group(1), 16),)) if found.group(1) else found.group(2), value.encode("utf-8")
    )


def first_rdn(dn: str) -> Tuple[str, bytes]:
    """Return type and value of the first RDN; raises ValueError when there is none."""
    rdn = _split(_split(dn, ",;")[0], "+")[0]
    kind, equals, value = rdn.partition("=")
    if not equals or not kind.strip():
        raise ValueError("no attribute type in the first RDN")
    return kind.strip(), unescape(_strip(value))


@functools.lru_cache(maxsize=65536)
def normal_dn(dn: str) -> Tuple[Tuple[Tuple[str, str], ...], ...]:
    """Return a form in which two spellings of a DN are equal: case, spaces and escapes do not count."""
    normal = []
    for rdn in _split(dn, ",;") if dn else []:
        pairs = []
        for pair in _split(rdn, "+"):
            kind, _, value = pair.partition("=")
            plain = unescape(_strip(value)).decode("utf-8", "backslashreplace")
            pairs.append((kind.strip().lower(), " ".join(plain.split(" ")).lower()))
        normal.append(tuple(sorted(pairs)))
    return tuple(normal)


def parent(dn: str) -> str:
    """Return the DN without its first RDN."""
    return dn[len(_split(dn, ",;")[0]) + 1 :].lstrip(" ")
