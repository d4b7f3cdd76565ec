# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which slapd is meant, from its arguments."""

from __future__ import annotations

import os

import pytest
from ldaptune.host import process
from ldaptune.host.process import Slapd, choose_slapd, parse_arguments
from ldaptune.problems import LdaptuneError


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (["slapd", "-h", "ldap:/// ldapi:///", "-F", "/etc/ldap/slapd.d", "-u", "openldap"],
         {"h": "ldap:/// ldapi:///", "F": "/etc/ldap/slapd.d", "u": "openldap"}),
        (["slapd", "-hldapi:///", "-F/x", "-d0"], {"h": "ldapi:///", "F": "/x", "d": "0"}),
        (["slapd", "-4", "-f", "slapd.conf"], {"4": "", "f": "slapd.conf"}),
        (["slapd"], {}),
        (["slapd", "-F", "/x", "-Z"], {"F": "/x"}),
    ],
)
def test_arguments(line, wanted):
    assert parse_arguments(line) == wanted


def slapd(pid, config_dir="/a", uris=("ldapi:///",), config_file=""):
    return Slapd(pid, pid, 0, ("slapd",), tuple(uris), config_dir, config_file, "")


def test_the_only_one_is_taken():
    assert choose_slapd([slapd(1)]).pid == 1


def test_none_is_said():
    with pytest.raises(LdaptuneError, match="no slapd is running"):
        choose_slapd([])


def test_several_stop_and_are_named():
    with pytest.raises(LdaptuneError, match=r"several slapds.*pid 1 \(/a\); pid 2 \(/b.conf\)"):
        choose_slapd([slapd(1), slapd(2, "", config_file="/b.conf")])


def test_chosen_by_pid_file_directory_or_uri(tmp_path):
    (tmp_path / "pid").write_text("2\n")
    both = [slapd(1, str(tmp_path), ["ldapi://%2Frun%2Fone"]), slapd(2, "/b", ["ldap://h:99/", "ldapi://%2Frun%2Ftwo/"])]
    for instance, pid in [
        (str(tmp_path / "pid"), 2), (str(tmp_path), 1), ("ldapi://%2frun%2ftwo", 2), ("ldap://H:99", 2),
    ]:
        assert choose_slapd(both, instance).pid == pid
    assert choose_slapd(both, uri="ldapi://%2Frun%2Fone").pid == 1
    with pytest.raises(LdaptuneError, match="does not name one"):
        choose_slapd(both, str(tmp_path / "missing"))
    with pytest.raises(LdaptuneError, match="does not name one"):
        choose_slapd(both[:1], str(tmp_path / "pid"))


def test_started_from_slapd_conf():
    assert slapd(1, "", config_file="/b.conf").config_source == "slapd.conf"
    assert slapd(1, "/a", config_file="/b.conf").config_source == "slapd.d"


def test_what_is_no_slapd_is_none():
    assert process.examine(os.getpid()) is None
    assert process.examine(2**22 + 1) is None


def test_a_process_is_alive_only_while_it_is_the_same_one():
    me = slapd(os.getpid())
    assert not process.alive(me)
    assert process.alive(me._replace(start=process.start_ticks(os.getpid())))


def test_own_figures(tmp_path):
    me = slapd(os.getpid())._replace(start=process.start_ticks(os.getpid()))
    figures = process.figures(me)
    assert figures["cpu_seconds"] > 0
    assert figures["rss_bytes"] > 1 << 20


def test_a_mapping_is_seen_with_length_and_rights(tmp_path):
    import mmap

    path = tmp_path / "a file"
    path.write_bytes(b"x" * 8192)
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0):
        assert process.mappings(os.getpid(), str(path)) == [(8192, "rw-s")]
        assert str(path) in process.open_files(os.getpid()).values()
        (tmp_path / "else").mkdir()
        other = tmp_path / "else" / "a file"
        os.link(path, other)
        assert process.mappings(os.getpid(), str(other)) == [(8192, "rw-s")]
        assert process.has_open(os.getpid(), str(other))
    assert not process.has_open(os.getpid(), str(path))
    assert not process.has_open(os.getpid(), str(tmp_path / "missing"))
    assert process.mappings(os.getpid(), str(tmp_path / "missing")) == []
