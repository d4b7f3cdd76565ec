# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit that pins slapd's threads again after every start of slapd, with its program and its values.

STATE_DIR/cpus/ holds run.pyz (this package in one file), values.json {"server", "unit", "cpus": {lever: [CPUs]},
"pinned": [pid, start] of the slapd that a lever pinned itself} and a lock: who pins holds it, so that a leg and a
companion that starts at the same moment do not undo each other's work. A leg changes values.json alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from typing import Any, Dict, Iterable, Iterator, List

from .. import durable
from ..host import files, unit
from ..problems import LdaptuneError
from .context import Context
from .host_lever import place
from .unit_lever import no_unit, unit_of

NAME = "ldaptune-cpus.service"
VALUES = "values.json"
LOCK = "lock"
_PROGRAM = "run.pyz"
_FOLDER = "/etc/systemd/system"
_STATE_DIR = "/var/lib/ldaptune"
_LOCK_SECONDS = 60.0

_UNIT = """\
# Written by ldaptune; rollback.yml takes it away.
[Unit]
Description=CPUs of slapd's threads, as ldaptune set them
BindsTo=%(unit)s
After=%(unit)s
# As often as slapd is started: a sixth time within ten seconds, too.
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=120
Environment=PYTHONDONTWRITEBYTECODE=1 LC_ALL=C
ExecStart=%(command)s

[Install]
WantedBy=%(unit)s
"""

_MAIN = """\
import sys

sys.path.extend(path for path in %r if path not in sys.path)
from ldaptune.levers.%s import main

main()
"""


def home(ctx: Context) -> str:
    """Return the directory of program and values."""
    return place(ctx, os.path.join(str(ctx.server.get("state_dir") or _STATE_DIR), "cpus"))


def _unit_file(ctx: Context) -> str:
    return place(ctx, os.path.join(_FOLDER, NAME))


def _wants(ctx: Context) -> str:
    return place(ctx, os.path.join(_FOLDER, unit_of(ctx) + ".wants", NAME))


def impossible(ctx: Context) -> str:
    """Return why nothing can pin the threads after a restart here, or ""."""
    return no_unit(ctx)


def there(ctx: Context) -> bool:
    """Return whether the unit is there and enabled for this slapd, with its program."""
    files_there = all(os.path.isfile(path) for path in (_unit_file(ctx), os.path.join(home(ctx), _PROGRAM)))
    return files_there and os.path.lexists(_wants(ctx))


def traces(ctx: Context) -> bool:
    """Return whether anything of it lies on this host."""
    return any(os.path.lexists(path) for path in (_unit_file(ctx), _wants(ctx), home(ctx)))


def other_unit(ctx: Context) -> str:
    """Return the unit of another slapd that the companion belongs to, or ""."""
    unit_name = str(_values(ctx).get("unit") or "")
    return unit_name if unit_name != unit_of(ctx) else ""


def kept(ctx: Context, key: str) -> List[int] | None:
    """Return the CPUs that a start of slapd brings back for a lever; None for none."""
    if not there(ctx) or other_unit(ctx):
        return None
    found = _values(ctx).get("cpus", {}).get(key)
    return None if found is None else [int(cpu) for cpu in found]


def _values(ctx: Context) -> Dict[str, Any]:
    return durable.read_json(os.path.join(home(ctx), VALUES)) or {}


@contextlib.contextmanager
def held(ctx: Context) -> Iterator[None]:
    """Keep the companion away while threads are pinned; it needs no directory where nothing is kept."""
    if impossible(ctx):
        yield
        return
    durable.make_private(home(ctx))
    with durable.locked(os.path.join(home(ctx), LOCK), _LOCK_SECONDS):
        yield


def keep(ctx: Context, key: str, cpus: List[int] | None) -> None:
    """Note what a start of slapd is to bring back for a lever, and that the running slapd has it; call it held."""
    cpus_of = dict(_values(ctx).get("cpus", {}))
    cpus_of.pop(key, None)
    if cpus is not None:
        cpus_of[key] = sorted(cpus)
    durable.write_json(
        os.path.join(home(ctx), VALUES),
        {
            "server": dict(ctx.server),
            "unit": unit_of(ctx),
            "cpus": cpus_of,
            "pinned": [ctx.slapd.pid, ctx.slapd.start],
        },
    )


def settle(ctx: Context) -> None:
    """Write program and unit where they are not there yet, or take all away where nothing is kept.

    Legs leave the unit as it is, there or not: it costs a reload of systemd, and has nothing to do while nothing is
    kept. Raises LdaptuneError where the program does not run.
    """
    if _values(ctx).get("cpus"):
        if not (ctx.switching and there(ctx)):
            _install(ctx)
    elif not ctx.switching:
        remove(ctx)


def _install(ctx: Context) -> None:
    program = os.path.join(home(ctx), _PROGRAM)
    changed = _put(program, _archive(), 0o600)
    command = " ".join(_quoted(word) for word in (sys.executable or "/usr/bin/python3", program))
    text = _UNIT % {"unit": unit_of(ctx), "command": command}
    fresh = _put(_unit_file(ctx), text.encode("utf-8"), 0o644)
    if not os.path.lexists(_wants(ctx)):
        files.link(_wants(ctx), os.path.join(_FOLDER, NAME))
        fresh = True
    if fresh:
        unit.reload()
    if fresh or changed:
        # That it runs is found out now, not at the next start of slapd.
        unit.systemctl("restart", NAME)


def _put(path: str, data: bytes, mode: int) -> bool:
    """Write a file where it says something else; return whether it did."""
    try:
        with open(path, "rb") as stream:
            if stream.read() == data:
                return False
    except OSError:
        pass
    files.install(path, data.decode("utf-8", "surrogateescape"), mode)
    return True


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return '"%s"' % escaped


def _archive() -> bytes:
    """Return the program: this package and a way into it. The same sources give the same octets."""
    # Legs do not need it: it is compiled at every start of their module.
    from .. import payload
    from . import companion_run

    main = _MAIN % (payload.library_paths(), companion_run.__name__.rsplit(".", 1)[-1])
    return payload.bundle(payload.sources(), main)


def remove(ctx: Context) -> None:
    """Take unit, program and values away, each directory with them that holds nothing else."""
    if not traces(ctx) or other_unit(ctx):
        return
    loaded = os.path.lexists(_unit_file(ctx))
    if loaded:
        for word in ("stop", "reset-failed"):
            with contextlib.suppress(LdaptuneError):
                unit.systemctl(word, NAME)
    for path in (_wants(ctx), _unit_file(ctx)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    shutil.rmtree(home(ctx), ignore_errors=True)
    for folder in (os.path.dirname(_wants(ctx)), os.path.dirname(home(ctx))):
        with contextlib.suppress(OSError):  # something else is in it
            os.rmdir(folder)
    if loaded:
        unit.reload()


def wait(ctx: Context) -> None:
    """After a restart of slapd: return when the companion has done its work, so that nothing is pinned later."""
    if unit.here(ctx.root) and os.path.lexists(_unit_file(ctx)):
        # Whether it did is seen in the masks.
        with contextlib.suppress(LdaptuneError):
            unit.systemctl("start", NAME)


def again(ctx: Context, allowed: Iterable[int]) -> None:
    """After the kernel may have forgotten masks: pin what is kept once more, as far as these CPUs allow it."""
    kept_cpus = {cpu for cpus in _values(ctx).get("cpus", {}).values() for cpu in cpus}
    if there(ctx) and not other_unit(ctx) and kept_cpus and kept_cpus.issubset(allowed):
        unit.systemctl("restart", NAME)
