# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private, throw-away slapd on loopback: build, start, stop, restart, destroy."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import secrets
import shutil
import subprocess
import time
from typing import List, NamedTuple, Sequence, Tuple

from ..problems import LdaptuneError, problem
from ..ssha import SALT_BYTES, ssha
from . import config, launch, process, syslog, users
from .settings import ADDRESS, SETTINGS, LabSettings

# Below the range the kernel takes for outgoing connections, so that a restart finds its port free.
PORTS = (10240, 32000)
ACCOUNTS = ("openldap", "ldap")
PATH = "/usr/sbin:/sbin:/usr/bin:/bin:/usr/libexec:/opt/symas/sbin:/opt/symas/lib"
ANSWER_SECONDS = 30.0
STOP_SECONDS = 10.0
# What root writes and what slapd's account writes are kept apart, so that no link of slapd's can lead root astray.
DIRECTORIES = {"run": 0o755, "run/slapd": 0o755, "slapd.d": 0o700, "db": 0o700, "state": 0o700, "lib": 0o755}


class Account(NamedTuple):
    """The system account slapd runs as; uid 0 when we are not root and cannot change."""

    name: str
    uid: int
    gid: int


def service_account() -> Account | None:
    """Return the account the slapd package made, or None when we are not root (slapd then runs as us)."""
    if os.geteuid() != 0:
        return None
    for name in ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise LdaptuneError(
        problem("no system account for slapd", wanted=" or ".join(ACCOUNTS), do="Install the slapd package")
    )


def program(name: str) -> str:
    """Return the path of one of slapd's programs, or refuse with the package's name."""
    found = shutil.which(name, path=PATH)
    if found is None:
        raise LdaptuneError(problem("%s is not installed" % name, do="Install the slapd package"))
    return found


def free_port() -> int:
    """Return a loopback port nobody listens on now; another process may still be quicker."""
    while True:
        # Not the seeded generator, which would give two processes the same port.
        port = random.SystemRandom().randint(*PORTS)
        if process.port_free(ADDRESS, port):
            return port


