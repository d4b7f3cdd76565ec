# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of several steps against a server that misbehaves in all ways we know: each is counted, none hangs."""

from __future__ import annotations

import itertools
import socket
import threading
import time

import pytest
from ldaptune.load import wire
from ldaptune.load.connect import Security, context
from ldaptune.load.prepare import Settings, prepare
from ldaptune.load.tally import SECOND
from ldaptune.load.worker import Job, make_loop

from .test_loop import NOTICE


class Driven:
    """A stepped loop set against a server, in this process."""

    def __init__(self, server, timeout=1.0, **more):
        given = {
            "uri": server.uri, "accounts": "uid=u[0:9],dc=x", "password": b"secret", "connections": 1,
            "timeout": timeout, "phases": [{"name": "goal", "mode": "closed", "seconds": 1, "rate": 0}],
        }  # fmt: skip
        self.ready = prepare(Settings(**{**given, **more}))
        self.job = Job(
            self.ready.target, self.ready.addresses, self.ready.security, self.ready.workload,
            self.ready.settings.connections, 0, 1, "1", timeout, False,
        )  # fmt: skip
        self.loop = make_loop(self.ready.workload, self.job, lambda: False)

    def connect(self, channels):
        for _ in range(self.ready.settings.connections):
            address = (self.ready.target.host, self.ready.target.port)
            self.loop.add(*[socket.create_connection(address) for _ in range(channels)])
            for channel in self.loop.connections:
                channel.sock.setblocking(False)

    def go(self, many, seconds=20.0, **how):
        start = time.perf_counter_ns()
        tally = self.loop.begin(start)
        items = itertools.islice(itertools.cycle(self.ready.workload.pools[0].items), many)
        self.loop.run(items.__next__, start, start + int(seconds * SECOND), **how)
        self.loop.end(start, time.perf_counter_ns())
        return tally


@pytest.fixture
def drive():
    made = []

    def make(server, channels=0, **more):
        made.append(Driven(server, **more))
        made[-1].connect(channels)
        return made[-1]

    yield make
    for driven in made:
        driven.loop.leave(0.2)


def always(answers, code=0):
    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id, code))

    return script


def test_a_connection_a_bind(fake_server, drive, answers):
    server = fake_server(always(answers))
    driven = drive(server, workload="connect_bind", connections=3)
    tally = driven.go(30)
    assert (tally.whole.count, tally.errors, tally.failures) == (30, 0, {})
    assert tally.sent == {"connections": 30, "bind": 30, "unbind": 30}
    assert {name: part.count for name, part in tally.parts.items()} == {"connect": 30, "bind": 30}
    assert len(server.socks) == 30
    assert sum(request.tag == wire.UNBIND_REQUEST for request in server.requests) == 30
    # The parts fill the whole.
    assert sum(part.total for part in tally.parts.values()) == pytest.approx(tally.whole.total, rel=0.2)
    assert not driven.loop.handlers


