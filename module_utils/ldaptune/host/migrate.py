# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moving an mdb directory to a volume of its own: what would be done, in order, and how each step is taken back.

Pure: facts come in as data, steps go out as data. The path stays, so that slapd's configuration does not change; the
old files stay, under another name or on their own volume, so that there is a way back. Entries are counted and digested
before and after, by slapcat with slapd stopped: two files of one size prove nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

from ..problems import Problem, problem

# A copy by slapadd keeps all pages it fills; room for that and for the LDIF beside it.
_ROOM_COPY = 1.2
_ROOM_LDIF = 3.0
#: What mdb itself keeps in its directory, and a filesystem in its root.
OWN_FILES = ("data.mdb", "lock.mdb", "lost+found")

Step = Dict[str, Any]


class Facts(NamedTuple):
    """What is there. directory: slapd's olcDbDirectory. used: bytes of its pages in use.

    names: what lies in it. own_mount: whether a mount of its own holds it, and nothing else. new: where the new volume
    is mounted for the while; new_names, new_free (bytes) of it. aside: where the old directory would go, and whether
    that is taken. remote: a filesystem mdb must not lie on, "" for none. tools: programs found. consent: given.
    restart: what stands against stopping and starting slapd.
    """

    directory: str
    used: int
    names: Sequence[str]
    own_mount: bool
    new: str
    new_names: Sequence[str]
    new_free: int
    aside: str
    aside_taken: bool
    remote: str
    tools: Sequence[str]
    consent: Sequence[str]
    restart: Sequence[Problem] = ()


class Digest(NamedTuple):
    """How many entries an LDIF has, and a digest that does not depend on their order or on that of their values."""

    entries: int
    sha256: str


