# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distinguished names compared as RFC 4514 means them, and the {n} of ordered values."""

from __future__ import annotations

import functools
import re
from typing import List, Tuple

_ORDER = re.compile(r"^\{(-?\d+)\}")
_OIDS = {
    "2.5.4.3": "cn",
    "commonname": "cn",
    "2.5.4.6": "c",
    "countryname": "c",
    "2.5.4.10": "o",
    "organizationname": "o",
    "2.5.4.11": "ou",
    "organizationalunitname": "ou",
    "0.9.2342.19200300.100.1.25": "dc",
    "domaincomponent": "dc",
    "0.9.2342.19200300.100.1.1": "uid",
    "userid": "uid",
}
_HEX = "0123456789abcdefABCDEF"


def _split(text: str, separators: str) -> List[str]:
    """Split at separators that are neither escaped nor quoted."""
    parts, current, quoted, index = [], "", False, 0
    while index < len(text):
        char = text[index]
        if char == "\\" and index + 1 < len(text):
            current += text[index : index + 2]
            index += 2
            continue
        if char == '"':
            quoted = not quoted
        if char in separators and not quoted:
            parts.append(current)
            current = ""
        else:
            current += char
        index += 1
    parts.append(current)
    return parts


def _unescape(text: str) -> str:
    """Return an attribute value without its escapes, outer spaces and quotes; hex pairs are UTF-8 bytes."""
    text = text.strip(" ") if not text.endswith("\\ ") else text.lstrip(" ")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    out = bytearray()
    index = 0
    while index < len(text):
        if text[index] == "\\" and index + 1 < len(text):
            pair = text[index + 1 : index + 3]
            if len(pair) == 2 and pair[0] in _HEX and pair[1] in _HEX:
                out.append(int(pair, 16))
                index += 3
                continue
            index += 1
        out += text[index].encode("utf-8", "surrogatepass")
        index += 1
    return out.decode("utf-8", "backslashreplace")


def _normal_text(text: str) -> str:
    return re.sub(r'([,+"\\\\<>;=])', r"\\\1", " ".join(_unescape(text).lower().split()))


def _normal_pair(text: str) -> str:
    name, _sep, value = text.partition("=")
    # No type has such characters; in a name that is none, a quote must not reach over what follows.
    name = _normal_text(name).replace("\\=", "\\3d")
    if name.startswith("oid."):
        name = name[4:]
    return "%s=%s" % (_OIDS.get(name, name), _normal_text(value))


@functools.lru_cache(maxsize=512)
def normalise_dn(text: str) -> str:
    """Return one spelling for equal names: case, spaces, escapes and the order in a multi-valued RDN do not count.

    The empty DN stays empty. Values are compared without case, as the attribute types used in naming are.
    """
    if not text.strip():
        return ""
    rdns = []
    for rdn in _split(text, ",;"):
        rdns.append("+".join(sorted(_normal_pair(pair) for pair in _split(rdn, "+"))))
    return ",".join(rdns)


def split_order(value: str) -> Tuple[int | None, str]:
    """Return the index and the rest of an ordered value: "{2}mdb" gives (2, "mdb"), "mdb" gives (None, "mdb")."""
    match = _ORDER.match(value)
    if not match:
        return None, value
    return int(match.group(1)), value[match.end() :]
