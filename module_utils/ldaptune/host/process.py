# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running slapds and what /proc tells about one of them."""

from __future__ import annotations

import getopt
import os
import re
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple
from urllib.parse import quote, unquote

from ..problems import LdaptuneError, problem
from .root import below, root_of, same_file, same_root

PROC = "/proc"
_OPTIONS = "c:d:f:F:g:h:i:l:n:o:r:s:S:tT:u:V46"
_NAMES = ("slapd", "lt-slapd")
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+)\s+(.*)$")
_CONFIG_DIRS = (
    "/etc/ldap/slapd.d",
    "/etc/openldap/slapd.d",
    "/opt/symas/etc/openldap/slapd.d",
    "/usr/local/etc/openldap/slapd.d",
)


class Slapd(NamedTuple):
    """One running slapd. `start` is in clock ticks since boot: with the pid it names this process and no other.

    `config_dir` is -F or the distribution's slapd.d; "" where it was started from slapd.conf (-f alone).
    """

    pid: int
    start: int
    uid: int
    argv: Tuple[str, ...]
    uris: Tuple[str, ...]
    config_dir: str
    config_file: str
    user: str

    @property
    def ldapi(self) -> str:
        """Its first ldapi URI, or ""; where that names no path (ldapi:///), the socket it really listens on."""
        found = next((uri for uri in self.uris if uri.startswith("ldapi:")), "")
        if found and not found[len("ldapi:") :].partition("?")[0].strip("/"):
            # Which path that means was chosen when slapd was built, and differs between distributions.
            given = [_socket_path(uri) for uri in self.uris]
            own = [path for path in listening_sockets(self.pid) if os.path.realpath(path) not in given]
            return "ldapi://%s/" % quote(own[0], safe="") if own else found
        return found

    @property
    def config_source(self) -> str:
        """slapd.d, or slapd.conf: then changes by cn=config are gone after a restart."""
        return "slapd.conf" if self.config_file and not self.config_dir else "slapd.d"


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as stream:
        return stream.read()


def parse_arguments(argv: Sequence[str]) -> Dict[str, str]:
    """Return slapd's options by letter; joined forms (-hldapi:///) are understood, unknown ones end it."""
    words = list(argv[1:])
    options: Dict[str, str] = {}
    while words:
        try:
            pairs, _rest = getopt.getopt(words, _OPTIONS)
        except getopt.GetoptError:
            words = words[:-1]
            continue
        options.update({name.lstrip("-"): value for name, value in pairs})
        break
    return options


