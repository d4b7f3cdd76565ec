# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that goes on by itself once it has begun, and leaves its result in a file.

The file is locked as long as anything of the run lives, so that its end is seen however it comes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Any, Callable, Dict, List, NoReturn

from ..problems import LdaptuneError, Problem, problem

POLL_SECONDS = 0.05
PIPE = 3

Work = Callable[[Callable[[], None]], Dict[str, Any]]


def launch(path: str, work: Work) -> int:
    """Run `work(begun)` in a process of its own; return its pid once it has called `begun()`.

    What it returns goes to the file `path`, which must not be there. Raises LdaptuneError with what went wrong before.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise LdaptuneError(problem("no file for the result: %s" % error.strerror, "result_file", path)) from None
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            os.setsid()
            if os.fork() == 0:
                _be_run(path, theirs, work)
        os._exit(0)
    os.close(theirs)
    os.waitpid(child, 0)
    with os.fdopen(ours, "rb") as pipe:
        said = pipe.readline()  # a line, for the run's own processes hold the other end too
    answer: Dict[str, Any] = json.loads(said) if said else {"problems": [problem("the run ended before it began")]}
    if "pid" in answer:
        return int(answer["pid"])
    with contextlib.suppress(OSError):
        os.unlink(path)
    raise LdaptuneError(answer["problems"])


def collect(path: str, seconds: float) -> Dict[str, Any]:
    """Wait for a run's end, at most so long; return its result under `result`, or why there is none under `ended`."""
    until = time.monotonic() + seconds
    try:
        file = open(path, encoding="utf-8")  # noqa: SIM115 - it is closed below, and its absence is an answer
    except OSError as error:
        return {"ended": "its result is missing: %s" % error.strerror}
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > until:
                    return {"ended": "it gave no result in %.0f s" % seconds}
                time.sleep(POLL_SECONDS)
        text = file.read()
    with contextlib.suppress(OSError):
        os.unlink(path)
    if not text:
        return {"ended": "its process ended without a result"}
    answer: Dict[str, Any] = json.loads(text)
    return answer


def _be_run(path: str, pipe: int, work: Work) -> NoReturn:
    told: List[Dict[str, Any]] = []

    def tell(what: Dict[str, Any]) -> None:
        if not told:
            told.append(what)
            with contextlib.suppress(OSError):  # nobody listens any more
                os.write(PIPE, json.dumps(what).encode() + b"\n")
            os.close(PIPE)

    problems: List[Problem] = []
    try:
        file = _alone(path, pipe)
        try:
            answer: Dict[str, Any] = {"result": work(lambda: tell({"pid": os.getpid()}))}
        except LdaptuneError as error:
            problems, answer = error.problems, {"ended": str(error)}
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of any end
            problems = [problem("the run broke off with %s" % type(error).__name__)]
            answer = {"ended": problems[0]["what"]}
        tell({"problems": problems})
        with os.fdopen(file, "w", encoding="utf-8") as out:
            out.write(json.dumps(answer, allow_nan=False))
    finally:
        os._exit(0)


def _alone(path: str, pipe: int) -> int:
    """Let go of everything that is the caller's; return the locked file. The pipe becomes number 3."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.dup2(pipe, PIPE)
    os.closerange(PIPE + 1, 1024)
    file = os.open(path, os.O_WRONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file
