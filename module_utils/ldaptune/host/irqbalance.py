# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Telling irqbalance to leave some interrupts alone: it moves all others back within ten seconds.

By --banirq and not by a policy script: SELinux lets irqbalance run no script unless a boolean is set, and a script that
does not run says nothing, while the running process's own command line shows what is banned. The price, numbers that
change at a reboot, is paid by the unit that pins: it writes them anew. IRQBALANCE_BANNED_CPULIST is left alone: setting
it would end irqbalance's own care for isolated CPUs.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
import time
from typing import Iterable, List, Set

from ..problems import LdaptuneError, problem
from . import files
from .command import run

#: Debian's place and Red Hat's; the unit and the boot script read one of them.
PLACES = ("/etc/default/irqbalance", "/etc/sysconfig/irqbalance")
_SYSTEMD = "/run/systemd/system"
_SCRIPT = "/etc/init.d/irqbalance"
_UNIT = "irqbalance.service"
_VARIABLE = "IRQBALANCE_ARGS"
_BEGIN = "# Begin of ldaptune, nic.irq_cpus: rollback.yml takes these lines away. The last setting of a name counts."
# Says that the file's own last line had no newline, which is to come back so.
_JOINED = _BEGIN + ".."
_END = "# End of ldaptune"
_BLOCK = re.compile(r"(\n?)(%s|%s)\n.*?%s\n" % (re.escape(_JOINED), re.escape(_BEGIN), _END), re.DOTALL)
_SETTING = re.compile(r"^\s*(?:export\s+)?%s=(.*)$" % _VARIABLE, re.MULTILINE)
_SECONDS = 5.0
_STEP = 0.05


def place_of(root: str) -> str:
    """Return the path of the file with irqbalance's options, or ""."""
    paths = [os.path.join(root, path.lstrip("/")) for path in PLACES]
    return next((path for path in paths if os.path.isfile(path)), "")


def arguments(root: str) -> List[str] | None:
    """Return the command line of the irqbalance that runs; None where none does."""
    proc = os.path.join(root, "proc")
    for name in os.listdir(proc) if os.path.isdir(proc) else ():
        if not name.isdigit():
            continue
        try:
            with open(os.path.join(proc, name, "comm"), encoding="utf-8", errors="replace") as stream:
                if stream.read().strip() != "irqbalance":
                    continue
            with open(os.path.join(proc, name, "cmdline"), encoding="utf-8", errors="replace") as stream:
                words = stream.read().rstrip("\0").split("\0")
        except OSError:
            continue
        if words != [""]:  # a zombie has none
            return words
    return None


def banned(words: Iterable[str]) -> Set[int]:
    """Return the interrupts that a command line of irqbalance excludes."""
    found = set()
    before = ""
    for word in words:
        match = re.match(r"^(?:--banirq=|-i)(\d+)$", word)
        if match:
            found.add(int(match.group(1)))
        elif before in ("--banirq", "-i") and word.isdigit():
            found.add(int(word))
        before = word
    return found


def has_ban(text: str) -> bool:
    """Return whether our lines are in a text."""
    return _BLOCK.search(text) is not None


def without_ban(text: str) -> str:
    """Return a text as it was before our lines came."""
    # The newline before them is ours where the last line had none, unless others came behind meanwhile.
    return _BLOCK.sub(
        lambda match: "" if match.group(2) == _JOINED and match.end() == len(text) else match.group(1), text
    )


def with_ban(text: str, numbers: Iterable[int]) -> str:
    """Return a text with our lines at its end: the options that count now, and a ban for each number.

    Every other line stays as it is. Raises LdaptuneError for options that only a shell would understand.
    """
    text = without_ban(text)
    given = _SETTING.findall(text)
    options = _options(given[-1]) if given else ""
    bans = " ".join("--banirq=%d" % number for number in sorted(set(numbers)))
    joined = bool(text) and not text.endswith("\n")
    line = '%s="%s"' % (_VARIABLE, " ".join(filter(None, (options, bans))))
    return "%s%s%s\n%s\n%s\n" % (text, "\n" if joined else "", _JOINED if joined else _BEGIN, line, _END)


def _options(value: str) -> str:
    try:
        words = shlex.split(value, comments=True)
    except ValueError:
        words = [value]
    options = " ".join(words)
    if len(words) > 1 or re.search(r"[\"'$`\\]", options):
        raise LdaptuneError(
            problem(
                "the options of irqbalance are in a form that ldaptune does not add to",
                where=_VARIABLE,
                found=value,
                wanted='one text in quotes, as %s="--journal"' % _VARIABLE,
                do="Write them so, or put nic.irq_cpus into tuning_exclude.",
            )
        )
    return options


