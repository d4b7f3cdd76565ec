# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watchdog's decisions, without its process; that one is tried on a real slapd."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile

import pytest
from ldaptune import durable, payload, watchdog, watchdog_process
from ldaptune.problems import LdaptuneError
from ldaptune.tuning import adopted, applied, audited, reverted
from ldaptune.watchdog_process import Watchdog

START = watchdog._start
WANTED = {"slapd.log_level": 32768, "slapd.threads": 32}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(watchdog_process, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(watchdog_process, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(watchdog, "_start", lambda store, token: 4711)


@pytest.fixture
def tuned(target, profile, consent):
    applied(target, profile(WANTED), consent=consent)
    return target


def armed(target, seconds):
    """Record a measurement with a deadline so far away; return its token."""
    with target.store.lock():
        watchdog.arm(target.store, {"suffix": "dc=x"}, "p", seconds)
    return target.store.active()["token"]


def log(store):
    with open(store.watchdog_log) as stream:
        return stream.read()


def test_at_the_deadline_it_restores_as_found_and_ends(tuned, server, store):
    asked = []
    token = armed(tuned, -1)
    Watchdog(store, token, lambda how: asked.append(how) or tuned).run()
    assert server.values.get("slapd.log_level") == 256 and "slapd.threads" not in server.values
    assert asked == [{"suffix": "dc=x"}] and server.events[-1] == "close"
    assert store.active() is None and store.origin() is None
    assert "restoring as found" in log(store) and log(store).rstrip().endswith("home")


def test_a_full_disk_takes_the_log_and_not_the_way_home(tuned, server, store):
    token = armed(tuned, -1)
    os.symlink("/dev/full", store.watchdog_log)
    Watchdog(store, token, lambda how: tuned).run()
    assert server.values.get("slapd.log_level") == 256 and "slapd.threads" not in server.values


@pytest.mark.parametrize("change", ["gone", "another token"])
def test_disarmed_it_touches_nothing(tuned, server, store, change):
    token = armed(tuned, -1)
    store.set_active(None if change == "gone" else dict(store.active(), token="other"))
    Watchdog(store, token, lambda how: pytest.fail("must not connect")).run()
    assert server.values["slapd.threads"] == 32


def test_renewed_in_time_it_goes_on_waiting(tuned, store):
    token = armed(tuned, -1)
    dog = Watchdog(store, token, lambda how: pytest.fail("must not connect"))
    assert dog.due()
    store.set_active(dict(store.active(), deadline_monotonic=time.monotonic() + 100))
    assert not dog.due()


def test_renewed_while_it_reached_for_the_lock_it_goes_on_waiting(tuned, server, store):
    token = armed(tuned, -1)
    looks = []

    class Late(Watchdog):
        def mine(self):
            looks.append(1)
            if len(looks) == 2:
                store.set_active(dict(store.active(), deadline_monotonic=time.monotonic() + 0.05))
            if len(looks) == 4:
                store.set_active(None)
            return super().mine()

    Late(store, token, lambda how: pytest.fail("must not connect")).run()
    assert server.values["slapd.threads"] == 32


def test_a_failed_apply_that_was_undone_needs_no_watchdog(target, server, store, profile, consent, refuse):
    server.breaks["slapd.threads"] = refuse()
    with pytest.raises(LdaptuneError):
        applied(target, profile(WANTED), consent=consent, watch_seconds=100)
    assert store.active() is None


def test_a_module_that_holds_the_lock_is_waited_for(tuned, store, server):
    token = armed(tuned, -1)
    lock = os.path.join(store.root, "lock")
    handle = durable.try_lock(lock)
    looks = []

    class Once(Watchdog):
        def mine(self):
            looks.append(1)
            if len(looks) == 3:
                assert server.values["slapd.threads"] == 32
                os.close(handle)
            return super().mine()

    Once(store, token, lambda how: tuned).run()
    assert "slapd.threads" not in server.values


def test_a_server_that_does_not_answer_is_tried_again_and_given_up(tuned, store, server, refuse, monkeypatch):
    monkeypatch.setattr(watchdog_process, "TRIES", 3)
    token = armed(tuned, -1)
    calls = []

    def absent(how):
        calls.append(1)
        raise refuse("no slapd is running")

    Watchdog(store, token, absent).run()
    assert len(calls) == 3 and log(store).count("no slapd is running") == 3
    assert "giving up" in log(store) and "rollback.yml" in log(store)
    assert store.active() is not None and store.origin() is not None

    token = armed(tuned, -1)
    Watchdog(store, token, lambda how: tuned if len(calls) > 4 else absent(how)).run()
    assert "slapd.threads" not in server.values


def test_one_lever_that_fails_is_tried_again(tuned, store, server, refuse):
    tries = []

    def twice(key, value):
        tries.append(1)
        return refuse("busy") if len(tries) < 3 else None

    server.breaks["slapd.threads"] = twice
    Watchdog(store, armed(tuned, -1), lambda how: tuned).run()
    assert len(tries) == 3 and "slapd.threads" not in server.values and store.origin() is None


def test_what_someone_else_changed_stays_and_is_logged(tuned, store, server):
    server.values["slapd.threads"] = 7
    Watchdog(store, armed(tuned, -1), lambda how: tuned).run()
    assert server.values == {"slapd.log_level": 256, "database.max_size": 1 << 30, "slapd.threads": 7}
    assert "slapd.threads: drifted" in log(store) and store.active() is None


def test_another_slapd_is_not_touched(tuned, store, server, tmp_path, monkeypatch):
    from ldaptune.snapshot import Identity, Store
    from ldaptune.target import Target

    monkeypatch.setattr(watchdog_process, "TRIES", 1)
    other = Store(str(tmp_path / "state"), Identity("machine", "host1", "/etc/other", ["dc=x"]))
    token = armed(tuned, -1)
    Watchdog(store, token, lambda how: Target(server, other, tuned.behaviour)).run()
    assert "another slapd answers" in log(store) and server.values["slapd.threads"] == 32


def test_a_dead_watchdog_is_noticed_by_every_state_and_cleared_by_a_revert(tuned, store, profile):
    armed(tuned, 300)
    for result in (
        audited(tuned, profile(WANTED)),
        applied(tuned, profile(WANTED), check=True),
        reverted(tuned, check=True),
    ):
        assert "interrupted run of profile p" in result["notes"][0] and "rollback.yml" in result["notes"][0]
    handle = durable.try_lock(store.watchdog_lock)
    assert audited(tuned, profile(WANTED))["notes"] == [], "this one lives"
    os.close(handle)
    home = reverted(tuned)
    assert "slapd.threads" in home["notes"][0] and home["complete"]
    assert store.active() is None and audited(tuned, profile(WANTED))["notes"] == []


def test_a_measurement_is_over_when_the_present_is_adopted_or_kept(tuned, store, profile, consent):
    armed(tuned, 300)
    applied(tuned, profile(WANTED), consent=consent)
    assert store.active() is None
    armed(tuned, 300)
    adopted(tuned)
    assert store.active() is None


def test_a_live_one_is_renewed_not_doubled(tuned, store, monkeypatch):
    started = []
    monkeypatch.setattr(watchdog, "_start", lambda store, token: started.append(token) or 4711)
    first = armed(tuned, 100)
    handle = durable.try_lock(store.watchdog_lock)
    deadline = store.active()["deadline_monotonic"]
    assert armed(tuned, 200) == first and started == [first]
    assert store.active()["deadline_monotonic"] > deadline and store.active()["pid"] == 4711
    os.close(handle)
    assert armed(tuned, 200) != first and len(started) == 2


@pytest.mark.parametrize("program", ["/bin/false", "/nonexistent/python3"])
def test_a_watchdog_that_does_not_come_up_stops_everything(tuned, store, monkeypatch, program):
    monkeypatch.setattr(watchdog, "_start", START)
    monkeypatch.setattr(watchdog, "START_SECONDS", 2)
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(LdaptuneError, match="watchdog did not start"):
        armed(tuned, 100)
    assert store.active() is None


def test_a_second_process_for_one_slapd_ends_at_once(tuned, store, monkeypatch):
    monkeypatch.setattr(watchdog_process, "LOCK_SECONDS", 0)
    monkeypatch.setattr(watchdog_process.Watchdog, "run", lambda self: pytest.fail("two of them"))
    handle = durable.try_lock(store.watchdog_lock)
    how = {"state_dir": os.path.dirname(store.root), "identity": store.identity.as_dict(), "token": "t"}
    with pytest.raises(durable.Busy):
        watchdog_process.main(how)
    os.close(handle)


def test_the_payload_is_found_in_a_module_s_zip_as_in_a_checkout(tmp_path):
    source = os.path.dirname(os.path.abspath(payload.__file__))
    archive = tmp_path / "payload.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("ansible/__init__.py", "")
        zipped.writestr("ansible/module_utils/__init__.py", "")
        for name in ("__init__.py", "atomic.py", "payload.py", "durable.py", "problems.py", "levers/__init__.py"):
            zipped.write(os.path.join(source, name), "ansible/module_utils/ldaptune/" + name)
    script = (
        "import sys; sys.path.insert(0, %r)\n"
        "from ansible.module_utils.ldaptune import payload\n"
        "payload.unpack(%r); print(sorted(payload.sources())); print(payload.library_paths())"
    ) % (str(archive), str(tmp_path / "copy"))
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    names, paths = done.stdout.splitlines()
    assert names == str(["__init__.py", "atomic.py", "durable.py", "levers/__init__.py", "payload.py", "problems.py"])
    assert str(archive) not in paths
    assert (tmp_path / "copy" / "ldaptune" / "levers" / "__init__.py").exists()
    assert os.path.dirname(source) not in payload.library_paths()
    shutil.rmtree(tmp_path / "copy")
    payload.unpack(str(tmp_path / "copy"))
    assert (tmp_path / "copy" / "ldaptune" / "watchdog_process.py").exists()
