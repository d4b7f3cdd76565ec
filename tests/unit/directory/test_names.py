# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names compared as RFC 4514 means them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ldaptune.directory.names import normalise_dn, split_order


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("DC=Beta, DC=Test", "dc=beta,dc=test"),
        ("dc=beta , dc=test", "dc=beta,dc=test"),
        ('cn="dc=x,dc=y",cn=mapping tree,cn=config', r"cn=dc\3Dx\2Cdc\3Dy,cn=Mapping  Tree,cn=config"),
        (r"cn=Lu\C4\8Di\C4\87", "cn=Lučić"),
        ("uid=a+cn=b,o=x", "CN=B+UID=A,O=X"),
        ("0.9.2342.19200300.100.1.25=lab,DomainComponent=test", "dc=lab,dc=test"),
        (r"cn=a\,b", r"cn=a\2Cb"),
        ("", "  "),
    ],
)
def test_equal_names_have_one_spelling(left, right):
    assert normalise_dn(left) == normalise_dn(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("ou=x,dc=beta,dc=test", "dc=beta,dc=test"),
        (r"cn=a\,b", "cn=a,cn=b"),
        (r"cn=a\+b", "cn=a+cn=b"),
        ("dc=example.com", "dc=example,dc=com"),
    ],
)
def test_different_names_stay_different(left, right):
    assert normalise_dn(left) != normalise_dn(right)


@given(st.text(max_size=40) | st.text('+"\\=,; a3d', max_size=12))
@example('+"')
def test_any_text_has_a_normal_form_that_is_stable(text):
    once = normalise_dn("cn=" + text)
    assert normalise_dn(once) == once


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("{2}mdb", (2, "mdb")), ("{-1}frontend", (-1, "frontend")), ("mdb", (None, "mdb")), ("{x}mdb", (None, "{x}mdb"))],
)
def test_the_order_of_a_value_is_taken_off(value, wanted):
    assert split_order(value) == wanted
