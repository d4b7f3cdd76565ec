# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A throw-away slapd on loopback, for the lab and for the tests."""
