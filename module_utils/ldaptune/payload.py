# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private copy of this package on the host, for a process that outlives the Ansible module it came with."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from typing import Dict, Iterable, List

from . import durable

PACKAGE = "ldaptune"
# The earliest that a zip can hold, give or take: a time of its own would make each program another one.
_DATE = (2000, 1, 1, 0, 0, 0)


def sources() -> Dict[str, bytes]:
    """Return the Python files of this package as {relative path: content}.

    A module's payload is a zip that holds just the files the module imports; a checkout is a plain directory.
    """
    own = os.path.dirname(os.path.abspath(__file__))
    if os.path.isdir(own):
        return _from_directory(own)
    archive = own
    while archive and not os.path.isfile(archive):
        archive = os.path.dirname(archive) if os.path.dirname(archive) != archive else ""
    prefix = os.path.relpath(own, archive).replace(os.sep, "/") + "/"
    with zipfile.ZipFile(archive) as payload:
        names = [name for name in payload.namelist() if name.startswith(prefix) and name.endswith(".py")]
        return {name[len(prefix) :]: payload.read(name) for name in names}


def _from_directory(own: str) -> Dict[str, bytes]:
    found = {}
    for folder, _, names in os.walk(own):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path, "rb") as stream:
                    found[os.path.relpath(path, own)] = stream.read()
    return found


def bundle(members: Dict[str, bytes], start: str) -> bytes:
    """Return a Python program in one file: some or all of `sources`, and the text that runs first.

    The same sources give the same octets.
    """
    packed = io.BytesIO()
    whole = {PACKAGE + "/" + name: content for name, content in members.items()}
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted({**whole, "__main__.py": start.encode("utf-8")}.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def bundle_of(names: Iterable[str], module: str) -> bytes:
    """Return a program of these files of the package alone; it calls main of `module` with the arguments."""
    known = sources()
    start = "import sys\n\nfrom %s.%s import main\n\nsys.exit(main(sys.argv[1:]))\n" % (PACKAGE, module)
    return bundle({name: known[name] for name in names}, start)


def unpack(directory: str) -> None:
    """Write the package below `directory`, 0600 in 0700 directories."""
    for name, content in sources().items():
        path = os.path.join(directory, PACKAGE, name)
        durable.make_private(os.path.dirname(path))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, durable.FILE_MODE), "wb") as stream:
            stream.write(content)


def library_paths() -> List[str]:
    """Return the directories where this interpreter finds other libraries (ldap3), without any payload's own."""
    own = os.path.dirname(os.path.abspath(__file__))
    paths = [os.path.abspath(path) for path in sys.path if path and os.path.isdir(path)]
    return [path for path in paths if not own.startswith(path + os.sep)]
