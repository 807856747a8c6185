"""Connecting, refusals, keep alive, disconnecting: both clients with a scripted broker. host_tests/device/lib tests
what a session makes of each CONNACK."""

import contextlib
import errno
import itertools
import random
import socket
from unittest.mock import Mock

import pytest

from host_tests.clients import no_network
from host_tests.lib.either import only_blocking
from inflight import Client, ConnectRefused, ProtocolError
from inflight.session.session import Session
from tools.reference.kinds import DISCONNECT, PINGREQ, PUBLISH, SUBSCRIBE
from tools.reference.wire import connack, packet, publish, suback

BOTH_CLIENTS = True


# --- the first packet ---


CONNECTS = (
    ({}, {"client_id": "dev", "clean": False, "level": 4, "name": b"MQTT"}),
    ({}, {"will": None, "user": None, "password": None}),
    ({"keepalive": 30}, {"keepalive": 30}),
    ({"will": ("é", b"\0gone", 2, True)}, {"will": ("é", b"\0gone", 2, True)}),
    ({"will": ("w", "text", 0, False), "user": "jürgen", "password": "x"},
     {"will": ("w", b"text", 0, False), "user": "jürgen", "password": b"x"}),
    ({"user": "me"}, {"user": "me", "password": None}),
    ({"user": "me", "password": b"\xff\0\xfe"}, {"password": b"\xff\0\xfe"}),
    ({"client_id": "", "clean_session": True}, {"client_id": "", "clean": True}),
    ({"client_id": "a" * 23, "protocol_level": 3}, {"name": b"MQIsdp", "level": 3, "client_id": "a" * 23}),
)  # fmt: skip


@only_blocking
def test_connect_says_what_the_client_was_told(broker, make):
    """[MQTT-3.1.0-1] [MQTT-3.1.0-2] [MQTT-3.1.2-1] [MQTT-3.1.2-9] [MQTT-3.1.2-14] [MQTT-3.1.2-18] [MQTT-3.1.2-19]
    [MQTT-3.1.2-20] [MQTT-3.1.2-21] [MQTT-3.1.2-22] [MQTT-3.1.3-1] [MQTT-3.1.3-3] [MQTT-3.1.3-7] [MQTT-3.1.3-10]
    [MQTT-3.1.3-11] [MQTT31-1] [MQTT31-2] [MQTT31-3] CONNECT is the first packet, and is sent once."""

    def script(b):
        for _, fields in CONNECTS:
            b.welcome(**fields)
            b.answer_ping()
            b.goodbye()

    with broker.play(script):
        for options, _ in CONNECTS:
            client = make(broker.port, **options)
            client.connect()
            assert client.connected
            client.ping()
            client.disconnect()


def test_nothing_is_sent_before_connack(broker, make):
    """[MQTT-3.1.4-5] [MQTT31-24] Messages in the journal wait for CONNACK too, which may come byte by byte."""
    client = make(broker.port)
    client.publish("t", b"1", qos=1)

    def script(b):
        b.called()
        for byte in connack():
            b.sleep(0.1)
            with pytest.raises(BlockingIOError):
                b.connection.sock.recv(1)
            b.send(bytes([byte]))
        b.take(qos=1)

    with broker.play(script):
        client.connect()
        assert client.drain(60_000)


def test_a_stall_that_is_not_given_suits_the_time_out():
    for timeout_ms, stall_ms in ((1, 60_000), (15_001, 60_004), (21_600_000, 86_400_000), (10**8, 0)):
        client = Client("127.0.0.1", "d", protocol_level=5, timeout_ms=timeout_ms)
        assert client.session.stall_ms == stall_ms


# --- CONNACK ---


def test_refused(broker, make):
    """[MQTT-3.1.2-2] [MQTT-3.1.3-8] [MQTT-3.1.3-9] [MQTT-3.2.2-4] [MQTT-3.2.2-5] The caller gets the code, and the
    connection is closed; run_for() goes on, and tells on_error."""
    client = make(broker.port, reconnect=False)
    refusals = [(code, connack(0, code)) for code in (1, 2, 3, 4, 5)]
    refusals += [(0x84, packet(0x20, b"\0\x84\0")), (0x87, packet(0x20, b"\0\x87\x06\x1f\0\x03why"))]  # of level 5
    again = make(broker.port, client_id="again")

    def script(b):
        for _, answer in (*refusals, refusals[2], refusals[2]):
            b.called()
            b.send(answer)
            b.expect_close()
        b.welcome()
        b.welcome()

    with broker.play(script):
        for code, _ in refusals:
            with pytest.raises(ConnectRefused) as caught:
                client.connect()
            assert caught.value.code == code and isinstance(caught.value, OSError) and not client.connected
        while not again.connected:
            again.run_for(100)
        client.connect()
    assert client.counters()["refused"] == len(refusals)
    assert [e.code for e in again.errors] == [3, 3]


