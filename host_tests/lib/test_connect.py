"""Connecting, refusals, keep alive, disconnecting: both clients with a scripted broker."""

import errno
import itertools
import select
import socket
import ssl

import pytest

from host_tests.broker import Broker
from host_tests.clients import no_network
from host_tests.lib.either import only_blocking
from inflight import Client, ConnectRefused, Journal, ProtocolError, RamFlash
from tools.reference.kinds import DISCONNECT, PINGREQ, PUBACK, PUBCOMP, PUBLISH, PUBREC, SUBSCRIBE
from tools.reference.wire import connack, packet, pingresp, puback, pubcomp, publish, pubrec, pubrel, suback, unsuback

BOTH_CLIENTS = True


def silent(b):
    """The client has sent no further byte."""
    assert not select.select([b.connection.sock], [], [], 0)[0]


# --- the first packet ---


def test_first_packet_is_connect(broker, make):
    """[MQTT-3.1.0-1] [MQTT-3.1.0-2] [MQTT-3.1.2-1] [MQTT-3.1.3-3] CONNECT is the first packet, and is sent once (the
    broker checks)."""
    client = make(broker.port, client_id="dev-1", keepalive=30)

    def script(b):
        p = b.welcome(client_id="dev-1", clean=False, level=4, name=b"MQTT", keepalive=30)
        assert (p.will, p.user, p.password) == (None, None, None)
        b.answer_ping()

    with broker.play(script):
        client.connect()
        assert client.connected
        client.ping()


def test_nothing_is_sent_before_connack(broker, make):
    """[MQTT-3.1.4-5] [MQTT31-24] Messages in the journal wait for CONNACK too."""
    client = make(broker.port)
    client.publish("t", b"1", qos=1)

    def script(b):
        b.called()
        silent(b)
        b.send(connack())
        b.take(qos=1)

    with broker.play(script):
        client.connect()
        assert client.drain(60_000)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_will(broker, make, qos, retain):
    """[MQTT-3.1.2-9] [MQTT-3.1.2-14] [MQTT-3.1.3-10] The will with its QoS and retain flag."""
    client = make(broker.port, will=("status/é", b"\0gone", qos, retain))
    with broker.play(lambda b: b.welcome(will=("status/é", b"\0gone", qos, retain))):
        client.connect()


def test_user_and_password(broker, make):
    """[MQTT-3.1.2-19] [MQTT-3.1.2-21] [MQTT-3.1.3-1] [MQTT-3.1.3-11] Both follow the will."""
    client = make(broker.port, user="jürgen", password="geheim", will=("w", "text", 0, False))
    wanted = {"user": "jürgen", "password": b"geheim", "will": ("w", b"text", 0, False)}
    with broker.play(lambda b: b.welcome(**wanted)):
        client.connect()


def test_user_without_password(broker, make):
    """[MQTT-3.1.2-18] [MQTT-3.1.2-20] [MQTT-3.1.2-22] A user name alone."""
    client = make(broker.port, user="me")
    with broker.play(lambda b: b.welcome(user="me", password=None)):
        client.connect()


def test_binary_password(broker, make):
    """A password is any bytes."""
    client = make(broker.port, user="me", password=b"\xff\0\xfe")
    with broker.play(lambda b: b.welcome(password=b"\xff\0\xfe")):
        client.connect()


def test_empty_client_id(broker, make):
    """[MQTT-3.1.3-7] Only with a clean session."""
    client = make(broker.port, client_id="", clean_session=True)
    with broker.play(lambda b: b.welcome(client_id="", clean=True)):
        client.connect()


