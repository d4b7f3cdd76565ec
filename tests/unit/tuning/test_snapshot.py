# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots: durable, private, typed, bound to their host, refused when damaged."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest
from ldaptune import durable
from ldaptune.problems import LdaptuneError
from ldaptune.snapshot import Identity, Store, remember
from ldaptune.tuning import applied, audited, reverted


def kept(store, name="p"):
    snapshot = store.create({"name": name, "digest": "d"})
    seen = {"record": {"values": None}, "configured": None, "effective": 16}
    remember(snapshot, snapshot, "slapd.threads", seen, None)
    store.save(snapshot)
    return snapshot


def test_private_from_the_first_byte(store, tmp_path):
    old = os.umask(0)
    try:
        snapshot = kept(store)
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(store.path(snapshot["id"])).st_mode) == 0o600
    for folder in (store.snapshots, store.root, str(tmp_path / "state")):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_synced_before_its_name_appears(store, monkeypatch):
    order = []
    sync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("sync"), sync(fd))[1])
    monkeypatch.setattr(os, "rename", lambda a, b: (order.append("rename"), rename(a, b))[1])
    store.save(kept(store))
    assert order[-3:] == ["sync", "rename", "sync"]


def test_a_write_that_fails_leaves_the_old_one(store, monkeypatch):
    snapshot = kept(store)

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LdaptuneError, match="No space left"):
        store.save(dict(snapshot, profile={}))
    monkeypatch.undo()
    assert store.load(snapshot["id"]) == snapshot
    assert os.listdir(store.snapshots) == [snapshot["id"] + ".json"]


def test_absent_stays_absent(store):
    entry = store.load(kept(store)["id"])["levers"]["slapd.threads"]
    assert entry["before"] is None and entry["record"] == {"values": None}


@pytest.mark.parametrize("damage", ["cut", "edited", "empty", "list", "no checksum"])
def test_a_damaged_snapshot_is_refused_and_nothing_is_changed(
    target, server, store, profile, consent, damage, tree, tmp_path
):
    applied(target, profile({"slapd.threads": 32}), consent=consent)
    path = store.path(store.names()[0])
    with open(path) as stream:
        text = stream.read()
    data = json.loads(text)
    broken = {
        "cut": text[: len(text) // 2],
        "edited": text.replace('"before": null', '"before": 99'),
        "empty": "",
        "list": "[]",
        "no checksum": json.dumps({key: value for key, value in data.items() if key != "checksum"}),
    }[damage]
    assert broken != text
    with open(path, "w") as stream:
        stream.write(broken)
    files, events = tree(tmp_path), list(server.events)
    for call in (
        lambda: reverted(target),
        lambda: applied(target, profile({"slapd.threads": 64}), consent=consent),
        lambda: audited(target, profile({})),
    ):
        with pytest.raises(LdaptuneError) as caught:
            call()
        assert path in str(caught.value) and "nothing was changed" in str(caught.value)
    now = tree(tmp_path)
    now.pop(next((name for name in now if name.endswith("/lock") and name not in files), ""), None)
    assert now == files and server.events == events


@pytest.mark.parametrize(
    ("identity", "word"),
    [
        (Identity("other machine", "host2", "/etc/slapd.d", ["dc=x"]), "host"),
        (Identity("machine", "host1", "/etc/slapd.d", ["dc=y"]), "directory"),
        (Identity("machine", "host1", "/etc/slapd.d", ["dc=x", "dc=y"]), "directory"),
    ],
)
def test_another_host_or_directory_is_refused(store, tmp_path, identity, word):
    kept(store)
    other = Store(str(tmp_path / "state"), identity)
    with pytest.raises(LdaptuneError) as caught:
        other.origin()
    assert "another %s" % word in str(caught.value)


def test_another_slapd_of_the_same_host_has_its_own(store, tmp_path):
    kept(store)
    assert Store(str(tmp_path / "state"), Identity("machine", "host1", "/etc/b", ["dc=x"])).origin() is None


def test_a_later_version_is_refused(store):
    snapshot = kept(store)
    store.save(dict(snapshot, schema=2))
    with pytest.raises(LdaptuneError, match="another version"):
        store.load(snapshot["id"])


def test_the_oldest_open_one_is_the_way_home_even_if_the_clock_goes_back(store, monkeypatch):
    first = kept(store, "one")
    assert first["kind"] == "origin"
    second = kept(store, "two")
    assert second["kind"] == "step" and second["id"] > first["id"]
    assert store.origin()["id"] == first["id"]
    store.close(first, "reverted")
    assert store.origin()["id"] == second["id"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "000001-20200101T000000Z", "x"])
def test_a_wrong_name_lists_what_there_is(store, name):
    snapshot = kept(store)
    with pytest.raises(LdaptuneError) as caught:
        store.load(name)
    assert snapshot["id"] in str(caught.value)


def test_one_writer_at_a_time(store):
    with store.lock():
        script = "import sys; sys.path[:0] = %r; from ldaptune import durable; print(durable.try_lock(%r))" % (
            sys.path,
            os.path.join(store.root, "lock"),
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "None"
        with pytest.raises(durable.Busy, match="another ldaptune run"), store.lock(seconds=0):
            pass
    with store.lock(seconds=0):
        pass
