# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What docs/profiles.md shows is true."""

from __future__ import annotations

import re

import pytest
from ldaptune.levers.table import LEVERS
from ldaptune.profile.expression import FACTS, FILTERS
from ldaptune.profile.resolve import consents, load, resolve

FACTS_OF_A_HOST = {"host": {"cpus": 16}, "slapd": {"threads": 16}}


@pytest.fixture
def page(checkout):
    return (checkout / "docs" / "profiles.md").read_text(encoding="utf-8")


def test_the_example_resolves(page, checkout, tmp_path):
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL).group(1)
    (tmp_path / "campus.yml").write_text(example, encoding="utf-8")
    paths = [str(tmp_path), str(checkout / "tuning_profiles")]
    resolved, problems = resolve("campus", paths, FACTS_OF_A_HOST, LEVERS)
    assert problems == []
    assert [lever["value"] for lever in resolved["levers"].values()] == [32768, 32, 2]


def test_all_facts_and_filters_are_named(page):
    assert re.findall(r"^\| `((?:host|slapd|database)\.\w+)` \|", page, re.MULTILINE) == list(FACTS)
    assert ", ".join("`%s`" % name for name in FILTERS) in page


def test_the_consents_of_the_supplied_profiles(page, checkout):
    folder = checkout / "tuning_profiles"
    for path in folder.glob("*.yml"):
        static, _ = load(path.stem, [str(folder)], LEVERS)
        row = next(line for line in page.splitlines() if line.startswith("| `%s` |" % path.stem))
        needed = consents({key: lever.normal for key, lever in static.levers.items()}, LEVERS)
        assert set(re.findall(r"`(\w+)`", row.split("|")[4])) == set(needed)
