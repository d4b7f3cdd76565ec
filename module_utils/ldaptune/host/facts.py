# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is: the `host` facts that plans and expressions use."""

from __future__ import annotations

import os
import platform
import re
import socket
from typing import Any, Dict, List

_NODES = "/sys/devices/system/node"
_ONLINE = "/sys/devices/system/cpu/online"


def parse_cpu_list(text: str) -> List[int]:
    """Return the CPUs of the kernel's list form: "0-2,5" gives [0, 1, 2, 5]."""
    cpus: List[int] = []
    for part in text.strip().split(","):
        low, _sep, high = part.strip().partition("-")
        if low:
            cpus.extend(range(int(low), int(high or low) + 1))
    return sorted(set(cpus))


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def online_cpus() -> List[int]:
    """Return the CPUs that are online."""
    return parse_cpu_list(_text(_ONLINE)) or list(range(os.cpu_count() or 1))


def allowed_cpus(pid: int | str = "self") -> List[int]:
    """Return the CPUs that the cpuset of a process allows, whatever its threads are pinned to now."""
    for line in _text("/proc/%s/cgroup" % pid).splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = "/sys/fs/cgroup", "cpuset.cpus.effective"
        elif "cpuset" in controllers.split(","):
            root, name = "/sys/fs/cgroup/cpuset", "cpuset.effective_cpus"
        else:
            continue
        while True:
            found = parse_cpu_list(_text(root + path.rstrip("/") + "/" + name))
            if found:
                return found
            if path in ("", "/"):
                break
            path = os.path.dirname(path)
    return online_cpus()


def _os_name() -> str:
    match = re.search(r'^PRETTY_NAME="?([^"\n]+)', _text("/etc/os-release"), re.MULTILINE)
    return match.group(1) if match else platform.system()


def host_facts(pid: int | str = "self") -> Dict[str, Any]:
    """Return {name, machine_id, cpus, online_cpus, allowed_cpus, memory_bytes, numa_nodes, kernel, os, python}.

    `cpus` counts those that the cpuset of process `pid` allows, which is what a plan for it can count on.
    """
    online = online_cpus()
    allowed = [cpu for cpu in allowed_cpus(pid) if cpu in online] or online
    nodes = [name for name in os.listdir(_NODES) if re.match(r"^node\d+$", name)] if os.path.isdir(_NODES) else []
    return {
        "name": socket.gethostname(),
        "machine_id": _text("/etc/machine-id"),
        "cpus": len(allowed),
        "online_cpus": online,
        "allowed_cpus": allowed,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "numa_nodes": len(nodes) or 1,
        "kernel": platform.release(),
        "os": _os_name(),
        "python": platform.python_version(),
    }
