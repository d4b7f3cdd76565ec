# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is this the right answer? The same for every way of sending."""

from __future__ import annotations

from typing import Any

from . import wire
from .names import normal_dn
from .tally import Tally
from .workload import ANY, Item

RESPONSE_OF = {"bind": wire.BIND_RESPONSE, "search": wire.SEARCH_DONE}
#: What an operation's `entries` become when it ended as it was to.
SUCCESS = -1


class Lost(Exception):
    """The connection is of no more use; `name` is the class of failure for what was outstanding on it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def open_message(content: bytes, tally: Tally) -> wire.Message:
    """Return the message; raises Lost for the server's notice that it closes the connection, and DecodeError."""
    answer = wire.message(content)
    if wire.is_notice_of_disconnection(answer):
        said = wire.result(answer.body)
        tally.remark("notice_of_disconnection", "server said %s: %s" % (wire.result_name(said.code), said.text))
        raise Lost("notice_of_disconnection")
    return answer


def take(state: Any, item: Item, answer: wire.Message, tally: Tally) -> bool:
    """Take one answer to an item's operation; return whether the operation has ended.

    `state` has the numbers of entries, wrong ones and references so far. A failure is counted in `tally`; a success is
    told by `entries` being SUCCESS, since its time is the caller's.
    """
    if item.kind == "search" and answer.tag == wire.SEARCH_ENTRY:
        state.entries += 1
        if item.dn and not _is_expected(wire.entry_dn(answer.body), item):
            state.wrong += 1
        return False
    if item.kind == "search" and answer.tag == wire.SEARCH_REFERENCE:
        state.references += 1
        return False
    if answer.tag != RESPONSE_OF[item.kind]:
        raise wire.DecodeError("an answer of type 0x%02x to a %s" % (answer.tag, item.kind))
    found = wire.result(answer.body)
    name = wire.result_name(found.code)
    if found.code != item.code:
        text = " ".join(filter(None, (item.name if tally.naming else "", found.text, *found.referrals)))
        if item.code:
            text = "%s was wanted: %s" % (wire.result_name(item.code), text)
        if found.code:
            tally.refuse(name)
        else:
            name = "unexpected_success"
            tally.fail(name)
        tally.remark(name, text)
    elif item.kind == "search" and not item.code and not _complete(state, item):
        tally.fail("reference" if state.references and not state.entries else "wrong_result")
    elif item.kind == "bind" and not item.code and answer.controls and wire.must_change(answer.controls):
        # It may do nothing but change the password: for an application that is no login.
        tally.fail("must_change_password")
        tally.remark("must_change_password", item.name)
    else:
        if item.code:
            tally.expect(name)
        state.entries = SUCCESS
    return True


def _complete(state: Any, item: Item) -> bool:
    return not state.wrong and item.entries in (ANY, state.entries)


def _is_expected(dn: bytes, item: Item) -> bool:
    return normal_dn(dn.decode("utf-8", "backslashreplace")) == normal_dn(item.name)
