"""The clients at level 5: what the application is told, how connections end, brokers that refuse or want less."""

import asyncio
import errno

import pytest

from host_tests.broker import PATIENCE_S
from host_tests.lib import aio_clients
from host_tests.lib.either import ended_by, only_blocking
from host_tests.virtual import VirtualAutomatic
from inflight import ConnectRefused, OutboxFull, ProtocolError, RamFlash, properties
from inflight.level5.properties5 import NO_LOCAL, RETAIN_AS_PUBLISHED, RETAIN_IF_NEW, RETAIN_NEVER
from inflight.session.refused import Disconnected, PublishRefused
from tools.peers.mosquitto import Mosquitto, unavailable
from tools.reference.kinds import DISCONNECT, PINGREQ, PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from tools.reference.properties import block
from tools.reference.wire import connack, disconnect, packet, pingresp, puback, publish, pubrec, suback, unsuback

BOTH_CLIENTS = True

NONE = b"\0"


@pytest.fixture
def make5(make):
    """As make(), at level 5."""

    def start(port, device=None, **options):
        return make(port, device, **{"protocol_level": 5, **options})

    return start


class Bytewise(VirtualAutomatic):
    """Sends every byte in a packet of its own, as far as the network keeps them apart."""

    def send(self, raw):
        for k in range(len(raw)):
            super().send(raw[k : k + 1])


# --- messages ---


@pytest.mark.parametrize("broker_class", [VirtualAutomatic, Bytewise])
def test_messages(clock, make5, pump, broker_class):
    """[MQTT5-4.3.1-1] [MQTT5-4.3.2-1] [MQTT5-4.3.3-1] [MQTT5-3.8.4-1] [MQTT5-3.10.4-4] Each QoS in both directions,
    before and during a connection, longer than the buffer too; UNSUBSCRIBE; another connection resumes."""
    with broker_class(clock) as broker:
        got = []
        client = make5(broker.port, RamFlash(16, 4096), buffer=bytearray(256))
        client.subscribe("in/#", 2, lambda m: got.append((m.topic, m.payload, m.qos, m.offset)), stream=True)
        sent = [b"%d" % k * (1 + 300 * (k == 4)) for k in range(12)]
        for k, payload in enumerate(sent[:3]):
            client.publish("out", payload, 1 + k % 2)
        client.connect()
        for k, payload in enumerate(sent[3:]):
            client.publish("out", payload, k % 3)
        assert client.drain(PATIENCE_S * 1000)
        gifts = [bytes([65 + k]) * (1 + 500 * (k > 2)) for k in range(6)]
        for k, payload in enumerate(gifts):
            broker.give("in/x", payload, k % 3)
        pump(client, lambda: sum(len(g[1]) for g in got) == sum(map(len, gifts)))
        assert client.ping() >= 0
        assert b"".join(payload for _, payload, *_ in got) == b"".join(gifts)
        assert {(topic, qos) for topic, _, qos, _ in got} == {("in/x", qos) for qos in range(3)}
        client.unsubscribe("in/#")
        client.disconnect()
        client.connect()
        assert client.session.present
    assert broker.payloads() == sent


def test_messages_asyncio(clock):
    """[MQTT5-4.3.2-4] [MQTT5-4.3.3-8] The same for consumers: the payload does not begin with the properties."""

    async def scene(broker):
        client = aio_clients.make(broker.port, protocol_level=5)
        async with client:
            await client.connect()
            await client.subscribe("in/#", 2)
            for k in range(6):
                await client.publish("out", b"%d" % k, k % 3)
            assert await client.drain(PATIENCE_S * 1000)
            for k in range(6):
                broker.give("in/x", b"in %d" % k, k % 3)
            got = []
            async for message in client:
                got.append((message.topic, message.payload, message.qos))
                if len(got) == 6:
                    break
            assert got == [("in/x", b"in %d" % k, k % 3) for k in range(6)]
            assert await client.ping() >= 0
        assert not client.errors

    with Bytewise(clock) as broker:
        aio_clients.run(scene(broker))
    assert broker.payloads() == [b"%d" % k for k in range(6)]


def test_properties_are_no_payload(broker, make5):
    """[MQTT5-3.3.4-4] A message with properties, two identifiers of subscriptions too, comes as what it is."""
    got = []
    client = make5(broker.port, on_message=lambda m: got.append((m.topic, m.payload)))
    properties = block((0x01, 1), (0x03, "text"), (0x0B, 1), (0x0B, 400), (0x26, ("a", "b")), (0x26, ("a", "c")))

    def script(b):
        b.welcome()
        b.send(publish("t", b"payload", 1, 5, properties=properties))
        b.expect(4, mid=5)

    with broker.play(script):
        client.connect()
        while not got:
            client.run_for(10)
    assert got == [("t", b"payload")]


def test_refused_message(broker, make5):
    """[MQTT5-4.4.0-2] on_error gets PublishRefused, drain() returns False, the others are completed."""
    done = []
    client = make5(broker.port, on_complete=done.append)

    def script(b):
        b.welcome()
        for k in range(4):
            p = b.expect(PUBLISH)
            b.send(
                (puback if p.qos == 1 else pubrec)(p.mid, (0x87, 0x97 + 2)[k % 2], block((0x1F, "no")))
                if k < 2
                else b""
            )
            if k >= 2:
                b.acknowledge(p)
        b.goodbye()

    with broker.play(script):
        client.connect()
        mids = [client.publish("t", b"%d" % k, 1 + k % 2) for k in range(4)]
        assert not client.drain(PATIENCE_S * 1000)
        client.disconnect()
    assert [(e.code, e.mid) for e in client.errors] == [(0x87, mids[0]), (0x99, mids[1])]
    assert all(isinstance(e, PublishRefused) and e.args[0] == errno.EACCES for e in client.errors)
    assert done == mids[2:]
    assert client.counters()["rejected"] == 2 and client.counters()["dropped"] == 2