class LabSlapd(LabSettings):
    """One slapd of our own under the directory `root`, on 127.0.0.1 and an ldapi socket.

    It has cn=config (root by EXTERNAL manages), cn=monitor, an mdb database with `users` people and a null database
    that accepts every bind. `extra_ldif` entries, `global_lines` (cn=config entry), `database_lines` (mdb entry) and
    `modules` go into cn=config as they are, with `@ROOT@` for the root; olcDbDirectory directories are made.
    `config_ldif` replaces the whole cn=config, `slapd_conf` starts from such a file instead of a config directory; both
    know `@ROOT@` and `@PORT@`. With `syslog` a small reader of our own receives what slapd logs; without, nothing does.
    Errors are LdaptuneError.
    """

    # Building

    def build(self) -> LabSlapd:
        """Make the directory, the configuration and the data; nothing runs afterwards. Refuses a directory in use."""
        account = service_account()
        if os.path.isdir(self.root) and os.listdir(self.root):
            raise LdaptuneError(problem("the lab's directory is not empty", where=self.root))
        os.makedirs(self.root, mode=0o755, exist_ok=True)
        os.chmod(self.root, 0o755)  # noqa: S103 - slapd's own account must get in
        self._choose_port()
        for name, mode in DIRECTORIES.items():
            os.mkdir(self._path(name), mode)
            os.chmod(self._path(name), mode)
        launch.write_file(self.password_file, (self._given_password or secrets.token_urlsafe(18)) + "\n", 0o600)
        # First without the digest: an unfinished lab is known for one.
        self._save()
        launch.write_control(self.root)
        self._build_config()
        self._load_people()
        self.saved_digest = self.digest()
        self._save()
        if account:
            for top in ["run/slapd", "slapd.d", "db", *self._directories]:
                launch.chown_tree(self._path(top), account.uid, account.gid)
        return self

    def _choose_port(self) -> None:
        if not self.port_is_fixed:
            self.port = free_port()

    def _build_config(self) -> None:
        secret = ssha(self.password.encode(), os.urandom(SALT_BYTES))
        ldif = self._config_ldif or config.config_ldif(self._spec._replace(admin_password=secret))
        ldif = self._filled(ldif)
        text = self._filled(self.slapd_conf) or ldif
        self._directories = config.database_directories(text)
        for directory in self._directories:
            os.makedirs(os.path.join(self.root, directory), mode=0o700, exist_ok=True)
        if self.slapd_conf:
            launch.write_file(self._path("slapd.conf"), text, 0o644)
        else:
            self._run([program("slapadd"), "-n0", "-F", self.config_dir], ldif)

    def _load_people(self) -> None:
        if self.users < 0:
            return
        ldif = "".join(users.directory_ldif(self.suffix, self.users, self.password))
        self._run([program("slapadd"), "-q", *self._source(), "-b", self.suffix], ldif)

    def _run(self, command: Sequence[str], text: str = "") -> str:
        done = subprocess.run(
            list(command),
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise LdaptuneError(
                problem(
                    "%s ended with %d" % (os.path.basename(command[0]), done.returncode),
                    where=self.root,
                    found=done.stderr.strip()[-2000:],
                )
            )
        return done.stdout

    # Running

    @property
    def _identity(self) -> str:
        return self._source()[1]

    def _process(self) -> process.Found | None:
        return process.find(self.pid_file, self._identity)

    @property
    def pid(self) -> int:
        """The pid of this lab's slapd, 0 when it does not run."""
        found = self._process()
        return found.pid if found else 0

    def healthy(self) -> bool:
        """Tell whether this slapd runs and answers (and, with syslog, whether its reader runs)."""
        reader = not self.syslog or syslog.find(self.root) is not None
        return reader and self.pid != 0 and process.answers(ADDRESS, self.port)

    def _command(self) -> List[str]:
        uris = ["%s/" % self.uri, *(["%s/" % self.ldapi] if self.with_ldapi else []), *self.extra_uris]
        command = [program("slapd"), "-h", " ".join(uris), *self._source()]
        account = service_account()
        if account:
            command += ["-u", account.name, "-g", account.name]
        return command

    def start(self) -> LabSlapd:
        """Start slapd and return when it answers; one that already runs is left alone."""
        if self.pid:
            return self
        if self.syslog:
            syslog.start(self.root)
        with contextlib.suppress(FileNotFoundError):
            # One left by a crash, or made by someone else, might not be slapd's to write.
            os.unlink(self.pid_file)
        for _attempt in range(5):
            done = launch.run_daemon(self.root, self._command(), self.syslog)
            if done.returncode == 0 and self._wait_answer():
                return self
            if self.port_is_fixed or process.port_free(ADDRESS, self.port):
                break
            # Someone took the port between the choice and the start.
            self._end_all()
            self._choose_port()
            self._save()
        self._end_all()
        if process.port_free(ADDRESS, self.port):
            said = done.stderr.strip() or self._diagnosis()
        else:
            said = "another process listens on port %d" % self.port
        raise LdaptuneError(problem("slapd did not start", where=self.root, found=said[-2000:], wanted=self.uri))

    def _wait_answer(self) -> bool:
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            if self.pid and process.answers(ADDRESS, self.port):
                return True
            time.sleep(process.POLL_SECONDS)
        return False

    def _diagnosis(self) -> str:
        """Return what slapd says when it is started once more in the foreground, for a moment."""
        first, *rest = self._command()
        loud = ["timeout", "3", first, "-d", "none", *rest]
        return launch.run_daemon(self.root, loud, self.syslog).stderr.strip()

    def _end_all(self) -> bool:
        gentle = True
        for found in process.scan(self._identity, "slapd"):
            gentle = process.end(found, STOP_SECONDS) and gentle
        return gentle

    def stop(self) -> bool:
        """TERM, KILL after a deadline; return True when TERM was enough (or nothing ran)."""
        return self._end_all()

    def restart(self) -> LabSlapd:
        self.stop()
        return self.start()

    def kill(self) -> None:
        """End slapd the hard way, as a crash would."""
        found = self._process()
        if found:
            process.send(found, 9)
            process.wait_gone(found, STOP_SECONDS)

    def destroy(self) -> None:
        """Stop everything of this lab and remove its directory; a directory that holds no lab is refused."""
        if not os.path.isdir(self.root):
            return
        if not os.path.exists(self._path(SETTINGS)) and os.listdir(self.root):
            raise LdaptuneError(problem("not a lab, left alone", where=self.root))
        self.stop()
        syslog.stop(self.root)
        shutil.rmtree(self.root)

    # Looking

    def slapcat(self, number: int = 0) -> str:
        """Return database `number` as slapcat prints it (0 is cn=config), without asking the running slapd."""
        return self._run([program("slapcat"), *self._source(), "-n", str(number), "-o", "ldif-wrap=no"])

    def log_lines(self) -> Tuple[int, str]:
        """Return how many lines the log reader received and the end of what they said."""
        return syslog.read(self.root)
