# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The core of ldaptune: standard library at import, Python 3.8, no Ansible."""
