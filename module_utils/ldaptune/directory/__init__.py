# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Talking to directory servers: cn=config and cn=monitor of OpenLDAP."""
