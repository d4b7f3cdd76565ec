# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event loop against a server that misbehaves in all ways we know."""

from __future__ import annotations

import fcntl
import resource
import socket
import threading
import time

import pytest
from ldaptune.load import open_loop, phase, shots, wire
from ldaptune.load.loop import clock
from ldaptune.load.shots import FIRST_ID
from ldaptune.load.workload import Item

NOTICE = bytes.fromhex(
    "3032020100782d0a01020400040e6465636f64696e67206572726f728a16312e332e362e312e342e312e313436362e3230303336"
)


def test_plain_success(fake_server, drive, answers):
    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id))

    server = fake_server(script)
    driven = drive(server, connections=3)
    tally = driven.go(300)
    assert tally.whole.count == 300
    assert (tally.errors, tally.failures, tally.codes) == (0, {}, {})
    assert driven.loop.leave() == 3
    assert sum(request.tag == wire.UNBIND_REQUEST for request in server.requests) == 3
    ids = [request.id for request in server.requests if request.tag == wire.BIND_REQUEST]
    assert len(set(ids)) == 300
    assert min(ids) >= FIRST_ID


def test_a_bind_after_which_only_a_new_password_is_allowed_is_no_login(fake_server, drive, answers):
    control = wire.tlv(wire.CONTROLS, wire.tlv(0x30, wire.octets(wire.PASSWORD_EXPIRED_OID) + wire.octets(b"0")))

    def script(client):
        for number, request in enumerate(client.requests()):
            (content,), _ = wire.cut(answers.result(request.id))
            client.send(wire.tlv(0x30, content + (control if number % 2 else b"")))

    tally = drive(fake_server(script), connections=1).go(10)
    assert (tally.whole.count, tally.failures) == (5, {"must_change_password": 5})


@pytest.mark.parametrize("kind", ["bind", "search"])
def test_answers_cut_at_every_byte(fake_server, drive, answers, kind):
    where = iter(range(1, 1000))
    gone = threading.Event()

    def answer(request):
        if kind == "bind":
            return answers.result(request.id)
        number = len([item for item in server.requests if item.tag == wire.SEARCH_REQUEST]) - 1
        dn = b"uid=u%d,dc=x" % number
        return answers.entry(request.id, dn) + answers.result(request.id, tag=wire.SEARCH_DONE)

    def script(client):
        for request in client.requests():
            data = answer(request)
            cut = next(where) % len(data) or 1
            client.send(data[:cut])
            gone.wait(0.001)
            client.send(data[cut:])

    server = fake_server(script)
    tally = drive(server, kind=kind).go(60)
    assert tally.whole.count == 60
    assert (tally.errors, tally.failures) == (0, {})


def test_long_form_lengths_in_pieces_cost_no_cpu_and_are_learned(fake_server, drive):
    def long_form(message_id, tag, code):
        body = b"\x0a\x01" + bytes((code,)) + b"\x04\x00\x04\x00"
        operation = bytes((tag,)) + b"\x84\x00\x00\x00" + bytes((len(body),)) + body
        content = wire.integer(message_id) + operation
        return b"\x30\x84" + len(content).to_bytes(4, "big") + content

    slow = threading.Event()

    def script(client):
        for number, request in enumerate(client.requests()):
            data = long_form(request.id, wire.BIND_RESPONSE, 0)
            if number:
                client.send(data)
                continue
            for piece in (data[:5], data[5:6], data[6:-1], data[-1:]):
                client.send(piece)
                slow.wait(0.1)

    server = fake_server(script)
    driven = drive(server)
    read, slow_path = [], driven.loop._slow
    driven.loop._slow = lambda c, data, now: (read.append(data), slow_path(c, data, now))[1]
    tally = driven.go(1)
    assert tally.whole.count == 1
    assert 1 <= len(read) <= 4  # woken by pieces only
    assert driven.loop.armoury.learned == {}
    driven.go(3)
    assert driven.loop.armoury.learned
    tally = driven.go(20)
    assert (tally.whole.count, tally.errors) == (20, 0)
    assert driven.loop.armoury.forms["bind"][0].startswith(b"\x30\x84")


def test_refusals_are_counted_by_name_and_are_no_successes(fake_server, drive, answers):
    codes = [49, 0, 51, 49, 0, 123]

    def script(client):
        for number, request in enumerate(client.requests()):
            client.send(answers.result(request.id, codes[number], text=b"why not"))

    tally = drive(fake_server(script)).go(6)
    assert tally.codes == {"invalidCredentials": 2, "busy": 1, "code 123": 1}
    assert (tally.whole.count, tally.errors) == (2, 4)
    assert tally.remarks[("busy", "why not")] == 1


