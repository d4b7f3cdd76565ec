# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host forbids, found before anything is written."""

from __future__ import annotations

import pytest
from ldaptune.levers import mdb
from ldaptune.levers.registry import behaviour

MIB = 1 << 20


def problems(ctx, key, wanted, **seen):
    lever = behaviour(key)
    found = dict(lever.observe(ctx), **seen)
    told = lever.check(ctx, found, wanted)
    assert ctx.directory.sent == []
    return " / ".join(item["what"] for item in told)


@pytest.fixture
def used(ctx):
    """Set how much of the map is in use."""

    def put(size):
        ctx.directory.figures["pages_used"] = size // 4096

    return put


def test_a_map_is_never_made_smaller_than_its_content_and_some_room(ctx, used):
    used(80 * MIB)
    assert problems(ctx, "database.max_size", 100 * MIB, effective=1024 * MIB) == ""
    assert "too small for what is in it" in problems(ctx, "database.max_size", 99 * MIB, effective=1024 * MIB)
    assert "too small for what is in it" in problems(ctx, "database.max_size", 10 * MIB, effective=1024 * MIB)


def test_without_a_monitor_no_map_is_made_smaller(ctx):
    ctx.directory.figures = {}
    assert "needs cn=monitor" in problems(ctx, "database.max_size", 100 * MIB, effective=1024 * MIB)


def test_a_map_the_disk_cannot_hold_is_refused(ctx, monkeypatch):
    monkeypatch.setattr(mdb, "free_bytes", lambda folder: 500 * MIB)
    monkeypatch.setattr(mdb, "size_on_disk", lambda path: 100 * MIB)
    assert problems(ctx, "database.max_size", 600 * MIB, effective=100 * MIB) == ""
    assert "disk would be full" in problems(ctx, "database.max_size", 601 * MIB, effective=100 * MIB)
    # What is there already is not refused, however full the disk is.
    assert problems(ctx, "database.max_size", 1024 * MIB, effective=1024 * MIB) == ""


def test_a_map_without_address_space_is_refused(ctx, monkeypatch):
    monkeypatch.setattr(mdb, "free_bytes", lambda folder: None)
    monkeypatch.setattr(mdb, "address_space", lambda pid: (300 * MIB, 400 * MIB))
    assert problems(ctx, "database.max_size", 200 * MIB, effective=100 * MIB) == ""
    assert "address space" in problems(ctx, "database.max_size", 201 * MIB, effective=100 * MIB)


def test_an_unlimited_address_space_is_read_from_the_process(ctx):
    used, limit = mdb.address_space(ctx.slapd.pid)
    assert used > MIB
    assert limit is None or limit > used


def test_a_map_that_filled_up_stays_and_says_so(ctx, used, monkeypatch):
    lever = behaviour("database.max_size")
    ctx.directory.entries[ctx.database["dn"]]["olcDbMaxSize"] = [str(100 * MIB)]
    monkeypatch.setattr(mdb, "map_state", lambda ctx: (100 * MIB, "r--s"))
    record = lever.observe(ctx)["record"]
    lever.write(ctx, 200 * MIB)
    sent = len(ctx.directory.sent)
    monkeypatch.setattr(mdb, "map_state", lambda ctx: (200 * MIB, "r--s"))
    used(81 * MIB)
    (remark,) = lever.restore(ctx, record)
    assert "stays at 200 MiB" in remark
    assert "80 %" in remark
    assert len(ctx.directory.sent) == sent
    used(80 * MIB)
    assert lever.restore(ctx, record) == []
    assert ctx.directory.entries[ctx.database["dn"]]["olcDbMaxSize"] == [str(100 * MIB)]


def test_a_map_of_unknown_use_stays(ctx, monkeypatch):
    lever = behaviour("database.max_size")
    monkeypatch.setattr(mdb, "map_state", lambda ctx: (10 * MIB, "r--s"))
    record = lever.observe(ctx)["record"]
    lever.write(ctx, 200 * MIB)
    monkeypatch.setattr(mdb, "map_state", lambda ctx: (200 * MIB, "r--s"))
    ctx.directory.figures = {}
    assert "unknown number" in lever.restore(ctx, record)[0]


def test_without_monitor_the_data_file_tells_what_is_used_at_most(ctx, monkeypatch, tmp_path):
    lever = behaviour("database.max_size")
    data = tmp_path / "data.mdb"
    data.touch()
    ctx.directory.entries[ctx.database["dn"]]["olcDbMaxSize"] = [str(100 * MIB)]
    monkeypatch.setattr(mdb, "map_state", lambda ctx: (100 * MIB, "r--s"))
    record = lever.observe(ctx)["record"]
    lever.write(ctx, 200 * MIB)
    monkeypatch.setattr(mdb, "map_state", lambda ctx: (200 * MIB, "r--s"))
    ctx.directory.figures = {}
    with open(data, "r+b") as stream:
        stream.truncate(81 * MIB)
    assert "stays at 200 MiB" in lever.restore(ctx, record)[0]
    with open(data, "r+b") as stream:
        stream.truncate(80 * MIB)
    assert lever.restore(ctx, record) == []
    assert ctx.directory.entries[ctx.database["dn"]]["olcDbMaxSize"] == [str(100 * MIB)]


