# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles: parse, inherit, validate, resolve; typed values compared in normal form."""
