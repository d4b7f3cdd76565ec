# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Typed values: equal spellings have one normal form, wrong ones are refused with what is wanted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldaptune.levers.table import LEVERS
from ldaptune.profile.reader import read
from ldaptune.profile.values import (
    Boolean,
    Checkpoint,
    Flags,
    Integer,
    LogFile,
    LogLevel,
    Size,
    Surprise,
    Text,
    ValueRefused,
)

FLAGS = Flags(("mapasync", "nometasync", "nordahead", "nosync", "writemap"))
SIZE = Size(0, 1 << 46)
THREADS = Integer(2, 1024)


@pytest.mark.parametrize("spellings, normal", [
    (["stats", "STATS", "256", 256, "0x100", 0x100, ["stats"], ["0x100"], "stats,stats"], 256),
    (["stats sync", ["stats", "sync"], ["sync", "stats"], "16640", 16640, "0x4100", ["256", 16384]], 16640),
    (["none", "None", "32768", 32768, "0x8000"], 32768),
    (["0", 0, ["0"]], 0),
    (["-1", -1, "any", "Any", ["any"], "any stats"], -1),
    (["acl trace", "129", "0x81", "128 1", "0x80 0x1"], 129),
])
def test_log_level_spellings(spellings, normal):
    for spelling in spellings:
        assert LogLevel().parse(spelling) == normal
        if isinstance(spelling, (str, list)):
            values = [str(item) for item in spelling] if isinstance(spelling, list) else [spelling]
            assert LogLevel().from_config(values) == normal


def test_log_level_none_is_not_zero_and_not_absent():
    kind = LogLevel()
    assert not kind.equal(kind.parse("none"), kind.parse(0))
    assert kind.from_config([]) is None
    assert not kind.equal(None, 0)
    assert (kind.show(None), kind.show(0), kind.show(32768), kind.show(-1)) == ("absent", "0", "none", "any")


@given(st.integers(min_value=0, max_value=0xFFFF))
def test_log_level_survives_the_configuration(mask):
    assert LogLevel().from_config(LogLevel().to_config(mask)) == mask


def test_log_level_writes_names_or_one_number():
    assert LogLevel().to_config(16640) == ["stats", "sync"]
    assert LogLevel().to_config(4096 | 256) == ["4352"]


@pytest.mark.parametrize("kind, spellings, normal", [
    (Boolean(), [True, "TRUE", "true", " True "], True),
    (Boolean(), [False, "FALSE", "false"], False),
    (Checkpoint(), ["512 30", " 512  30 ", [512, 30], ["512", 30]], [512, 30]),
    (FLAGS, ["writemap nosync", ["nosync", "writemap"], "nosync,writemap", ["WriteMap", "nosync", "nosync"]],
     ["nosync", "writemap"]),
    (FLAGS, [[], ""], []),
    (SIZE, [1073741824, "1073741824", "1 GiB", "1GiB", "1024 MiB", "1048576KiB", "1073741824 B"], 1073741824),
    (THREADS, [16, "16", " 16 "], 16),
    (Text(), ["a b", " a b "], "a b"),
])
def test_spellings(kind, spellings, normal):
    for spelling in spellings:
        assert kind.parse(spelling) == normal
    assert kind.equal(kind.parse(normal), normal)
    json.dumps(normal, allow_nan=False)


@pytest.mark.parametrize("kind, raw", [
    *[(THREADS, raw) for raw in (True, False, 2.0, 2.1, None, "x", "", "2.0", "1_000", "0755", "-0", [], [4], {}, 1,
                                1025)],
    *[(Integer(1, 16, power_of_two=True), raw) for raw in (3, 0, 17, 12)],
    *[(LogLevel(), raw) for raw in (True, None, 2.5, "", " ", "stat", "-2", -2, 65536, [], [[]], {}, "010")],
    *[(Boolean(), raw) for raw in (1, 0, "yes", "on", None, "1", [True])],
    *[(SIZE, raw) for raw in (True, 1.5, "1.5 GiB", "1 GB", "1g", "1k", "GiB", "", "1 gib", "0100", -1, 1 << 47, None)],
    *[(FLAGS, raw) for raw in ("fast", ["nosync", "fast"], 1, True, None, [None], {})],
    *[(Checkpoint(), raw) for raw in (512, "512", "512 30 1", "a b", [512], [512, True], [-1, 2], "512,30", None)],
    *[(Text(), raw) for raw in (0o600, True, None, "", " ", "a\nb", "a\0b", ["a"])],
])
def test_refused(kind, raw):
    with pytest.raises(ValueRefused) as refused:
        kind.parse(raw)
    assert refused.value.found
    assert refused.value.wanted == kind.wanted()


