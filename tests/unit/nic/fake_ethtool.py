#!/usr/bin/env python3
# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands for ethtool and a driver: FAKE_ETHTOOL names a JSON file {"driver", "version", "values", "log"}."""

import json
import os
import sys

PLACE = os.environ["FAKE_ETHTOOL"]
with open(PLACE, encoding="utf-8") as file:
    card = json.load(file)
SETTABLE = {
    "e1000e": {"rx-usecs"},
    "bnx2": {"rx-usecs", "tx-usecs", "rx-frames", "tx-frames"},
    "ice": {"adaptive-rx", "adaptive-tx", "rx-usecs", "tx-usecs"},
    "ixgbe": {"rx-usecs", "tx-usecs"},
    "virtio": {"rx-usecs", "tx-usecs", "rx-frames", "tx-frames"},
}
ALL = ("rx-usecs", "rx-frames", "rx-usecs-irq", "tx-usecs", "tx-frames")


def fail(*lines):
    sys.stderr.write("\n".join(lines) + "\n")
    sys.exit(1)


def shown(name):
    value = card["values"].get(name)
    return {True: "on", False: "off", None: "n/a"}[value] if value is None or isinstance(value, bool) else str(value)


def show(nic):
    print("Coalesce parameters for %s:" % nic)
    print("Adaptive RX: %s  TX: %s" % (shown("adaptive-rx"), shown("adaptive-tx")))
    print("stats-block-usecs: n/a\nsample-interval:\tn/a\n")
    for name in ALL:
        print("%s:\t%s" % (name, shown(name)))
    print("\nrx-frame-low: n/a\nCQE mode RX: off  TX: on\ntx-aggr-max-bytes:\tn/a")


def change(asked):
    values, driver = card["values"], card["driver"]
    if not set(asked) <= SETTABLE[driver]:
        fail("netlink error: cannot modify an unsupported parameter (offset 36)", "netlink error: Invalid argument")
    usecs = asked.get("rx-usecs")
    if driver == "virtio" and any(asked.values()):
        fail("netlink error: Operation not supported")
    if driver == "e1000e" and (usecs == 2 or usecs is not None and 5 <= usecs <= 9):
        fail("netlink error: Invalid argument")
    if driver == "ixgbe" and asked.get("tx-usecs"):
        fail("netlink error: Invalid argument")
    adaptive = asked.get("adaptive-rx", values.get("adaptive-rx"))
    if driver == "ice" and adaptive and usecs not in (None, values["rx-usecs"]):
        fail("netlink error: Invalid argument")
    for name, value in asked.items():
        taken = value
        if driver == "e1000e" and value > 521:
            taken = 1000000 // (1000000 // value)  # it keeps interrupts a second
        if driver == "bnx2":
            taken = min(value, 0x3FF if name.endswith("usecs") else 0xFF)
        values[name] = taken


def main(words):
    if words[0] == "--json":
        if card["version"] < 6.2:
            fail("ethtool: bad command line argument(s)", "For more information run ethtool -h")
        (name,) = words[2:]
        print(json.dumps([{"ifname": name, **{k: v for k, v in card["values"].items() if v is not None}}]))
    elif words[0] == "-c":
        show(words[1])
    else:
        pairs = list(zip(words[2::2], words[3::2]))
        card["log"].append(dict(pairs))
        switch = {"on": True, "off": False}
        change({name: switch[value] if name.startswith("adaptive") else int(value) for name, value in pairs})
    with open(PLACE, "w", encoding="utf-8") as file:
        json.dump(card, file)


main(sys.argv[1:])
