# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""For test runs: keep what Python compiles of Ansible's payloads, which are archives without bytecode.

A third of a task's CPU time is compiling the same sources again (and Python's zipimport compiles each one twice). What
is compiled is the same, so that a run behaves as it does without this. LDAPTUNE_COMPILED names the folder.
"""

import contextlib
import hashlib
import marshal
import os
import sys
import zipimport

FOLDER = os.environ.get("LDAPTUNE_COMPILED", "")
_compile = zipimport._compile_source


def _kept(path, source):
    # The path is in the code, for tracebacks: that of the archive differs at each start.
    name = path.partition(".zip/")[2] or path
    key = hashlib.sha256(b"%s\0%s\0%s" % (sys.version.encode(), name.encode(), bytes(source))).hexdigest()
    place = os.path.join(FOLDER, key)
    with contextlib.suppress(OSError, ValueError, EOFError), open(place, "rb") as file:
        return marshal.load(file)  # noqa: S302 - ours, in a private folder
    code = _compile(path, source)
    with contextlib.suppress(OSError):
        with open("%s.%d" % (place, os.getpid()), "wb") as file:
            marshal.dump(code, file)
        os.rename(file.name, place)
    return code


if os.path.isdir(FOLDER):
    zipimport._compile_source = _kept
