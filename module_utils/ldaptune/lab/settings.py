# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one lab slapd is: its settings, where its parts lie, how it is reached."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, List, Sequence, Type, TypeVar
from urllib.parse import quote

from ..problems import LdaptuneError, problem
from . import config, launch, users

ADDRESS = "127.0.0.1"
SETTINGS = "lab.json"
# sockaddr_un has 108 bytes; the socket's own name and the final NUL come on top of the root.
MAX_ROOT = 80
Lab = TypeVar("Lab", bound="LabSettings")


class LabSettings:
    """Settings and places of one lab; `LabSlapd` says what each setting does."""

    def __init__(
        self,
        root: os.PathLike[str] | str,
        *,
        users: int = 100,
        suffix: str = "dc=lab,dc=test",
        log_level: str = "stats",
        port: int = 0,
        syslog: bool = False,
        extra_ldif: Sequence[str] = (),
        threads: int = 0,
        max_size: int = 1 << 30,
        modules: Sequence[str] = (),
        global_lines: Sequence[str] = (),
        database_lines: Sequence[str] = (),
        config_ldif: str = "",
        slapd_conf: str = "",
        config_password: str = "",
        external_manages: bool = True,
        with_ldapi: bool = True,
        extra_uris: Sequence[str] = (),
        password: str = "",
    ) -> None:
        self.root = os.path.abspath(os.fspath(root))
        if len(self.root) > MAX_ROOT:
            raise LdaptuneError(
                problem("the lab's path is too long for a socket", found=self.root, wanted="%d bytes" % MAX_ROOT)
            )
        self.users = users
        self.suffix = suffix
        self.null_suffix = "dc=null,dc=test"
        self.log_level = log_level
        self.port = port
        self.port_is_fixed = port != 0
        self.syslog = syslog
        self.with_ldapi = with_ldapi
        self.extra_uris = list(extra_uris)
        self.slapd_conf = slapd_conf
        self.saved_digest = ""
        self._given_password = password
        self._config_ldif = config_ldif
        self._spec = config.ConfigSpec(
            root=self.root,
            suffix=suffix,
            null_suffix=self.null_suffix,
            log_level=log_level,
            threads=threads,
            max_size=max_size,
            admin_password="",
            config_password=config_password,
            external_manages=external_manages,
            modules=tuple(modules),
            global_lines=tuple(global_lines),
            database_lines=tuple(database_lines),
            extra_ldif=tuple(extra_ldif),
        )

    @classmethod
    def open(cls: Type[Lab], root: os.PathLike[str] | str) -> Lab:
        """Return the lab that was built at `root`; refuse a directory that has none."""
        path = os.path.join(os.fspath(root), SETTINGS)
        try:
            with open(path, encoding="utf-8") as handle:
                saved: Dict[str, Any] = json.load(handle)
        except (OSError, ValueError) as error:
            raise LdaptuneError(problem("no lab here", where=os.fspath(root), found=str(error))) from error
        lab = cls(root, **saved["arguments"])
        lab.port_is_fixed = bool(saved["port_is_fixed"])
        lab.saved_digest = str(saved["digest"])
        return lab

    # Where things are

    def _path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    @property
    def uri(self) -> str:
        """The ldap:// URI; the port is known after build()."""
        return "ldap://%s:%d" % (ADDRESS, self.port)

    @property
    def ldapi(self) -> str:
        """The ldapi:// URI, without a trailing slash."""
        return "ldapi://%s" % quote(self._path("run", "ldapi"), safe="")

    @property
    def config_dir(self) -> str:
        return self._path("slapd.d")

    @property
    def pid_file(self) -> str:
        return self._path("run", "slapd", "slapd.pid")

    @property
    def password_file(self) -> str:
        return self._path("password")

    @property
    def password(self) -> str:
        """The one password of all users and of `admin_dn`."""
        with open(self.password_file, encoding="utf-8") as handle:
            return handle.read().strip()

    @property
    def admin_dn(self) -> str:
        return "cn=admin,%s" % self.suffix

    @property
    def accounts(self) -> str:
        return users.accounts_pattern(self.users, self.suffix)

    @property
    def state_dir(self) -> str:
        return self._path("state")

    @property
    def restart_command(self) -> List[str]:
        """A command line that restarts exactly this slapd, from anywhere."""
        return [launch.interpreter(), self._path("ctl"), "restart"]

    @property
    def server(self) -> Dict[str, Any]:
        """The `server` option of the host modules for this slapd."""
        return {
            "instance": self.config_dir,
            "uri": self.ldapi if self.with_ldapi else self.uri,
            "config_dn": "",
            "config_password_file": "",
            "ca_file": "",
            "starttls": False,
            "suffix": self.suffix,
            "service": "slapd",
            "restart_command": self.restart_command,
            "state_dir": self.state_dir,
            "timeout": 10,
        }

    def user_dn(self, number: int) -> str:
        return users.user_dn(number, self.suffix)

    # Settings

    def digest(self) -> str:
        """Return what tells labs of other settings apart: a hash of the configuration, without passwords, and data."""
        text = json.dumps(
            [config.config_ldif(self._spec), self.users, self.syslog, self.port if self.port_is_fixed else 0]
        )
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def _save(self) -> None:
        spec = self._spec
        arguments = {
            "users": self.users,
            "suffix": self.suffix,
            "log_level": self.log_level,
            "port": self.port,
            "syslog": self.syslog,
            "threads": spec.threads,
            "max_size": spec.max_size,
            "slapd_conf": self.slapd_conf,
            "external_manages": spec.external_manages,
            "with_ldapi": self.with_ldapi,
            "extra_uris": self.extra_uris,
        }
        saved = {"arguments": arguments, "port_is_fixed": self.port_is_fixed, "digest": self.saved_digest}
        text = json.dumps(saved, indent=1, sort_keys=True)
        launch.write_file(self._path(SETTINGS), text + "\n", 0o644)

    def _filled(self, text: str) -> str:
        return text.replace("@ROOT@", self.root).replace("@PORT@", str(self.port))

    def _source(self) -> List[str]:
        if self.slapd_conf:
            return ["-f", self._path("slapd.conf")]
        return ["-F", self.config_dir]