BAD_ARGUMENTS = [
    {"client_id": ""},
    {"client_id": "a\0b"},
    {"client_id": "a" * 65536, "buffer": bytearray(200_000)},
    {"client_id": b"\xff"},
    {"client_id": "d", "password": "p"},
    {"client_id": "d", "user": "u\0"},
    {"client_id": "d", "user": b"\xed\xa0\x80"},
    {"client_id": "d", "user": "u", "password": b"x" * 65536},
    {"client_id": "d", "keepalive": -1},
    {"client_id": "d", "keepalive": 65536},
    {"client_id": "d", "protocol_level": 6},
    {"client_id": "d", "protocol_level": 2},
    {"client_id": "d", "protocol_level": 5, "retry_ms": 1000},
    {"client_id": "d", "protocol_level": 5, "max_inflight": 65},
    {"client_id": "d", "protocol_level": 5, "session_expiry": 0},
    {"client_id": "d", "protocol_level": 5, "session_expiry": 1 << 32},
    {"client_id": "d", "protocol_level": 5, "session_expiry": 1.5},
    {"client_id": "d", "protocol_level": 5, "session_expiry": 9, "clean_session": True},
    {"client_id": "d", "session_expiry": 9},
    {"client_id": "d", "aliases": 9},
    {"client_id": "d", "stall_ms": 0},
    {"client_id": "d", "protocol_level": 5, "stall_ms": 39_999},
    {"client_id": "d", "protocol_level": 5, "stall_ms": 86_400_001},
    {"client_id": "a" * 24, "protocol_level": 3},
    {"client_id": "", "protocol_level": 3, "clean_session": True},
    {"client_id": "d", "will": ("a/#", b"", 0, False)},
    {"client_id": "d", "will": ("", b"", 0, False)},
    {"client_id": "d", "will": (b"\xff", b"", 0, False)},
    {"client_id": "d", "will": ("a\0", b"", 0, False)},
    {"client_id": "d", "will": ("a", b"", 3, False)},
    {"client_id": "d", "will": ("a", b"", -1, False)},
    {"client_id": "d", "will": ("a", b"x" * 65536, 0, False)},
    {"client_id": "d", "max_inflight": 0},
    {"client_id": "d", "receive_maximum": 0},
    {"client_id": "d", "when_full": "some"},
    {"client_id": "d", "buffer": bytearray(20)},
]


@pytest.mark.parametrize("options", BAD_ARGUMENTS, ids=lambda o: "-".join(o)[:40])
def test_bad_arguments(options):
    """[MQTT-1.5.3-1] [MQTT-1.5.3-2] [MQTT-3.1.2-14] [MQTT-3.1.2-22] [MQTT-3.1.3-4] [MQTT-3.1.3-7] [MQTT-3.1.3-10]
    [MQTT-3.1.3-11] [MQTT31-3] [MQTT31-4] [MQTT31-20] ValueError, before a connection is opened."""
    options = dict(options)
    with pytest.raises(ValueError):
        Client("127.0.0.1", options.pop("client_id"), Journal(RamFlash()), port=1, **options)


@pytest.mark.parametrize("timeout_ms, stall_ms", [(1, 60_000), (15_001, 60_004), (21_600_000, 86_400_000), (10**8, 0)])
def test_a_stall_that_is_not_given_suits_the_time_out(timeout_ms, stall_ms):
    client = Client("127.0.0.1", "d", protocol_level=5, timeout_ms=timeout_ms)
    assert client.session.stall_ms == stall_ms