@pytest.mark.parametrize(
    ("rude", "failures"),
    [
        (lambda client: client.reset(), {"reset"}),
        (lambda client: (client.read(), client.reset()), {"reset"}),
        (lambda client: None, {"eof", "reset"}),
        (lambda client: client.read(), {"eof"}),
        (lambda client: (client.read(), client.send(NOTICE)), {"notice_of_disconnection"}),
        (lambda client: (client.read(), client.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"), client.read()), {"decode"}),
        (lambda client: (client.read(), client.send(b"\x30\x80\x02\x01\x01"), client.read()), {"decode"}),
        (lambda client: (client.read(), client.send(b"\x30\x85\0\0\0\0\x05"), client.read()), {"decode"}),
        (lambda client: (client.read(), client.read()), {"op_timeout"}),
    ],
)
def test_connections_that_come_to_nothing(fake_server, drive, rude, failures):
    tally = drive(fake_server(rude), workload="connect_bind", timeout=0.2).go(3)
    assert tally.whole.count == 0
    assert tally.errors == sum(tally.failures.values()) == 3
    assert set(tally.failures) <= failures


def test_nobody_listens(fake_server, drive, answers):
    server = fake_server(always(answers))
    server.stop()
    driven = drive(server, workload="connect_bind", connections=2)
    tally = driven.go(10**9, seconds=0.3)
    assert set(tally.failures) == {"connect_refused"}
    # With a pause in between, so that a dead server is not called a hundred thousand times a second.
    assert 2 <= tally.errors <= 62
    assert tally.sent == {}


def test_a_server_that_accepts_nobody_is_a_connect_timeout(drive):
    class Full:
        listener = socket.socket()

    Full.listener.bind(("127.0.0.1", 0))
    Full.listener.listen(0)
    Full.uri = "ldap://127.0.0.1:%d" % Full.listener.getsockname()[1]
    fillers = []
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(Full.listener.getsockname())
        fillers.append(filler)
    tally = drive(Full, workload="connect_bind", timeout=0.3).go(1)
    assert tally.failures == {"connect_timeout": 1}
    for sock in (*fillers, Full.listener):
        sock.close()


@pytest.mark.parametrize("starttls", [False, True])
def test_tls_is_a_part_of_its_own(fake_server, drive, certificates, tls_script, starttls):
    authority, path = certificates("127.0.0.1", "127.0.0.1")
    server = fake_server(tls_script(path, starttls))
    if not starttls:
        server.uri = server.uri.replace("ldap:", "ldaps:")
    driven = drive(server, workload="connect_bind", ca_file=authority, starttls=starttls)
    tally = driven.go(5)
    assert (tally.whole.count, tally.failures) == (5, {})
    assert list(tally.parts) == ["connect", "tls", "bind"]
    assert tally.sent.get("extended", 0) == (5 if starttls else 0)


def test_a_certificate_that_is_not_trusted(fake_server, drive, certificates, tls_script):
    _, path = certificates("127.0.0.1", "127.0.0.1")
    server = fake_server(tls_script(path, False))
    server.uri = server.uri.replace("ldap:", "ldaps:")
    driven = drive(server, workload="connect_bind")
    tally = driven.go(2)
    assert (tally.failures, tally.whole.count) == ({"tls": 2}, 0)
    assert "certificate verify failed" in str(tally.remarks)
    assert not server.requests


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda request, answers: answers.result(request.id, 2, tag=wire.EXTENDED_RESPONSE), "StartTLS refused"),
        (lambda request, answers: answers.result(request.id), "answer to StartTLS is none"),
        (lambda request, answers: answers.result(1, tag=wire.EXTENDED_RESPONSE) * 2, "bytes in clear text follow"),
        (lambda request, answers: NOTICE, "server said"),
        (lambda request, answers: b"\x30\x03\x02\x01\x01", "no LDAP message"),
    ],
)
def test_starttls_that_is_none_sends_no_password(fake_server, drive, answers, answer, words):
    def script(client):
        client.send(answer(client.read(), answers))
        client.read()

    server = fake_server(script)
    tally = drive(server, workload="connect_bind", starttls=True, insecure=True).go(1)
    assert tally.failures == {"tls": 1}
    assert words in str(tally.remarks)
    assert [request.tag for request in server.requests] == [wire.EXTENDED_REQUEST]


def found(request, answers, server):
    """The entry that a search of the tests asks for."""
    number = request.body[request.body.index(b"\x04\x03uid") + 5 :][2:4]
    return answers.entry(request.id, b"uid=" + number + b",dc=x") + answers.result(request.id, tag=wire.SEARCH_DONE)


def directory(answers, cut=None):
    """A server that finds everybody and lets everybody in; `cut` gives where its answers are cut in two."""
    pause = threading.Event()

    def script(client):
        for request in client.requests():
            search = request.tag == wire.SEARCH_REQUEST
            data = found(request, answers, client) if search else answers.result(request.id)
            place = next(cut) % len(data) if cut else 0
            if place:
                client.send(data[:place])
                pause.wait(0.001)
            client.send(data[place:])

    return script


@pytest.mark.parametrize(
    ("more", "channels", "sent"),
    [
        ({"workload": "search_bind"}, 2, {"search": 80, "bind": 80}),
        ({"think": 0.0001}, 1, {"bind": 80}),
        ({"workload": "search", "think": 0.0001}, 1, {"search": 80}),
        ({"workload": "search", "window": 5}, 1, {"search": 80}),
    ],
)
def test_answers_cut_at_every_byte(fake_server, drive, answers, more, channels, sent):
    server = fake_server(directory(answers, iter(itertools.count(1))))
    tally = drive(server, channels=channels, **more).go(80)
    assert (tally.whole.count, tally.errors, tally.failures, tally.sent) == (80, 0, {}, sent)


def test_who_is_not_found_is_not_bound(fake_server, drive, answers):
    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id, tag=wire.SEARCH_DONE))

    tally = drive(fake_server(script), channels=2, workload="search_bind").go(4)
    assert (tally.failures, tally.errors, tally.sent) == ({"wrong_result": 4}, 4, {"search": 4})


def test_one_of_a_pair_lost_is_one_client_lost(fake_server, drive, answers):
    def script(client):
        for request in client.requests():
            if request.tag == wire.BIND_REQUEST:
                client.reset()
                return
            client.send(found(request, answers, client))

    driven = drive(fake_server(script), channels=2, workload="search_bind")
    tally = driven.go(4)
    assert (tally.failures, tally.errors, tally.connections_lost) == ({"reset": 1}, 1, 2)
    assert tally.cut_short
    assert driven.loop.alive == 0


def test_the_window_is_full_and_answers_come_in_any_order(fake_server, drive, answers):
    most = []

    def script(client):
        held = []
        for request in client.requests():
            held.append(request)
            if len(held) == 4:
                most.append(len({item.id for item in held}))
                client.send(b"".join(found(item, answers, client) for item in reversed(held)))
                held.clear()

    tally = drive(fake_server(script), channels=1, workload="search", window=4).go(40)
    assert (tally.whole.count, tally.failures) == (40, {})
    assert set(most) == {4}


