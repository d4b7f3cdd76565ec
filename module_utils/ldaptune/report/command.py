# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command ldaptune-verdict: the sentence of one run on standard output, its code as exit code."""

from __future__ import annotations

import argparse
import os
import sys
from typing import List

from ..problems import LdaptuneError
from .files import LEGS, VERDICT, read_json

EXIT_INTERNAL, EXIT_USAGE, EXIT_INVALID = 1, 2, 5

CODES = """exit codes:
  0  what was required is shown
  1  the verdict cannot be read
  2  wrong usage: no such run
  3  regressed, or a guard was harmed
  4  inconclusive, or not shown what was required
  5  not a valid measurement, or the run broke off before a verdict
"""


def main(arguments: List[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="ldaptune-verdict",
        description="Print the verdict of one run in one sentence.",
        epilog=CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="the directory of one run, runs/<id>")
    run = parser.parse_args(arguments).run
    if not os.path.isdir(run):
        return _complain("no such run: %s" % run, EXIT_USAGE)
    try:
        verdict = read_json(os.path.join(run, VERDICT))
    except LdaptuneError as error:
        return _complain(str(error), EXIT_INTERNAL)
    if verdict is None:
        if not os.path.exists(os.path.join(run, LEGS)):
            return _complain("not the directory of a measured run: %s" % run, EXIT_USAGE)
        return _complain("%s has no verdict: the run broke off before one" % run, EXIT_INVALID)
    try:
        sentence, code = str(verdict.get("closing") or verdict["sentence"]), int(verdict["exit_code"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return _complain("%s is not a verdict" % os.path.join(run, VERDICT), EXIT_INTERNAL)
    sys.stdout.write("%s\n" % sentence)
    return code


def _complain(text: str, code: int) -> int:
    sys.stderr.write("ldaptune-verdict: %s\n" % text)
    return code
