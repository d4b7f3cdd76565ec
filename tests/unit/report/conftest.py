# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sample legs as a fixture."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

# A busy machine is no failure, and a gate gives the same answer twice.
settings.register_profile("gate", deadline=None, derandomize=True)
settings.load_profile("gate")

SAMPLE = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "evidence" / "sample.py")))


@pytest.fixture(scope="session")
def sample():
    """Builders of legs and schedules."""
    return SAMPLE
