# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expressions: native results from a closed set of facts, nothing else in reach."""

from __future__ import annotations

import pytest
from ldaptune.profile.expression import FACTS, check, evaluate
from ldaptune.profile.values import ValueRefused

HOST = {
    "host": {"name": "h", "cpus": 8, "memory_bytes": 8 << 30, "numa_nodes": 2, "python": "3.11"},
    "slapd": {"threads": 16, "version": "2.5.13"},
    "database": {"size_bytes": 1000, "map_size_bytes": 1 << 30, "used_bytes": None},
}


@pytest.mark.parametrize("text, result", [
    ("2 * host.cpus", 16), ("host.cpus - 1", 7), ("host.cpus / 2", 4.0), ("host.cpus // 3", 2), ("host.cpus % 3", 2),
    ("[2 * host.cpus, 12] | min", 12), ("[host.cpus, slapd.threads] | max", 16), ("(host.cpus / 3) | round | int", 3),
    ("4 if host.cpus > 4 else 2", 4), ("host['cpus']", 8), ("[host.cpus, 1] | sum", 9), ("'1 GiB'", "1 GiB"),
    ("'0-' ~ (host.cpus - 1)", "0-7"), ("host.memory_bytes // 4", 2 << 30),
    ("  host.cpus  ", 8), ("4 if host.cpus is divisibleby 2 else 2", 4), ("7", 7), ("host.cpus > 4 and true", True),
])
def test_native_results(text, result):
    found = evaluate(check(text), HOST)
    assert found == result
    assert type(found) is type(result)


@pytest.mark.parametrize("text, hint", [
    ("host.cpu", "There is no fact host.cpu. Did you mean host.cpus?"),
    ("hosts.cpus", "There is no fact hosts.cpus. Did you mean host.cpus?"),
    ("host.name", "There is no fact host.name. Did you mean host."),
    ("slapd.version", "There is no fact slapd.version. Did you mean slapd.threads?"),
    ("host", "There is no fact host. Did you mean host.cpus?"),
    ("cpus", "There is no fact cpus. Did you mean host.cpus?"),
    ("host['cpu']", "There is no fact host.cpu. Did you mean host.cpus?"),
    ("host[slapd.threads]", "There is no fact host.?"),
    ("host.cpus.real", "There is no fact ?.real."),
    ("''.__class__", "There is no fact ?.__class__."),
    ("range(5)", "Compute with operators"),
    ("max(host.cpus, 4)", "Write [a, b] | min for a minimum"),
    ("[1]|map('abs')|list", "There is no filter"),
    ("host.cpus | default(4)", "There is no filter default."),
    ("2 *", "Jinja says:"),
    ("{{ host.cpus }}", "expr needs no braces"),
    ("1 }} x {{ 2", "expr needs no braces"),
    ("host.cpus is even_ish", "Jinja says: No test named 'even_ish'"),
    ("(1).__class__", "There is no fact ?.__class__."),
    ("lookup('env', 'HOME')", "Compute with operators"),
    ("[1, 2][slapd.threads]", None),
])
def test_refused_before_any_host(text, hint):
    if hint is None:
        check(text)
        return
    with pytest.raises(ValueRefused) as refused:
        check(text)
    assert hint in refused.value.do
    assert refused.value.found == '"%s"' % text


@pytest.mark.parametrize("raw", [None, 4, True, "", " ", ["host.cpus"], {}])
def test_no_text(raw):
    with pytest.raises(ValueRefused):
        check(raw)


@pytest.mark.parametrize("text, hint", [
    ("1 // (host.cpus - 8)", "It fails: integer division or modulo by zero"),
    ("host.cpus + 'a'", "It fails: unsupported operand"),
    ("9 ** 9 ** 9 ** 9", "It fails: ** works on numbers only, and ** not at all"),
    ("'a' * 10 ** 10", "It fails: ** works on numbers only"),
    ("'a' * 10000000000", "It fails: * works on numbers only"),
    ("[1] * 10000000000", "It fails: * works on numbers only"),
    ("'%1000000000d' % 1", "It fails: % works on numbers only"),
    ("4 if host.cpus > 100", "It gives none: is an else missing?"),
    ("[] | min", "It gives none"),
    ("2 * database.used_bytes", "This host does not tell database.used_bytes"),
    ("[1, 2][slapd.threads]", "It gives none"),
])
def test_refused_on_this_host(text, hint):
    with pytest.raises(ValueRefused) as refused:
        evaluate(check(text), HOST)
    assert hint in refused.value.do
    assert refused.value.found == '"%s"' % text


def test_missing_groups_of_facts_are_told():
    with pytest.raises(ValueRefused) as refused:
        evaluate("database.size_bytes + host.cpus", {"host": {"cpus": 2}, "database": None})
    assert refused.value.do == "This host does not tell database.size_bytes"


def test_every_fact_can_be_named():
    for fact in FACTS:
        assert check(fact) == fact
