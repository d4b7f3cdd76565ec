# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe: wire format, workloads, the event loop, pacing, histogram, workers."""