# --- the broker ends the connection ---


def test_connect_refused(broker, make5):
    """[MQTT5-3.2.2-7] [MQTT5-3.1.3-8] [MQTT5-3.2.2-12] [MQTT5-3.2.2-13] With the code, and the text of the broker."""
    client = make5(broker.port, reconnect=False)

    def script(b):
        for code, reason in ((0x87, "go away"), (0x85, ""), (0x9A, ""), (0x9B, "")):
            b.called()
            b.send(connack(0, code, block(*([(0x1F, reason)] if reason else []))))
            b.expect_close()

    with broker.play(script):
        for code, number in (
            (0x87, errno.EACCES),
            (0x85, errno.ECONNREFUSED),
            (0x9A, errno.ECONNREFUSED),
            (0x9B, errno.ECONNREFUSED),
        ):
            with pytest.raises(ConnectRefused) as caught:
                client.connect()
            assert (caught.value.code, caught.value.args[0]) == (code, number)
            assert code != 0x87 or "go away" in str(caught.value)


def test_broker_of_level_4(broker, make5):
    """[MQTT5-3.1.2-2] It answers with a CONNACK of its own level."""
    client = make5(broker.port, reconnect=False)

    def script(b):
        b.called()
        b.send(connack(0, 1))
        b.expect_close()

    with broker.play(script):
        with pytest.raises(ConnectRefused) as caught:
            client.connect()
        assert caught.value.code == 0x84


def test_broker_disconnects(virtual, make5):
    """[MQTT5-3.14.4-1] [MQTT5-3.14.4-2] [MQTT5-4.13.2-1] on_disconnect gets code, text and server reference; the client
    closes, sends nothing more, and connects again."""
    ended = []
    client = make5(virtual.port, on_disconnect=ended.append)

    def script(b):
        b.welcome()
        b.answer_ping(disconnect(0x9D, block((0x1F, "moved"), (0x1C, "other.example"))))
        b.expect_close()
        b.welcome(1)
        b.goodbye()

    with virtual.play(script):
        client.connect()
        with pytest.raises(Disconnected):
            client.ping()
        while not client.connected:
            client.run_for(10)
        client.disconnect()
    assert isinstance(ended[0], Disconnected)
    assert (ended[0].code, ended[0].reason, ended[0].reference) == (0x9D, "moved", "other.example")
    assert not client.errors


LASTING = (0x87, 0x89, 0x8E, 0x97, 0x9F, 0xA0)


@pytest.mark.parametrize("code", [*LASTING, 0x00, 0x81, 0x8B, 0x9D])
def test_pause_after_a_disconnect(virtual, make5, monkeypatch, code):
    """[MQTT5-3.1.4-3] Another client has the same id, or the reason lasts: the next attempt comes after a long pause. A
    link that was lost is made again soon."""
    monkeypatch.setattr("random.getrandbits", lambda n: (1 << n) - 1)
    client = make5(virtual.port, backoff_ms=(100, 60_000))
    pauses = []

    def script(b):
        b.welcome()
        b.answer_ping()
        b.answer_ping(disconnect(code))
        b.expect_close()
        ended = b.clock.now
        b.accept()
        pauses.append(b.clock.now - ended)

    with virtual.play(script):
        client.connect()
        virtual.clock.now += 300
        client.ping()
        with pytest.raises(Disconnected):
            client.ping()
        while not pauses:
            client.run_for(1000)
    assert (pauses[0] > 1) == (code in LASTING)


@pytest.mark.parametrize("code", b"\x80\x82\x86\x87\x88\x8a\x8c")
def test_pause_after_a_refusal(virtual, make5, monkeypatch, code):
    """[MQTT5-3.2.2-7] Likewise when the broker refuses the connection."""
    monkeypatch.setattr("random.getrandbits", lambda n: (1 << n) - 1)
    client = make5(virtual.port, backoff_ms=(100, 60_000))
    pauses = []

    def script(b):
        b.called()
        b.send(connack(0, code, NONE))
        b.expect_close()
        ended = b.clock.now
        b.accept()
        pauses.append(b.clock.now - ended)

    with virtual.play(script):
        while not pauses:
            client.run_for(1000)
    assert client.errors[0].code == code
    assert (pauses[0] > 1) == (code > 0x85)


def test_a_message_that_ends_every_connection(virtual, make5):
    """[MQTT5-3.2.2-15] The broker did not say how long a packet may be. The message is set aside and told, those behind
    it arrive. What the broker says besides may be longer than the buffer."""
    client = make5(virtual.port, buffer=bytearray(1024))

    def script(b):
        b.welcome()
        b.expect(PUBLISH)
        b.expect(PUBLISH)
        b.send(disconnect(0x95, block((0x1F, "too large " * 100))))
        b.expect_close()
        b.welcome(1)
        b.take(payload=b"short")
        b.goodbye()

    with virtual.play(script):
        long = client.publish("t", b"long" * 100, 1)
        client.publish("t", b"short", 1)
        assert not client.drain(600_000)  # as soon as nothing else is pending
        client.disconnect()
    ended, aside = client.errors
    assert (ended.code, aside.code, aside.mid, aside.topic) == (0x95, 0x95, long, "t")
    assert (client.counters()["set_aside"], client.counters()["dropped"], client.pending) == (1, 0, 1)


# --- the client ends the connection ---


