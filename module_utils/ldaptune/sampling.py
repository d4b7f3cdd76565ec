# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sample a host and its slapd while a leg is measured, by a small process of its own on the host.

The process is a fork of the module that starts it and not a program of its own like the watchdog's: everything is
loaded already, so a start costs milliseconds and not a third of a second of CPU before every leg. It holds
sampler.lock as long as it lives, so two never coexist; keeps its readings in memory, so that it writes nothing while a
leg is measured; and ends at its deadline, when a byte comes through the FIFO sampler.stop, or when that file is gone.
What it saw goes to sampler.json (0600) when it ends.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import time
from typing import Any, Callable, Dict, Tuple

from . import durable
from .problems import LdaptuneError, problem
from .sampler import Raw, Sampler, Subject

INTERVAL = 1.0
SHORTEST_INTERVAL = 0.2
LONGEST_SECONDS = 3600.0
START_SECONDS = 20.0
STOP_SECONDS = 15.0
# How often within an interval the workers are looked at; and what part of an interval at the end counts as one.
LOOKS = 3
LEAST_SHARE = 0.25
_POLL_SECONDS = 0.005


class Place:
    """The sampler's files of one slapd: `root` is its state directory on the host."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.lock = os.path.join(root, "sampler.lock")
        self.stop = os.path.join(root, "sampler.stop")
        self.result = os.path.join(root, "sampler.json")

    def clear(self) -> None:
        """Remove what an earlier sampler left; the caller holds the lock."""
        for path in (self.stop, self.result):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


class Started:
    """A sampler that is ready and waits for `release`, so that the caller can read counters in between."""

    def __init__(self, pid: int, go: int) -> None:
        self.pid = pid
        self._go = go

    def release(self) -> None:
        """Let it begin; so does the death of the caller."""
        if self._go >= 0:
            os.close(self._go)
        self._go = -1


def check(seconds: float, interval: float) -> None:
    """Raise LdaptuneError for times that make no sense."""
    for name, value, low, high in (
        ("interval", interval, SHORTEST_INTERVAL, 60.0),
        ("seconds", seconds, interval, LONGEST_SECONDS),
    ):
        if not low <= value <= high:
            raise LdaptuneError(
                problem("out of range", where=name, found="%g" % value, wanted="%g to %g" % (low, high))
            )


def running(place: Place) -> bool:
    """Return whether a sampler of this slapd is alive."""
    if not os.path.exists(place.lock):
        return False
    handle = durable.try_lock(place.lock)
    if handle is None:
        return True
    os.close(handle)
    return False


def start(place: Place, subject: Subject, seconds: float, interval: float = INTERVAL, replace: bool = False) -> Started:
    """Start the process and return when it is ready; it begins when released.

    One that runs already is refused, or with `replace` ended and what it saw dropped. Raises LdaptuneError.
    """
    check(seconds, interval)
    durable.make_private(place.root)
    lock = durable.try_lock(place.lock)
    if lock is None and replace:
        _ask_to_end(place)
        lock = _lock_within(place, STOP_SECONDS)
    if lock is None:
        raise LdaptuneError(
            problem(
                "a sampler of this slapd is running",
                where=place.lock,
                wanted="one at a time",
                do="End it with state stopped; it also ends by itself at its deadline.",
            )
        )
    try:
        place.clear()
        os.mkfifo(place.stop, durable.FILE_MODE)
        fifo = os.open(place.stop, os.O_RDWR | os.O_NONBLOCK)
        try:
            return _fork(place, subject, seconds, interval, keep=(lock, fifo))
        finally:
            os.close(fifo)
    except OSError as error:
        raise LdaptuneError(problem("the sampler did not start", where=place.root, found=str(error))) from error
    finally:
        os.close(lock)


def _fork(place: Place, subject: Subject, seconds: float, interval: float, keep: Tuple[int, int]) -> Started:
    lock, fifo = keep
    ready_read, ready_write = os.pipe()
    go_read, go_write = os.pipe()
    child = os.fork()
    if child == 0:
        # Nothing of the caller's may run here, whatever goes wrong: neither its clean-up nor its output.
        try:
            if os.fork() == 0:
                _detach((lock, fifo, ready_write, go_read))
                _be_sampler(place, Sampler(subject, interval), seconds, (fifo, ready_write, go_read))
        finally:
            os._exit(0)
    os.close(ready_write)
    os.close(go_read)
    os.waitpid(child, 0)
    started = Started(0, go_write)
    try:
        answer = _line(ready_read, START_SECONDS)
    finally:
        os.close(ready_read)
    if not answer.isdigit():
        started.release()
        raise LdaptuneError(
            problem("the sampler did not start", where=place.root, found=answer or "no word from it in time")
        )
    started.pid = int(answer)
    return started


def _line(handle: int, seconds: float) -> str:
    deadline, text = time.monotonic() + seconds, b""
    while select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(handle, 4096)
        if not part:
            break
        text += part
    return text.decode("utf-8", "replace")


def _detach(keep: Tuple[int, ...]) -> None:
    """Leave the caller's session, terminal, signals and files; the descriptors in `keep` stay."""
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.alarm(0)
    null = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(null, handle)
    low = 3
    for handle in sorted(keep):
        os.closerange(low, handle)
        low = handle + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as stream:
        stream.write("ldaptune-sample")
    # What was loaded before stays: collecting it would only copy pages.
    gc.freeze()


