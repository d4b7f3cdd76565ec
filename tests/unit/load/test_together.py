# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shares, clocks and the start of several generators."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldaptune.load import agreed
from ldaptune.load.agreed import GAP_SECONDS, MOST_AHEAD, Agreed, offsets, problems_of, told
from ldaptune.load.clocks import Offset, offsets_of
from ldaptune.load.together import PATIENCE_SECONDS, UNCERTAINTY_LIMIT, agree, outcomes, share
from ldaptune.problems import LdaptuneError

PHASES = [{"name": "goal", "mode": "closed", "seconds": 2.0}, {"name": "fixed", "mode": "open", "seconds": 1.0}]
FOLDERS = [{"item": "g1", "path": "/run/a"}, {"item": "g2", "path": "/run/b"}, {"item": "g3", "path": "/run/c"}]
CLOCKS = {"g1": Offset(0.0, 0.01), "g2": Offset(40.0, 0.02), "g3": Offset(-1.5, 0.01)}


def shared(folders=FOLDERS, connections=8):
    return share(folders, connections, PHASES)


def started(**missing):
    """What the loop that started them gave; `missing` replaces what one said."""
    return [{"item": order, **missing.get(order["name"], {"pid": 7})} for order in shared()["orders"]]


def test_connections_and_accounts_are_shared_out_whole():
    orders = shared()["orders"]
    assert [order["connections"] for order in orders] == [3, 3, 2]
    assert [(order["part"], order["parts"]) for order in orders] == [(0, 3), (1, 3), (2, 3)]


def test_fewer_connections_than_generators_are_refused():
    with pytest.raises(LdaptuneError, match="a generator would have no connection"):
        shared(connections=2)


def test_where_one_is_out_nobody_is_sent():
    made = shared([*FOLDERS[:2], {"item": "g3", "unreachable": True, "msg": "no\n route"}])
    assert made["orders"] == []
    assert made["asked"]["lost"] == {"g3": "unreachable (no route)"}


def test_each_is_told_the_same_moment_by_its_own_clock():
    made = agree(shared()["asked"], started(), CLOCKS, 1000.0, 5)
    assert [start["start_at"] for start in made["starts"]] == ["1005.000000", "1045.000000", "1003.500000"]
    assert {start["seconds"] for start in made["starts"]} == {5 + 3.0 + 2 * GAP_SECONDS + PATIENCE_SECONDS}
    assert made["asked"]["generators"]["g2"]["offset_seconds"] == 40.0
    assert made["asked"]["lost"] == {}


LOST = [
    (started(g2={"msg": "cannot connect"}), CLOCKS, "it did not start (cannot connect)"),
    (started(), {"g1": CLOCKS["g1"], "g3": CLOCKS["g3"]}, "its clock could not be read"),
    (started(), {**CLOCKS, "g2": Offset(0.0, UNCERTAINTY_LIMIT + 0.1)}, "its clock is known to 0.35 s only"),
]


@pytest.mark.parametrize(("rows", "clocks", "said"), LOST)
def test_where_one_is_not_ready_the_others_are_called_off(rows, clocks, said):
    made = agree(shared()["asked"], rows, clocks, 1000.0)
    assert made["asked"]["lost"]["g2"].startswith(said)
    assert {start["start_at"] for start in made["starts"]} == {"off"}
    assert [start["name"] for start in made["starts"]] == [row["item"]["name"] for row in rows if "pid" in row]


def test_what_came_of_each():
    items = [{"name": name} for name in ("g1", "g2", "g3", "g4")]
    collected = [
        {"item": items[0], "result": {}},
        {"item": items[1], "ended": "died"},
        {"item": items[2], "unreachable": True, "msg": "gone"},
        {"item": items[3], "ended": "nobody said when to start"},
    ]
    told_rows = [{"item": item, "rc": 0} for item in items[:3]] + [{"item": items[3], "rc": 1, "msg": "no"}]
    assert outcomes(told_rows, collected) == {
        "g1": collected[0],
        "g2": collected[1],
        "g3": {"ended": "unreachable (gone)"},
        "g4": {"ended": "it could not be told when to start (no)"},
    }


TRIPS = st.lists(st.tuples(st.floats(0.001, 2), st.floats(0.001, 2)), min_size=1, max_size=8)


@given(st.floats(-1000, 1000), TRIPS)
def test_a_clock_is_where_the_best_look_says_within_half_its_trip(ahead, trips):
    now, looks = 1.7e9, []
    for there, back in trips:
        looks.append(("g", "%.6f %.6f\r\n" % (now, now + there + ahead)))
        now += there + back
    looks.append(("g", "%.6f 0" % now))
    found = offsets_of(looks)["g"]
    assert found.uncertainty == pytest.approx(min(map(sum, trips)) / 2, abs=1e-5)
    assert abs(found.seconds - ahead) <= found.uncertainty + 1e-5


def test_looks_that_failed_are_no_looks():
    assert offsets_of([]) == {}
    assert offsets_of([("g1", ""), ("g1", "1.5 %N"), ("g2", "1.0 2.0")]) == {}
    assert set(offsets_of([("g1", "1.0 1.1"), ("g2", "x"), ("g3", "1.2 9")])) == {"g1"}


def test_phases_begin_after_all_the_seconds_of_those_before(monkeypatch):
    assert offsets(PHASES) == [0.0, 2.0 + GAP_SECONDS]
    monkeypatch.setattr(agreed, "wall", lambda: 500.0)
    times = Agreed(500.3, PHASES)
    first, second = times.wait(0, lambda: False), times.wait(1, lambda: True)
    assert second - first == int(1e9 * offsets(PHASES)[1])
    assert Agreed(0.0, PHASES).wait(1, lambda: False) == 0


@pytest.mark.parametrize(("ahead", "fine"), [(0.5, True), (MOST_AHEAD, True), (-0.1, False), (MOST_AHEAD + 1, False)])
def test_a_start_that_is_past_or_far_is_refused(monkeypatch, ahead, fine):
    monkeypatch.setattr(agreed, "wall", lambda: 1000.0)
    assert (problems_of(1000.0 + ahead) == []) is fine
    assert problems_of(0) == []


def test_a_start_that_went_by_meanwhile_is_refused(monkeypatch):
    monkeypatch.setattr(agreed, "wall", lambda: 1000.0)
    with pytest.raises(LdaptuneError, match="went by"):
        Agreed(999.0, PHASES).refuse_past()
    Agreed(1001.0, PHASES).refuse_past()
    Agreed(0.0, PHASES).refuse_past()


@pytest.mark.parametrize(
    ("text", "said"), [("off\n", "called off"), ("soon\n", "no time"), ("990\n", "cannot be kept")]
)
def test_what_is_told_and_is_no_start(monkeypatch, tmp_path, text, said):
    monkeypatch.setattr(agreed, "wall", lambda: 1000.0)
    path = tmp_path / "start"
    path.write_text(text)
    with pytest.raises(LdaptuneError, match=said):
        told(str(path), lambda: False)
    assert not path.exists()


def test_a_start_is_told_by_a_whole_line(monkeypatch, tmp_path):
    monkeypatch.setattr(agreed, "wall", lambda: 1000.0)
    path = tmp_path / "start"
    path.write_text("100")
    answers = iter([False, False, False])

    def stopped():
        if next(answers, None) is None:
            path.write_text("1001.25\n")
        return False

    assert told(str(path), stopped) == 1001.25
    assert told(str(path), lambda: True) == 0
    monkeypatch.setattr(agreed, "MOST_WAIT", 0)
    with pytest.raises(LdaptuneError, match="nobody said"):
        told(str(path), lambda: False)
