# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which behaviour belongs to which key of the lever table."""

from __future__ import annotations

from typing import Dict, Type

from . import cpu, mdb, server
from .attribute import AttributeLever
from .base import Lever
from .listener_threads import ListenerThreads
from .log_file import LogFileLever
from .table import LEVERS

_BEHAVIOURS: Dict[str, Type[Lever]] = {
    "slapd.log_level": server.LogLevel,
    "slapd.log_file": LogFileLever,
    "slapd.threads": server.Threads,
    "slapd.thread_queues": server.ThreadQueues,
    "slapd.listener_threads": ListenerThreads,
    "database.max_size": mdb.MaxSize,
    "database.max_readers": mdb.MaxReaders,
    "database.env_flags": mdb.EnvFlags,
    "database.search_stack": mdb.SearchStack,
    "database.cache": mdb.Cache,
    "cpu.listener": cpu.ListenerCpus,
    "cpu.workers": cpu.WorkerCpus,
}


def behaviour(key: str) -> Lever:
    """Return the lever of this key; KeyError for a key that the table does not have."""
    return _BEHAVIOURS.get(key, AttributeLever)(LEVERS[key])
