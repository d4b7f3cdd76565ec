# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What moving a database would do, and the digest that proves a copy; the digest on databases of a real slapd."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ldaptune.host.migrate import Digest, Facts, compare, digest, plan, way_back

FACTS = Facts(
    directory="/var/lib/ldap", used=1000, names=["data.mdb", "lock.mdb"], own_mount=False, new="/mnt/new",
    new_names=["lost+found"], new_free=10000, aside="/var/lib/ldap.before", aside_taken=False, remote="",
    tools=["slapcat", "slapadd", "mdb_copy"], consent=["restart"],
)  # fmt: skip


def steps_of(**changes):
    steps, problems = plan(FACTS._replace(**changes))
    assert problems == []
    return steps


@pytest.mark.parametrize("tools, order", [
    (["slapcat", "mdb_copy"], ["stop", "digest", "copy", "set_aside", "switch", "own", "compare", "start"]),
    (["slapcat", "slapadd"], ["stop", "digest", "dump", "set_aside", "switch", "fill", "own", "compare", "start"]),
])
def test_the_order(tools, order):
    assert [step["do"] for step in steps_of(tools=tools)] == order


def test_the_old_one_is_kept_and_comes_back():
    steps = steps_of()
    back, problems = way_back(steps, len(steps), None, None)
    assert problems == []
    assert back == [
        "stop slapd", "mount it at /mnt/new", "rename /var/lib/ldap.before to /var/lib/ldap", "empty /mnt/new",
        "start slapd"]
    assert way_back(steps, 3, None, None)[0] == ["empty /mnt/new", "start slapd"]
    own = steps_of(own_mount=True, names=["data.mdb", "lost+found", "x"])
    assert "mount /var/lib/ldap again" in way_back(own, len(own), None, None)[0]
    told = " ".join(step["what"] + step["undo"] for step in steps + own)
    assert "mkfs" not in told
    assert "remove /var/lib/ldap" not in told


def test_going_back_does_not_lose_what_was_written_since():
    steps, then = steps_of(), Digest(2, "a" * 64)
    assert way_back(steps, 8, then, then)[1] == []
    back, problems = way_back(steps, 8, then, Digest(3, "b" * 64))
    assert back == []
    assert "written since the move" in problems[0]["what"]


@pytest.mark.parametrize("changes, said", [
    ({"consent": []}, "stops slapd"), ({"tools": ["slapadd", "mdb_copy"]}, "not here"),
    ({"names": ["data.mdb", "accesslog"]}, "accesslog"), ({"names": []}, "no database"),
    ({"new_names": ["data.mdb"]}, "not empty"), ({"new_free": 1100}, "no room"),
    ({"new_free": 2000, "tools": ["slapcat", "slapadd"]}, "no room"), ({"aside_taken": True}, "is taken"),
    ({"remote": "nfs4"}, "nfs4"), ({"restart": [{"what": "nothing restarts it"}]}, "nothing restarts it"),
])
def test_what_stands_against_it(changes, said):
    steps, problems = plan(FACTS._replace(**changes))
    assert steps == []
    assert len(problems) == 1
    assert said in " ".join(problems[0].values())


A = "dn: dc=x\nobjectClass: top\nobjectClass: domain\ndc: x\n"
B = "dn: cn=a,dc=x\ncn: a\ndescription: long and\n  folded\n"


@pytest.mark.parametrize("same", [
    A + "\n" + B, B + "\n" + A, "# c\nversion: 1\n\n" + A + "\n\n\n" + B + "\n",
    A + "\ndn: cn=a,dc=x\ndescription:: bG9uZyBhbmQgZm9sZGVk\ncn: a\n",
])
def test_one_digest_for_the_same_entries(same):
    assert digest(same.splitlines(True)) == digest((A + "\n" + B).splitlines(True))
    assert digest(same.splitlines(True)).entries == 2


@pytest.mark.parametrize("other", [
    A, A + "\n" + A, A + "\n" + B.replace("folded", "faded"), A + "\n" + B + "\n" + B, A + B,
    A.replace("dc: x\n", "") + "\n" + B + "dc: x\n", "",
])
def test_another_one_for_others(other):
    assert compare(digest((A + "\n" + B).splitlines(True)), digest(other.splitlines(True)))


def offline(tool, lab, *more):
    """Run one of slapd's offline tools on the lab's database."""
    words = [shutil.which(tool), "-F", "%s/slapd.d" % lab.root, "-b", lab.suffix, *more]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_a_copy_by_ldif_has_the_digest_of_the_original(make_slapd, tmp_path):
    first, second = make_slapd(users=40, start=False), make_slapd(users=3, start=False)
    text = offline("slapcat", first)
    found = digest(text.splitlines(True))
    assert found.entries == text.count("\ndn: ") + text.startswith("dn: ") > 40
    for data in Path(second.root, "db").rglob("data.mdb"):
        data.unlink()
    ldif = tmp_path / "dump.ldif"
    ldif.write_text(text)
    offline("slapadd", second, "-q", "-l", str(ldif))
    assert compare(found, digest(offline("slapcat", second).splitlines(True))) == []
    lost = text[: text.rindex("dn: ")]
    assert compare(found, digest(lost.splitlines(True)))
