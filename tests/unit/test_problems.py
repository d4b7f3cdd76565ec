# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How refusals are told and collected."""

from __future__ import annotations

import json

from ldaptune.problems import LdaptuneError, collect_problems, plain, problem, render


def test_render_leaves_empty_parts_out() -> None:
    assert render(problem("no such lever")) == "no such lever"
    text = render(
        problem("no such lever", where="throughput.yml", found="slapd.thread", wanted="slapd.threads", do="Fix it.")
    )
    assert text == "throughput.yml: no such lever (found slapd.thread; wanted slapd.threads). Fix it."


def test_error_carries_all_its_problems() -> None:
    error = LdaptuneError([problem("one"), problem("two")])
    assert str(error) == "one\ntwo"
    assert LdaptuneError(problem("one")).problems == [problem("one")]


def test_collect_keeps_order_and_names_each_once() -> None:
    results = [{"problems": [problem("a"), problem("b")]}, {"skipped": True}, {"problems": [problem("a")]}]
    assert collect_problems(results) == [problem("a"), problem("b")]


def test_a_problem_from_a_loop_over_hosts_is_named_by_the_host_unless_all_have_it() -> None:
    results = [{"problems": [problem("a")]}, {"item": "load2", "problems": [problem("a"), problem("b", where="uri")]}]
    assert collect_problems(results) == [problem("a"), problem("b", where="load2: uri")]


def test_a_module_that_broke_is_a_problem() -> None:
    crashed = {"msg": "MODULE FAILURE", "module_stderr": "Traceback\nKeyError: 'x'\n", "rc": 1}
    (found,) = collect_problems([crashed])
    assert found["what"] == "a check broke instead of answering"
    assert "KeyError" in found["found"]
    assert collect_problems([{"failed": True, "msg": "no"}])[0]["found"] == "no"
    assert collect_problems([{"changed": False}]) == []


def test_bytes_that_are_no_utf8_reach_nobody_as_surrogates() -> None:
    path = "/etc/\udce9"
    told = LdaptuneError(problem("wrong", where=path, found="-F %s" % path))
    assert "/etc/\ufffd" in str(told)
    json.dumps([told.problems, plain({path: [path, "\ud800", ("x", 1, None)]})], ensure_ascii=False).encode("utf-8")
    assert plain({"a": ["Lu\u010di\u0107", 1.5, True, None]}) == {"a": ["Lu\u010di\u0107", 1.5, True, None]}