@pytest.mark.parametrize(
    ("value", "must_change"),
    [
        (b"\x30\x00", False),
        (b"\x30\x03\x81\x01\x02", True),
        (b"\x30\x05\xa0\x03\x80\x01\x3c", False),
        (b"\x30\x08\xa0\x03\x80\x01\x3c\x81\x01\x02", True),
    ],
)
def test_what_a_password_policy_says_behind_a_result(fake_server, drive, value, must_change):
    """With or without a warning and an error in it; of a bind that failed it is passed over."""
    control = wire.tlv(0x30, wire.octets(b"1.3.6.1.4.1.42.2.27.8.5.1") + wire.octets(value))
    codes = [0, 49, 0]

    def script(client):
        for number, request in enumerate(client.requests()):
            body = wire.integer(codes[number], 0x0A) + wire.octets(b"") + wire.octets(b"")
            operation = wire.tlv(wire.BIND_RESPONSE, body)
            client.send(wire.tlv(0x30, wire.integer(request.id) + operation + wire.tlv(0xA0, control)))

    tally = drive(fake_server(script)).go(3)
    assert tally.codes == {"invalidCredentials": 1}
    assert (tally.whole.count, tally.failures) == ((0, {"must_change_password": 2}) if must_change else (2, {}))


def test_what_failed_neither_lifts_goodput_nor_lowers_percentiles(fake_server, drive, answers):
    """Half are refused at once, each success takes long; some are never answered."""
    release = threading.Event()

    def script(client):
        for number, request in enumerate(client.requests()):
            if number >= 40:
                continue
            if number % 2:
                client.send(answers.result(request.id, 49))
            else:
                release.wait(0.01)
                client.send(answers.result(request.id))

    driven = drive(fake_server(script), timeout=0.1)
    driven.go(42)
    state = {
        "elapsed_ns": 2 * 10**9,
        "connections": 1,
        "cpu_seconds": 0,
        "queued_seconds": None,
        "throttled_seconds": 0,
    }
    result = phase.merge({"mode": "closed"}, [{**driven.loop.tally.state(), **state}])
    assert (result["operations"], result["successes"], result["errors"]) == (42, 20, 22)
    assert result["codes"] == {"success": 20, "invalidCredentials": 20}
    assert result["failures"] == {"op_timeout": 2}
    assert result["goodput"] == 10
    assert result["latency_ns"]["count"] == 20
    assert result["latency_ns"]["min"] >= 9 * 10**6
    assert driven.loop.tally.whole.quantile(0.5) >= 9 * 10**6


def test_a_wall_clock_set_in_the_middle_changes_nothing(fake_server, drive, answers, monkeypatch):
    """An hour back, then an hour on: durations, latencies and the end are those of the monotonic clock."""
    true, shift = time.time_ns, [0]
    monkeypatch.setattr(time, "time_ns", lambda: true() + shift[0])
    monkeypatch.setattr(time, "time", lambda: (true() + shift[0]) / 10**9)

    def script(client):
        for number, request in enumerate(client.requests()):
            shift[0] = (-1, 1)[number // 100 % 2] * 3600 * 10**9
            client.send(answers.result(request.id))

    driven = drive(fake_server(script), connections=1)
    tally = driven.go(1000)
    assert (tally.whole.count, tally.errors, tally.failures) == (1000, 0, {})
    for histogram in (tally.whole, tally.lag):
        assert 0 <= histogram.minimum <= histogram.maximum < 3600 * 10**9
    start = clock()
    tally = driven.loop.begin(start)
    open_loop.run(driven.loop, driven.endless(), start, start + 300000000, rate=100, offset=0)
    driven.loop.end(start, start + 300000000)
    assert tally.planned == 30
    assert 0 <= tally.whole.minimum <= tally.whole.maximum < 3600 * 10**9


def test_a_referral_shows_its_url(fake_server, drive, answers):
    def script(client):
        for request in client.requests():
            url = wire.tlv(0xA3, wire.octets(b"ldap://elsewhere.test/ou=x"))
            client.send(answers.result(request.id, 10, more=url))

    tally = drive(fake_server(script)).go(1)
    assert tally.codes == {"referral": 1}
    assert ("referral", "ldap://elsewhere.test/ou=x") in tally.remarks


def test_notice_of_disconnection(fake_server, drive, answers):
    def script(client):
        for number, request in enumerate(client.requests()):
            if number == 3:
                client.send(NOTICE)
                return
            client.send(answers.result(request.id))

    tally = drive(fake_server(script)).go(10)
    assert tally.failures == {"notice_of_disconnection": 1}
    assert ("notice_of_disconnection", "server said protocolError: decoding error") in tally.remarks
    assert (tally.whole.count, tally.errors, tally.connections_lost) == (3, 1, 1)
    assert tally.cut_short


def test_eof_with_and_without_something_outstanding(fake_server, drive, answers):
    def rude(client):
        next(client.requests())

    tally = drive(fake_server(rude)).go(5)
    assert (tally.failures, tally.errors) == ({"eof": 1}, 1)

    def idle(client):
        client.send(answers.result(next(client.requests()).id))

    driven = drive(fake_server(idle))
    tally = driven.go(1)
    assert (tally.errors, tally.whole.count) == (0, 1)
    connection = driven.loop.connections[0]
    connection.sock.setblocking(True)
    assert connection.recv(1, socket.MSG_PEEK) == b""  # the end has come
    assert not driven.loop._slow(connection, b"", clock())
    assert (tally.failures, tally.connections_lost, tally.errors) == ({"eof_idle": 1}, 1, 0)


def test_reset(fake_server, drive):
    def script(client):
        client.read()
        client.reset()

    tally = drive(fake_server(script), connections=2).go(2)
    assert (tally.failures, tally.errors, tally.connections_lost) == ({"reset": 2}, 2, 2)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x30\x80\x02\x01\x01",
        b"\x30\x84\x7f\xff\xff\xff\x02\x01",
        b"\x30\x85\x00\x00\x00\x00\x05",
        b"\x30\x03\x02\x01\x01",
        b"\x30\x0c\x04\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00",
        b"\x30\x0c\x02\x01\x01\x61\x17\x0a\x01\x00\x04\x00\x04\x00",
    ],
)
def test_what_is_no_ldap_message(fake_server, drive, data):
    def script(client):
        client.read()
        client.send(data)
        client.read()

    tally = drive(fake_server(script)).go(3)
    assert (tally.failures, tally.errors, tally.connections_lost) == ({"decode": 1}, 1, 1)


