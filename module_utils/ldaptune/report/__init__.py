# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result model and its renderings."""
