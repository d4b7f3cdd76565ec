# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A replicated cn=config is refused, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest
from ldaptune.preflight.entries import make_entry
from ldaptune.preflight.replication import replicated_config

CONFIG = "olcDatabase={0}config,cn=config"
MDB = "olcDatabase={1}mdb,cn=config"
SYNCREPL = '{0}rid=001 provider="ldap://two.test" bindmethod=simple credentials=hidden-word type=refreshAndPersist'


def config(**attributes):
    return make_entry(CONFIG, {"olcDatabase": ["{0}config"], **attributes})


@pytest.mark.parametrize(
    ("attributes", "sign"),
    [
        ({"olcSyncrepl": [SYNCREPL]}, "olcSyncrepl from ldap://two.test"),
        ({"olcMultiProvider": ["TRUE"]}, "olcMultiProvider"),
        ({"olcMirrorMode": ["TRUE"]}, "olcMirrorMode"),
    ],
)
def test_each_sign_is_refused(attributes, sign):
    (found,) = replicated_config([config(**attributes)])
    assert "cn=config is replicated" in found["what"]
    assert sign in found["found"]
    assert "no override" in found["do"]


def test_a_syncprov_overlay_on_the_configuration_is_refused():
    overlay = make_entry("olcOverlay={0}syncprov,%s" % CONFIG, {"olcOverlay": ["{0}syncprov"]})
    (found,) = replicated_config([config(), overlay])
    assert found["found"] == "overlay syncprov"


def test_the_password_inside_syncrepl_is_never_shown():
    assert "hidden-word" not in json.dumps(replicated_config([config(olcSyncrepl=[SYNCREPL])]))


def test_a_replicated_user_database_is_another_matter():
    overlay = make_entry("olcOverlay={0}syncprov,%s" % MDB, {"olcOverlay": ["{0}syncprov"]})
    data = make_entry(MDB, {"olcDatabase": ["{1}mdb"], "olcSyncrepl": [SYNCREPL], "olcMultiProvider": ["TRUE"]})
    assert replicated_config([config(olcMultiProvider=["FALSE"]), data, overlay]) == []
    assert replicated_config([]) == []
