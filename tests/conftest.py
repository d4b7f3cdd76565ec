# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of all tests: private slapds on loopback, and modules run in this process."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from ldaptune.lab.slapd import LabSlapd
from ldaptune.load import limits
from ldaptune.problems import LdaptuneError

CHECKOUT = Path(__file__).resolve().parent.parent


def make_top():
    """Make a directory that slapd's own account can enter; its short name leaves room for a socket path."""
    path = Path(tempfile.mkdtemp(prefix="ldt-%d-" % os.getpid()))
    path.chmod(0o755)
    return path


def pytest_sessionstart(session):
    """End and remove what test runs that were killed have left: their pid is in the directory's name."""
    if hasattr(session.config, "workerinput"):
        return
    for top in Path(tempfile.gettempdir()).glob("ldt-*-*"):
        owner = top.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists() and top.stat().st_uid == os.geteuid():
            for settings in [*top.glob("lab.json"), *top.glob("*/lab.json")]:
                # Another run may be sweeping as well.
                with contextlib.suppress(OSError, LdaptuneError):
                    LabSlapd.open(settings.parent).destroy()
            shutil.rmtree(top, ignore_errors=True)


def pytest_collection_modifyitems(items):
    """Start what runs playbooks first: one of them at the end would keep a single worker busy for minutes."""
    items.sort(key=lambda item: "playbooks" not in item.fixturenames)


@pytest.fixture(scope="session")
def checkout():
    """The root of the checkout."""
    return CHECKOUT


@pytest.fixture(scope="session")
def unstolen():
    """unstolen(right): try until right() is true or no time was stolen from this machine; returns whether it was.

    What a hypervisor takes looks like a standstill. Where it took some in all tries, nothing can be said: a skip.
    """

    def attempt(right, least=0.005):
        shares = []
        for _ in range(5):
            before = limits.host_cpu()
            found = right()
            after = limits.host_cpu()
            shares.append((after.steal - before.steal) / (after.total - before.total))
            if found or shares[-1] < least:
                return found
        return pytest.skip("the hypervisor took time from this machine in all tries: %s" % shares)

    return attempt


@pytest.fixture
def short_dir():
    """A directory of this test's own, for labs it makes itself."""
    path = make_top()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _labs():
    """Yield a maker of lab slapds (same keywords as LabSlapd, started unless start=False); destroy them all after."""
    top = make_top()
    made = []

    def make(start=True, **keywords):
        lab = LabSlapd(top / str(len(made)), **keywords)
        made.append(lab)
        lab.build()
        return lab.start() if start else lab

    try:
        yield make
    finally:
        for lab in made:
            lab.destroy()
        shutil.rmtree(top, ignore_errors=True)


@pytest.fixture
def make_slapd():
    """Make any number of odd slapds: make_slapd(log_level="none", threads=4, extra_ldif=[...], start=False, ...)."""
    with _labs() as make:
        yield make


@pytest.fixture(scope="module")
def make_slapd_module():
    """The same for a whole test module."""
    with _labs() as make:
        yield make


@pytest.fixture
def slapd(make_slapd):
    """A running lab slapd with 100 users, for one test."""
    return make_slapd()


@pytest.fixture(scope="module")
def slapd_module(make_slapd_module):
    """A running lab slapd with 100 users, for a whole test module that leaves it as it was."""
    return make_slapd_module()


@pytest.fixture
def run_module(capsys):
    """Run a module of library/ in this process: run_module("authrate", {...}, check=True) -> its result as a dict.

    A result with `failed` is returned like any other.
    """
    import ansible.module_utils
    import ansible.modules
    from ansible.module_utils.testing import patch_module_args

    for package, folder in ((ansible.modules, "library"), (ansible.module_utils, "module_utils")):
        path = str(CHECKOUT / folder)
        if path not in package.__path__:
            package.__path__.append(path)

    def run(name, arguments, check=False, diff=False):
        module = importlib.import_module("ansible.modules." + name)
        capsys.readouterr()
        extra = {"_ansible_check_mode": check, "_ansible_diff": diff}
        with patch_module_args({**arguments, **extra}), contextlib.suppress(SystemExit):
            module.main()
        printed = capsys.readouterr().out.strip().splitlines()
        return json.loads(printed[-1])

    return run