def test_protocol_error(broker, make, pump):
    """[MQTT-3.2.0-1] [MQTT-4.8.0-1] It closes the connection, in place of CONNACK and later; nothing is delivered, it
    is counted, and the client reconnects; a message that waits leaves first."""
    got = []
    client = make(broker.port, on_message=got.append)

    def script(b):
        b.called()
        b.send(publish("a", b"x"))
        b.expect_close()
        b.welcome()
        b.expect(PINGREQ)
        b.send(publish("a/#", b"x"))
        b.expect_close()
        b.welcome(1)
        b.send(publish("a/#", b"x"))
        b.take(payload=b"waits")
        b.expect_close()
        b.welcome(1)

    with broker.play(script):
        with pytest.raises(ProtocolError):
            client.connect()
        pump(client, lambda: client.connected)
        with pytest.raises(ProtocolError):
            client.ping()
        client.publish("t", b"waits", 1)
        pump(client, lambda: client.counters()["protocol_errors"] == 3 and client.connected)
    assert (client.counters()["outages"], client.pending, got) == (2, 0, [])


@pytest.mark.parametrize("part", [None, b"", b"\x20\x02\x00"])
def test_connack_never_comes(virtual, make, part):
    """[MQTT-3.2.2-6] The connection closes, or the wait has a time-out, with no answer or a part of one."""
    client = make(virtual.port, timeout_ms=150)

    def script(b):
        b.called()
        if part is None:
            b.cut()
            return
        b.send(part)
        b.expect_close()

    start = virtual.clock.now
    with virtual.play(script), pytest.raises(OSError):
        client.connect()
    assert part is None or 0.149 < virtual.clock.now - start < 0.19  # asyncio looks each 37 ms


def test_no_connection(make, nobody):
    """OSError, and no message is lost. A name that no host can have is like one that nobody knows: it may come from a
    configuration, and run_for() goes on."""
    for host, what in (("a..b", "no name of a host"), ("a" * 64, "no name of a host"), ("127.0.0.1", None)):
        client = make(nobody, host=host)
        assert client.publish("t", b"1", qos=1)
        with pytest.raises(OSError, match=what):
            client.connect()
        assert client.pending == 1
        client.run_for(1)
        assert not client.connected


