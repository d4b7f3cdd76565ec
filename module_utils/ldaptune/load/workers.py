# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parent's side: start worker processes, run phases on all of them at once, notice when one dies."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from typing import Any, Callable, Dict, List, Optional

from ..problems import LdaptuneError, problem
from .tally import count
from .worker import Job, child

START_AFTER_NS = 10000000
GRACE_SECONDS = 15.0

Progress = Optional[Callable[[Dict[str, Any], List[Dict[str, Any]]], None]]


class WorkerDied(Exception):
    """A worker process ended before its time; the text names it and says how."""


class Hand:
    """One worker process as its parent sees it."""

    def __init__(self, index: int, pid: int, line: socket.socket) -> None:
        self.index = index
        self.pid = pid
        self.line = line
        self.rest = b""
        self.answers: List[Dict[str, Any]] = []
        self.ended = False


class Workers:
    """All worker processes of a run."""

    def __init__(self, jobs: List[Job], deadline: int) -> None:
        self.hands: List[Hand] = []
        self.totals: Dict[str, int] = {}
        self.interrupted = False
        self._stop_sent = False
        self._poll = select.poll()
        for job in jobs:
            ours, theirs = socket.socketpair()
            pid = os.fork()
            if pid == 0:
                ours.close()
                for hand in self.hands:
                    hand.line.close()
                child(job, theirs, deadline)
            theirs.close()
            hand = Hand(job.number, pid, ours)
            self.hands.append(hand)
            self._poll.register(ours, select.POLLIN)

    def connected(self, timeout: float) -> int:
        """Wait until all connections stand and return their number; raises LdaptuneError naming what failed."""
        answers = self._collect(("connected", "failed"), timeout)
        failed = [answer["failed"] for answer in answers if "failed" in answer]
        if failed:
            name, text, made = failed[0]
            if made:
                text = "connection %d of a process: %s" % (made + 1, text)
            raise LdaptuneError(problem("cannot connect (%s)" % name, found=text, do="No load was sent"))
        return sum(int(answer["connected"]) for answer in answers)

    def phase(self, spec: Dict[str, Any], timeout: float, progress: Progress = None) -> List[Dict[str, Any]]:
        """Run one phase on all workers at the same time and return their tallies."""
        start = time.perf_counter_ns() + START_AFTER_NS
        self._order({"phase": spec, "start": start})
        answers = self._collect(("tally",), spec["seconds"] + timeout + GRACE_SECONDS, spec, progress)
        return [answer["tally"] for answer in answers]

    def stop(self) -> None:
        """Let the phase that is running end now; may be called from a signal handler."""
        self.interrupted = True

    def leave(self) -> Dict[str, int]:
        """Let all workers unbind and end; return what they sent in the whole run, added up."""
        self._order({"leave": True})
        for answer in self._collect(("totals",), GRACE_SECONDS):
            for name, times in answer["totals"].items():
                count(self.totals, name, times)
        return self.totals

    def close(self) -> None:
        """End what still runs and wait for it; only processes of our own."""
        for hand in self.hands:
            hand.line.close()
        until = time.monotonic() + 3
        for hand in self.hands:
            while not hand.ended:
                hand.ended = os.waitpid(hand.pid, os.WNOHANG)[0] != 0
                if not hand.ended and time.monotonic() > until:
                    os.kill(hand.pid, signal.SIGKILL)
                    os.waitpid(hand.pid, 0)
                    hand.ended = True
                elif not hand.ended:
                    time.sleep(0.005)

    def _order(self, order: Dict[str, Any]) -> None:
        data = json.dumps(order).encode() + b"\n"
        for hand in self.hands:
            try:
                hand.line.sendall(data)
            except OSError:
                self._died(hand)

    def _collect(
        self, wanted: Any, timeout: float, spec: Dict[str, Any] | None = None, progress: Progress = None
    ) -> List[Dict[str, Any]]:
        """Wait for one of the `wanted` answers from each worker; rows go to `progress`, a second at a time."""
        got: Dict[int, Dict[str, Any]] = {}
        rows: Dict[int, List[Dict[str, Any]]] = {}
        until = time.monotonic() + timeout
        by_fd = {hand.line.fileno(): hand for hand in self.hands}
        while len(got) < len(self.hands):
            if self.interrupted and not self._stop_sent:
                self._stop_sent = True
                self._order({"stop": True})
            if time.monotonic() > until:
                raise WorkerDied("a worker process gave no answer in %.0f s" % timeout)
            for fd, _ in self._poll.poll(100):
                hand = by_fd[fd]
                for answer in self._read(hand):
                    if "row" in answer and spec and progress:
                        second = rows.setdefault(answer["row"]["second"], [])
                        second.append(answer["row"])
                        if len(second) == len(self.hands):
                            progress(spec, second)
                    elif "crash" in answer:
                        raise WorkerDied("worker process %d: %s" % (hand.index, answer["crash"]))
                    elif any(name in answer for name in wanted):
                        got[hand.index] = answer
                        if "totals" in answer or "failed" in answer:
                            self._poll.unregister(fd)  # it ends now, as it should
        return [got[hand.index] for hand in self.hands]

    def _read(self, hand: Hand) -> List[Dict[str, Any]]:
        try:
            data = hand.line.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self._died(hand)
        *lines, hand.rest = (hand.rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def _died(self, hand: Hand) -> None:
        _, status = os.waitpid(hand.pid, 0)
        hand.ended = True
        how = "signal %d" % os.WTERMSIG(status) if os.WIFSIGNALED(status) else "code %d" % os.WEXITSTATUS(status)
        raise WorkerDied(
            "worker process %d (pid %d) ended by %s in the middle of the run" % (hand.index, hand.pid, how)
        )
