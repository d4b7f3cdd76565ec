# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of CPUs: written once for every host, resolved against the CPUs of one."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Union

from .value_type import ValueRefused, ValueType

_PIECE = re.compile(r"^(last|[0-9]+)(?:-(last|[0-9]+))?$")


def ranges(cpus: Iterable[int]) -> str:
    """Return CPU numbers in the kernel's list form, as `0,2-3`."""
    runs: List[List[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else "%d-%d" % (low, high) for low, high in runs)


class CpuSet(ValueType):
    """`0`, `0,2-3`, `1-last`, `all`, or `rest` (the CPUs no other lever of the profile takes).

    The normal form of a profile is canonical text; `resolve` makes it a sorted list of CPU numbers.
    """

    name = "CPU set"

    def wanted(self) -> str:
        return "CPUs such as 0 or 0,2-3 or 1-last, or all, or rest"

    def parse(self, raw: object) -> str:
        items = raw if isinstance(raw, (list, tuple)) else [raw]
        pieces: List[str] = []
        for item in items:
            if isinstance(item, int) and not isinstance(item, bool) and item >= 0:
                pieces.append(str(item))
            elif isinstance(item, str):
                pieces.extend(piece.strip() for piece in item.split(","))
            else:
                raise self.refuse(item)
        if pieces in (["all"], ["rest"]):
            return pieces[0]
        if not pieces:
            raise self.refuse(raw)
        return self._canonical(pieces, raw)

    def _canonical(self, pieces: Sequence[str], raw: object) -> str:
        numbers: List[int] = []
        symbolic: List[str] = []
        for piece in pieces:
            match = _PIECE.match(piece)
            if not match:
                raise self.refuse(raw)
            low, high = match.group(1), match.group(2) or match.group(1)
            if "last" in (low, high):
                if low == "last" and high != "last":
                    raise self.refuse(raw, "Write the lower end of a range first")
                symbolic.append("last" if low == "last" else "%d-last" % int(low))
            elif int(low) > int(high):
                raise self.refuse(raw, "Write the lower end of a range first")
            elif int(high) > 65535:
                raise self.refuse(raw)
            else:
                numbers.extend(range(int(low), int(high) + 1))
        return ",".join(([ranges(numbers)] if numbers else []) + sorted(set(symbolic)))

    def resolve(self, text: str, online: Sequence[int], others: Mapping[str, Sequence[int]]) -> List[int]:
        """Return the CPUs a canonical text names on a host.

        online: the host's CPUs in use. others: CPUs the other CPU levers take, by lever, for `rest`.
        Raises ValueRefused for a CPU the host has not and for an empty set.
        """
        host = "CPUs that are online here: %s" % ranges(online)
        if text == "all":
            return sorted(online)
        if text == "rest":
            taken = {cpu for cpus in others.values() for cpu in cpus}
            left = sorted(set(online) - taken)
            if not left:
                raise ValueRefused("rest, but %s already take%s all CPUs" % (
                    " and ".join(sorted(others)), "s" if len(others) == 1 else ""), host)
            return left
        cpus: Dict[int, None] = {}
        for piece in text.split(","):
            low, _, high = piece.partition("-")
            first = max(online) if low == "last" else int(low)
            if "last" in (low, high):
                found = [cpu for cpu in online if cpu >= first]
            else:
                found = list(range(first, int(high or low) + 1))
            missing = sorted(set(found) - set(online))
            if missing or not found:
                raise ValueRefused("%s (CPU %s)" % (piece, ranges(missing) or low), host)
            cpus.update(dict.fromkeys(found))
        return sorted(cpus)

    def equal(self, left: Any, right: Any) -> bool:
        return self.show(left) == self.show(right)

    def show(self, normal: Union[None, str, Sequence[int]]) -> str:
        if normal is None:
            return "absent"
        return normal if isinstance(normal, str) else ranges(normal)

    def from_config(self, values: List[str]) -> None:
        """Return None: thread masks are no configuration attribute."""

    def to_config(self, normal: Any) -> List[str]:
        """Return no values: thread masks are no configuration attribute."""
        return []
