# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host and the way slapd was started."""

from __future__ import annotations

import pytest
from ldaptune.preflight.environment import (
    config_source,
    ldap3_package,
    no_ldap3,
    no_ldapi,
    not_root,
    os_release,
    too_old,
)


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("ID=debian\n", "apt install python3-ldap3"),
        ('ID=ubuntu\nID_LIKE="debian"\n', "apt install python3-ldap3"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "from EPEL"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "zypper install python3-ldap3"),
        ('ID="sles"\n', "zypper install python3-ldap3"),
        ("ID=fedora\n", "dnf install python3-ldap3"),
        ("ID=alpine\n", "pip install ldap3"),
    ],
)
def test_the_package_is_named_for_the_distribution(text, package):
    found = no_ldap3(os_release(text), "/usr/bin/python3")
    assert package in found["wanted"]
    assert "tuning_install_requirements: true" in found["do"]
    assert ldap3_package(os_release(text)) == found["wanted"]


def test_root_is_needed():
    assert not_root(0) == []
    assert "become" in not_root(1000)[0]["do"]


@pytest.mark.parametrize(
    ("argv", "config_dir", "config_file"),
    [
        (["slapd", "-F", "/etc/ldap/slapd.d"], "", ""),
        (["slapd", "-F", "/etc/ldap/slapd.d"], "slapd.d", "slapd.conf"),
        (["slapd"], "/etc/ldap/slapd.d", ""),
        (["slapd"], "", ""),
    ],
)
def test_a_configuration_directory_is_fine(argv, config_dir, config_file):
    assert config_source(argv, config_dir, config_file) == ("slapd.d", [])


@pytest.mark.parametrize(
    ("argv", "config_file"),
    [(["slapd", "-f", "/etc/ldap/slapd.conf"], ""), (["slapd"], "/etc/ldap/slapd.conf")],
)
def test_slapd_conf_is_refused_as_changes_would_vanish(argv, config_file):
    source, (found,) = config_source(argv, "", config_file)
    assert source == "slapd.conf"
    assert "would vanish" in found["what"]
    assert found["where"] == "/etc/ldap/slapd.conf"


def test_a_conversion_at_every_start_is_refused_as_well():
    source, (found,) = config_source(["slapd", "-f", "/a.conf", "-F", "/a.d"], "/a.d", "/a.conf")
    assert source == "slapd.conf"
    assert "converted anew at every start" in found["what"]


def test_a_way_in_is_needed():
    assert no_ldapi(["ldap:///", "LDAPI:///"], "") == []
    assert no_ldapi(["ldap:///"], "ldaps://localhost") == []
    (found,) = no_ldapi(["ldap://127.0.0.1:389/", "ldaps:///"], "")
    assert found["found"] == "ldap://127.0.0.1:389/ ldaps:///"
    assert "tuning_config_password_file" in found["do"]


@pytest.mark.parametrize(
    ("version", "refused"), [((2, 3, 43), True), ((2, 4, 0), False), ((2, 5, 13), False), ((), False)]
)
def test_versions(version, refused):
    assert bool(too_old(version)) is refused
