# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe's preflight against fake servers of a few lines: what it says, and what it never sends."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest
from ldaptune.load import wire
from ldaptune.load.prepare import Settings
from ldaptune.preflight.conversation import entry_attributes
from ldaptune.preflight.probe import ProbePreflight, no_such_base, outside, spread, used_bases

ACCOUNTS = "uid=user.[0-9],ou=people,dc=lab,dc=test"
SUCCESS = b"\x0a\x01\x00\x04\x00\x04\x00"
STARTTLS_REFUSED = bytes.fromhex("300c02010178070a013404000400")
MALFORMED = bytes.fromhex(
    "3032020100782d0a01020400040e6465636f64696e67206572726f728a16312e332e362e312e342e312e313436362e3230303336"
)


class FakeServer:
    """Answers each message with what `answer(message)` returns, closes on None; keeps all it received."""

    def __init__(self, answer):
        self.received = b""
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = "ldap://127.0.0.1:%d" % self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        connection, _peer = self._listener.accept()
        with connection, contextlib.suppress(ConnectionError):
            rest = b""
            while True:
                data = connection.recv(65536)
                if not data:
                    return
                self.received += data
                whole, rest = wire.cut(rest + data)
                for message in map(wire.message, whole):
                    reply = self._answer(message)
                    if reply is None:
                        return
                    connection.sendall(reply)

    def close(self):
        self._thread.join(5)
        self._listener.close()


@pytest.fixture
def fake():
    made = []

    def make(answer):
        made.append(FakeServer(answer))
        return made[-1]

    yield make
    for server in made:
        server.close()


def root_dse(*contexts):
    values = b"".join(wire.octets(context.encode()) for context in contexts)
    attribute = wire.tlv(0x30, wire.octets(b"namingContexts") + wire.tlv(0x31, values))
    return wire.tlv(wire.SEARCH_ENTRY, wire.octets(b"") + wire.tlv(0x30, attribute))


def server_with(*contexts, code=0, text=b""):
    """A server with these naming contexts whose binds give `code`."""

    def answer(message):
        if message.tag == wire.SEARCH_REQUEST:
            entry = wire.envelope(message.id, root_dse(*contexts)) if contexts else b""
            return entry + wire.envelope(message.id, wire.tlv(wire.SEARCH_DONE, SUCCESS))
        if message.tag == wire.BIND_REQUEST:
            body = wire.integer(code, 0x0A) + wire.octets(b"") + wire.octets(text)
            return wire.envelope(message.id, wire.tlv(wire.BIND_RESPONSE, body))
        return None

    return answer


def look(server, password=b"secret-word", check_mode=False, sample=2, **settings):
    asked = {"uri": server.uri, "accounts": ACCOUNTS, "password": password, "timeout": 2.0, **settings}
    preflight = ProbePreflight(Settings(**asked), sample, check_mode)
    preflight.run()
    return preflight


def test_first_and_last_account_bind_once_each(fake):
    server = fake(server_with("dc=lab,dc=test"))
    found = look(server)
    assert found.problems == []
    assert [item["dn"][:6] for item in found.facts["tried"]] == ["uid=us"] * 2
    assert [item["dn"][9:10] for item in found.facts["tried"]] == ["0", "9"]
    assert found.facts["operations"] == {"search": 1, "bind": 2, "unbind": 1}
    # 0 is the server's own id, 1 the one that StartTLS would have used.
    assert [wire.message(content).id for content in wire.cut(server.received)[0]][:3] == [2, 3, 4]


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_password_in_the_uri_is_said_and_not_repeated(check_mode):
    preflight = ProbePreflight(Settings(uri="ldap://u:s3cret@127.0.0.1", accounts=ACCOUNTS), 1, check_mode)
    preflight.run()
    assert "a URI with a name or a password in it" in [item["what"] for item in preflight.problems]
    assert "s3cret" not in repr((preflight.problems, preflight.facts))


def test_after_a_wrong_password_nobody_else_is_tried(fake):
    server = fake(server_with("dc=lab,dc=test", code=49))
    found = look(server, sample=5)
    (refused,) = found.problems
    assert refused["what"] == "a sample account cannot bind"
    assert "result 49 (invalidCredentials)" in refused["found"]
    assert found.facts["operations"]["bind"] == 1
    assert server.received.count(b"secret-word") == 1


def test_check_mode_binds_nobody(fake):
    server = fake(server_with("dc=lab,dc=test"))
    found = look(server, password=None, password_file="/not/placed/in/check/mode", check_mode=True)
    assert found.problems == []
    assert found.facts["naming_contexts"] == ["dc=lab,dc=test"]
    assert found.facts["operations"] == {"search": 1, "unbind": 1}


def test_names_that_stand_in_the_file_are_not_asked_for_in_check_mode(fake):
    found = look(fake(server_with("dc=lab,dc=test")), password=None, accounts="", check_mode=True)
    assert found.problems == []
    assert found.facts["naming_contexts"] == ["dc=lab,dc=test"]