def test_tls_context_without_verification():
    """A context that does not verify certificates is refused."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with pytest.raises(ValueError):
        Client("127.0.0.1", "d", tls=context)


def test_connect_that_does_not_fit_the_buffer(make):
    """ValueError when the client is created."""
    with pytest.raises(ValueError, match="buffer too small"):
        make(1, user="u" * 500, buffer=bytearray(256))


# --- CONNACK ---


REFUSALS = {str(code): (code, connack(0, code)) for code in (1, 2, 3, 4, 5)}
REFUSALS |= {
    "session present": (5, connack(1, 5)),
    "reserved flags": (5, connack(0x80, 5)),
    "reserved code": (6, connack(0, 6)),
    "code 255": (255, connack(0, 255)),
    "of level 5": (0x84, packet(0x20, b"\0\x84\0")),
    "of level 5, with properties": (0x87, packet(0x20, b"\0\x87\x06\x1f\0\x03why")),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_refused(broker, make, refusal):
    """[MQTT-3.1.2-2] [MQTT-3.1.3-8] [MQTT-3.1.3-9] [MQTT-3.2.2-4] [MQTT-3.2.2-5] The caller gets the code, whatever
    else the packet says, and the connection is closed."""
    client = make(broker.port)
    code, answer = REFUSALS[refusal]

    def script(b):
        b.called()
        b.send(answer)
        b.expect_close()

    with broker.play(script), pytest.raises(ConnectRefused) as caught:
        client.connect()
    assert caught.value.code == code
    assert isinstance(caught.value, OSError)
    assert not client.connected
    assert client.counters()["refused"] == 1


BAD_CONNACKS = {
    "reserved flags": connack(2),
    "more reserved flags": connack(0x80),
    "header flags": packet(0x21, b"\0\0"),
    "too short": packet(0x20, b"\0"),
    "too long": packet(0x20, b"\0\0\0"),
    "PUBLISH": publish("a", b"x"),
    "PUBACK": puback(1),
    "PUBREC": pubrec(1),
    "PUBREL": pubrel(1),
    "PUBCOMP": pubcomp(1),
    "SUBACK": suback(1, 0),
    "UNSUBACK": unsuback(1),
    "PINGRESP": pingresp(),
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@pytest.mark.parametrize("answer", BAD_CONNACKS)
def test_connack_that_breaks_the_rules(broker, make, answer):
    """[MQTT-3.2.0-1] [MQTT-4.8.0-1] ProtocolError, and the connection is closed."""
    client = make(broker.port)

    def script(b):
        b.called()
        b.send(BAD_CONNACKS[answer])
        b.expect_close()

    with broker.play(script), pytest.raises(ProtocolError):
        client.connect()
    assert not client.connected


def test_clean_session_with_session_present(broker, make):
    """[MQTT-3.2.2-1] Session present = 1 after a clean session is a protocol error."""
    client = make(broker.port, clean_session=True)

    def script(b):
        b.called(clean=True)
        b.send(connack(1))
        b.expect_close()

    with broker.play(script), pytest.raises(ProtocolError):
        client.connect()


def test_second_connack(broker, make):
    """[MQTT-4.8.0-1] A second CONNACK is a protocol error."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        b.send(connack())
        b.expect_close()

    with broker.play(script):
        client.connect()
        with pytest.raises(ProtocolError):
            client.ping()
    assert client.counters()["protocol_errors"] == 1


def test_closed_without_connack(broker, make):
    """[MQTT-3.2.2-6] The client does not hang."""
    client = make(broker.port)

    def script(b):
        b.called()
        b.cut()

    with broker.play(script), pytest.raises(OSError):
        client.connect()


@pytest.mark.parametrize("part", [b"", b"\x20", b"\x20\x02", b"\x20\x02\x00"])
def test_connack_never_comes(virtual, make, part):
    """[MQTT-3.2.2-6] The wait has a time-out, with no answer or a part of one."""
    client = make(virtual.port, timeout_ms=150)

    def script(b):
        b.called()
        b.send(part)
        b.expect_close()

    start = virtual.clock.now
    with virtual.play(script), pytest.raises(OSError):
        client.connect()
    assert 0.149 < virtual.clock.now - start < 0.19  # asyncio looks each 37 ms


def test_connack_byte_by_byte(broker, make):
    client = make(broker.port)

    def script(b):
        b.called()
        for byte in connack():
            b.send(bytes([byte]))

    with broker.play(script):
        client.connect()


def test_connection_refused(make, nobody):
    """OSError; no message is lost."""
    client = make(nobody)
    client.publish("t", b"1", qos=1)
    with pytest.raises(OSError):
        client.connect()
    assert client.pending == 1


@pytest.mark.parametrize("host", ["a..b", "a" * 64], ids=["empty label", "long label"])
def test_a_name_that_no_host_can_have(make, host):
    """Such a name is like one that nobody knows: it may come from a configuration, and run_for() goes on."""
    client = make(1, host=host)
    with pytest.raises(OSError, match="no name of a host"):
        client.connect()
    client.run_for(1)
    assert not client.connected