def _be_sampler(place: Place, sampler: Sampler, seconds: float, handles: Tuple[int, int, int]) -> None:
    fifo, ready, go = handles
    try:
        deadline = time.monotonic() + seconds
        sampler.prepare()
        os.write(ready, b"%d" % os.getpid())
        os.close(ready)
        select.select([go], [], [], max(0.0, deadline - time.monotonic()))
        os.close(go)
        sampler.begin()
        raw = run(sampler, deadline, lambda wait: _asked(place, fifo, wait))
        _write(place.result, raw)
    except BaseException as error:  # noqa: BLE001 - there is nobody else to tell
        with contextlib.suppress(OSError):
            os.write(ready, ("%s: %s" % (type(error).__name__, error)).encode("utf-8"))
        with contextlib.suppress(OSError):
            _write(place.result, {"failed": "%s: %s" % (type(error).__name__, error)})


def _asked(place: Place, fifo: int, wait: float) -> str:
    """Wait so long at most, and return why to end: "stopped", "its file is gone", or ""."""
    if select.select([fifo], [], [], max(0.0, wait))[0]:
        return "stopped"
    return "" if os.path.exists(place.stop) else "its file is gone"


def run(sampler: Sampler, deadline: float, asked: Callable[[float], str]) -> Raw:
    """Take readings until the deadline or until `asked(seconds to wait)` says why to end; return all that was seen."""
    begun = time.monotonic()
    step = sampler.interval / LOOKS
    ticks = 0
    while True:
        # Behind time, for instance because the machine slept: nothing is made up for.
        ticks = max(ticks + 1, int((time.monotonic() - begun) / step))
        why = asked(min(begun + ticks * step, deadline) - time.monotonic())
        if not why and time.monotonic() >= deadline:
            why = "deadline"
        if why:
            break
        if sampler.since_last() >= sampler.interval - step / 2:
            sampler.take()
        else:
            sampler.look()
    if sampler.since_last() >= LEAST_SHARE * sampler.interval:
        sampler.take()
    return sampler.end(why)


def _write(path: str, data: Dict[str, Any]) -> None:
    """Write whole or not at all; not through to the disk, for what it holds is worth nothing after a crash."""
    fresh = path + ".new"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, durable.FILE_MODE), "w", encoding="utf-8") as out:
        json.dump(data, out, allow_nan=False)
    os.rename(fresh, path)


def _ask_to_end(place: Place) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(place.stop, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(handle, b"x")
        finally:
            os.close(handle)


def _lock_within(place: Place, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    handle = durable.try_lock(place.lock)
    while handle is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        handle = durable.try_lock(place.lock)
    return handle


def stop(place: Place) -> Raw:
    """End the sampler, or take what one left that ended by itself. Raises LdaptuneError where there is nothing."""
    if not os.path.isdir(place.root):
        raise LdaptuneError(_nothing(place))
    _ask_to_end(place)
    lock = _lock_within(place, STOP_SECONDS)
    if lock is None:
        raise LdaptuneError(
            problem(
                "the sampler does not end",
                where=place.lock,
                found="%d s waited" % STOP_SECONDS,
                do="It ends by itself at its deadline.",
            )
        )
    try:
        with open(place.result, encoding="utf-8") as stream:
            raw: Raw = json.load(stream)
    except FileNotFoundError:
        raise LdaptuneError(_nothing(place)) from None
    except (OSError, ValueError) as error:
        raise LdaptuneError(problem("what the sampler saw cannot be read", place.result, str(error))) from None
    finally:
        place.clear()
        os.close(lock)
    if "failed" in raw:
        raise LdaptuneError(problem("the sampler broke off", where=place.root, found=str(raw["failed"])))
    return raw


def _nothing(place: Place) -> Dict[str, str]:
    return problem(
        "no sampler was running",
        where=place.result,
        found="nothing that one left",
        do="Start one with state started. One that was killed leaves nothing.",
    )


def sample(subject: Subject, seconds: float, interval: float = INTERVAL) -> Raw:
    """Sample in this process for so many seconds."""
    check(seconds, interval)
    sampler = Sampler(subject, interval)
    sampler.prepare()
    sampler.begin()

    def wait(left: float) -> str:
        time.sleep(max(0.0, left))
        return ""

    return run(sampler, time.monotonic() + seconds, wait)
