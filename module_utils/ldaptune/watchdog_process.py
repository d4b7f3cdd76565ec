# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watchdog's own process, started by watchdog.py from a private copy of this package."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Dict, Mapping

from . import durable
from .opening import open_target
from .problems import LdaptuneError, problem
from .revert import go_home, home_lines, plan_home
from .snapshot import Identity, Store, now_text
from .target import Target

POLL_SECONDS = 0.5
LOCK_SECONDS = 5.0
# A slapd that does not answer at the deadline is tried again: it may just be restarting.
TRIES = 60
RETRY_SECONDS = 5.0


def main(how: Mapping[str, Any]) -> None:
    """Hold the watchdog's lock, then watch; `how` has state_dir, identity and token."""
    store = Store(str(how["state_dir"]), Identity(**how["identity"]))
    # Whoever asks whether we live holds the lock for a moment, so wait a little for it.
    with durable.locked(store.watchdog_lock, LOCK_SECONDS):
        with open(store.watchdog_lock, "w", encoding="ascii") as stream:
            stream.write("%s %d" % (how["token"], os.getpid()))
        Watchdog(store, str(how["token"]), open_target).run()
        # The kernel releases the lock with the process: whoever finds it free finds nobody running any more.
        os._exit(0)


class Watchdog:
    """The loop of the process; `opener` connects afresh from the server options."""

    def __init__(self, store: Store, token: str, opener: Callable[[Dict[str, Any]], Target]) -> None:
        self.store = store
        self.token = token
        self.opener = opener

    def log(self, text: str) -> None:
        """Add one line to watchdog.log; a full disk must not bar the way home."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        line = "%s %s\n" % (now_text(), text.replace("\n", "; "))
        with contextlib.suppress(OSError), open(
            os.open(self.store.watchdog_log, flags, durable.FILE_MODE), "a", encoding="utf-8"
        ) as stream:
            stream.write(line)

    def mine(self) -> Dict[str, Any] | None:
        """Return active.json while it is ours."""
        active = self.store.active()
        return active if active and active["token"] == self.token else None

    def run(self) -> None:
        """Wait for the deadline, bring the host home, end; or end at once when disarmed."""
        self.log("armed")
        tries = 0
        while True:
            active = self.mine()
            if active is None:
                self.log("disarmed")
                return
            left = active["deadline_monotonic"] - time.monotonic()
            if left > 0:
                time.sleep(min(POLL_SECONDS, left))
                continue
            try:
                with self.store.lock(seconds=0):
                    if not self.due():
                        continue
                    if self.bring_home():
                        return
            except durable.Busy:
                # Who holds the lock may be renewing or disarming right now: look again.
                time.sleep(POLL_SECONDS)
                continue
            except Exception as error:  # noqa: BLE001 - a try that fails is logged and made again
                self.log("failed: %s" % error)
            tries += 1
            if tries >= TRIES:
                self.log("giving up after %d tries; run rollback.yml" % tries)
                return
            time.sleep(RETRY_SECONDS)

    def due(self) -> bool:
        """Return whether it is still our turn: neither renewed nor disarmed meanwhile."""
        active = self.mine()
        return active is not None and active["deadline_monotonic"] <= time.monotonic()

    def bring_home(self) -> bool:
        """Restore as found, log each lever; return whether all is done. The caller holds the store's lock."""
        active = self.mine() or {}
        self.log("nobody renewed before %s: restoring as found" % active["deadline"])
        target = self.opener(dict(active["server"]))
        with contextlib.closing(target.ctx):
            if target.store.root != self.store.root:
                raise LdaptuneError(
                    problem("another slapd answers now", found=target.store.root, wanted=self.store.root)
                )
            if self.store.is_closed(active["reference"]):
                self.store.set_active(None)
                self.log("home already")
                return True
            home = plan_home(target, active["reference"])
            go_home(target, home)
        for line in home_lines(home.rows):
            self.log(line)
        if any(row["state"] in ("failed", "pending") for row in home.rows):
            return False
        self.store.set_active(None)
        self.log("home" if home.complete() else "home, but for what someone else changed")
        return True
