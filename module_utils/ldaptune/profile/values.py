# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The types a lever's value can have, in one place to import from."""

from __future__ import annotations

from .coalescing import Coalescing
from .cpuset import CpuSet
from .nic_values import NicCpus
from .scalars import Boolean, Integer, Size, Text
from .slapd_values import Checkpoint, Flags, LogFile, LogLevel
from .unit_values import Choice, RateLimit
from .value_type import Surprise, ValueRefused, ValueType, found_text

__all__ = [
    "Boolean", "Checkpoint", "Choice", "Coalescing", "CpuSet", "Flags", "Integer", "LogFile", "LogLevel", "NicCpus",
    "RateLimit", "Size", "Surprise", "Text", "ValueRefused", "ValueType", "found_text",
]
