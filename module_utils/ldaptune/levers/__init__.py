# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Levers: one tunable thing on a host each, with observe, check, write, restore."""
