# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything about a host and its slapd that can be known to be wrong, found by reading only and said at once."""