@pytest.mark.parametrize(
    ("accounts", "placeholder"),
    [("uid=u[0-9],ou=people,dc=example,dc=com", True), ("uid=u[0-9],dc=CHANGEME", True), ("uid=u,dc=other", False)],
)
def test_a_base_that_is_not_there_is_said_before_any_bind(fake, accounts, placeholder):
    server = fake(server_with("dc=lab,dc=test", "cn=other"))
    found = look(server, accounts=accounts)
    (refused,) = found.problems
    assert refused["what"] == "no such base on this server"
    assert refused["wanted"] == "dc=lab,dc=test, cn=other"
    assert ("placeholder" in refused["do"]) is placeholder
    assert b"secret-word" not in server.received


def test_a_server_that_hides_its_contexts_is_asked_by_a_bind(fake):
    assert look(fake(server_with())).problems == []


def test_a_server_that_wants_protection_is_understood(fake):
    (refused,) = look(fake(server_with("dc=lab,dc=test", code=13, text=b"TLS required"))).problems
    assert "result 13 (confidentialityRequired): TLS required" in refused["found"]
    assert "authrate_starttls" in refused["do"]


def test_refused_starttls_ends_it_before_a_password_is_sent(fake):
    server = fake(lambda message: STARTTLS_REFUSED)
    (refused,) = look(server, starttls=True).problems
    assert refused["what"] == "the generator cannot reach the directory"
    assert "StartTLS refused: unavailable" in refused["found"]
    assert b"secret-word" not in server.received


def test_a_notice_of_disconnection_is_told_in_the_servers_words(fake):
    (refused,) = look(fake(lambda message: MALFORMED)).problems
    assert refused["found"] == "server said protocolError: decoding error"


def test_a_server_that_hangs_up_and_one_that_is_silent(fake):
    assert "closed the connection" in look(fake(lambda message: None)).problems[0]["found"]
    assert "no answer within 0.2 s" in look(fake(lambda message: b""), timeout=0.2).problems[0]["found"]


def test_answers_that_are_no_ldap(fake):
    assert "no LDAP message" in look(fake(lambda message: b"HTTP/1.1 400 Bad Request\r\n")).problems[0]["found"]


@pytest.fixture
def deaf_port():
    """A port that nobody listens on, kept from others."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_nothing_listens(deaf_port):
    preflight = ProbePreflight(Settings("ldap://127.0.0.1:%d" % deaf_port, ACCOUNTS, password=b"x", timeout=2.0))
    preflight.run()
    assert "-h list" in preflight.problems[0]["do"]


def test_several_things_are_said_at_once(tmp_path, deaf_port):
    blank = tmp_path / "rows"
    blank.write_text("uid=user.0,ou=people,dc=lab,dc=test\t\n")
    uri = "ldap://127.0.0.1:%d" % deaf_port
    preflight = ProbePreflight(Settings(uri, ACCOUNTS, password_file=str(blank), timeout=2.0))
    preflight.run()
    whats = [item["what"] for item in preflight.problems]
    assert whats == ["an empty password in row 1", "the generator cannot reach the directory"]


def test_no_password_is_sent_when_the_file_is_wrong(fake, tmp_path):
    server = fake(server_with("dc=lab,dc=test"))
    found = look(server, password=None, password_file=str(tmp_path / "missing"))
    assert [item["what"] for item in found.problems] == ["cannot read the password file"]
    assert "bind" not in found.facts["operations"]


def test_cleartext_to_another_host_is_refused(monkeypatch):
    monkeypatch.setattr("ldaptune.load.uri.is_local", lambda addresses: False)
    preflight = ProbePreflight(Settings("ldap://127.0.0.1:9", ACCOUNTS, password=b"x", timeout=2.0), check_mode=True)
    preflight.run()
    assert "passwords would cross the network in clear text" in [item["what"] for item in preflight.problems]


def test_too_many_connections_for_the_hard_limit(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda which: (40, 40))
    preflight = ProbePreflight(
        Settings("ldap://127.0.0.1:9", ACCOUNTS, password=b"x", connections=1000, processes=1, timeout=2.0)
    )
    preflight.run()
    (refused,) = preflight.problems
    assert "too few open files" in refused["what"]


def test_no_uri():
    preflight = ProbePreflight(Settings("", ACCOUNTS))
    preflight.run()
    assert preflight.problems[0]["where"] == "authrate_uri"


def test_the_sample_is_spread_over_the_pattern():
    names = [str(number) for number in range(10)]
    assert spread(names, 2) == ["0", "9"]
    assert spread(names, 4) == ["0", "3", "6", "9"]
    assert spread(names, 1) == ["0"]
    assert spread(["only"], 5) == ["only"]


def test_bases_are_compared_as_names():
    assert outside(["OU=People, DC=Lab,dc=test"], ["dc=lab, dc=test"]) == []
    assert outside(["dc=mylab,dc=test"], ["dc=lab,dc=test"]) == ["dc=mylab,dc=test"]
    assert outside(["dc=x"], [""]) == []
    assert outside(["dc=x"], []) == []
    settings = Settings("ldap://x", workload="search", base="dc=base")
    assert used_bases(["uid=a,ou=p,dc=x", "uid=b,ou=p,dc=x"], settings) == ["dc=base", "ou=p,dc=x"]
    assert "placeholder" in no_such_base(["dc=nodomain"], ["dc=x"])["do"]


def test_attributes_of_an_entry():
    assert entry_attributes(wire.message(wire.cut(wire.envelope(7, root_dse("a", "b")))[0][0]).body) == {
        "namingcontexts": ["a", "b"]
    }