@pytest.mark.parametrize(
    "data, code",
    [
        (b"\x41\x02\x00\x01", 0x81),
        (publish("t", properties=b"\x01\x7f"), 0x81),
        (publish("t", properties=block((0x23, 1))), 0x94),
        (puback(5, 0x11), 0x82),
        (packet(0xF0, b"\x18\x00"), 0x82),
        (connack(0, 0, NONE), 0x82),
        (b"".join(publish("t", b"x", 2, mid, properties=NONE) for mid in range(1, 4)), 0x93),
    ],
    ids=str,
)
def test_error_of_the_broker(broker, make5, data, code):
    """[MQTT5-4.13.1-1] [MQTT5-3.14.2-1] [MQTT5-3.14.4-1] [MQTT5-3.14.4-2] [MQTT5-3.3.4-9] [MQTT5-3.1.2-24] The
    broker is told why the connection ends."""
    client = make5(broker.port, reconnect=False, receive_maximum=2)

    def script(b):
        b.welcome()
        b.answer_ping(data)
        p = b.receive()
        while p.kind != DISCONNECT:
            p = b.receive()
        assert p.code == code
        b.expect_close()

    with broker.play(script):
        client.connect()
        with pytest.raises(ProtocolError):
            client.ping()
    assert client.counters()["protocol_errors"] == 1 and client.counters()["outages"] == 1


def test_error_before_connack(broker, make5):
    """[MQTT5-3.2.0-1] No DISCONNECT: the broker has not accepted the client yet."""
    client = make5(broker.port, reconnect=False)

    def script(b):
        b.called()
        b.send(pingresp())
        b.expect_close()

    with broker.play(script), pytest.raises(ProtocolError):
        client.connect()


def test_what_tells_the_broker_cannot_be_loaded(broker, make5, pump, monkeypatch):
    """The connection ends all the same, and the client connects again."""
    client = make5(broker.port)

    def script(b):
        b.welcome()
        b.take()
        b.send(b"\x41\x02\x00\x01")
        b.expect_close()
        b.welcome(1)

    with broker.play(script):
        client.connect()
        client.publish("t", b"", 1)
        monkeypatch.delattr("inflight.level5.connection5.leave")
        pump(client, lambda: client.counters()["connects"] == 2)
    assert len(client.errors) == 1


# --- CONNECT ---


def test_connect_with_everything(broker, make5):
    """[MQTT5-3.1.2-9] [MQTT5-3.1.2-16] [MQTT5-3.1.2-17] [MQTT5-3.1.2-18] [MQTT5-3.1.2-19] [MQTT5-3.1.3-1]
    [MQTT5-3.1.3-12] A will has properties; a password needs no user name."""
    for user, password in ((None, None), ("me", None), ("me", b"\xff\0"), (None, "token")):
        client = make5(broker.port, user=user, password=password, will=("w", b"gone", 1, True), keepalive=30)

        def script(b, user=user, password=password):
            p = b.welcome(client_id="dev", keepalive=30, user=user, will=("w", b"gone", 1, True), will_properties=[])
            assert p.password == (password.encode() if isinstance(password, str) else password)
            b.goodbye()

        with broker.play(script):
            client.connect()
            client.disconnect()


def test_assigned_client_id(broker, make5):
    """[MQTT5-3.1.3-2] [MQTT5-3.1.3-7] [MQTT5-3.2.2-16] An empty id: the broker's is used from then on, after a restart
    as well. With a clean session each connection has a new one."""
    device = RamFlash()

    def script(b):
        b.welcome(0, ((0x12, "given"),), client_id="", clean=False)
        b.goodbye()
        for present in (0, 1):
            b.welcome(present, client_id="given", clean=False)
            b.goodbye()
        for name in ("one", "two"):
            b.welcome(0, ((0x12, name),), client_id="", clean=True)
            b.goodbye()

    with broker.play(script):
        client = make5(broker.port, device, client_id="")
        for _ in range(2):
            client.connect()
            client.disconnect()
        client = make5(broker.port, device, client_id="")
        client.connect()
        client.disconnect()
        client = make5(broker.port, client_id="", clean_session=True)
        for _ in range(2):
            client.connect()
            client.disconnect()


def test_server_keep_alive(virtual, make5):
    """[MQTT5-3.1.2-20] [MQTT5-3.1.2-21] [MQTT5-3.2.2-21] PINGREQ comes in the interval that the broker wants."""
    client = make5(virtual.port, keepalive=600)

    def script(b):
        b.welcome(0, ((0x13, 2),), keepalive=600)
        for _ in range(3):
            b.answer_ping()

    with virtual.play(script):
        client.connect()
        start = virtual.clock.now
        while client.counters()["pings"] < 3:
            client.run_for(100)
    assert 4 < virtual.clock.now - start < 6


BAD_ARGUMENTS = [
    {"client_id": "a\0b"},
    {"client_id": b"\xff"},
    {"user": b"\xed\xa0\x80"},
    {"password": b"x" * 65536},
    {"will": ("a/#", b"", 0, False)},
    {"will": (b"\xff", b"", 0, False)},
    {"will": ("a", b"", 3, False)},
    {"buffer": bytearray(128), "password": b"x" * 64},
    {"slept": 0.5},
    {"slept": -1},
    {"slept": 1 << 32},
]


@pytest.mark.parametrize("options", BAD_ARGUMENTS, ids=lambda o: "-".join(o))
def test_bad_arguments(make5, options):
    """[MQTT5-3.1.2-12] [MQTT5-3.1.3-4] [MQTT5-3.1.3-11] [MQTT5-3.1.3-12] ValueError, before a connection is opened."""
    with pytest.raises(ValueError):
        make5(1, **options)


def test_connect_without_a_will(broker, make5):
    """[MQTT5-3.3.1-6] [MQTT5-3.1.0-2] [MQTT5-3.1.2-3] [MQTT5-3.1.2-11] [MQTT5-3.1.2-13] [MQTT5-3.1.2-28] It has no
    flags, and it is the only one. Response Information, which it does not ask for, is passed over."""
    client = make5(broker.port)

    def script(b):
        p = b.welcome(0, ((0x1A, "response"), (0x22, 5), (0x26, ("a", "b"))), will=None)
        assert p.raw[9] == 0
        b.take(topic="t", payload=b"", qos=1, retain=True, properties=[])
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.publish("t", b"", 1, True)
        assert client.drain(PATIENCE_S * 1000)
        client.disconnect()