@pytest.mark.parametrize(("length", "effective"), [(4096 * 300, 4096 * 300 - 1), (4096 * 299, 4096 * 299)])
def test_a_size_between_two_pages_is_in_force(ctx, monkeypatch, length, effective):
    ctx.directory.entries[ctx.database["dn"]]["olcDbMaxSize"] = [str(4096 * 300 - 1)]
    monkeypatch.setattr(mdb, "map_state", lambda ctx: (length, "r--s"))
    assert behaviour("database.max_size").observe(ctx)["effective"] == effective


@pytest.mark.parametrize(("wanted", "refused"), [(31, True), (32, False), (126, False)])
def test_readers_are_as_many_as_threads_and_some(ctx, wanted, refused):
    assert bool(problems(ctx, "database.max_readers", wanted)) is refused


@pytest.mark.parametrize(("wanted", "refused"), [(110, False), (111, True)])
def test_threads_are_no_more_than_readers_allow(ctx, wanted, refused):
    assert bool(problems(ctx, "slapd.threads", wanted)) is refused


def test_what_the_same_plan_sets_counts(ctx):
    ctx.wanted = {"slapd.threads": 500, "database.max_readers": 516}
    assert problems(ctx, "slapd.threads", 500) == ""
    assert problems(ctx, "database.max_readers", 516) == ""
    assert "fewer reader slots" in problems(ctx, "database.max_readers", 515)


def test_more_slots_than_asked_for_are_fine_fewer_are_not(ctx):
    lever = behaviour("database.max_readers")
    ctx.directory.entries[ctx.database["dn"]]["olcDbMaxReaders"] = ["100"]
    assert lever.same(lever.observe(ctx), 100)
    ctx.directory.figures["readers_max"] = 99
    assert not lever.same(lever.observe(ctx), 100)


def test_a_stored_zero_is_the_default(ctx):
    lever = behaviour("database.max_readers")
    ctx.directory.entries[ctx.database["dn"]]["olcDbMaxReaders"] = ["0"]
    assert lever.same(lever.observe(ctx), 126)


@pytest.mark.parametrize(("wanted", "refused"), [(4, False), (5, True)])
def test_queues_are_no_more_than_cpus(ctx, wanted, refused):
    assert bool(problems(ctx, "slapd.thread_queues", wanted)) is refused


@pytest.mark.parametrize(
    ("flags", "refused"),
    [
        (["nordahead"], False),
        (["mapasync"], True),
        (["mapasync", "nosync", "writemap"], True),
        (["mapasync", "writemap"], False),
        ([], False),
    ],
)
def test_flags_that_mean_nothing_together(ctx, flags, refused):
    assert bool(problems(ctx, "database.env_flags", flags)) is refused


def test_the_other_attribute_of_the_same_flag_is_seen(ctx):
    ctx.directory.entries[ctx.database["dn"]]["olcDbNoSync"] = ["TRUE"]
    assert "olcDbNoSync" in problems(ctx, "database.env_flags", ["nordahead"])
    assert problems(ctx, "database.env_flags", ["nordahead", "nosync"]) == ""


def test_writemap_needs_the_disk_for_the_whole_map(ctx, monkeypatch):
    monkeypatch.setattr(mdb, "map_state", lambda ctx: (500 * MIB, "r--s"))
    monkeypatch.setattr(mdb, "free_bytes", lambda folder: 400 * MIB)
    monkeypatch.setattr(mdb, "size_on_disk", lambda path: 99 * MIB)
    assert "slapd is killed" in problems(ctx, "database.env_flags", ["writemap"])
    monkeypatch.setattr(mdb, "size_on_disk", lambda path: 100 * MIB)
    assert problems(ctx, "database.env_flags", ["writemap"]) == ""


def test_writemap_is_seen_in_the_mapping(ctx, monkeypatch):
    lever = behaviour("database.env_flags")
    ctx.directory.entries[ctx.database["dn"]]["olcDbEnvFlags"] = ["writemap", "nosync"]
    monkeypatch.setattr(mdb, "map_state", lambda ctx: (500 * MIB, "r--s"))
    found = lever.observe(ctx)
    assert found["effective"] == ["nosync"]
    assert not lever.same(found, ["nosync", "writemap"])


def test_search_stacks_that_take_half_the_memory(ctx):
    assert problems(ctx, "database.search_stack", 512) == ""
    ctx.directory.pool["max"] = 17
    assert "half of the memory" in problems(ctx, "database.search_stack", 512)