def test_an_answer_of_another_kind_is_no_answer(fake_server, drive, answers):
    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id, tag=wire.SEARCH_DONE))

    tally = drive(fake_server(script)).go(1)
    assert tally.failures == {"decode": 1}


def test_an_id_that_nobody_waits_for_is_counted(fake_server, drive, answers):
    def script(client):
        for request in client.requests():
            client.send(bytes.fromhex("300c02010961070a010004000400") + answers.result(request.id))

    tally = drive(fake_server(script)).go(4)
    assert tally.failures == {"unknown_message_id": 4}
    assert (tally.whole.count, tally.errors) == (4, 0)


def test_the_answer_twice(fake_server, drive, answers):
    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id) * 2)

    tally = drive(fake_server(script)).go(5)
    assert tally.whole.count == 5
    assert tally.failures == {"unknown_message_id": 5}


def test_a_late_answer_is_credited_to_nobody(fake_server, drive, answers):
    def script(client):
        requests = client.requests()
        first, second = next(requests), next(requests)
        client.send(answers.result(first.id, 32))
        client.send(answers.result(second.id))
        client.read()

    driven = drive(fake_server(script), timeout=0.3)
    tally = driven.go(2)
    assert tally.failures == {"op_timeout": 1}
    assert (tally.whole.count, tally.errors, tally.late, tally.codes) == (1, 1, 1, {})
    assert not driven.loop.retired


def test_an_id_still_awaited_is_not_used_again(fake_server, drive, answers, monkeypatch):
    monkeypatch.setattr(shots, "MANY_IDS", 200)

    def script(client):
        requests = client.requests()
        held = next(requests)
        for request in requests:
            if request.id == held.id:
                return
            client.send(answers.result(request.id))

    driven = drive(fake_server(script), timeout=0.1)
    tally = driven.go(shots.MANY_IDS + 50)
    assert tally.failures == {"op_timeout": 1}
    assert tally.whole.count == shots.MANY_IDS + 49


def test_a_silent_server_ends_the_phase(fake_server, drive):
    def script(client):
        for _ in client.requests():
            pass

    tally = drive(fake_server(script), connections=2, timeout=0.1).go(100)
    assert tally.failures == {"op_timeout": 4}
    assert (tally.errors, tally.connections_lost, tally.whole.count) == (4, 2, 0)
    assert tally.cut_short


def test_search_must_find_the_entry(fake_server, drive, answers):
    done = wire.SEARCH_DONE

    def reference(message_id):
        return wire.envelope(message_id, wire.tlv(wire.SEARCH_REFERENCE, wire.octets(b"ldap://elsewhere.test/ou=x")))

    def script(client):
        for number, request in enumerate(client.requests()):
            right = answers.entry(request.id, b"uid=u%d,dc=x" % number)
            before = [
                right,
                b"",
                answers.entry(request.id, b"uid=other,dc=x"),
                right + right,
                reference(request.id),
                reference(request.id) + answers.entry(request.id, b"UID = u5,DC=x"),
                right,
            ][number]
            client.send(before + answers.result(request.id, 4 if number == 6 else 0, tag=done))

    tally = drive(fake_server(script), kind="search").go(7)
    assert tally.whole.count == 2
    assert tally.failures == {"wrong_result": 3, "reference": 1}
    assert tally.codes == {"sizeLimitExceeded": 1}


