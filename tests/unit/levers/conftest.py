# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A context whose directory is a dictionary."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from ldaptune.directory.errors import DirectoryRefused
from ldaptune.host.process import Slapd

MDB = "olcDatabase={2}mdb,cn=config"


class FakeDirectory:
    """cn=config as entries; every modify is kept in `sent`. `refuse` maps (op, attribute) to a result code."""

    def __init__(self):
        self.entries = {"cn=config": {}, MDB: {}, "cn=Log,cn=Monitor": {}}
        self.sent = []
        self.refuse = {}
        self.pool = {"max": 16, "open": 16}
        self.figures = {"pages_max": 262144, "pages_used": 10, "page_size": 4096, "readers_max": 126}
        self.own = {}

    def read(self, dn, attributes=("*",)):
        entry = self.entries.get(dn)
        wanted = {name.lower() for name in attributes}
        return None if entry is None else {name: list(v) for name, v in entry.items() if name.lower() in wanted}

    def modify(self, dn, changes):
        for op, attribute, values in changes:
            code = self.refuse.get((op, attribute), 16 if op == "delete" and attribute not in self.entries[dn] else 0)
            if code:
                raise DirectoryRefused(code, "refused", "", dn)
        self.sent.append((dn, list(changes)))
        for op, attribute, values in changes:
            if op == "delete":
                del self.entries[dn][attribute]
            else:
                self.entries[dn][attribute] = list(values)

    def threads(self):
        return dict(self.pool)

    def database_figures(self, database):
        return dict(self.figures)

    def account(self, operations):
        self.own.update(operations)


@pytest.fixture
def ctx(tmp_path):
    """A 2.5.13 with one mdb database; its process is this one."""
    context = SimpleNamespace(
        host={"cpus": 4, "online_cpus": [0, 1, 2, 3], "memory_bytes": 8 << 30},
        directory=FakeDirectory(),
        database={"dn": MDB, "backend": "mdb", "suffixes": ["dc=lab,dc=test"], "directory": str(tmp_path)},
        version=(2, 5, 13),
        server={"uri": "ldapi:///"},
        slapd=Slapd(os.getpid(), 1, 0, ("slapd",), ("ldapi:///",), "/a", "", ""),
        config_source="slapd.d",
        wanted={},
        restarts=0,
    )

    def restart(hung=False):
        context.restarts += 1

    context.restart = restart
    return context