def _unfolded(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of an LDIF (RFC 2849) with those that go on joined, comments left out, "" between records."""
    held = ""
    for raw in lines:
        line = raw.rstrip("\n")
        if line.startswith(" "):
            held += line[1:]
            continue
        if held and not held.startswith("#"):
            yield held
        held = line
        if not line:
            yield ""
    if held and not held.startswith("#"):
        yield held
    yield ""


def _plain(line: str) -> bytes:
    """Return a line as its octets: a value in base64 is the same as in clear."""
    name, _, rest = line.partition(":")
    if rest.startswith(":"):
        value = base64.b64decode(rest[1:].strip())
    else:
        value = rest.lstrip(" ").encode("utf-8", "surrogateescape")
    return name.lower().encode("ascii", "replace") + b":" + value


def digest(lines: Iterable[str]) -> Digest:
    """Return the digest of an LDIF as slapcat writes it, operational attributes among the others."""
    entries, total = 0, 0
    record: List[bytes] = []
    for line in _unfolded(lines):
        if line:
            if not re.match(r"version:\s*1$", line):
                record.append(_plain(line))
        elif record:
            entries += 1
            # Each line with its length: no two entries run into the same octets.
            body = b"".join(b"%d:%s" % (len(item), item) for item in sorted(record))
            total = (total + int.from_bytes(hashlib.sha256(body).digest(), "big")) % (1 << 256)
            record = []
    return Digest(entries, "%064x" % total)


def compare(before: Digest, after: Digest) -> List[Problem]:
    """Return what differs; [] where the copy holds the same entries."""
    if before == after:
        return []
    return [
        problem(
            "the copy does not hold the entries of the original, so the original is put back",
            found="%d entries, digest %s" % (after.entries, after.sha256[:16]),
            wanted="%d entries, digest %s" % (before.entries, before.sha256[:16]),
        )
    ]


def way(tools: Sequence[str]) -> str:
    """Return how to copy: mdb_copy where it is there, else by LDIF; "" where neither can be."""
    if "slapcat" not in tools:
        return ""
    return "mdb_copy" if "mdb_copy" in tools else "slapadd" if "slapadd" in tools else ""


def plan(facts: Facts) -> Tuple[List[Step], List[Problem]]:
    """Return (steps, problems). A step is {"do", "what", "undo"}: undo says what takes it back, "" for nothing."""
    problems = _against(facts)
    if problems:
        return [], problems
    old = facts.directory
    by = way(facts.tools)
    if by == "mdb_copy":
        copy = [_step("copy", "mdb_copy %s %s" % (old, facts.new), "empty %s" % facts.new)]
        fill = []
    else:
        # slapadd fills the directory of the configuration, so it comes when the new volume is there.
        copy = [_step("dump", "slapcat to an LDIF of root's own on %s" % facts.new, "remove the LDIF")]
        fill = [_step("fill", "slapadd -q from that LDIF, as slapd's user", "")]
    if facts.own_mount:
        away = _step("set_aside", "unmount %s" % old, "mount %s again" % old)
    else:
        away = _step("set_aside", "rename %s to %s" % (old, facts.aside), "rename %s to %s" % (facts.aside, old))
    steps = [
        _step("stop", "stop slapd", "start slapd"),
        _step("digest", "count and digest the entries by slapcat", ""),
        *copy,
        away,
        _step("switch", "mount the volume of %s at %s, and keep that" % (facts.new, old), "mount it at %s" % facts.new),
        *fill,
        _step("own", "owner and mode as %s had them" % old, ""),
        _step("compare", "count and digest again; unequal: all of this is taken back", ""),
        _step("start", "start slapd and wait for its answer", "stop slapd"),
    ]
    return steps, []


def _step(do: str, what: str, undo: str) -> Step:
    return {"do": do, "what": what, "undo": undo}


def way_back(
    steps: Sequence[Step], done: int, then: Digest | None, now: Digest | None
) -> Tuple[List[str], List[Problem]]:
    """Return (what takes the first `done` steps back, in order, problems).

    then and now are the digests at the switch and of today: where they differ clients have written since, and the
    old files do not have that.
    """
    if then is not None and now is not None and then != now:
        return [], [
            problem(
                "entries were written since the move, and the old files do not have them",
                found="%d entries, digest %s" % (now.entries, now.sha256[:16]),
                wanted="%d entries, digest %s" % (then.entries, then.sha256[:16]),
                do="Move forward instead: migrate to another volume.",
            )
        ]
    return [step["undo"] for step in reversed(list(steps)[:done]) if step["undo"]], []


def _against(facts: Facts) -> List[Problem]:
    problems: List[Problem] = list(facts.restart)
    if "restart" not in facts.consent:
        problems.append(
            problem(
                "moving a database stops slapd for as long as it takes",
                where="consent",
                found=", ".join(facts.consent) or "no consents",
                wanted="restart",
            )
        )
    if facts.remote:
        problems.append(problem("mdb must not lie on this filesystem", where=facts.new, found=facts.remote))
    if not way(facts.tools):
        problems.append(
            problem(
                "the programs to copy a database are not here",
                found=", ".join(sorted(facts.tools)),
                wanted="slapcat, and slapadd or mdb_copy",
            )
        )
    strangers = sorted(set(facts.names) - set(OWN_FILES))
    if strangers and not facts.own_mount:
        problems.append(
            problem(
                "more than this database lies in the directory, and would go aside with it",
                where=facts.directory,
                found=", ".join(strangers[:5]),
                wanted="data.mdb and lock.mdb alone",
            )
        )
    if "data.mdb" not in facts.names:
        problems.append(problem("there is no database to move", where=facts.directory, wanted="data.mdb"))
    taken = sorted(set(facts.new_names) - {"lost+found"})
    if taken:
        problems.append(problem("the new volume is not empty", where=facts.new, found=", ".join(taken[:5])))
    factor = _ROOM_COPY if way(facts.tools) == "mdb_copy" else _ROOM_LDIF
    if facts.new_free < facts.used * factor:
        problems.append(
            problem(
                "the new volume has no room for the copy",
                where=facts.new,
                found="%d bytes free" % facts.new_free,
                wanted="%d bytes" % (facts.used * factor),
            )
        )
    if facts.aside_taken and not facts.own_mount:
        problems.append(problem("the name for the old directory is taken", where=facts.aside))
    return problems
