# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running a command of the host: no shell, an end in time, output kept for the refusal only."""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import NamedTuple, Sequence

from ..problems import LdaptuneError, problem


class Done(NamedTuple):
    """How a command ended: its exit code and what it printed."""

    code: int
    text: str


def run(command: Sequence[str], seconds: float = 90.0) -> Done:
    """Run a command; raises LdaptuneError where it is missing or does not end in time.

    Output goes through a file: a daemon that the command starts may keep a pipe open for ever.
    """
    environment = dict(os.environ, LC_ALL="C", LANGUAGE="C")
    with tempfile.TemporaryFile() as output:
        try:
            code = subprocess.run(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                env=environment,
                start_new_session=True,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise LdaptuneError(
                problem("a command did not end in time", where=command[0], found="still running after %d s" % seconds)
            ) from None
        except OSError as error:
            raise LdaptuneError(
                problem("a command cannot be run", where=command[0], found=os.strerror(error.errno or 0))
            ) from None
        output.seek(0)
        return Done(code, output.read(20000).decode("utf-8", "replace").strip())
