# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe's accounts on a real slapd: made, found again, given another password, removed; others' entries stay."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PARENT = "ou=ldaptune-probe,dc=lab,dc=test"
PATTERN = "uid=probe.[0-4],%s" % PARENT


@pytest.fixture
def accounts(slapd, tmp_path, run_module):
    """Call the module as the database's administrator: accounts("present") -> result."""
    secret = tmp_path / "password"
    secret.write_text("first-password-of-the-probe\n")

    def call(state, check=False, **changes):
        options = {
            "state": state,
            "uri": slapd.uri,
            "accounts": PATTERN,
            "password_file": str(secret),
            "bind_dn": slapd.admin_dn,
            "bind_password_file": slapd.password_file,
        }
        result = run_module("test_accounts", {**options, **changes}, check=check)
        assert "first-password" not in str(result)
        return result

    call.secret = secret
    return call


def binds(lab, dn, password, tmp_path):
    path = tmp_path / "bind"
    path.write_text(password)
    command = ["ldapwhoami", "-x", "-H", lab.uri, "-D", dn, "-y", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def add_entry(lab, ldif, tmp_path):
    # ldapadd takes the whole file, a final newline included.
    secret = tmp_path / "admin"
    secret.write_text(lab.password)
    command = ["ldapadd", "-x", "-H", lab.uri, "-D", lab.admin_dn, "-y", str(secret)]
    subprocess.run(command, input=ldif, text=True, check=True, capture_output=True)


def test_made_once_and_usable(accounts, slapd, tmp_path):
    first = accounts("present")
    assert (first["changed"], first["created"]) == (True, 5)
    assert binds(slapd, "uid=probe.4,%s" % PARENT, "first-password-of-the-probe", tmp_path)
    again = accounts("present")
    assert (again["changed"], again["unchanged"]) == (False, 5)
    values = [line for line in slapd.slapcat(1).splitlines() if line.startswith("userPassword")]
    assert len(set(values)) == len(values)


def test_check_mode_shows_the_ldif_and_writes_nothing(accounts, slapd):
    before = slapd.slapcat(1)
    result = accounts("present", check=True)
    assert result["ldif"].count("userPassword: {SSHA}********") == 5
    assert result["ldif"].startswith("dn: %s\n" % PARENT)
    assert slapd.slapcat(1) == before
    accounts("present")
    before = slapd.slapcat(1)
    assert accounts("absent", check=True)["removed"] == 6
    assert slapd.slapcat(1) == before


def test_another_password_is_set_where_it_differs(accounts, slapd, tmp_path):
    accounts("present")
    accounts.secret.write_text("second-one")
    assert accounts("present")["updated"] == 5
    assert binds(slapd, "uid=probe.0,%s" % PARENT, "second-one", tmp_path)
    assert accounts("present")["changed"] is False


def test_absent_removes_only_what_was_made(accounts, slapd, tmp_path):
    before = slapd.slapcat(1)
    accounts("present")
    assert accounts("absent")["removed"] == 6
    assert slapd.slapcat(1).count("dn: ") == before.count("dn: ")
    assert accounts("absent")["changed"] is False
    accounts("present")
    add_entry(slapd, "dn: ou=other,%s\nobjectClass: organizationalUnit\nou: other\n" % PARENT, tmp_path)
    result = accounts("absent")
    assert (result["removed"], result["left"]) == (5, [PARENT])


def test_an_entry_of_others_is_never_touched(accounts, slapd, tmp_path):
    add_entry(slapd, "dn: %s\nobjectClass: organizationalUnit\nou: ldaptune-probe\n" % PARENT, tmp_path)
    before = slapd.slapcat(1)
    result = accounts("present")
    assert "did not make" in result["msg"]
    assert accounts("absent")["left"] == [PARENT]
    assert slapd.slapcat(1) == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"bind_dn": "uid=user.1,ou=people,dc=lab,dc=test"}, "insufficientAccessRights"),
        ({"bind_dn": "uid=nobody,dc=lab,dc=test"}, "invalidCredentials"),
        ({"accounts": "uid=p.[0-1],ou=ldaptune-probe,ou=missing,dc=lab,dc=test"}, "noSuchObject"),
        ({"accounts": "uid=p.[0-1],ou=people,dc=lab,dc=test"}, "outside a subtree of their own"),
        ({"bind_dn": "", "uri": "ldapi://%2Fno%2Fsuch"}, "no such socket"),
        ({"bind_password_file": "/no/such"}, "password file cannot be read"),
    ],
)
def test_refusals_say_what_to_do(accounts, changes, said):
    result = accounts("present", **changes)
    assert result["failed"]
    assert said in result["msg"]


def test_the_playbook_makes_a_random_password_and_shows_no_secret(slapd, tmp_path, checkout):
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("ldaphosts:\n  hosts:\n    one:\n      ansible_connection: local\n")
    secret = tmp_path / "new" / "password"
    variables = tmp_path / "vars.yml"
    variables.write_text(
        "ansible_python_interpreter: '{{ ansible_playbook_python }}'\n"
        "authrate_accounts: '%s'\nauthrate_password_file: %s\ntest_accounts_uri: %s\n"
        "test_accounts_bind_dn: %s\ntest_accounts_bind_password: '%s'\n"
        % (PATTERN, secret, slapd.uri, slapd.admin_dn, slapd.password)
    )

    def run(*words):
        command = [os.path.join(os.path.dirname(sys.executable), "ansible-playbook"), "-i", str(inventory)]
        command += ["-e", "@%s" % variables, "playbooks/test_accounts.yml", "-vvv", "--diff", *words]
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        assert slapd.password not in said
        return said

    before = slapd.slapcat(1)
    assert "userPassword: {SSHA}********" in run("--check")
    assert not secret.exists()
    assert slapd.slapcat(1) == before
    said = run()
    password = secret.read_text().strip()
    assert secret.stat().st_mode & 0o777 == 0o600
    assert len(password) == 32
    assert "5 created" in said
    assert password not in said
    assert binds(slapd, "uid=probe.3,%s" % PARENT, password, tmp_path)
    again = run()
    assert "changed=0" in again
    assert password not in again
    assert "6 removed" in run("-e", "test_accounts_state=absent")


def test_a_password_for_each_account_is_refused(accounts, slapd):
    """The first row would be everybody's password."""
    rows = ["uid=probe.%d,%s\tfirst-password-%d\n" % (number, PARENT, number) for number in range(2)]
    accounts.secret.write_text("".join(rows))
    before = slapd.slapcat(1)
    result = accounts("present")
    assert result["failed"] and "a password for each account" in result["msg"]
    assert slapd.slapcat(1) == before