# --- subscriptions ---


def test_bad_filters(broker, make5):
    """[MQTT5-3.8.3-1] [MQTT5-3.8.3-2] [MQTT5-3.8.3-5] [MQTT5-3.10.3-1] [MQTT5-3.10.3-2] ValueError, and nothing is
    sent."""

    def script(b):
        b.welcome()
        b.answer_ping()
        b.goodbye()

    client = make5(broker.port)
    with broker.play(script):
        client.connect()
        for filters in (b"\xff", "a\0", "", "a#", "$share/x", []):
            with pytest.raises(ValueError):
                client.subscribe(filters, 1, print)
        with pytest.raises(ValueError):
            client.subscribe("a", 3, print)
        for filters in ([b"\xff"], [""], []):
            with pytest.raises(ValueError):
                client.unsubscribe(*filters)
        client.ping()
        client.disconnect()


def test_messages_after_unsubscribe(broker, make5):
    """[MQTT5-3.3.1-12] [MQTT5-3.3.1-13] [MQTT5-3.3.2-3] [MQTT5-3.10.4-3] [MQTT5-4.3.3-13] [MQTT5-4.5.0-2] They are
    acknowledged, expired ones too, and have no handler. RETAIN is handed on before."""
    got = []
    client = make5(broker.port)

    def script(b):
        b.welcome()
        b.grant()
        b.send(publish("a/b", b"1", 1, 7, retain=1, properties=NONE) + publish("a/c", b"2", properties=NONE))
        b.expect(4, mid=7)
        p = b.expect(UNSUBSCRIBE)
        b.send(unsuback(p.mid, 0, properties=NONE))
        b.deliver("a/b", b"3", 1, 8)
        b.send(publish("a/b", b"4", 2, 9, properties=block((0x02, 0))))
        b.expect(5, mid=9)
        b.release(9)
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.subscribe("a/+", 1, lambda m: got.append((m.topic, m.payload, m.retain)))
        while len(got) < 2:
            client.run_for(10)
        client.unsubscribe("a/+")
        while client.counters()["unhandled"] < 2:
            client.run_for(10)
        client.run_for(50)
        client.disconnect()
    assert got == [("a/b", b"1", True), ("a/c", b"2", False)]


def test_subscriptions_that_are_refused(broker, make5):
    """[MQTT5-3.8.4-7] [MQTT5-3.9.3-1] Every failure is one, at once and when they are made on connecting."""
    client = make5(broker.port)

    def script(b):
        b.welcome()
        p = b.expect(SUBSCRIBE)
        b.send(suback(p.mid, 0x87, properties=block((0x1F, "no"))))
        p = b.expect(SUBSCRIBE)
        b.send(suback(p.mid, 1, 0x8F, 0xA2, properties=NONE))
        b.goodbye()
        b.welcome(1)
        for name, qos, code in (("early", 1, 0x87), ("b", 1, 0x8F), ("c/#", 0, 0xA2)):  # what was refused
            p = b.expect(SUBSCRIBE, filters=[(name, qos)])
            b.send(suback(p.mid, code, properties=NONE))
        b.goodbye()

    client.subscribe("early", 1, print)
    with broker.play(script):
        client.connect()
        assert ["early" in str(e) and "135" in str(e) for e in client.errors] == [True]
        assert client.subscribe([("a", 2), ("b", 1), ("c/#", 0)], handler=print) == [1, 0x8F, 0xA2]
        client.disconnect()
        client.connect()
        assert len(client.errors) == 6
        client.disconnect()


def test_unsubscribe(broker, make5):
    """[MQTT5-3.10.4-5] [MQTT5-3.11.3-1] One code for each filter; that there was none is no error."""
    client = make5(broker.port)

    def script(b):
        b.welcome()
        p = b.expect(UNSUBSCRIBE)
        b.send(unsuback(p.mid, 0, 0x11, properties=NONE))
        p = b.expect(UNSUBSCRIBE)
        b.send(unsuback(p.mid, 0, properties=NONE))
        assert b.expect(DISCONNECT).code == 0x82

    with broker.play(script):
        client.connect()
        client.unsubscribe("a", "b")
        with pytest.raises(ProtocolError):
            client.unsubscribe("a", "b")


def test_requests_that_are_too_long(broker, make5):
    """[MQTT5-3.2.2-15] For this broker: ValueError, and nothing is sent; on_error for those made on connecting."""
    client = make5(broker.port)
    client.subscribe("a" * 40, 1, print)

    def script(b):
        b.welcome(0, ((0x27, 20),))
        b.grant(filters=[("b" * 8, 1)])
        b.answer_ping()
        b.goodbye()

    with broker.play(script):
        client.connect()
        assert [type(e) for e in client.errors] == [ValueError]
        with pytest.raises(ValueError, match="the broker takes 20"):
            client.subscribe("b" * 9, 1, print)
        assert client.subscribe("b" * 8, 1, print) == 1
        with pytest.raises(ValueError, match="the broker takes 20"):
            client.unsubscribe("b" * 14)
        client.ping()
        client.disconnect()


def test_the_same_message_that_is_too_long(broker, make5):
    """[MQTT5-3.2.2-15] Published once more, at the same length: nothing of it is sent either."""
    client = make5(broker.port)

    def script(b):
        b.welcome(0, ((0x27, 20),))
        assert b.expect(PUBLISH).payload == b"short"
        b.answer_ping()
        b.goodbye()

    with broker.play(script):
        client.connect()
        for _ in range(3):
            with pytest.raises(ValueError, match="the broker takes 20"):
                client.publish("t", bytes(30), 0)
        client.publish("t", b"short", 0)
        client.ping()
        client.disconnect()


