# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values and refusals as they are passed on."""

from __future__ import annotations

import json

import pytest
from ldaptune.directory.errors import DirectoryRefused, as_text
from ldaptune.directory.session import read_password
from ldaptune.problems import LdaptuneError


def test_bytes_that_are_not_utf8_fit_into_json():
    assert as_text(b"\xe9") == {"base64": "6Q=="}
    assert as_text("Lučić".encode()) == "Lučić"
    json.dumps([as_text(b"\xe9"), as_text(b"\xed\xa0\x80")]).encode("utf-8")


def test_a_refusal_tells_code_name_and_the_servers_words():
    refusal = DirectoryRefused(50, "insufficientAccessRights", "no write access", "cn=config", where="ldapi:///")
    assert (refusal.code, refusal.name, refusal.text, refusal.dn) == (
        50, "insufficientAccessRights", "no write access", "cn=config",
    )
    assert "result 50 insufficientAccessRights: no write access" in str(refusal)
    assert "manage rights" in str(refusal)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
def test_no_usable_password_is_refused_without_showing_it(tmp_path, content):
    path = tmp_path / "secret"
    path.write_bytes(content)
    with pytest.raises(LdaptuneError):
        read_password(str(path))
    with pytest.raises(LdaptuneError, match="No such file"):
        read_password(str(tmp_path / "missing"))
