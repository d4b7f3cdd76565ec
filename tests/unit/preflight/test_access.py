# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals of access told apart."""

from __future__ import annotations

import pytest
from ldaptune.preflight.access import (
    Factors,
    factors_from_ldif,
    impossible_change,
    judge_read,
    judge_right,
    not_safe_enough,
)

ROOT = "dn:gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth"
NO_FACTORS = Factors({}, 71)


def test_the_change_removes_the_naming_value_which_no_server_allows():
    assert impossible_change("cn=config") == [("delete", "cn", ["config"])]
    assert impossible_change("olcDatabase={1}mdb,cn=config") == [("delete", "olcDatabase", ["{1}mdb"])]


@pytest.mark.parametrize("code", [67, 16])
def test_these_answers_mean_that_the_right_is_there(code):
    assert judge_right(code, "", ROOT, "cn=config") == []


def test_without_the_right_the_identity_and_the_rule_to_add_are_shown():
    (found,) = judge_right(50, "insufficientAccessRights", ROOT, "cn=config")
    assert found["what"] == ROOT + " may not manage the configuration"
    assert "result 50" in found["found"]
    assert "dn.exact=gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth manage" in found["do"]
    assert "tuning_config_dn" in found["do"]


def test_a_hidden_entry_is_not_called_missing():
    for code, what in ((50, "may not manage the configuration"), (67, "may not read the configuration")):
        (found,) = judge_right(code, "insufficientAccessRights", ROOT, "cn=config", readable=False)
        assert what in found["what"]
        assert "an access rule hides an entry" in found["found"]
    assert "result 50" in judge_read(50, "insufficientAccessRights", ROOT, "cn=config", NO_FACTORS)["found"]


def test_a_read_only_configuration_has_its_own_words():
    (found,) = judge_right(53, "unwillingToPerform", ROOT, "cn=config")
    assert "read-only" in found["what"]


def test_an_answer_nobody_expects_is_shown_as_it_is():
    (found,) = judge_right(80, "other", "", "cn=config")
    assert "result 80 (other)" in found["found"]
    assert "anonymous" in found["found"]


def test_result_13_is_explained_with_both_numbers():
    found = judge_read(13, "confidentialityRequired", ROOT, "cn=config", Factors({"ssf": 128}, 71))
    assert "ssf=71" in found["found"]
    assert found["wanted"] == "ssf=128"
    assert "not readable" in not_safe_enough(ROOT, NO_FACTORS)["wanted"]


def test_the_numbers_are_read_from_the_files():
    texts = ["dn: cn=config\nolcSecurity: ssf=128 update_ssf=112\n tls=1\nolcLocalSSF: 60\n", "olcSecurity: ssf=56\n"]
    assert factors_from_ldif(texts) == Factors({"ssf": 128, "update_ssf": 112, "tls": 1}, 60)
    assert factors_from_ldif(["# nothing here"]) == NO_FACTORS


def test_a_value_from_elsewhere_is_not_taken_for_one():
    """`:<` names a file and `::` is base64; nothing of either is read as numbers."""
    texts = [
        "olcSecurity:< file:///etc/ssf=200",
        "olcSecurity:: c3NmPTk5",
        "olcLocalSSF:< file:///9",
        "include: file:///x=1",
    ]
    assert factors_from_ldif(texts) == Factors({"ssf": 99}, 71)
    assert factors_from_ldif(["olcSecurity:: not base64 ssf=5"]) == NO_FACTORS
