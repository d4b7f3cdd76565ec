# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the event loop sends and what it waits for, prepared so that an operation costs neither encoding nor copying.

A shot is (request, answer, end, item): the whole request with its message id, the whole answer if that can be known
before (None for a search that finds an entry), the last message of the answer, and the item behind it. RFC 4511 allows
a message id again once its final answer came, so a shot keeps its id; few accounts get several shots each, so that an
answer that comes twice is not taken for the next one.
"""

from __future__ import annotations

import itertools
from typing import AbstractSet, Dict, Iterator, List, Optional, Sequence, Tuple

from . import wire
from .workload import Item

Shot = Tuple[bytes, Optional[bytes], bytes, Item]
Form = Tuple[bytes, bytes]

FIRST_ID = 65536
MANY_IDS = 1048576
FEWEST = 256
SUCCESS_TAIL = b"\x0a\x01\x00\x04\x00\x04\x00"
# No answer is equal to this: what comes is read in full.
NEVER = b"-"


class Armoury:
    """Makes shots. It knows how this server writes a success: at first as the shortest BER does."""

    def __init__(self) -> None:
        self.forms: Dict[str, Form] = {
            kind: (b"\x30\x0e\x02\x03", tag + b"\x07" + SUCCESS_TAIL)
            for kind, tag in (("bind", b"\x61"), ("search", b"\x65"))
        }
        self.learned: Dict[str, Form] = {}
        self._ids: Iterator[int] = itertools.cycle(range(FIRST_ID, FIRST_ID + MANY_IDS))

    def shot(self, item: Item, taken: AbstractSet[bytes] = frozenset()) -> Shot:
        """Return a shot of the item with a message id that is not in `taken`."""
        octets = wire.three_byte_id(next(self._ids))
        while octets in taken:
            octets = wire.three_byte_id(next(self._ids))
        request = item.head + octets + item.tail
        if item.code or item.entries not in (0, 1) or (item.entries == 1 and item.kind == "search" and not item.dn):
            return request, NEVER, NEVER, item
        before, behind = self.forms[item.kind]
        end = before + octets + behind
        return request, None if item.kind == "search" and item.entries else end, end, item

    def shots(self, items: Sequence[Item], fewest: int = 1) -> List[Shot]:
        """Return the items' shots in order, each item as often as the next, at least `fewest` in all."""
        copies = -(-fewest // len(items)) if items else 0
        return [self.shot(item) for _ in range(copies) for item in items]

    def learn(self, kind: str, data: bytes, octets: bytes) -> None:
        """Note how this server writes a success, to know it at a glance from the next phase on."""
        before, found, behind = data.partition(octets)
        if found and octets not in behind and len(wire.cut(data)[0]) == 1:
            self.learned[kind] = (before, behind)

    def renew(self) -> bool:
        """Take over what was learned; return whether shots made before are of no more use."""
        changed = any(self.forms[kind] != form for kind, form in self.learned.items())
        self.forms.update(self.learned)
        return changed

    @property
    def reading(self) -> int:
        """How many octets tell the plain answer to a bind from a longer one."""
        return sum(map(len, self.forms["bind"])) + 4


def message_id(request: bytes) -> bytes:
    """Return the content octets of a shot's message id."""
    start = 4 + (request[1] & 0x7F if request[1] >= 0x80 else 0)
    return request[start : start + 3]