def obstacle(root: str, numbers: Iterable[int]) -> LdaptuneError | None:
    """Return why a running irqbalance could not be told, before a write; None where nothing is in the way."""
    words = arguments(root)
    if words is None or set(numbers) <= banned(words):
        return None
    path = place_of(root)
    if not path:
        return LdaptuneError(
            problem(
                "irqbalance runs here, would move the interrupts back, and has its options from nobody knows where",
                found=" ".join(words),
                wanted=" or ".join(PLACES),
                do="Exclude them there yourself (--banirq=%s), or stop irqbalance."
                % " --banirq=".join(str(number) for number in sorted(numbers)),
            )
        )
    try:
        with_ban(files.text_of(files.record(path)) or "", numbers)
        _commands(root)
    except LdaptuneError as error:
        return error
    return None


def keep_off(root: str, numbers: Iterable[int]) -> None:
    """Make irqbalance leave these interrupts alone, now if it runs and at its next start if its options are here.

    Raises LdaptuneError where the process that runs afterwards was not told.
    """
    wanted = set(numbers)
    path = place_of(root)
    if path:
        change(path, with_ban(files.text_of(files.record(path)) or "", wanted))
    words = arguments(root)
    if words is None or wanted <= banned(words):
        return
    restart(root)
    words = arguments(root) or []
    if not wanted <= banned(words):
        raise LdaptuneError(
            problem(
                "irqbalance was restarted, but does not know what it is to leave alone",
                where=path,
                found=" ".join(words),
                wanted=" ".join("--banirq=%d" % number for number in sorted(wanted)),
                do="Its unit may read its options from elsewhere: see systemctl cat irqbalance.",
            )
        )


def take_back(root: str, found: files.FileRecord | None) -> List[str]:
    """Leave our lines as a record of the options file has them, mostly not there; returns remarks.

    The file comes back octet by octet, unless someone else changed it since: then only our lines go.
    """
    path = found["path"] if found else place_of(root)
    now = files.record(path) if path else None
    if now is None or now["content"] is None:
        return []
    text, before = files.text_of(now) or "", (files.text_of(found) or "") if found else ""
    if not (has_ban(text) or has_ban(before)):
        return []
    remarks = []
    if found and without_ban(text) == without_ban(before):
        files.put_back(found)
    else:
        block = _BLOCK.search(before)
        change(path, without_ban(text) + (block.group(0).lstrip("\n") if block else ""))
        remarks = ["%s was changed by someone else since, so only our lines were taken out" % path]
    if files.record(path)["content"] != now["content"] and arguments(root) is not None:
        restart(root)
    return remarks if found else []


def change(path: str, text: str) -> None:
    """Write a file anew with its owner and mode; one that has this text already is not touched."""
    found = files.record(path)
    content = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")
    if content != found["content"]:
        files.put_back(dict(found, content=content))


def _commands(root: str) -> List[List[str]]:
    if os.path.isdir(os.path.join(root, _SYSTEMD.lstrip("/"))):
        # Legs come often: without the first, the sixth start within ten seconds would leave it down.
        return [["systemctl", "reset-failed", _UNIT], ["systemctl", "try-restart", _UNIT]]
    script = os.path.join(root, _SCRIPT.lstrip("/"))
    if os.access(script, os.X_OK):
        return [[script, "restart"]]
    raise LdaptuneError(
        problem(
            "irqbalance runs here, and nothing is known that restarts it",
            found="neither systemd nor %s" % _SCRIPT,
            do="Stop it, or put nic.irq_cpus into tuning_exclude.",
        )
    )


def restart(root: str) -> None:
    """Restart irqbalance and wait until it runs again; raises LdaptuneError where it does not."""
    commands = _commands(root)
    done = [run(command) for command in commands][-1]
    deadline = time.monotonic() + _SECONDS
    while done.code == 0 and arguments(root) is None and time.monotonic() < deadline:
        time.sleep(_STEP)
    if done.code != 0 or arguments(root) is None:
        raise LdaptuneError(
            problem(
                "irqbalance could not be restarted",
                where=" ".join(commands[-1]),
                found="exit code %d%s" % (done.code, ": " + done.text if done.text else ""),
                wanted="irqbalance runs, as before",
            )
        )
