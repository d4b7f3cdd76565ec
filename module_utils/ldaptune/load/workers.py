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

    def __init__(self, number: int, pid: int, line: socket.socket) -> None:
        self.number = number
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

    def connect(self, timeout: float) -> None:
        """Open all connections, one process after the other; raises LdaptuneError naming the first failure.

        So a login that is refused is tried once in all.
        """
        made = 0
        for hand in self.hands:
            self._order({"connect": True}, [hand])
            answer = self._collect("connected", timeout, [hand])[0]
            made += answer["connected"]
            if "failed" in answer:
                name, text = answer["failed"]
                if made:
                    text = "connection %d: %s" % (made + 1, text)
                self.leave()
                raise LdaptuneError(problem("cannot connect (%s)" % name, found=text, do="No load was sent"))

    def phase(
        self, spec: Dict[str, Any], timeout: float, progress: Progress = None, start: int = 0
    ) -> List[Dict[str, Any]]:
        """Run one phase on all workers at the same time, from `start` on (ns) or at once, and return their tallies."""
        start = start or time.perf_counter_ns() + START_AFTER_NS
        self._order({"phase": spec, "start": start}, self.hands)

        def rows(second: List[Dict[str, Any]]) -> None:
            if progress:
                progress(spec, second)

        answers = self._collect("tally", spec["seconds"] + 2 * timeout + GRACE_SECONDS, self.hands, rows)
        return [answer["tally"] for answer in answers]

    def stop(self) -> None:
        """Let the phase that is running end now; may be called from a signal handler."""
        self.interrupted = True

    def leave(self) -> Dict[str, int]:
        """Let all workers unbind and end; return what they sent in the whole run, added up."""
        self._order({"leave": True}, self.hands)
        for answer in self._collect("totals", GRACE_SECONDS, self.hands):
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

    def _order(self, order: Dict[str, Any], hands: List[Hand]) -> None:
        data = json.dumps(order).encode() + b"\n"
        for hand in hands:
            try:
                hand.line.sendall(data)
            except OSError:
                self._died(hand)

    def _collect(
        self,
        wanted: str,
        timeout: float,
        hands: List[Hand],
        rows: Callable[[List[Dict[str, Any]]], None] | None = None,
    ) -> List[Dict[str, Any]]:
        """Wait for the `wanted` answer from each of `hands`; `rows` gets a second's rows once all have sent theirs."""
        got: Dict[int, Dict[str, Any]] = {}
        seconds: Dict[int, List[Dict[str, Any]]] = {}
        until = time.monotonic() + timeout
        by_fd = {hand.line.fileno(): hand for hand in self.hands}
        while len(got) < len(hands):
            if self.interrupted and not self._stop_sent:
                self._stop_sent = True
                self._order({"stop": True}, self.hands)
            if time.monotonic() > until:
                raise WorkerDied("a worker process gave no answer in %.0f s" % timeout)
            for fd, _ in self._poll.poll(100):
                hand = by_fd[fd]
                for answer in self._read(hand):
                    if "crash" in answer:
                        raise WorkerDied("worker process %d: %s" % (hand.number, answer["crash"]))
                    if "row" in answer and rows:
                        second = seconds.setdefault(answer["row"]["second"], [])
                        second.append(answer["row"])
                        if len(second) == len(hands):
                            rows(second)
                    elif wanted in answer:
                        got[hand.number] = answer
                        if wanted == "totals":
                            self._poll.unregister(fd)  # it ends now, as it should
        return [got[hand.number] for hand in hands]

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
            "worker process %d (pid %d) ended by %s in the middle of the run" % (hand.number, hand.pid, how)
        )
