# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The face of tuning_profile: options, refusals as data, nothing secret in what it returns."""

from __future__ import annotations

import pytest

RESOLVED = {"name": "p", "digest": "d", "levers": {}, "excluded": [], "expect": {}}


@pytest.fixture
def opened(run_module, monkeypatch):
    """Run the module with a target that only notes how it was opened and what was asked."""
    calls = []

    class Nothing:
        ctx = None

        def __enter__(self):
            return self

        def __exit__(self, *unused):
            calls.append("closed")

    def run(arguments, outcome=None, **how):
        run_module("refuse", {"results": []})  # makes ansible.modules see library/
        from ansible.modules import tuning_profile as module

        target = Nothing()
        target.ctx = target
        monkeypatch.setattr(module, "open_target", lambda server: calls.append(server) or target)

        def work(name):
            def note(*positional, **named):
                calls.append((name, positional[1:], named))
                if isinstance(outcome, Exception):
                    raise outcome
                return {"changed": False, "notes": [], "problems": [], **(outcome or {})}

            return note

        for name in ("applied", "audited", "reverted", "adopted"):
            monkeypatch.setattr(module, name, work(name))
        return run_module("tuning_profile", arguments, **how), calls

    return run


def test_every_option_reaches_the_core_typed(opened):
    arguments = {
        "state": "applied",
        "resolved": RESOLVED,
        "consent": "security,restart",
        "exclude": ["slapd.threads"],
        "watch_seconds": "90",
        "owner": "run-1",
        "server": {"suffix": "dc=x", "starttls": "no", "timeout": "5"},
    }
    result, calls = opened(arguments, check=True)
    assert not result.get("failed"), result
    server, (name, positional, named), closed = calls
    assert server["suffix"] == "dc=x" and server["starttls"] is False and server["timeout"] == 5
    assert server["state_dir"] == "/var/lib/ldaptune" and server["service"] == "slapd"
    assert name == "applied" and positional == (RESOLVED,) and closed == "closed"
    assert named == {
        "consent": ["security", "restart"],
        "exclude": ["slapd.threads"],
        "watch_seconds": 90,
        "check": True,
        "owner": "run-1",
    }


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("audited", ("audited", ({"levers": {}}, []), {})),
        ("reverted", ("reverted", ("000001-x", False, "run-1"), {})),
        ("adopted", ("adopted", (False, "run-1"), {})),
    ],
)
def test_each_state_has_its_own_work(opened, state, expected):
    _, calls = opened({"state": state, "snapshot": "000001-x", "owner": "run-1"})
    assert calls[1] == expected


def test_a_refusal_is_text_and_data_and_keeps_the_plan(opened):
    from ansible.module_utils.ldaptune.problems import problem
    from ansible.module_utils.ldaptune.tuning import Refused

    found = problem("it needs a consent", where="tuning_consent", found="none", wanted="security", do="Add it.")
    refused = Refused([found, problem("and more")], {"changed": False, "plan": [{"lever": "slapd.threads"}]})
    result, _ = opened({"resolved": RESOLVED}, outcome=refused)
    assert result["failed"] and result["problems"][0] == found and len(result["problems"]) == 2
    assert result["msg"].splitlines()[0] == (
        "tuning_consent: it needs a consent (found none; wanted security). Add it."
    )
    assert result["plan"] == [{"lever": "slapd.threads"}]


def test_notes_are_warnings(opened):
    result, _ = opened({"state": "audited"}, outcome={"notes": ["an interrupted measurement"]})
    assert "an interrupted measurement" in str(result["warnings"])


def test_applying_nothing_is_refused(run_module):
    result = run_module("tuning_profile", {"state": "applied"})
    assert result["failed"] and "resolved" in result["msg"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"state": "tuned"}, "applied, audited, reverted, adopted"),
        ({"server": {"sufix": "dc=x"}}, "sufix"),
        ({"watch_seconds": "soon"}, "watch_seconds"),
        ({"resolved": "throughput"}, "resolved"),
    ],
)
def test_nonsense_is_refused_by_name(run_module, arguments, word):
    result = run_module("tuning_profile", arguments)
    assert result["failed"] and word in result["msg"]


def test_a_server_that_is_not_there_is_one_clear_problem(run_module, tmp_path):
    server = {"instance": str(tmp_path), "state_dir": str(tmp_path / "state")}
    for state in ("applied", "audited", "reverted", "adopted"):
        result = run_module("tuning_profile", {"state": state, "server": server, "resolved": RESOLVED})
        assert result["failed"] and len(result["problems"]) == 1 and "Traceback" not in result["msg"]
        assert result["problems"][0]["do"]
    assert not (tmp_path / "state").exists()
