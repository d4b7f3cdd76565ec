# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""irqbalance's options: our lines come and go, all others stay, octet by octet."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from ldaptune.host import files, irqbalance
from ldaptune.problems import LdaptuneError

TEXTS = {
    "as Debian ships it": "# irqbalance is\n#\n#IRQBALANCE_ONESHOT=\n#IRQBALANCE_BANNED_CPULIST=\n#IRQBALANCE_ARGS=\n",
    "empty": "",
    "no newline at its end": "IRQBALANCE_BANNED_CPULIST=2-3",
    "blank lines at its end": "IRQBALANCE_ARGS=\n\n\n",
    "octets that are no text": b"# caf\xe9\nIRQBALANCE_ONESHOT=\n".decode("utf-8", "surrogateescape"),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_our_lines_leave_no_trace(text):
    there = irqbalance.with_ban(text, [38, 39])
    assert there.startswith(text)
    assert irqbalance.has_ban(there)
    assert not irqbalance.has_ban(text)
    assert irqbalance.without_ban(there) == text
    # Other numbers after a reboot: our lines are replaced, not added to.
    again = irqbalance.with_ban(there, [51])
    assert irqbalance.without_ban(again) == text
    assert "--banirq=38" not in again
    # Isolated CPUs are irqbalance's own care only as long as this is not set.
    assert again.count("IRQBALANCE_BANNED_CPULIST") == text.count("IRQBALANCE_BANNED_CPULIST")


@pytest.mark.parametrize("text", ["A=1", "A=1\n"])
def test_what_others_add_behind_our_lines_stays(text):
    there = irqbalance.with_ban(text, [38]) + "B=2\n"
    assert irqbalance.without_ban(there) == "A=1\nB=2\n"


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ("IRQBALANCE_ARGS=", []),
        ("#IRQBALANCE_ARGS=--debug", []),
        ("IRQBALANCE_ARGS=--journal", ["--journal"]),
        ('IRQBALANCE_ARGS="--journal --hintpolicy=exact"', ["--journal", "--hintpolicy=exact"]),
        ("export IRQBALANCE_ARGS='--journal -i 7'", ["--journal", "-i", "7"]),
        ("IRQBALANCE_ARGS=--debug\nIRQBALANCE_ARGS=--journal", ["--journal"]),
    ],
)
def test_the_options_that_were_there_still_count(tmp_path, given, options):
    """Read as the boot script does, by a shell; systemd takes quotes and the last of several the same way."""
    path = tmp_path / "irqbalance"
    path.write_text(irqbalance.with_ban(given + "\n", [39, 38, 38]))
    shown = subprocess.run(
        ["sh", "-c", '. "$0"; printf %s "$IRQBALANCE_ARGS"', str(path)], capture_output=True, text=True, check=True
    )
    assert shlex.split(shown.stdout) == [*options, "--banirq=38", "--banirq=39"]


@pytest.mark.parametrize("value", ['"$OTHER --journal"', "`cat /x`", '"unfinished', "--journal --debug"])
def test_options_only_a_shell_understands_are_refused(value):
    with pytest.raises(LdaptuneError, match="in a form that ldaptune does not add to"):
        irqbalance.with_ban("IRQBALANCE_ARGS=%s\n" % value, [38])


def test_what_a_command_line_bans():
    words = ["/usr/sbin/irqbalance", "--foreground", "--banirq=38", "--banirq", "39", "-i", "40", "-i41", "--banmod=x"]
    assert irqbalance.banned(words) == {38, 39, 40, 41}


@pytest.mark.parametrize("place", irqbalance.PLACES)
def test_told_restarted_and_taken_back(host, place):
    host.systemd()
    path = host.irqbalance("#IRQBALANCE_ARGS=\n", place.lstrip("/"))
    path.chmod(0o640)
    before, root = host.files(), str(host.tree)
    found = files.record(str(path))
    irqbalance.keep_off(root, [38, 39])
    assert irqbalance.banned(irqbalance.arguments(root)) == {38, 39}
    assert host.commands == [["systemctl", "reset-failed", "irqbalance.service"],
                             ["systemctl", "try-restart", "irqbalance.service"]]
    assert path.stat().st_mode & 0o7777 == 0o640
    irqbalance.keep_off(root, [38, 39])
    assert len(host.commands) == 2  # told already
    assert irqbalance.take_back(root, found) == []
    assert host.files() == before
    assert irqbalance.banned(irqbalance.arguments(root)) == set()


def test_one_that_does_not_run_is_told_for_its_next_start_and_not_started(host):
    host.systemd()
    path = host.file("etc/default/irqbalance", "#IRQBALANCE_ARGS=\n")
    irqbalance.keep_off(str(host.tree), [38])
    assert "--banirq=38" in path.read_text()
    assert host.commands == []
    irqbalance.take_back(str(host.tree), None)
    assert path.read_text() == "#IRQBALANCE_ARGS=\n"
    assert host.commands == []


def test_none_at_all_is_left_so(host):
    before = host.files()
    irqbalance.keep_off(str(host.tree), [38])
    assert irqbalance.take_back(str(host.tree), None) == []
    assert host.files() == before


def test_lines_that_others_changed_meanwhile_stay(host):
    host.systemd()
    path = host.irqbalance("# old\n")
    found = files.record(str(path))
    irqbalance.keep_off(str(host.tree), [38])
    path.write_text(path.read_text().replace("# old", "# new") + "IRQBALANCE_ONESHOT=\n")
    assert "was changed by someone else since" in irqbalance.take_back(str(host.tree), found)[0]
    assert path.read_text() == "# new\nIRQBALANCE_ONESHOT=\n"


def test_a_process_that_does_not_know_is_a_failure(host):
    """Its unit may read another file: exit code 0 says nothing."""
    host.systemd()
    host.irqbalance()
    host.obeys = False
    with pytest.raises(LdaptuneError, match="does not know what it is to leave alone.*--foreground"):
        irqbalance.keep_off(str(host.tree), [38])


def test_what_could_not_be_told_is_said_before_anything_is_written(host):
    root = str(host.tree)
    assert irqbalance.obstacle(root, [38]) is None
    path = host.irqbalance()
    assert "nothing is known that restarts it" in str(irqbalance.obstacle(root, [38]))
    host.systemd()
    assert irqbalance.obstacle(root, [38]) is None
    path.write_text("IRQBALANCE_ARGS=$X\n")
    assert "in a form" in str(irqbalance.obstacle(root, [38]))
    path.unlink()
    assert "nobody knows where" in str(irqbalance.obstacle(root, [38]))


def test_a_boot_script_restarts_it_where_there_is_no_systemd(host):
    host.irqbalance()
    host.file("etc/init.d/irqbalance", "#!/bin/sh\n").chmod(0o755)
    irqbalance.keep_off(str(host.tree), [38])
    assert host.commands == [["irqbalance", "restart"]]
