# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a client does for one operation where that takes more than one step, or may not be done at once.

A client is busy from `begin` until it calls `loop.ended`. A failure is counted where it shows; a success by the loop.
"""

from __future__ import annotations

from typing import List

from . import wire
from .channel import Channel, Waiting
from .stepped import Client, SteppedLoop
from .workload import Item

SIZE_LIMIT_EXCEEDED = 4


class Single(Client):
    """One operation at a time; several of them may share a channel."""

    def __init__(self, loop: SteppedLoop, channel: Channel) -> None:
        super().__init__(loop, [channel])

    def act(self, item: Item, now: int) -> None:
        self.ask(self.channels[0], item, item.tail, now)

    def answered(self, waiting: Waiting, now: int) -> None:
        self.loop.ended(self, waiting.ended_well, now)


class Pair(Client):
    """Find an entry on one connection, then bind as it on another."""

    def act(self, item: Item, now: int) -> None:
        self.ask(self.channels[0], item, item.tail, now)

    def answered(self, waiting: Waiting, now: int) -> None:
        self.loop.tally.part(waiting.item.kind, now - waiting.sent)
        then = waiting.item.then
        if waiting.ended_well and then is not None:
            self.ask(self.channels[1], then, then.tail, now)
        else:
            self.loop.ended(self, waiting.ended_well, now)


class Pages(Client):
    """A subtree page by page: a page is an operation, and the cookie of one leads to the next."""

    cookie = b""
    #: Entries of the pass so far.
    seen = 0

    def act(self, item: Item, now: int) -> None:
        tail = item.tail + wire.paged_results(self.loop.stepping.page_size, self.cookie)
        self.ask(self.channels[0], item, tail, now)

    def answered(self, waiting: Waiting, now: int) -> None:
        tally = self.loop.tally
        tally.entries += waiting.found
        self.seen += waiting.found
        cookie = wire.paged_cookie(waiting.last) if waiting.ended_well else b""
        if cookie is None:
            tally.remark("paged_results", "the server ignored the control, all entries came at once")
        elif not waiting.ended_well and wire.result(wire.message(waiting.last).body).code == SIZE_LIMIT_EXCEEDED:
            # It comes without a control, in the middle of a pass, and limits what this identity may ever see.
            tally.remark("paged_results", "a size limit applies to this identity: it came after %d entries" % self.seen)
        self.cookie = cookie or b""
        self.seen = self.seen if self.cookie else 0
        if self.cookie and self.loop.whole:
            self.loop.tally.fresh.append(now - waiting.sent)
            self.act(waiting.item, now)
        else:
            self.loop.ended(self, waiting.ended_well, now)


#: How many kept connections a client of each sort has.
CHANNELS = {"connect": 0, "single": 1, "pages": 1, "pair": 2}


def kept(loop: SteppedLoop, channels: List[Channel]) -> List[Client]:
    """Return the clients that use these new channels."""
    stepping = loop.stepping
    if stepping.clients == "pair":
        return [Pair(loop, channels)]
    if stepping.clients == "pages":
        return [Pages(loop, channels)]
    return [Single(loop, channels[0]) for _ in range(stepping.window)]