def start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot."""
    return int(_read("%s/%d/stat" % (PROC, pid)).rpartition(")")[2].split()[19])


def _absolute(pid: int, path: str) -> str:
    if not path or os.path.isabs(path):
        return path
    return os.path.normpath(os.path.join(os.readlink("%s/%d/cwd" % (PROC, pid)), path))


def examine(pid: int) -> Slapd | None:
    """Return the slapd with this pid, or None where it is another program, a slapd tool, or gone."""
    try:
        if _read("%s/%d/comm" % (PROC, pid)).strip() not in _NAMES:
            return None
        argv = tuple(_read("%s/%d/cmdline" % (PROC, pid)).rstrip("\0").split("\0"))
        options = parse_arguments(argv)
        if not argv[0] or set("TtV").intersection(options):
            return None
        config_dir, config_file = options.get("F", ""), options.get("f", "")
        if not config_dir and not config_file:
            config_dir = next((path for path in _CONFIG_DIRS if os.path.isdir(below(root_of(pid), path))), "")
        return Slapd(
            pid=pid,
            start=start_ticks(pid),
            uid=os.stat("%s/%d" % (PROC, pid)).st_uid,
            argv=argv,
            uris=tuple((options.get("h") or "ldap:///").split()),
            config_dir=_absolute(pid, config_dir),
            config_file=_absolute(pid, config_file),
            user=options.get("u", ""),
        )
    except (OSError, IndexError, ValueError):
        return None


def find_slapds() -> List[Slapd]:
    """Return all running slapds that this process can see, oldest first."""
    pids = [int(name) for name in os.listdir(PROC) if name.isdigit()]
    found = [item for item in (examine(pid) for pid in pids) if item is not None]
    return sorted(found, key=lambda item: (item.start, item.pid))


def here(item: Slapd) -> bool:
    """Return whether a slapd runs in our root and its configuration is the one that lies at that path for us."""
    config = item.config_dir or item.config_file
    return same_root(item.pid) and (not config or same_file(item.pid, config, config))


def _socket_path(uri: str) -> str:
    path = unquote(uri[len("ldapi://") :].partition("?")[0].rstrip("/")) if uri.startswith("ldapi:") else ""
    return os.path.realpath(path) if path else uri.rstrip("/").lower()


def _same_uri(item: Slapd, its_uri: str, uri: str) -> bool:
    its, given = _socket_path(its_uri), _socket_path(uri)
    return same_file(item.pid, its, given) if its[:1] == given[:1] == "/" else its == given


def _matches(item: Slapd, instance: str) -> bool:
    if "://" in instance:
        return any(_same_uri(item, uri, instance) for uri in item.uris)
    if os.path.isdir(instance):
        return bool(item.config_dir) and same_file(item.pid, item.config_dir, instance)
    try:
        return _read(instance).strip() == str(item.pid)
    except (OSError, ValueError):
        return False


def choose_slapd(slapds: Sequence[Slapd], instance: str = "", uri: str = "") -> Slapd:
    """Return the slapd meant by `instance` (pid file, config directory or URI), else by `uri`, else the only one.

    Those of other roots and mount namespaces are never meant, whatever their paths. Raises LdaptuneError naming the
    running ones where none or several match.
    """
    local = [item for item in slapds if here(item)]
    apart = [item for item in slapds if item not in local]
    matches = local
    if instance:
        matches = [item for item in local if _matches(item, instance)]
    elif uri and len(matches) > 1:
        matches = [item for item in local if _matches(item, uri)]
    if len(matches) == 1:
        return matches[0]
    elsewhere = "; apart, in another root or behind other mounts: " + _shown(apart) if apart else ""
    if not slapds:
        do = "Start it first; the lab comes up by make lab."
        raise LdaptuneError(problem("no slapd is running", where="this host", do=do))
    if not local:
        raise LdaptuneError(
            problem(
                "no slapd is running on this host itself",
                where="this host",
                found=elsewhere.lstrip("; "),
                do="Start it first. One in a container: make the container itself the Ansible host (a connection "
                "plugin or ssh into it), or tune its image.",
            )
        )
    raise LdaptuneError(
        problem(
            "several slapds are running" if not instance else "tuning_instance does not name one running slapd",
            where="tuning_instance",
            found=_shown(local) + elsewhere,
            wanted=instance,
            do="Set tuning_instance to the pid file, the configuration directory or an ldapi URI of the one meant.",
        )
    )


def _shown(slapds: Sequence[Slapd]) -> str:
    return "; ".join("pid %d (%s)" % (item.pid, item.config_dir or item.config_file) for item in slapds)


def alive(slapd: Slapd) -> bool:
    """Return whether this very process still runs (a zombie does not)."""
    try:
        stat = _read("%s/%d/stat" % (PROC, slapd.pid)).rpartition(")")[2].split()
    except OSError:
        return False
    return stat[0] not in "ZX" and int(stat[19]) == slapd.start


def cpu_seconds(pid: int) -> float:
    """Return CPU time used by all threads of a process, user and kernel, in seconds."""
    fields = _read("%s/%d/stat" % (PROC, pid)).rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(_read("%s/%d/statm" % (PROC, pid)).split()[1]) * os.sysconf("SC_PAGE_SIZE")


def figures(slapd: Slapd) -> Dict[str, Any]:
    """Return {"pid", "start", "cpu_seconds", "rss_bytes"}; equal pid and start mean that it was not restarted."""
    return {
        "pid": slapd.pid,
        "start": slapd.start,
        "cpu_seconds": cpu_seconds(slapd.pid),
        "rss_bytes": rss_bytes(slapd.pid),
    }


def open_files(pid: int) -> Dict[int, str]:
    """Return what each descriptor of a process points at."""
    found = {}
    folder = "%s/%d/fd" % (PROC, pid)
    for name in os.listdir(folder):
        try:
            found[int(name)] = os.readlink("%s/%s" % (folder, name))
        except OSError:
            continue
    return found


def listening_sockets(pid: int) -> List[str]:
    """Return the paths of the Unix sockets a process listens on, as it bound them."""
    inodes = {target[len("socket:[") : -1] for target in open_files(pid).values() if target.startswith("socket:[")}
    found = []
    for line in _read("%s/%d/net/unix" % (PROC, pid)).splitlines()[1:]:
        # Num RefCount Protocol Flags Type St Inode Path; the flag is SO_ACCEPTCON.
        fields = line.split(None, 7)
        if len(fields) == 8 and int(fields[3], 16) & 0x10000 and fields[6] in inodes:
            found.append(fields[7])
    return found


def has_open(pid: int, path: str) -> bool:
    """Return whether a process has this very file open, by whatever path it knows it."""
    try:
        wanted = os.stat(path)
    except OSError:
        return False
    for descriptor in open_files(pid):
        try:
            if os.path.samestat(wanted, os.stat("%s/%d/fd/%d" % (PROC, pid, descriptor))):
                return True
        except OSError:
            continue
    return False


def mappings(pid: int, path: str) -> List[Tuple[int, str]]:
    """Return (bytes, rights such as "r--s") of each mapping of a file, by whatever path the process knows it."""
    try:
        inode = os.stat(path).st_ino
    except OSError:
        return []
    found = []
    for line in _read("%s/%d/maps" % (PROC, pid)).splitlines():
        match = _MAPPING.match(line)
        # The device is not compared: several filesystems show another one here than stat does.
        if match and int(match.group(4)) == inode and os.path.basename(match.group(5)) == os.path.basename(path):
            found.append((int(match.group(2), 16) - int(match.group(1), 16), match.group(3)))
    return found


def program_version(slapd: Slapd) -> Tuple[int, ...]:
    """Return the version that the program of a running slapd states (-VV), or ()."""
    from .command import run

    done = run(["%s/%d/exe" % (PROC, slapd.pid), "-VV"], 10.0)
    match = re.search(r"slapd (\d+)\.(\d+)\.(\d+)", done.text)
    return tuple(int(part) for part in match.groups()) if match else ()
