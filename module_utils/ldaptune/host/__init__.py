# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only code that touches the system: files, commands, /proc, the service manager."""