@pytest.mark.parametrize("text, reads_as", [
    ("on", "yes/no value true"), ("off", "yes/no value false"), ("yes", "yes/no value true"),
    ("No", "yes/no value false"),
    ("0755", "number 493"), ("0600", "number 384"), ("2.10", "number 2.1"), ("1_000", "number 1000"),
    ("1:30", "number 90"), ("0b11", "number 3"), (".inf", "number inf"),
])
@pytest.mark.parametrize("kind", [THREADS, LogLevel(), Boolean(), SIZE, FLAGS, Checkpoint(), Text(), LogFile()])
def test_yaml_surprises_are_refused_by_every_type(kind, text, reads_as):
    raw = read("a: %s" % text, "x").data["a"]
    assert isinstance(raw, Surprise)
    with pytest.raises(ValueRefused) as refused:
        kind.parse(raw)
    assert refused.value.found == "%s (without quotes YAML reads this as the %s)" % (text, reads_as)
    assert 'Quote it ("%s")' % text in refused.value.do


def test_octal_mode_read_by_another_yaml_reader_is_refused_by_type():
    with pytest.raises(ValueRefused) as refused:
        Text().parse(0o600)
    assert (refused.value.found, refused.value.wanted) == ("the number 384", "one line of text")


def test_configuration_may_hold_more_than_a_profile_may_ask():
    assert THREADS.from_config(["5000"]) == 5000
    assert SIZE.from_config(["0"]) == 0
    assert FLAGS.from_config(["nosync future", "writemap"]) == ["future", "nosync", "writemap"]
    with pytest.raises(ValueRefused):
        THREADS.from_config(["many"])


@pytest.mark.parametrize("kind", [THREADS, LogLevel(), Boolean(), SIZE, FLAGS, Checkpoint(), Text(), LogFile()])
def test_no_values_are_absent(kind):
    assert kind.from_config([]) is None


@pytest.mark.parametrize("kind", [Integer(0, 9), LogLevel(), SIZE])
def test_absent_is_not_zero(kind):
    assert kind.from_config(["0"]) == 0
    assert not kind.equal(None, 0)


def test_no_flags_and_no_attribute_are_the_same():
    assert FLAGS.equal(None, [])
    assert FLAGS.to_config([]) == []
    assert FLAGS.show(None) == FLAGS.show([]) == "no flags"


@pytest.mark.parametrize("number, text", [
    (0, "0 bytes"), (1, "1 bytes"), (1023, "1023 bytes"), (1024, "1 KiB"), (10485760, "10 MiB"), (1 << 30, "1 GiB"),
    ((1 << 30) + 1, "1073741825 bytes"), (3 << 40, "3 TiB"),
])
def test_sizes_are_shown_exactly(number, text):
    assert SIZE.show(number) == text


def test_numbers_whose_zero_is_special_have_no_order():
    assert Integer(0, 10).ordered
    assert not Integer(0, 10, zero="never").ordered
    assert Integer(0, 10, "seconds", zero="never").wanted() == "a whole number from 0 to 10 (seconds, 0: never)"


FILE = {"path": "/var/log/s.log", "only": True, "rotate": None, "format": None}


@pytest.mark.parametrize("raw, normal", [
    ({"path": "/var/log/s.log"}, FILE),
    ({"path": "/var/log/s.log", "only": False}, dict(FILE, only=False)),
    ({"path": "/var/log/s.log", "rotate": "10 100 0"}, dict(FILE, rotate=[10, 100, 0])),
    ({"path": "/var/log/s.log", "rotate": [10, 0, 24], "format": "syslog-utc"},
     dict(FILE, rotate=[10, 0, 24], format="syslog-utc")),
])
def test_log_file(raw, normal):
    kind = LogFile()
    assert kind.parse(raw) == normal
    assert kind.from_attributes(kind.to_attributes(normal)) == normal


@pytest.mark.parametrize("raw", [
    "/var/log/s.log", None, {}, {"path": "s.log"}, {"path": "/a b"}, {"path": 1}, {"path": "/s", "size": 1},
    {"path": "/s", "only": "yes"}, {"path": "/s", "rotate": [0, 1, 1]}, {"path": "/s", "rotate": [1, 0, 0]},
    {"path": "/s", "rotate": [1, 2]}, {"path": "/s", "rotate": 5}, {"path": "/s", "rotate": [True, 1, 1]},
    {"path": "/s", "format": "json"}, {"path": "/s", "rotate": [1, -1, 5]}, {"path": "/s", "rotate": "a b c"},
])
def test_log_file_refused(raw):
    with pytest.raises(ValueRefused):
        LogFile().parse(raw)


def test_log_file_in_the_configuration():
    kind = LogFile()
    assert kind.from_attributes({"olcLogFileOnly": ["TRUE"]}) is None
    assert kind.to_attributes(None) == {name: [] for name in kind.ATTRIBUTES}
    assert kind.equal(FILE, dict(FILE, format="debug"))
    assert not kind.equal(FILE, None)
    assert kind.show(dict(FILE, rotate=[10, 100, 0], format="debug")) == (
        "/var/log/s.log, only, rotate 10 files, 100 MB, 0 h, format debug")


@pytest.mark.parametrize("key", list(LEVERS))
def test_every_default_is_a_value_of_its_type(key):
    spec = LEVERS[key]
    if spec.default is not None:
        assert spec.type.parse(spec.default) == spec.default
        assert spec.type.from_config(spec.type.to_config(spec.default)) == spec.default