@pytest.mark.parametrize("break_protocol", [False, True])
def test_no_memory_to_tell_the_broker_why(broker, make5, monkeypatch, break_protocol):
    """[MQTT5-4.13.1-1] What that takes is loaded when a connection ends. Without memory for it the connection ends
    without; the application is told of what ended it, and the client connects again."""

    def leave(*_):
        raise MemoryError

    monkeypatch.setattr("inflight.level5.connection5.leave", leave)
    client = make5(broker.port, backoff_ms=(0, 0))

    def script(b):
        b.welcome()
        b.expect(PUBLISH, qos=0)
        if break_protocol:
            b.send(b"\x00\x00")
            b.expect_close()
        else:
            b.cut()
        b.welcome(1)
        b.send(puback(b.expect(PUBLISH).mid))
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.publish("t", b"x", 0)
        while client.counters()["connects"] < 2:
            client.run_for(10)
        client.publish("t", b"x", 1)
        assert client.drain(PATIENCE_S * 1000)
        client.disconnect()
    assert [isinstance(e, ProtocolError) for e in client.errors] == [break_protocol]


# --- time ---


def test_nothing_is_repeated_on_a_connection(virtual, make5):
    """[MQTT5-4.4.0-1] An hour without an answer: nothing comes again but on the next connection."""
    client = make5(virtual.port, keepalive=60, stall_ms=0)

    def script(b):
        b.welcome()
        mids = {b.expect(PUBLISH, dup=False).mid for _ in range(2)}
        for _ in range(80):
            b.answer_ping()
        b.cut()
        b.welcome(1)
        assert {b.expect(PUBLISH, dup=True).mid for _ in range(2)} == mids

    with virtual.play(script):
        client.connect()
        client.publish("t", b"1", 1)
        client.publish("t", b"2", 2)
        while client.counters()["connects"] < 2 or client.counters()["resent"] < 2:
            client.run_for(1000)
    assert client.counters()["pings"] == 80


def test_stalled_messages(virtual, make5):
    """[MQTT5-4.4.0-1] A broker that answers PINGREQ, and no message: the client connects again, and is more patient
    each time."""
    client = make5(virtual.port, keepalive=600, timeout_ms=3000)
    found = []

    def script(b):
        for present in (0, 1, 1, 1):
            b.welcome(present)
            started = virtual.clock.now
            if len(found) == 3:
                b.answer_ping()  # it may be the message: now it is sent alone
            mid = b.expect(PUBLISH, dup=present == 1).mid
            if len(found) == 3:
                b.send(puback(mid))
                b.goodbye()
                return
            b.answer_ping()
            b.expect_close()
            found.append(virtual.clock.now - started)

    with virtual.play(script):
        client.publish("t", b"1", 1)
        assert client.drain(3_600_000)
        client.disconnect()
    assert [round(seconds / 60) for seconds in found] == [1, 2, 4]
    assert client.counters()["stalls"] == 3
    assert [e.args[0] for e in client.errors] == [errno.ETIMEDOUT] * 3


def test_no_pingresp(virtual, make5, client_kind):
    """[MQTT5-3.12.4-1] A broker that does not answer is left."""
    ended = []
    client = make5(virtual.port, keepalive=4, reconnect=False, timeout_ms=3000, on_disconnect=ended.append)

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        b.expect_close()

    with virtual.play(script):
        client.connect()
        with ended_by(client_kind, OSError, match="no answer"):
            client.run_for(60_000)
    assert [error.errno for error in ended] == [errno.ETIMEDOUT]


# --- mosquitto ---


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory):
    if reason := unavailable():
        pytest.skip(reason)
    # No max_keepalive: mosquitto 2.0.21 may end a connection within its first second if it shortens the keep alive.
    broker = Mosquitto(tmp_path_factory.mktemp("mosquitto") / "broker", "max_packet_size 2000").start()
    yield broker
    broker.kill()


def test_mosquitto_tells_its_limits(mosquitto, make5):
    """[MQTT5-3.2.2-15] The longest packet that mosquitto is configured with."""
    client = make5(mosquitto.port, RamFlash(16, 4096), client_id="limits", buffer=bytearray(8192))
    client.connect()
    assert client.session.maximum_out == 2000
    client.publish("t", bytes(1990), 1)
    with pytest.raises(ValueError, match="the broker takes 2000"):
        client.publish("t", bytes(2000), 1)
    assert client.drain(PATIENCE_S * 1000)
    assert client.counters()["unheard"] == 1


def test_mosquitto_takes_over(mosquitto, make5, pump):
    """[MQTT5-3.1.4-3] The first of two clients with one id is told why it is disconnected."""
    first = make5(mosquitto.port, client_id="twin", backoff_ms=(1000, 60_000))
    first.connect()
    second = make5(mosquitto.port, client_id="twin")
    second.connect()
    pump(first, lambda: not first.connected)
    assert isinstance(first.errors[0], Disconnected) and first.errors[0].code == 0x8E
    assert first.counters()["taken_over"] == 1


def test_mosquitto_and_asyncio(mosquitto):
    """Messages of each QoS to itself."""

    async def scene():
        client = aio_clients.make(mosquitto.port, client_id="itself", protocol_level=5, keepalive=60)
        async with client:
            await client.connect()
            await client.subscribe("itself", 2)
            for k in range(30):
                await client.publish("itself", b"%d" % k, k % 3)
            got = []
            async for message in client:
                got.append(message.payload)
                if len(got) == 30:
                    break
            assert sorted(got, key=int) == [b"%d" % k for k in range(30)]
            assert await client.drain(PATIENCE_S * 1000)
            assert client.counters()["completed"] == 20

    aio_clients.run(scene())


# --- properties of messages that leave ---

