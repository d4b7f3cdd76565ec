# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Search filters: templates with `{user}` and `{dn}`, RFC 4515 text to BER.

Values are put into the text escaped by RFC 4515, byte by byte, so that no account's name can widen the search.
"""

from __future__ import annotations

import re
from typing import List, Tuple

from .wire import octets, tlv

AND, OR, NOT, EQUALITY, SUBSTRINGS, GREATER, LESS, PRESENT, APPROX = (
    0xA0,
    0xA1,
    0xA2,
    0xA3,
    0xA4,
    0xA5,
    0xA6,
    0x87,
    0xA8,
)
_ITEM = re.compile(r"([A-Za-z0-9.;-]+)(=|>=|<=|~=)(.*)\Z", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2})|\\")


class FilterError(ValueError):
    """A filter that is not by RFC 4515; the text says where."""


def escape(value: bytes) -> str:
    """Return a value as it may stand in a filter: letters, digits and a few signs as they are, all else as \\xx."""
    plain = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_.@+=,")
    return "".join(chr(octet) if octet in plain else "\\%02x" % octet for octet in value)


def fill(template: str, user: bytes, dn: bytes) -> str:
    """Return the template with `{user}` and `{dn}` replaced by the escaped values."""
    return re.sub(r"\{(user|dn)\}", lambda found: escape(user if found.group(1) == "user" else dn), template)


def encode(text: str) -> bytes:
    """Return a filter's BER; raises FilterError."""
    encoded, end = _filter(text, 0)
    if end != len(text):
        raise FilterError("text behind the filter: %s" % text[end:])
    return encoded


def _filter(text: str, start: int) -> Tuple[bytes, int]:
    if text[start : start + 1] != "(":
        raise FilterError("no opening parenthesis at character %d" % (start + 1))
    start += 1
    kind = text[start : start + 1]
    if kind in ("&", "|", "!") and kind:
        parts: List[bytes] = []
        start += 1
        while text[start : start + 1] == "(":
            part, start = _filter(text, start)
            parts.append(part)
        if text[start : start + 1] != ")":
            raise FilterError("no closing parenthesis at character %d" % (start + 1))
        if kind == "!" and len(parts) != 1:
            raise FilterError("! takes one filter, not %d" % len(parts))
        return tlv({"&": AND, "|": OR, "!": NOT}[kind], b"".join(parts)), start + 1
    end = text.find(")", start)
    if end < 0:
        raise FilterError("no closing parenthesis")
    return _item(text[start:end]), end + 1


def _item(text: str) -> bytes:
    found = _ITEM.match(text)
    if not found:
        raise FilterError("not attribute, operator, value: %s" % text)
    name, operator, value = found.group(1).encode(), found.group(2), found.group(3)
    if "(" in value:
        raise FilterError("a parenthesis in a value is written \\28: %s" % text)
    if operator != "=":
        tag = {">=": GREATER, "<=": LESS, "~=": APPROX}[operator]
        return tlv(tag, octets(name) + octets(_unescape(value)))
    if value == "*":
        return tlv(PRESENT, name)
    pieces = value.split("*")
    if len(pieces) == 1:
        return tlv(EQUALITY, octets(name) + octets(_unescape(value)))
    if "" in pieces[1:-1]:
        raise FilterError("two stars in a row: %s" % text)
    substrings = b""
    for position, piece in enumerate(pieces):
        if piece:
            tag = 0x80 if position == 0 else 0x82 if position == len(pieces) - 1 else 0x81
            substrings += tlv(tag, _unescape(piece))
    return tlv(SUBSTRINGS, octets(name) + tlv(0x30, substrings))


def _unescape(value: str) -> bytes:
    def plain(found: re.Match[bytes]) -> bytes:
        if not found.group(1):
            raise FilterError("a backslash without two hexadecimal digits: %s" % value)
        return bytes((int(found.group(1), 16),))

    return _ESCAPE.sub(plain, value.encode("utf-8"))