def test_late_answers_of_a_window_are_nobodys(fake_server, drive, answers):
    def script(client):
        requests = client.requests()
        held = [next(requests) for _ in range(2)]
        for request in requests:
            # Once the first two have run out of time, the next ones come: now all are answered.
            client.send(b"".join(found(item, answers, client) for item in (*held, request)))
            held.clear()

    driven = drive(fake_server(script), channels=1, workload="search", window=2, timeout=0.3)
    tally = driven.go(5)
    assert (tally.failures, tally.errors, tally.late, tally.whole.count) == ({"op_timeout": 2}, 2, 2, 3)


def test_a_connection_that_answers_nothing_any_more_is_given_up(fake_server, drive):
    def script(client):
        for _ in client.requests():
            pass

    driven = drive(fake_server(script), channels=1, workload="search", window=2, timeout=0.1)
    tally = driven.go(9)
    assert (tally.failures, tally.connections_lost, tally.late) == ({"op_timeout": 4}, 1, 0)


def test_an_id_that_nobody_waits_for(fake_server, drive, answers):
    def script(client):
        for request in client.requests():
            client.send(answers.result(9) + answers.result(request.id) * 2)

    tally = drive(fake_server(script), channels=1, think=0.0001).go(5)
    assert (tally.whole.count, tally.failures) == (5, {"unknown_message_id": 10})


def test_pages_to_the_end(fake_server, drive, answers):
    """Seven entries in pages of three: three pages, each an operation, and no cookie of one pass in the next."""
    cookies = []

    def page(request, cookie):
        value = wire.tlv(0x30, wire.integer(0) + wire.octets(cookie))
        control = wire.tlv(0x30, wire.octets(wire.PAGED_RESULTS_OID) + wire.octets(value))
        body = wire.tlv(wire.SEARCH_DONE, wire.integer(0, 0x0A) + wire.octets(b"") + wire.octets(b""))
        return wire.tlv(0x30, wire.integer(request.id) + body + wire.tlv(0xA0, control))

    def script(client):
        for number, request in enumerate(client.requests()):
            entries = (3, 3, 1)[number % 3]
            cookie = (b"a", b"b", b"")[number % 3]
            cookies.append(cookie)
            client.send(b"".join(answers.entry(request.id, b"cn=%d" % place) for place in range(entries)))
            client.send(page(request, cookie))

    server = fake_server(script)
    driven = drive(server, channels=1, workload="paged_search", base="dc=x", page_size=3, password=None)
    tally = driven.go(6)
    assert (tally.whole.count, tally.errors, tally.entries) == (6, 0, 14)
    driven.loop.whole = True
    tally = driven.go(1)
    assert (tally.whole.count, tally.entries) == (3, 7)
    assert cookies == [b"a", b"b", b""] * 3


def test_a_server_that_knows_no_pages_is_told_of(fake_server, drive, answers):
    def script(client):
        for request in client.requests():
            client.send(answers.entry(request.id, b"cn=1") + answers.result(request.id, tag=wire.SEARCH_DONE))

    tally = drive(fake_server(script), channels=1, workload="paged_search", base="dc=x", password=None).go(2)
    assert (tally.whole.count, tally.entries) == (2, 2)
    assert "the server ignored the control" in str(tally.remarks)


def test_a_fixed_rate_counts_from_the_planned_time(fake_server, drive, answers):
    stall = threading.Event()

    def script(client):
        for number, request in enumerate(client.requests()):
            if number == 10:
                stall.wait(0.3)
            client.send(answers.result(request.id))

    driven = drive(fake_server(script), channels=1, think=0.000001)
    tally = driven.go(10**6, seconds=1.0, rate=100.0)
    assert tally.planned == 100
    assert tally.whole.count + tally.errors + tally.dropped == 100
    assert tally.whole.maximum > 0.25 * SECOND
    # What waited for the one client has waited too, though its own service was short.
    assert tally.whole.quantile(0.8) > 2 * tally.service.quantile(0.8)


def test_a_client_lost_while_it_rests_costs_no_planned_operation(fake_server, drive, answers):
    """One of two goes away after its first answer; the other does all the rest."""
    first = threading.Lock()

    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id))
            if first.acquire(blocking=False):
                return

    driven = drive(fake_server(script), channels=1, connections=2, think=0.001)
    tally = driven.go(10**6, seconds=1.0, rate=50.0)
    assert (tally.planned, tally.dropped, tally.connections_lost) == (50, 0, 1)
    assert tally.whole.count + tally.errors == 50


def test_who_thinks_is_slow(fake_server, drive, answers):
    server = fake_server(always(answers))
    started = time.monotonic()
    tally = drive(server, channels=1, think=0.05).go(5)
    assert tally.whole.count == 5
    assert time.monotonic() - started > 0.2


def test_nothing_secret_is_needed_for_a_certificate(certificates):
    authority, path = certificates("127.0.0.1", "127.0.0.1")
    assert Security(context(authority, False, path), False).context is not None
    with pytest.raises(Exception, match="cannot read the certificate"):
        context(authority, False, "/nonexistent.pem")
