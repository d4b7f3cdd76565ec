# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings: written to /proc/sys and kept by a file of their own in /etc/sysctl.d."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Tuple

from ..host import conf_dirs, files
from ..problems import LdaptuneError, Problem, problem
from .base import Observation, observation, unsupported
from .context import Context
from .host_lever import HostLever, place

# In the order of their weight: a file of the same name in an earlier one hides the later one's (sysctl.d(5)).
FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
# procps reads it last of all, systemd only where 99-sysctl.conf leads to it.
LAST = "/etc/sysctl.conf"
# Of each pair the kernel keeps one, and the other reads 0.
PAIRED = {"vm.dirty_background_bytes": "vm.dirty_background_ratio"}


def settings(text: str) -> Dict[str, str]:
    """Return {name: value} of a file in the form of sysctl.d(5); what is no setting is passed over."""
    found: Dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        name = name.strip().lstrip("-")
        if not equals or not name or name[0] in "#;":
            continue
        # The first separator says which of the two is one.
        slash, dot = name.find("/"), name.find(".")
        if 0 <= slash < (dot if dot >= 0 else len(name)):
            name = name.translate(str.maketrans("/.", "./"))
        found[name] = " ".join(value.split())
    return found


def read_order(root: str) -> List[str]:
    """Return the host's files in the order in which they are read; the last one wins."""
    last = os.path.join(root, LAST.lstrip("/"))
    return list(conf_dirs.merged(root, FOLDERS, ".conf").values()) + ([last] if os.path.isfile(last) else [])


class Sysctl(HostLever):
    """One kernel setting. Record: {"file", "value", "pair": the other of a pair that exclude each other, or null}."""

    @property
    def file(self) -> str:
        """The file that keeps it."""
        return "/etc/sysctl.d/90-ldaptune-%s.conf" % self.key.partition(".")[2]

    def observe(self, ctx: Context) -> Observation:
        try:
            value = self._live(ctx, self.spec.kernel)
        except OSError as error:
            return unsupported("this kernel has no %s (%s)" % (self.spec.kernel, os.strerror(error.errno or 0)))
        pair = PAIRED.get(self.spec.kernel)
        kept = files.record(place(ctx, self.file))
        record = {"file": kept, "value": value, "pair": self._live(ctx, pair) if pair else None}
        configured = settings(files.text_of(kept) or "").get(self.spec.kernel)
        return observation(record, self._number(configured), self._number(value), self.spec.effective)

    def check(self, ctx: Context, seen: Observation, wanted: Any) -> List[Problem]:
        found = self._other(ctx, wanted)
        if not found:
            return []
        path, value = found
        return [
            problem(
                "another file would win over ours at the next boot",
                where=path,
                found="%s = %s" % (self.spec.kernel, value),
                wanted="%s = %s" % (self.spec.kernel, self.spec.type.show(wanted)),
                do="Take the line out of that file, or put %s into tuning_exclude." % self.key,
            )
        ]

    def write(self, ctx: Context, wanted: Any) -> None:
        self._set(ctx, self.spec.kernel, str(wanted))
        text = "# Written by ldaptune; rollback.yml takes it away.\n%s = %s\n" % (self.spec.kernel, wanted)
        files.install(place(ctx, self.file), text)

    def restore(self, ctx: Context, record: Any) -> List[str]:
        files.put_back(record["file"])
        pair = PAIRED.get(self.spec.kernel)
        if pair and record["value"] == "0":
            self._set(ctx, pair, record["pair"])
        else:
            self._set(ctx, self.spec.kernel, record["value"])
        return []

    def _other(self, ctx: Context, wanted: Any) -> Tuple[str, str] | None:
        """Return (path, value) of a file read after ours that says something else."""
        ours = place(ctx, self.file)
        order = [path for path in read_order(ctx.root) if path != ours]
        later = [path for path in order if os.path.basename(path) > os.path.basename(ours) or path == place(ctx, LAST)]
        for path in reversed(later):
            try:
                with open(path, encoding="utf-8", errors="replace") as stream:
                    value = settings(stream.read()).get(self.spec.kernel)
            except OSError:
                continue
            if value is not None:
                return None if self._number(value) == wanted else (path, value)
        return None

    def _path(self, ctx: Context, name: str) -> str:
        return place(ctx, "/proc/sys/" + name.replace(".", "/"))

    def _live(self, ctx: Context, name: str) -> str:
        with open(self._path(ctx, name), encoding="ascii") as stream:
            return stream.read().strip()

    def _set(self, ctx: Context, name: str, value: str) -> None:
        try:
            with open(self._path(ctx, name), "w", encoding="ascii") as stream:
                stream.write(value)
        except OSError as error:
            raise LdaptuneError(
                problem(
                    "the kernel refuses this value",
                    where=name,
                    found=os.strerror(error.errno or 0),
                    wanted=value,
                    do="In a container /proc/sys is read-only: tune the host instead, or exclude %s." % self.key,
                )
            ) from None

    @staticmethod
    def _number(text: str | None) -> int | None:
        return int(text) if text is not None and text.lstrip("-").isdigit() else None