def test_first_address_of_another_family(broker, make, monkeypatch):
    """An address family that this machine does not support is skipped."""
    real = socket.getaddrinfo
    odd = (socket.AF_UNIX + 1000, socket.SOCK_STREAM, 0, "", ("::1", broker.port, 0, 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a: [odd, *real(*a)])
    client = make(broker.port)
    with broker.play(lambda b: b.welcome()):
        client.connect()
        assert client.connected


def test_session_without_a_journal(broker, make, pump):
    """A client without a journal accepts the broker's session, and knows in RAM what it has received."""
    got = []
    client = make(broker.port, False, receive_maximum=2, on_message=lambda m: got.append(m.mid))

    def script(b):
        b.welcome(1)
        for mid in (1, 2, 1):
            b.deliver("t", b"", 2, mid)
        b.release(1)
        b.deliver("t", b"", 2, 3)

    with broker.play(script):
        client.connect()
        pump(client, lambda: broker.finished)
    assert got == [1, 2, 3]


# --- the application interferes ---


@only_blocking
def test_connections_that_break_within_on_connect(virtual, make):
    """on_disconnect gets the error of the connection, and pauses grow."""
    ended = []

    def on_connect(present):
        virtual.idle()  # the broker cuts the connection
        with pytest.raises(OSError):
            client.publish("status", b"online")

    client = make(virtual.port, backoff_ms=(40, 10_000), on_connect=on_connect, on_disconnect=ended.append)

    def script(b):
        for _ in range(40):
            b.welcome()
            b.cut()

    start = virtual.clock.now
    with virtual.play(script):
        while len(ended) < 40:
            client.run_for(100)
    assert {e.errno for e in ended} <= {errno.ECONNRESET, errno.EPIPE}
    assert virtual.clock.now - start > 60  # 150 s on average


@only_blocking
def test_interrupted_in_a_handler_although_no_attempt_is_due(broker, make, pump):
    """Ctrl-C in a handler of a connection that connect() made within a pause: the message is not acknowledged, so the
    connection ends, and it comes again."""
    got = []

    def handler(message):
        got.append(message.dup)
        if len(got) == 1:
            raise KeyboardInterrupt

    client = make(broker.port, backoff_ms=(600_000, 600_000))
    client.subscribe("t", 1, handler)
    with no_network():
        client.run_for(1)
    assert len(client.errors) == 1  # from now on the client pauses

    def script(b):
        b.welcome()
        b.grant()
        b.expect(PINGREQ)
        b.send(publish("t", b"x", 1, 7))
        b.expect_close()
        b.welcome(1)
        b.deliver("t", b"x", 1, 7, 1)

    with broker.play(script):
        client.connect()
        with pytest.raises(KeyboardInterrupt):
            client.ping()
        client.run_for(1)
        assert not client.connected
        client.connect()
        pump(client, lambda: len(got) == 2)
    assert got == [False, True]


# --- keep alive ---


def test_keep_alive(virtual, make):
    """[MQTT-3.1.2-23] [MQTT-3.12.4-1] [MQTT31-26] With a keep alive of 2 s no gap between packets is longer than 2 s,
    also while the client waits for a SUBACK; ping() returns the round trip in ms."""
    client = make(virtual.port, keepalive=2, timeout_ms=2500)

    def answered_in_time(b, at_least=1):
        start = b.clock.now
        b.answer_ping()
        assert at_least <= b.clock.now - start < 2

    def script(b):
        b.welcome(keepalive=2)
        b.answer_ping()
        for _ in range(5):
            answered_in_time(b)
        p = b.expect(SUBSCRIBE)
        answered_in_time(b, 0)
        b.send(suback(p.mid, 0))

    with virtual.play(script):
        client.connect()
        assert 0 <= client.ping() < 3000
        client.run_for(8500)
        client.subscribe("a")
    assert client.counters()["pings"] == 7


# --- disconnecting ---


def test_disconnect(broker, make):
    """[MQTT-3.14.1-1] [MQTT-3.14.4-1] [MQTT-3.14.4-2] E0 00 is the last packet, then the connection is closed. Only
    connect() connects again."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.expect(PUBLISH, qos=0)
        assert b.expect(DISCONNECT).raw == b"\xe0\x00"
        b.expect_close()
        b.welcome()
        b.take(qos=1)

    with broker.play(script):
        client.connect()
        client.publish("t", b"0")
        client.disconnect()
        assert not client.connected
        client.disconnect()
        client.run_for(30)
        client.publish("t", b"1", qos=1)
        client.run_for(10)
        assert not client.connected
        client.connect()
        assert client.drain(60_000)


# --- pauses between attempts ---


def test_without_a_network_no_attempt_is_made_and_with_one_no_pause_is_waited_for(virtual, make):
    """Pauses that grew while there was no network say nothing about the broker."""
    client = make(virtual.port, backoff_ms=(3_600_000, 3_600_000))
    client.online = False
    client.run_for(10_000)
    assert not client.errors

    def script(b):
        b.welcome()
        b.cut()
        b.welcome()

    with virtual.play(script):
        for connects in (1, 2):  # the second although the pause after the first has just begun
            client.online = True
            start = virtual.clock.now
            while client.counters()["connects"] < connects:
                client.run_for(100)
            assert virtual.clock.now - start < 10
            while client.connected and connects == 1:
                client.run_for(100)
            client.online = False
            client.run_for(100)


@contextlib.contextmanager
def dials(clock):
    """Yields a list of the times, in ms, at which clients try to connect, in vain."""
    tried = []

    def lookup(*_):
        tried.append(int(clock.now * 1000))
        raise OSError(errno.ECONNREFUSED)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", lookup)
        yield tried


@only_blocking
def test_back_off(clock, make):
    """Pauses grow to the maximum, with full jitter. Although the ticks have wrapped around since the last run_for(),
    the next one connects within the longest pause."""
    client = make(1, backoff_ms=(1000, 60_000))
    with dials(clock) as tried:
        client.run_for(900_000)
        gaps = [b - a for a, b in itertools.pairwise(tried)]
        for days in (7, 13):
            clock.now += days * 86_400
            before = len(tried)
            client.run_for(61_000)
            assert len(tried) > before
    for k, gap in enumerate(gaps):
        assert gap <= min(60_000, 1000 << k) + 60, (k, gap)
    assert 15 < len(gaps) < 100  # half a minute each on average
    assert len(set(gaps)) > 10
    assert min(gaps[8:]) < 20_000 < 40_000 < max(gaps)


@only_blocking
def test_back_off_differs_between_clients(clock, monkeypatch, make):
    """Clients with the same random seed still draw different pauses."""
    monkeypatch.setattr(random, "getrandbits", lambda n: 0)
    pauses = []
    for client_id in ("one", "two"):
        with dials(clock) as tried:
            make(1, client_id=client_id, backoff_ms=(1000, 60_000)).run_for(60_000)
        pauses.append([b - a for a, b in itertools.pairwise(tried)])
    assert pauses[0] != pauses[1]


@only_blocking
@pytest.mark.parametrize("ends", ["cut", "protocol error", "no memory"])
def test_back_off_is_reset(virtual, make, monkeypatch, ends):
    """By a connection that lasted longer than the pause, unless the broker broke the protocol, or a message finds no
    memory."""
    monkeypatch.setattr(random, "getrandbits", lambda n: (1 << n) - 1)
    monkeypatch.setattr(Session, "decode_publish", Mock(side_effect=MemoryError))
    client = make(virtual.port, backoff_ms=(1000, 3_600_000))
    client._attempts = 12  # the next pause takes half an hour on average

    def script(b):
        b.welcome()
        b.sleep(3601)
        b.cut() if ends == "cut" else b.send(connack() if ends == "protocol error" else publish("t", b"x"))
        b.welcome(1)

    with virtual.play(script):
        client.connect()
        client.run_for(3_602_000)
        start = virtual.clock.now
        while not client.connected:
            client.run_for(100)
    assert (virtual.clock.now - start < 2) == (ends == "cut")
