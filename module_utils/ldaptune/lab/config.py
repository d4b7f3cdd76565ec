# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's cn=config as LDIF text: what Debian's package would set up, with a monitor and a null database."""

from __future__ import annotations

import os
import re
from typing import List, NamedTuple, Sequence, Tuple

MODULE_DIRS = ("/usr/lib/ldap", "/usr/lib64/openldap", "/usr/lib/openldap")
SCHEMA_DIRS = ("/etc/ldap/schema", "/etc/openldap/schema")
SCHEMAS = ("core", "cosine", "inetorgperson")
EXTERNAL_ROOT = 'dn.exact="gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth"'


class ConfigSpec(NamedTuple):
    """What the generated cn=config is made from; `*_lines` are LDIF attribute lines put in as they are."""

    root: str
    suffix: str
    null_suffix: str
    log_level: str
    threads: int
    max_size: int
    admin_password: str
    config_password: str
    external_manages: bool
    modules: Tuple[str, ...]
    global_lines: Tuple[str, ...]
    database_lines: Tuple[str, ...]
    extra_ldif: Tuple[str, ...]


def first_directory(candidates: Sequence[str]) -> str:
    """Return the first of `candidates` that exists, else the first (whose absence slapadd then names)."""
    return next((path for path in candidates if os.path.isdir(path)), candidates[0])


def _entry(lines: List[str]) -> str:
    return "\n".join(line for line in lines if line) + "\n\n"


def config_ldif(spec: ConfigSpec) -> str:
    """Return the whole configuration as LDIF for `slapadd -n0`; `@ROOT@` in given lines becomes the lab's directory."""
    manage = "by %s manage " % EXTERNAL_ROOT if spec.external_manages else ""
    run = os.path.join(spec.root, "run", "slapd")
    modules = ("back_mdb", "back_monitor", "back_null", *spec.modules)
    schema_dir = first_directory(SCHEMA_DIRS)
    parts = [
        _entry(
            [
                "dn: cn=config",
                "objectClass: olcGlobal",
                "cn: config",
                "olcPidFile: %s/slapd.pid" % run,
                "olcArgsFile: %s/slapd.args" % run,
                "olcLogLevel: %s" % spec.log_level if spec.log_level else "",
                "olcThreads: %d" % spec.threads if spec.threads else "",
                *spec.global_lines,
            ]
        ),
        _entry(
            [
                "dn: cn=module{0},cn=config",
                "objectClass: olcModuleList",
                "cn: module{0}",
                "olcModulePath: %s" % first_directory(MODULE_DIRS),
                *["olcModuleLoad: %s" % name for name in modules],
            ]
        ),
        "dn: cn=schema,cn=config\nobjectClass: olcSchemaConfig\ncn: schema\n\n",
        *["include: file://%s/%s.ldif\n\n" % (schema_dir, name) for name in SCHEMAS],
        _entry(
            [
                "dn: olcDatabase={-1}frontend,cn=config",
                "objectClass: olcDatabaseConfig",
                "objectClass: olcFrontendConfig",
                "olcDatabase: {-1}frontend",
                "olcAccess: {0}to * %sby * break" % manage,
                'olcAccess: {1}to dn.exact="" by * read',
                'olcAccess: {2}to dn.base="cn=Subschema" by * read',
                "olcSizeLimit: 500",
            ]
        ),
        _entry(
            [
                "dn: olcDatabase={0}config,cn=config",
                "objectClass: olcDatabaseConfig",
                "olcDatabase: {0}config",
                "olcAccess: {0}to * %sby * none" % manage,
                "olcRootDN: cn=admin,cn=config",
                "olcRootPW: %s" % spec.config_password if spec.config_password else "",
            ]
        ),
        _entry(
            [
                "dn: olcDatabase={1}mdb,cn=config",
                "objectClass: olcDatabaseConfig",
                "objectClass: olcMdbConfig",
                "olcDatabase: {1}mdb",
                "olcSuffix: %s" % spec.suffix,
                "olcDbDirectory: %s/db" % spec.root,
                "olcRootDN: cn=admin,%s" % spec.suffix,
                "olcRootPW: %s" % spec.admin_password,
                "olcAccess: {0}to attrs=userPassword by self write by anonymous auth by * none",
                "olcAccess: {1}to * by * read",
                "olcDbIndex: objectClass eq",
                "olcDbIndex: uid eq",
                "olcDbMaxSize: %d" % spec.max_size if spec.max_size else "",
                *spec.database_lines,
            ]
        ),
        _entry(
            [
                "dn: olcDatabase={2}monitor,cn=config",
                "objectClass: olcDatabaseConfig",
                "objectClass: olcMonitorConfig",
                "olcDatabase: {2}monitor",
                "olcAccess: {0}to * by %s manage by * none" % EXTERNAL_ROOT,
                # Lets a cn=config administrator who binds by password read the monitor as well.
                "olcRootDN: cn=admin,cn=config",
            ]
        ),
        _entry(
            [
                "dn: olcDatabase={3}null,cn=config",
                "objectClass: olcDatabaseConfig",
                "objectClass: olcNullConfig",
                "olcDatabase: {3}null",
                "olcSuffix: %s" % spec.null_suffix,
                "olcDbBindAllowed: TRUE",
            ]
        ),
        *[text.strip("\n") + "\n\n" for text in spec.extra_ldif],
    ]
    return "".join(parts).replace("@ROOT@", spec.root)


def database_directories(ldif: str) -> List[str]:
    """Return every olcDbDirectory (or slapd.conf `directory`) that `ldif` names, in order."""
    found = re.findall(r"^(?:olcDbDirectory:|directory)\s+(\S+)\s*$", ldif, re.MULTILINE)
    return list(dict.fromkeys(found))