META = properties(expiry=3600, content_type="text/plain", user=(("fw", "1.2"),))
META_VALUES = [(2, 3600), (3, "text/plain"), (0x26, ("fw", "1.2"))]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_properties_arrive(automatic, make5, qos):
    """[MQTT5-3.3.2-13] [MQTT5-3.3.2-19] Again and again to the same topic, with and without them; from a later life."""
    device = RamFlash()
    with automatic() as broker:
        client = make5(broker.port, device)
        if qos:
            client.publish("t", b"waiting", qos, properties=META)
            client = make5(broker.port, device)
        client.connect()
        for k in range(6):
            client.publish("t", b"%d" % k, qos, properties=META if k % 3 else None)
        client.subscribe("in", 1)  # has no properties
        client.unsubscribe("in")
        client.ping()
        assert client.drain(PATIENCE_S * 1000)
        found = [(m.payload, m.properties) for m in broker.arrived]
    first = [(b"waiting", META_VALUES)] if qos else []
    assert found == first + [(b"%d" % k, META_VALUES if k % 3 else []) for k in range(6)]


def test_properties_arrive_asyncio(automatic):
    """[MQTT5-3.3.2-19] The same of tasks that publish with different ones at the same time."""

    async def scene(broker):
        client = aio_clients.make(broker.port, protocol_level=5)

        async def some(topic, meta):
            for k in range(10):
                await client.publish(topic, b"%d" % k, k % 3, properties=meta)

        async with client:
            await client.connect()
            await asyncio.gather(some("with", META), some("without", None))
            assert await client.drain(PATIENCE_S * 1000)
            await client.ping()

    with automatic() as broker:
        aio_clients.run(scene(broker))
    assert len(broker.arrived) == 20
    for message in broker.arrived:
        assert message.properties == (META_VALUES if message.topic == "with" else [])


@pytest.mark.parametrize("level", [3, 4])
def test_lower_levels_leave_them_out(automatic, make, level):
    """A program need not know the level that it is configured for."""
    device = RamFlash()
    with automatic() as broker:
        will = ("w", b"lost", 0, False, properties(will_delay=9))
        client = make(broker.port, device, protocol_level=level, will=will, slept=60)
        client.publish("t", b"1", 1, properties=META)
        client.connect()
        client.publish("t", b"0", 0, properties=META)
        client.publish("t", b"0", 0, properties=META)
        assert client.drain(PATIENCE_S * 1000)
        client.ping()
        assert broker.payloads() == [b"1", b"0", b"0"]
        client.publish("t", b"later", 2, properties=META)


def test_expiry_through_a_start(automatic, make5):
    """What a device knows of its sleep makes messages older."""
    for slept, found in ((0, [3600]), (3500, [100]), (3600, [])):
        device = RamFlash()
        with automatic() as broker:
            make5(broker.port, device).publish("t", b"x", 1, properties=META)
            client = make5(broker.port, device, slept=slept)
            assert client.drain(PATIENCE_S * 1000) == bool(found)
            client.disconnect()
        left = [dict(m.properties)[2] for m in broker.arrived]
        assert len(left) == len(found) and all(0 < n <= want for n, want in zip(left, found, strict=True))
        assert client.counters()["expired"] == (not found)


def test_sleeps_of_more_than_32_bits(automatic, make5):
    """The journal's seconds end at 2**32 - 1: publish() goes on, what is older has expired, and what is accepted then
    does not age."""
    device = RamFlash()
    with automatic() as broker:
        for payload in (b"old", b"new", b"newest"):
            client = make5(broker.port, device, slept=0xFFFFFFFF)
            client.publish("t", payload, 1, properties=META)
        assert not client.drain(PATIENCE_S * 1000)  # one was dropped
        client.disconnect()
    assert [(m.payload, dict(m.properties)[2]) for m in broker.arrived] == [(b"new", 3600), (b"newest", 3600)]
    assert client.counters()["expired"] == 1


def test_will_with_properties(broker, make5):
    """[MQTT5-3.1.2-9] [MQTT5-3.1.3-1] Its properties stand in front of its topic."""
    will = ("w", b"lost", 1, True, properties(will_delay=90, content_type="t"))
    client = make5(broker.port, will=will)

    def script(b):
        b.accept()
        connect = b.expect(1)
        assert connect.will == ("w", b"lost", 1, True)
        assert connect.will_properties == [(3, "t"), (0x18, 90)]
        b.send(connack(0, 0, NONE))
        b.expect(DISCONNECT)

    with broker.play(script):
        client.connect()
        client.disconnect()


def test_disconnect_with_will(broker, make, make5):
    """Reason code 4: the broker publishes the will. Below level 5 there is no such thing."""

    def script(b):
        b.welcome()
        assert b.expect(DISCONNECT).code == 4

    with broker.play(script):
        client = make5(broker.port)
        client.connect()
        client.disconnect(will=True)
        with pytest.raises(ValueError, match="protocol_level=5"):
            make(broker.port).disconnect(will=True)


def test_wrong_properties(make5):
    """Refused before anything is accepted."""
    client = make5(1)
    for wrong in ("text", {3: "text"}, properties(will_delay=1)):
        with pytest.raises(ValueError):
            client.publish("t", b"x", 1, properties=wrong)
    with pytest.raises(ValueError):
        make5(1, will=("w", b"", 0, False, {}))
        make5(1, will=("w", b"", 0, False, "text"))
    assert client.pending == 0