def test_a_large_entry(fake_server, drive, answers):
    value = wire.tlv(0x30, wire.octets(b"x") + wire.tlv(0x31, wire.octets(b"y" * 100000)))

    def script(client):
        for number, request in enumerate(client.requests()):
            right = answers.entry(request.id, b"uid=u%d,dc=x" % number, value)
            client.send(right + answers.result(request.id, tag=wire.SEARCH_DONE))

    tally = drive(fake_server(script), kind="search").go(5)
    assert (tally.whole.count, tally.errors) == (5, 0)


def test_requests_larger_than_the_socket_takes_are_finished_later(fake_server, drive, answers):
    start = threading.Event()

    def script(client):
        start.wait(5)
        for request in client.requests():
            client.send(answers.result(request.id))

    server = fake_server(script)
    driven = drive(server)
    made = wire.request(wire.simple_bind(b"uid=u,dc=x", b"p" * 3000000))
    driven.make = lambda number: Item("bind", made.head, made.tail, b"", "uid=u,dc=x")
    driven.loop.connections[0].sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    kept = []
    keep = driven.loop._keep
    driven.loop._keep = lambda c, data: (kept.append(len(data)), start.set(), keep(c, data))
    tally = driven.go(2)
    assert kept
    assert tally.failures == {}
    assert (tally.whole.count, tally.errors) == (2, 0)


def test_fixed_rate_counts_from_the_planned_time(fake_server, drive, answers):
    def script(client):
        for number, request in enumerate(client.requests()):
            if number == 0:
                time.sleep(0.3)  # the stall that is measured
            client.send(answers.result(request.id))

    driven = drive(fake_server(script), connections=1)
    start = clock()
    tally = driven.loop.begin(start)
    end = start + 500000000
    open_loop.run(driven.loop, driven.endless(), start, end, rate=100, offset=0)
    driven.loop.end(start, end)
    assert (tally.planned, tally.dropped, tally.whole.count) == (50, 0, 50)
    assert tally.service.count == 50
    # Those planned during the stall have waited too, though the server answered them at once.
    assert tally.whole.quantile(0.5) > 10 * tally.service.quantile(0.5)


def test_a_fixed_rate_beyond_reach_drops_and_ends(fake_server, drive, answers):
    def script(client):
        for request in client.requests():
            time.sleep(0.02)
            client.send(answers.result(request.id))

    driven = drive(fake_server(script), connections=1)
    start = clock()
    tally = driven.loop.begin(start)
    end = start + 1500000000
    open_loop.run(driven.loop, driven.endless(), start, end, rate=1000, offset=0)
    driven.loop.end(start, end)
    assert tally.planned == 1500
    assert tally.dropped == 1500 - tally.whole.count
    assert 0 < tally.whole.count < 200
    # The queue is bounded by time: the last one sent was not planned long before.
    assert driven.loop.connections[0].planned - start > 300000000


def test_what_is_answered_after_the_end_is_an_operation_but_no_goodput(fake_server, drive, answers):
    ended = threading.Event()

    def script(client):
        for number, request in enumerate(client.requests()):
            if number:
                ended.wait(10)
            client.send(answers.result(request.id))

    driven = drive(fake_server(script), timeout=10)
    drain = driven.loop.drain
    driven.loop.drain = lambda: (ended.set(), drain())
    tally = driven.go(10, seconds=0.3)
    assert (tally.in_time, tally.whole.count) == (1, 2)
    assert sum(sum(row["histogram"]["counts"].values()) for row in tally.seconds) == 1


def test_descriptors_above_1023(fake_server, drive, answers):
    def script(client):
        for request in client.requests():
            client.send(answers.result(request.id))

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1300:
        pytest.skip("not so many files allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1300, hard))
    try:
        server = fake_server(script)
        driven = drive(server, connections=0)
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", server.port)) as low:
                high = socket.socket(fileno=fcntl.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, 1100))
            high.setblocking(False)
            driven.loop.add(high)
        assert min(c.fd for c in driven.loop.connections) > 1023
        assert driven.go(20).whole.count == 20
        start = clock()
        tally = driven.loop.begin(start)
        open_loop.run(driven.loop, driven.endless(), start, start + 200000000, rate=100, offset=0)
        driven.loop.end(start, start + 200000000)
        assert tally.whole.count + tally.dropped == 20
        assert tally.whole.count
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
