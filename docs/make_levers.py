#!/usr/bin/env python3
# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/levers.md from the lever table: `python docs/make_levers.py`; a test keeps the two alike."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "module_utils"))

from ldaptune.levers.table import LEVERS  # noqa: E402

HEAD = """\
# Levers

Generated from the table in `module_utils/ldaptune/levers/` by `make docs`; edit the table.

- **cost** is what taking effect needs: `live`, a `restart` of slapd, or `link_reset`: the card's link may go down.
- **risk** is what a wrong value can hurt: `safe`, `durability`, `availability` or `security`.
- Each cost but `live` and each risk but `safe` needs its word in `tuning_consent`.
- **compare** is `flip` where the comparison changes the lever at every leg, and `hold` where it is set once, equal in
  both arms: what it is worth is then not measured.
- **tested** is what this project observed or read; "Manual" is slapd-config(5) or slapd-mdb(5).
"""


def version(numbers):
    return ".".join(str(number) for number in numbers)


def default(spec):
    return "unset" if spec.default is None else spec.type.show(spec.default)


def persistence(spec):
    return spec.persistence or ("cn=config" if spec.attribute else "none: lost at slapd's restart")


def overview():
    rows = ["| lever | attribute | cost | risk | compare | since |", "|---|---|---|---|---|---|"]
    for key, spec in LEVERS.items():
        name = spec.attribute or spec.kernel
        attribute = "`%s`" % name if name else "none: %ss" % spec.entry
        rows.append("| [`%s`](#%s) | %s | %s | %s | %s | %s |" % (
            key, key.replace(".", ""), attribute, spec.cost, spec.risk, spec.compare, version(spec.since)))
    return "\n".join(rows)


def section(spec):
    return "\n".join([
        "## %s" % spec.key,
        "",
        spec.summary,
        "",
        "- **value**: %s; the default: %s" % (spec.type.wanted(), default(spec)),
        "- **in profiles**: %s" % ("value, at_least, at_most" if spec.type.ordered else "value"),
        "- **risk**: %s. %s" % (spec.risk, spec.risk_why),
        "- **effective value**: %s" % spec.effective,
        "- **persistence**: %s" % persistence(spec),
        "- **source**: %s" % spec.source,
        "- **tested**: %s" % spec.tested,
    ])


def text():
    """Return the whole page."""
    return "\n\n".join([HEAD.rstrip(), overview(), *(section(spec) for spec in LEVERS.values())]) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "levers.md").write_text(text(), encoding="utf-8")