def test_a_handler_publishes_while_publish_waits(broker, make5):
    """A message that waits for space in the journal keeps its topic and properties."""

    def serve(message):
        client.publish("other", b"", 0, properties=properties(content_type="other"))

    client = make5(broker.port, RamFlash(4, 1024), max_inflight=1, on_message=serve)
    with pytest.raises(OutboxFull):
        while True:
            client.publish("t", bytes(200), 1)

    def script(b):
        b.welcome()
        first = b.expect(PUBLISH)
        b.send(publish("q", b"", properties=NONE))
        b.expect(PUBLISH, topic="other")
        b.acknowledge(first)
        while b.take(topic="t").payload != b"late" * 50:
            pass
        assert b.connection.packets[-1].properties == [(3, "own")]

    with broker.play(script):
        client.connect()
        client.publish("t", b"late" * 50, 1, properties=properties(content_type="own"))
        assert client.drain(60_000)


# --- topic aliases ---

ALIASES = ((0x22, 3),)


def topics_sent(broker):
    """How many messages arrived with their topic, and without."""
    raw = [p.raw for connection in broker.connections for p in connection.packets if p.kind == PUBLISH]
    named = sum(b"sensors/" in packet for packet in raw)
    return named, len(raw) - named


def test_topic_aliases(automatic, make5):
    """[MQTT5-3.3.2-7] [MQTT5-3.3.2-9] [MQTT5-3.3.2-12] Over reconnections and a restart, of messages that wait and of
    new ones, each arrives under its topic; nearly all leave without it."""
    device = RamFlash(16, 4096)
    with automatic(announced=ALIASES) as broker:
        client = make5(broker.port, device, aliases=8)
        for k in range(8):
            client.publish(f"sensors/{k % 4}", b"w%d" % k, 1 + k % 2)
        for life in range(3):
            client.connect()
            for k in range(40):
                client.publish(f"sensors/{k % 4}", b"%d %d" % (life, k), k % 3, properties=META if k % 5 else None)
            assert client.drain(PATIENCE_S * 1000)
            client.disconnect()
            client = make5(broker.port, device, aliases=8)
        assert sorted(m.topic for m in broker.arrived) == sorted(f"sensors/{k % 4}" for k in range(128))
        named, unnamed = topics_sent(broker)
    assert (named, unnamed) == (3 * 3 + 32, 87)  # on each connection three times, and all to the fourth topic


def test_topic_aliases_through_mosquitto(mosquitto, make5, pump):
    """[MQTT5-3.3.2-12] mosquitto takes ten; connections end while messages are in flight. QoS 2 comes once."""
    got = []
    reader = make5(mosquitto.port, client_id="reader2", keepalive=60)
    reader.subscribe("aliased/#", 2, lambda m: got.append((m.topic, m.payload)))
    reader.connect()
    sender = make5(mosquitto.port, client_id="sender2", keepalive=60, aliases=20)
    sent = [(f"aliased/{k % 12}", b"%d" % k) for k in range(120)]
    for k, (topic, payload) in enumerate(sent):
        if k % 40 == 0:
            sender.disconnect()
            sender.connect()
        sender.publish(topic, payload, 1 + k % 2, properties=META)
    assert sender.drain(PATIENCE_S * 1000)
    pump(reader, lambda: set(got) == set(sent))
    for client in (sender, reader):
        client.disconnect()
    assert all(got.count(each) == 1 for each in sent[1::2])


# --- properties of messages that arrive ---

ARRIVING = block(
    (0x01, 1),
    (0x02, 3600),
    (0x03, "application/json"),
    (0x08, "answers/7"),
    (0x09, b"\0\xff"),
    (0x0B, 400),
    (0x26, ("a", "1")),
    (0x26, ("b", "")),
    (0x26, ("a", "2")),
)


def fields(m):
    return (m.topic, m.payload, m.expiry, m.content_type, m.response_topic, m.correlation, m.text, m.user)


FULL = ("t", b"x", 3600, "application/json", "answers/7", b"\0\xff", True, [("a", "1"), ("b", ""), ("a", "2")])
BARE = ("t", b"x", None, None, None, None, False, [])


def test_fields_of_a_message(broker, make5):
    """[MQTT5-3.3.2-6] [MQTT5-3.3.2-15] [MQTT5-3.3.2-16] [MQTT5-3.3.2-17] [MQTT5-3.3.2-18] All that the broker sent, in
    its order; of a message in pieces with each of them."""
    got = []
    pieces = []
    client = make5(broker.port, buffer=bytearray(512), on_message=lambda m: got.append(fields(m)))
    client.subscribe("long", 1, lambda m: pieces.append((m.payload, m.content_type, m.user)), stream=True)

    def script(b):
        b.welcome()
        b.grant(1)
        b.send(publish("t", b"x", 1, 5, properties=ARRIVING) + publish("t", b"x", properties=NONE))
        b.expect(4, mid=5)
        b.send(publish("long", b"y" * 2000, 1, 6, properties=ARRIVING))
        b.expect(4, mid=6)

    with broker.play(script):
        client.connect()
        while sum(len(p[0]) for p in pieces) < 2000:
            client.run_for(10)
    assert got == [FULL, BARE]
    assert len(pieces) > 1 and {(kind, tuple(user)) for _, kind, user in pieces} == {(FULL[3], tuple(FULL[7]))}


def test_fields_for_consumers(broker):
    """[MQTT5-3.3.2-17] [MQTT5-3.3.2-18] They belong to the consumer, also when other messages follow."""

    def script(b):
        b.welcome()
        b.grant(1)
        b.send(publish("t", b"x", 1, 5, properties=ARRIVING) + publish("t", b"x", properties=NONE))
        b.expect(4, mid=5)
        b.goodbye()

    async def scene():
        async with aio_clients.make(broker.port, protocol_level=5) as client:
            await client.subscribe("t", 1)
            await client.connect()
            got = []
            async for message in client:
                got.append(message)
                if len(got) == 2:
                    return [fields(m) for m in got]

    assert aio_clients.play(broker, script, scene) == [FULL, BARE]