def test_connect_raises_and_run_for_retries(broker, make, pump):
    """[MQTT-3.2.2-5] run_for() continues after a refusal, which it reports to on_error."""
    client = make(broker.port)

    def script(b):
        for _ in range(3):
            b.called()
            b.send(connack(0, 3))
            b.expect_close()
        b.welcome()

    with broker.play(script):
        pump(client, lambda: client.connected)
    assert [e.code for e in client.errors] == [3, 3, 3]


# --- sessions ---


def test_session_present_is_accepted(broker, make):
    """[MQTT-3.2.2-2] [MQTT-3.1.2-4] Session present = 1 for a session that this journal knows."""
    device = RamFlash()

    def script(b):
        b.welcome(0)
        b.goodbye()
        b.welcome(1, clean=False)
        b.answer_ping()

    with broker.play(script):
        first = make(broker.port, device)
        first.connect()
        first.disconnect()
        second = make(broker.port, device)
        second.connect()
        second.ping()
        assert second.session.present


def test_ids_are_freed_in_an_unknown_session(broker, make, pump):
    """[MQTT-4.3.3-2] A session that this journal does not know may have Message IDs in use, under which new QoS 2
    messages would be discarded. The client frees ids first, and keeps the session."""
    client = make(broker.port)
    client.publish("t", b"kept", qos=2)

    def script(b):
        b.welcome(1, clean=False)
        b.free_ids()
        b.take(payload=b"kept", qos=2, dup=False)

    with broker.play(script):
        client.connect()
        assert client.pending == 1
        assert client.drain(60_000)


def test_messages_of_an_unknown_session_are_delivered(broker, make, pump):
    """[MQTT-4.4.0-1] [MQTT-4.3.3-2] Messages queued in a session that the journal does not know are delivered, at
    levels 4 and 3; half-finished handshakes are completed."""
    for level in (4, 3):
        got = []
        client = make(broker.port, protocol_level=level, on_message=lambda m, got=got: got.append(m.payload))

        def script(b, level=level):
            b.called(clean=False)
            b.send(connack(1 if level == 4 else 0), pubrel(99, 1 if level == 3 else 0))
            b.expect(PUBCOMP, mid=99)
            for k in range(1, 21):
                b.send(publish("t", b"%d" % k, k % 3, k if k % 3 else 0, dup=1 if k % 3 else 0))
                if k % 3:
                    b.expect(PUBACK if k % 3 == 1 else PUBREC, mid=k)
            b.answer_ping()
            b.goodbye()

        with broker.play(script):
            client.connect()
            pump(client, lambda got=got: len(got) == 20)
            client.ping()
            client.disconnect()
        assert got == [b"%d" % k for k in range(1, 21)]


def test_broker_that_accepts_and_closes(virtual, make):
    """[MQTT-3.1.4-2] Pauses grow although each connection is accepted."""
    client = make(virtual.port, backoff_ms=(40, 10_000))

    def script(b):
        for _ in range(40):
            b.welcome()
            b.cut()

    start = virtual.clock.now
    with virtual.play(script):
        while client.counters()["outages"] < 40:
            client.run_for(100)
    assert virtual.clock.now - start > 60  # 150 s on average; 0.8 s if pauses did not grow


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
        b.take()
        b.send(publish("t", b"x", 1, 7))
        b.expect_close()
        b.welcome(1)
        b.deliver("t", b"x", 1, 7, 1)

    with broker.play(script):
        client.connect()
        client.publish("asks", b"", 1)
        with pytest.raises(KeyboardInterrupt):
            client.run_for(60_000)
        client.run_for(1)
        assert not client.connected
        client.connect()
        pump(client, lambda: len(got) == 2)
    assert got == [False, True]


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


