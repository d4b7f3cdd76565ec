# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which behaviour belongs to which key of the lever table."""

from __future__ import annotations

from typing import Dict, Type

from .attribute import AttributeLever
from .base import Lever
from .table import LEVERS


def behaviour(key: str) -> Lever:
    """Return the lever of this key; KeyError for a key that the table does not have."""
    return _class_of(key)(LEVERS[key])


def _class_of(key: str) -> Type[Lever]:  # noqa: PLR0911 - one for each family
    # Imported when asked for: a leg flips two or three levers, and its module compiles what it imports at every start.
    # By statements, not by names in a table: Ansible sends to the host what it finds in import statements.
    part = key.partition(".")[0]
    if part in ("cpu", "service", "journal"):
        return _of_the_process(key)
    if part == "sysctl":
        from .sysctl import Sysctl

        return Sysctl
    if key == "nic.coalescing":
        from .nic_coalescing import NicCoalescing

        return NicCoalescing
    if key in ("nic.irq_cpus", "nic.rps_cpus"):
        from . import nic_cpus

        return nic_cpus.IrqCpus if key == "nic.irq_cpus" else nic_cpus.RpsCpus
    if part == "storage":
        return _of_the_storage(key)
    if part == "database":
        from . import mdb

        stores: Dict[str, Type[Lever]] = {
            "database.max_size": mdb.MaxSize,
            "database.max_readers": mdb.MaxReaders,
            "database.env_flags": mdb.EnvFlags,
            "database.search_stack": mdb.SearchStack,
            "database.cache": mdb.Cache,
        }
        return stores.get(key, AttributeLever)
    if key == "slapd.listener_threads":
        from .listener_threads import ListenerThreads

        return ListenerThreads
    if key == "slapd.log_file":
        from .log_file import LogFileLever

        return LogFileLever
    from . import server

    own: Dict[str, Type[Lever]] = {
        "slapd.log_level": server.LogLevel,
        "slapd.threads": server.Threads,
        "slapd.thread_queues": server.ThreadQueues,
    }
    return own.get(key, AttributeLever)


def _of_the_process(key: str) -> Type[Lever]:
    if key in ("cpu.listener", "cpu.workers"):
        from . import cpu

        return cpu.ListenerCpus if key == "cpu.listener" else cpu.WorkerCpus
    if key == "service.open_files":
        from .open_files import OpenFiles

        return OpenFiles
    if key == "service.allocator":
        from .allocator import Allocator

        return Allocator
    if key == "journal.rate_limit":
        from .rate_limit import RateLimit

        return RateLimit
    from .cpu_service import ServiceCpus

    return {"cpu.service": ServiceCpus}[key]


def _of_the_storage(key: str) -> Type[Lever]:
    if key == "storage.noatime":
        from .storage import Noatime

        return Noatime
    from . import storage_device

    return {"storage.read_ahead": storage_device.ReadAhead, "storage.scheduler": storage_device.Scheduler}[key]