@only_blocking  # with asyncio, reply() is a coroutine
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_request_and_response(mosquitto, make5, pump, qos):
    """Through mosquitto: the answer goes to the topic that the request names, with its correlation data."""
    served = []
    server = make5(mosquitto.port, client_id="server%d" % qos, keepalive=60)
    server.subscribe("requests%d" % qos, 2, lambda m: served.append(m.reply(b"answer to " + m.payload, qos)))
    server.connect()
    answers = []
    asker = make5(mosquitto.port, client_id="asker%d" % qos, keepalive=60)
    asker.subscribe("answers/%d" % qos, 2, lambda m: answers.append((m.payload, m.correlation, m.content_type)))
    asker.connect()
    question = properties(response_topic="answers/%d" % qos, correlation=b"c1")
    asker.publish("requests%d" % qos, b"one", 1, properties=question)
    asker.publish("requests%d" % qos, b"two", 1)
    pump(server, lambda: len(served) == 2)
    assert server.drain(PATIENCE_S * 1000)
    pump(asker, lambda: answers)
    for client in (server, asker):
        client.disconnect()
    assert answers == [(b"answer to one", b"c1", None)]
    assert served[1] is None and (served[0] > 0) == (qos > 0)


@pytest.mark.parametrize("of", ["handler", "consumer"])
def test_request_and_response_asyncio(broker, of):
    """A handler answers in a task, a consumer awaits."""

    def script(b):
        b.welcome()
        b.grant(1)
        b.send(publish("q", b"question", properties=block((0x08, "answers"), (0x09, b"c"))))
        answer = b.expect(PUBLISH)
        assert (answer.topic, answer.payload, answer.properties) == ("answers", b"question!", [(9, b"c")])
        b.goodbye()

    async def scene():
        tasks = []

        def serve(message):
            tasks.append(asyncio.create_task(message.reply(message.payload + b"!")))

        async with aio_clients.make(broker.port, protocol_level=5) as client:
            await client.subscribe("q", 1, serve if of == "handler" else None)
            await client.connect()
            if of == "consumer":
                message = await client.__anext__()
                await message.reply(message.payload + b"!")
            await aio_clients.until(lambda: tasks or of == "consumer")
            await asyncio.gather(*tasks)

    aio_clients.play(broker, script, scene)


def test_properties_through_mosquitto(mosquitto, make5, pump):
    """Those of a message that waited in the journal, and those of a will, which a client that leaves asks for."""
    got = []
    reader = make5(mosquitto.port, client_id="reader", keepalive=60)
    reader.subscribe("from/#", 2, lambda m: got.append((m.topic, m.payload, m.content_type, m.user, m.expiry)))
    reader.connect()
    will = ("from/will", b"gone", 1, False, properties(content_type="will", will_delay=0))
    sender = make5(mosquitto.port, client_id="sender", keepalive=60, will=will)
    sender.publish("from/sender", b"x", 2, properties=META)
    sender.connect()
    assert sender.drain(PATIENCE_S * 1000)
    pump(reader, lambda: got)
    sender.disconnect(will=True)
    pump(reader, lambda: len(got) == 2)
    (topic, payload, *rest, expiry), second = got
    assert (topic, payload, rest) == ("from/sender", b"x", ["text/plain", [("fw", "1.2")]]) and 0 < expiry <= 3600
    assert second == ("from/will", b"gone", "will", [], None)


# --- options of a subscription ---


def test_subscription_options(broker, make5, make):
    """[MQTT5-3.8.3-4] [MQTT5-3.8.3-5] They are in SUBSCRIBE, at the first connection and when it is made again; those
    that the standard does not have are refused before a byte is sent."""
    client = make5(broker.port)
    options = {"a": 2 | NO_LOCAL, "b": 1 | RETAIN_AS_PUBLISHED | RETAIN_IF_NEW, "c": RETAIN_NEVER}
    client.subscribe(list(options.items()), handler=print)
    for wrong in (3, 7, 0x31, 0x40, -1, "1", None):
        with pytest.raises(ValueError, match="qos is"):
            client.subscribe("x", wrong)
    with pytest.raises(ValueError, match="NO_LOCAL"):
        client.subscribe("$share/g/x", 1 | NO_LOCAL)
    client.subscribe("$share/g/x", 1 | RETAIN_AS_PUBLISHED)
    for level in (3, 4):
        with pytest.raises(ValueError, match="level 5"):
            make(broker.port, protocol_level=level).subscribe("a", 1 | NO_LOCAL)

    def script(b):
        for _ in range(2):
            b.welcome()
            asked = []
            while len(asked) < 4:
                p = b.expect(SUBSCRIBE)
                asked += [(name, qos | more) for (name, qos), more in zip(p.filters, p.options, strict=True)]
                b.send(suback(p.mid, *(code & 3 for _, code in p.filters), properties=NONE))
            assert dict(asked) == {**options, "$share/g/x": 1 | RETAIN_AS_PUBLISHED}
            b.expect(DISCONNECT)

    with broker.play(script):
        for _ in range(2):
            client.connect()
            client.disconnect()


def test_no_local(mosquitto, make5, pump):
    """[MQTT5-3.8.3-3] What this client published does not come back; what others publish does, as they retained it."""
    got = []
    client = make5(mosquitto.port, client_id="local", keepalive=60)
    client.subscribe("local", 1 | NO_LOCAL | RETAIN_AS_PUBLISHED, lambda m: got.append((m.payload, m.retain)))
    client.connect()
    client.publish("local", b"mine", 1)
    other = make5(mosquitto.port, client_id="other", keepalive=60)
    other.connect()
    other.publish("local", b"retained", 1, retain=True)
    other.publish("local", b"theirs", 1)
    pump(client, lambda: len(got) == 2)
    assert got == [(b"retained", True), (b"theirs", False)]
    other.publish("local", b"", 1, retain=True)
    for c in (client, other):
        assert c.drain(PATIENCE_S * 1000)
        c.disconnect()