def test_first_address_of_another_family(broker, make, monkeypatch):
    """An address family that this machine does not support is skipped."""
    real = socket.getaddrinfo
    odd = (socket.AF_UNIX + 1000, socket.SOCK_STREAM, 0, "", ("::1", broker.port, 0, 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a: [odd, *real(*a)])
    client = make(broker.port)
    with broker.play(lambda b: b.welcome()):
        client.connect()
        assert client.connected


def test_unknown_session_and_a_restart(broker, make):
    """[MQTT-4.1.0-1] Messages accepted offline before a power cut are sent in a session that the journal does not
    know."""
    device = RamFlash()
    make(broker.port, device).publish("t", b"kept", qos=1)
    client = make(broker.port, device)

    def script(b):
        b.welcome(1, clean=False)
        b.take(qos=1, payload=b"kept", dup=False)

    with broker.play(script):
        client.connect()
        assert client.drain(60_000)


def test_session_known_after_a_short_connection(broker, make):
    """[MQTT-4.1.0-1] The connection ends right after CONNACK and a PUBLISH: the journal knows this session, and does
    not discard its messages."""
    client = make(broker.port)
    client.publish("t", b"kept", qos=2)

    def script(b):
        b.welcome(0, clean=False)
        b.cut()
        b.welcome(1, clean=False)
        b.take(qos=2, payload=b"kept")

    with broker.play(script):
        assert client.drain(60_000)
    assert client.counters()["dropped"] == 0


def test_session_without_a_journal(broker, make):
    """A client without a journal accepts the broker's session."""
    client = make(broker.port, False)

    def script(b):
        b.welcome(1)
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.ping()


def test_journal_of_another_client(broker, make):
    """[MQTT-3.1.3-2] A journal belongs to one client id."""
    device = RamFlash()
    first = make(broker.port, device, client_id="one")

    def script(b):
        b.welcome()
        b.goodbye()

    with broker.play(script):
        first.connect()
        first.disconnect()
    with pytest.raises(ValueError):
        make(broker.port, device, client_id="another")
    with pytest.raises(ValueError):
        make(broker.port, device, client_id="one-more")
    make(broker.port, device, client_id="one")


# --- level 3 ---


@pytest.mark.parametrize("reserved", [0, 1, 2, 255])
def test_level_3(broker, make, reserved):
    """[MQTT31-1] [MQTT31-2] [MQTT31-3] [MQTT31-5] MQIsdp, ids of 23 characters; the reserved byte of CONNACK is
    ignored."""
    client = make(broker.port, client_id="a" * 23, protocol_level=3, clean_session=True)

    def script(b):
        b.called(name=b"MQIsdp", level=3, client_id="a" * 23)
        b.send(connack(reserved))
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.ping()


def test_level_3_has_no_session_present(broker, make):
    """[MQTT31-5] [MQTT31-22] A new journal cannot know whether the broker has a session: ids are freed before they are
    used at QoS 2."""
    client = make(broker.port, protocol_level=3)

    def script(b):
        b.welcome(1, clean=False)
        b.expect(PUBLISH, qos=1)
        b.free_ids()
        b.expect(PUBLISH, qos=2)

    with broker.play(script):
        client.connect()
        client.publish("t", b"1", qos=1)
        client.publish("t", b"2", qos=2)
        client.run_for(50)


# --- keep alive ---


def test_ping(broker, make):
    """[MQTT-3.12.4-1] PINGREQ is answered; ping() returns the round trip in ms."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.answer_ping()

    with broker.play(script):
        client.connect()
        assert 0 <= client.ping() < 3000
    assert client.counters()["pings"] == 1


def test_keep_alive(virtual, make):
    """[MQTT-3.1.2-23] [MQTT31-26] With a keep alive of 2 s no gap between packets is longer than 2 s."""
    client = make(virtual.port, keepalive=2)

    def script(b):
        b.welcome(keepalive=2)
        for _ in range(5):
            start = b.clock.now
            b.answer_ping()
            assert 1 < b.clock.now - start < 2

    with virtual.play(script):
        client.connect()
        client.run_for(10_000)


def test_keep_alive_while_waiting_for_an_answer(virtual, make):
    """[MQTT-3.1.2-23] The client also sends PINGREQ while it waits for a SUBACK."""
    client = make(virtual.port, keepalive=1, timeout_ms=2500)

    def script(b):
        b.welcome()
        p = b.expect(SUBSCRIBE)
        start = b.clock.now
        b.answer_ping()
        assert b.clock.now - start < 1
        b.send(suback(p.mid, 0))

    with virtual.play(script):
        client.connect()
        client.subscribe("a")


def test_answer_behind_a_slow_packet(broker, make):
    """The time-out counts from the last byte received, so a long packet may take longer in all."""
    got = []
    client = make(broker.port, timeout_ms=400, on_message=lambda m: got.append(m.payload))

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        slow = publish("t", b"12345")
        for k in range(len(slow)):
            b.send(slow[k : k + 1])
            b.sleep(0.1)
        b.send(pingresp())

    with broker.play(script):
        client.connect()
        assert client.ping() > 400
    assert got == [b"12345"] and client.counters()["outages"] == 0


def test_keep_alive_without_answer(virtual, make):
    """[MQTT-3.12.4-1] If PINGREQ is not answered within `timeout_ms`, the connection is replaced."""
    client = make(virtual.port, keepalive=4, timeout_ms=900)

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        start = b.clock.now
        b.expect_close()
        assert 0.899 < b.clock.now - start < 0.901 + client.session.tick / 1000
        b.welcome()

    with virtual.play(script):
        client.connect()
        client.run_for(5000)
    assert client.counters()["outages"] == 1


def test_no_keep_alive(broker, make):
    """Keep alive 0 sends no PINGREQ."""
    client = make(broker.port, keepalive=0)

    def script(b):
        b.welcome(keepalive=0)
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.run_for(50)
        client.disconnect()


def test_idle_client_sleeps(broker, make, reads):
    """An idle client reads its socket only when a timer expires."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.goodbye()

    with broker.play(script):
        client.connect()
        del reads[:]
        client.run_for(300)
        assert len(reads) <= 4
        client.disconnect()


# --- disconnecting ---


def test_disconnect(broker, make):
    """[MQTT-3.14.1-1] [MQTT-3.14.4-1] [MQTT-3.14.4-2] E0 00 is the last packet, then the connection is closed."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        p = b.expect(DISCONNECT)
        assert p.raw == b"\xe0\x00"
        b.expect_close()

    with broker.play(script):
        client.connect()
        client.disconnect()
    assert not client.connected
    client.disconnect()


def test_no_reconnect_after_disconnect(broker, make):
    """After disconnect() only connect() connects again."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.goodbye()
        b.welcome()

    with broker.play(script):
        client.connect()
        client.disconnect()
        client.run_for(30)
        client.publish("t", b"1", qos=1)
        client.run_for(10)
        assert not client.connected
        client.connect()


def test_disconnect_sends_pending_packets_first(broker, make):
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.expect(PUBLISH, qos=0)
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.publish("t", b"1")
        client.disconnect()


@only_blocking
def test_evicted(broker, make, pump):
    """[MQTT-3.1.4-2] A connection that the broker closes is replaced, with a pause between attempts."""
    client = make(broker.port, backoff_ms=(40, 40))

    def script(b):
        for _ in range(4):
            b.welcome()
            b.cut()
        b.welcome()

    with broker.play(script):
        client.connect()
        pump(client, lambda: client.counters()["connects"] == 5)
    assert client.counters()["outages"] == 4


GARBAGE = {
    "QoS 3": packet(0x36, b"\0\x01a\0\x01x"),
    "DUP at QoS 0": packet(0x38, b"\0\x01ax"),
    "flags of PUBACK": packet(0x41, b"\0\x01"),
    "Message ID 0": puback(0),
    "Message ID 0 of a PUBLISH": publish("a", b"x", 1, 0),
    "long PUBACK": packet(0x40, b"\0\x01\0"),
    "five bytes of length": b"\x30\xff\xff\xff\xff\x7f",
    "ill-formed topic": publish(b"\xff", b"x"),
    "wildcard": publish("a/#", b"x"),
    "U+0000": publish("a\0", b"x", 1, 1),
    "empty topic": publish("", b"x"),
    "topic longer than the packet": packet(0x30, b"\0\x09ab"),
    "CONNECT": packet(0x10, b""),
    "type 15": packet(0xF0, b""),
    "flags 0 of PUBREL": packet(0x60, b"\0\x01"),
    "DUP of PUBREL": packet(0x6A, b"\0\x01"),
    "PINGREQ": packet(0xC0),
    "DISCONNECT": packet(0xE0),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_closes_the_connection(broker, make, pump, kind):
    """[MQTT-4.8.0-1] [MQTT-2.2.2-2] [MQTT-1.5.3-1] [MQTT-1.5.3-2] [MQTT-3.3.1-4] [MQTT-3.6.1-1] [MQTT31-27] A protocol
    error closes the connection; nothing is delivered, it is counted, and the client reconnects."""
    got = []
    client = make(broker.port, on_message=got.append)

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        b.send(GARBAGE[kind])
        b.expect_close()
        b.welcome(1)

    with broker.play(script):
        client.connect()
        with pytest.raises(ProtocolError):
            client.ping()
        pump(client, lambda: client.connected)
    assert client.counters()["protocol_errors"] == client.counters()["outages"] == 1
    assert not got


# --- back-off ---


class FakeTime:
    """Time that passes only in sleep()."""

    def __init__(self):
        self.now = 1000.0

    def monotonic_ns(self):
        return int(self.now * 1e9)

    def sleep(self, seconds):
        self.now += max(seconds, 0.001)


@pytest.fixture
def no_broker(monkeypatch):
    """Virtual time without a broker; `dials` lists the times, in ms, at which a client tried to connect."""
    clock = FakeTime()
    clock.dials = []

    def lookup(*_):
        clock.dials.append(int(clock.now * 1000))
        raise OSError(111)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    monkeypatch.setattr("inflight.cpython.time", clock)
    return clock


@only_blocking
def test_back_off(no_broker, make):
    """Pauses grow to the maximum, with full jitter."""
    make(1, backoff_ms=(1000, 60_000)).run_for(3_600_000)
    gaps = [b - a for a, b in itertools.pairwise(no_broker.dials)]
    for k, gap in enumerate(gaps):
        assert gap <= min(60_000, 1000 << k) + 60, (k, gap)
    assert 60 < len(gaps) < 400  # half a minute each on average
    assert len(set(gaps)) > 20
    assert min(gaps[8:]) < 20_000 < 40_000 < max(gaps)


@only_blocking
@pytest.mark.parametrize("days", [7, 12, 13, 20])
def test_a_week_without_run_for(no_broker, make, days):
    """Although the ticks counter has wrapped around meanwhile, run_for() connects within the longest pause."""
    client = make(1, backoff_ms=(1000, 60_000))
    client.run_for(10_000)
    no_broker.now += days * 86_400
    del no_broker.dials[:]
    client.run_for(61_000)
    assert no_broker.dials


@only_blocking
def test_back_off_differs_between_clients(monkeypatch, no_broker, make):
    """Clients with the same random seed still draw different pauses."""
    import random

    monkeypatch.setattr(random, "getrandbits", lambda n: 0)
    dials, start = [], no_broker.now
    for client_id in ("one", "two"):
        no_broker.now, no_broker.dials = start, []
        make(1, client_id=client_id, backoff_ms=(1000, 60_000)).run_for(300_000)
        dials.append(no_broker.dials)
    assert dials[0] != dials[1]


@only_blocking
def test_back_off_is_reset(broker, make, pump):
    """An established connection resets the pauses."""
    client = make(broker.port, backoff_ms=(1, 60_000))

    def script(b):
        for k in range(6):
            b.welcome(1 if k else 0)
            b.cut()
        b.welcome(1)

    with broker.play(script):
        client.connect()
        pump(client, lambda: client.counters()["connects"] == 7)


# --- a second broker: several addresses ---


def test_reconnects_to_the_same_port(make, pump):
    """The broker returns on the same port."""
    first = Broker()
    client = make(first.port)
    with first.play(lambda b: b.welcome()):
        client.connect()
    first.close()
    client.run_for(20)
    assert not client.connected
    again = Broker(port=first.port)

    def script(b):
        b.welcome(1)

    try:
        with again.play(script):
            pump(client, lambda: client.connected)
    finally:
        again.close()


def test_subscriptions_wait_for_connect(broker, make):
    """Handlers set before connect() are subscribed before it returns."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.grant(2, filters=[("a/#", 2)])

    with broker.play(script):
        assert client.subscribe("a/#", 2, handler=print) is None
        client.connect()
