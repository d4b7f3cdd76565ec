# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Schedules of legs, statistics, verdicts and guards."""
