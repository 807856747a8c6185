"""The clients at level 5: what the application is told, how connections end, brokers that refuse or want less. What the
session makes of packets is tested in device/lib/test_session5.py and its neighbours."""

from unittest.mock import Mock

import pytest

from host_tests.broker import PATIENCE_S
from host_tests.lib import aio_clients
from host_tests.lib.either import only_blocking
from host_tests.virtual import VirtualAutomatic
from inflight import OutboxFull, ProtocolError, RamFlash, properties
from inflight.level5.properties5 import NO_LOCAL, RETAIN_AS_PUBLISHED, RETAIN_IF_NEW, RETAIN_NEVER
from inflight.session.refused import Disconnected
from tools.reference.kinds import DISCONNECT, PUBLISH, SUBSCRIBE
from tools.reference.properties import block
from tools.reference.wire import connack, disconnect, pingresp, puback, publish, suback

BOTH_CLIENTS = True

NONE = b"\0"
META = properties(expiry=3600, content_type="text/plain", user=(("fw", "1.2"),))


@pytest.fixture
def make5(make):
    """As make(), at level 5."""
    return lambda port, device=None, **options: make(port, device, **{"protocol_level": 5, **options})


class Bytewise(VirtualAutomatic):
    """Sends every byte in a packet of its own, as far as the network keeps them apart."""

    def send(self, raw):
        for k in range(len(raw)):
            super().send(raw[k : k + 1])


# --- messages ---


def test_messages(clock, make5, pump):
    """[MQTT5-4.3.1-1] [MQTT5-4.3.2-1] [MQTT5-4.3.3-1] [MQTT5-3.8.4-1] [MQTT5-3.10.4-4] Each QoS in both directions,
    before and during a connection, longer than the buffer too; UNSUBSCRIBE; another connection resumes."""
    with Bytewise(clock) as broker:
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


# --- the broker ends the connection ---


@pytest.mark.parametrize("code", [0x8B, 0x8E])
def test_pause_after_a_disconnect_in_the_same_bytes_as_connack(virtual, make5, monkeypatch, code):
    """[MQTT5-4.13.2-1] The broker shuts down, or another client has its id: run_for() waits, connect() does not."""
    monkeypatch.setattr("random.getrandbits", lambda n: (1 << n) - 1)
    client = make5(virtual.port, backoff_ms=(5000, 5000))
    ended = []

    def script(b):
        for _ in range(2):
            b.called()
            b.send(connack(0, 0, NONE), disconnect(code))
            b.expect_close()
            ended.append(b.clock.now)
        b.welcome()
        assert ended[1] - ended[0] < 1 and b.clock.now - ended[1] > 2

    with virtual.play(script):
        for _ in range(2):
            with pytest.raises(Disconnected):
                client.connect()
        while not client.connected:
            client.run_for(100)


@pytest.mark.parametrize("welcome", [True, False], ids=["DISCONNECT", "CONNACK"])
def test_pause_after_a_reason_that_lasts(virtual, make5, monkeypatch, welcome):
    """[MQTT5-3.1.4-3] [MQTT5-3.2.2-7] [MQTT5-3.14.4-2] [MQTT5-4.13.2-1] Another client has the same id, or the broker
    will say so again: the next attempt comes after a long pause. A link that was lost is made again soon."""
    monkeypatch.setattr("random.getrandbits", lambda n: (1 << n) - 1)
    lasting = (0x87, 0x89, 0x8E, 0x97, 0x9F, 0xA0) if welcome else b"\x86\x87\x88\x8a\x8c"
    codes = [*lasting, *(b"\x00\x81\x8b\x9d" if welcome else b"\x80\x82")]
    pauses = []

    def script(b):
        for code in codes:
            if welcome:
                b.welcome()
                b.answer_ping()
                b.answer_ping(disconnect(code))
            else:
                b.called()
                b.send(connack(0, code, NONE))
            b.expect_close()
            ended = b.clock.now
            b.accept()
            pauses.append(b.clock.now - ended)

    with virtual.play(script):
        for k in range(len(codes)):
            client = make5(virtual.port, backoff_ms=(100, 5000))
            if welcome:
                client.connect()
                virtual.clock.now += 300
                client.ping()
                with pytest.raises(Disconnected):
                    client.ping()
            while len(pauses) == k:
                client.run_for(1000)
            client._close()
    assert [code for code, pause in zip(codes, pauses, strict=True) if pause > 1] == [*lasting]


# --- the client ends the connection ---


def test_error_of_the_broker(broker, make5):
    """[MQTT5-4.13.1-1] [MQTT5-3.14.2-1] [MQTT5-3.14.4-1] [MQTT5-3.14.4-2] [MQTT5-3.2.0-1] The broker is told why the
    connection ends, if it had accepted the client."""
    client = make5(broker.port, reconnect=False)

    def script(b):
        b.called()
        b.send(pingresp())
        b.expect_close()
        b.welcome()
        b.answer_ping(b"\x41\x02\x00\x01")
        b.expect(DISCONNECT, code=0x81)
        b.expect_close()

    with broker.play(script):
        for ask in (client.connect, client.ping):
            with pytest.raises(ProtocolError):
                ask()
            if ask == client.connect:
                client.connect()
    assert client.counters()["protocol_errors"] == 2 and client.counters()["outages"] == 1


@pytest.mark.parametrize("break_protocol", [False, True])
def test_no_memory_to_tell_the_broker_why(broker, make5, monkeypatch, break_protocol):
    """[MQTT5-4.13.1-1] What that takes is loaded when a connection ends. Without memory for it the connection ends
    without; the application is told of what ended it, and the client connects again."""
    monkeypatch.setattr("inflight.level5.mqtt5.Session5._leave_broker", Mock(side_effect=MemoryError))
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


# --- CONNECT ---


def test_connect_with_everything(broker, make5):
    """[MQTT5-3.1.2-9] [MQTT5-3.1.3-1] [MQTT5-3.1.3-12] A will and its properties, user name and password; then a
    password without a user name. DISCONNECT may ask for the will."""
    will = ("w", b"lost", 1, True, properties(will_delay=90, content_type="t"))
    for user, password in (("me", "token"), (None, b"\xff\0")):
        client = make5(broker.port, user=user, password=password, will=will, keepalive=30)

        def script(b, user=user, password=password):
            found = {"will": will[:4], "will_properties": [(3, "t"), (0x18, 90)]}
            p = b.welcome(client_id="dev", keepalive=30, user=user, **found)
            assert p.password == (password.encode() if isinstance(password, str) else password)
            assert b.expect(DISCONNECT).code == 4

        with broker.play(script):
            client.connect()
            client.disconnect(will=True)


def test_requests_that_are_too_long(broker, make5):
    """[MQTT5-3.2.2-15] For this broker: ValueError, and nothing is sent; on_error for those made on connecting.
    Likewise a message, also when it is published once more."""
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
        for qos in (0, 0, 1, 2):
            with pytest.raises(ValueError, match="the broker takes 20"):
                client.publish("t", bytes(30), qos)
        client.ping()
        client.disconnect()


# --- properties of messages that leave ---


def test_expiry_through_a_start(automatic, make5):
    """What a device knows of its sleep makes messages older. The journal's seconds end at 2**32 - 1: what is accepted
    then does not age."""
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
    device = RamFlash()
    with automatic() as broker:
        for payload in (b"old", b"new", b"newest"):
            client = make5(broker.port, device, slept=0xFFFFFFFF)
            client.publish("t", payload, 1, properties=META)
        assert not client.drain(PATIENCE_S * 1000)  # one was dropped
        client.disconnect()
    assert [(m.payload, dict(m.properties)[2]) for m in broker.arrived] == [(b"new", 3600), (b"newest", 3600)]


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


# --- properties of messages that arrive ---

USER = [("a", "1"), ("b", ""), ("a", "2")]
ARRIVING = [(1, 1), (2, 3600), (3, "application/json"), (8, "answers/7"), (9, b"\0\xff"), (0x0B, 400)]
ARRIVING = block(*ARRIVING, *((0x26, pair) for pair in USER))


def fields(m):
    return (m.topic, m.payload, m.expiry, m.content_type, m.response_topic, m.correlation, m.text, m.user)


FULL = ("t", b"x", 3600, "application/json", "answers/7", b"\0\xff", True, USER)
BARE = ("t", b"x", None, None, None, None, False, [])


def arrive(b):
    """What comes for a subscription, after CONNECT."""
    b.welcome()
    b.grant(1)
    b.send(publish("t", b"x", 1, 5, properties=ARRIVING) + publish("t", b"x", properties=NONE))
    b.expect(4, mid=5)


def test_fields_of_a_message(broker, make5):
    """[MQTT5-3.3.2-6] [MQTT5-3.3.2-15] [MQTT5-3.3.2-16] [MQTT5-3.3.2-17] [MQTT5-3.3.2-18] All that the broker sent, in
    its order; of a message in pieces with each of them."""
    got = []
    pieces = []
    client = make5(broker.port, buffer=bytearray(512), on_message=lambda m: got.append(fields(m)))
    client.subscribe("long", 1, lambda m: pieces.append((m.payload, m.content_type, m.user)), stream=True)

    def script(b):
        arrive(b)
        b.send(publish("long", b"y" * 2000, 1, 6, properties=ARRIVING))
        b.expect(4, mid=6)

    with broker.play(script):
        client.connect()
        while sum(len(p[0]) for p in pieces) < 2000:
            client.run_for(10)
    assert got == [FULL, BARE]
    assert len(pieces) > 1 and {(kind, tuple(user)) for _, kind, user in pieces} == {(FULL[3], tuple(FULL[7]))}


def test_fields_for_consumers(broker):
    """[MQTT5-3.3.2-17] [MQTT5-3.3.2-18] They belong to the consumer, also when other messages follow; it
    awaits reply()."""

    def script(b):
        arrive(b)
        answer = b.expect(PUBLISH, topic="answers/7", payload=b"x!")
        assert answer.properties == [(9, b"\0\xff")]
        b.goodbye()

    async def scene():
        client = aio_clients.make(broker.port, protocol_level=5)
        async with aio_clients.connected(client, ("t", 1)):
            got = []
            async for message in client:
                got.append(message)
                if len(got) == 2:
                    await got[0].reply(b"x!")
                    return [fields(m) for m in got]

    assert aio_clients.play(broker, script, scene) == [FULL, BARE]


QUESTION = publish("q", b"question", properties=block((0x08, "answers"), (0x09, b"c")))


@only_blocking  # with asyncio, reply() is a coroutine
def test_request_and_response(broker, make5):
    """The answer goes to the topic that the request names, with its correlation data; without one there is none."""
    served = []
    client = make5(broker.port)
    client.subscribe("q", 1, lambda m: served.append(m.reply(m.payload + b"!", 1)))

    def script(b):
        b.welcome()
        b.grant(1)
        b.send(publish("q", b"nobody waits", properties=NONE), QUESTION)
        b.take(topic="answers", payload=b"question!", properties=[(9, b"c")])
        b.goodbye()

    with broker.play(script):
        client.connect()
        while len(served) < 2 or client.pending:
            client.run_for(10)
        client.disconnect()
    assert served[0] is None and served[1] > 0


def test_subscription_options(broker, make5, make):
    """[MQTT5-3.8.3-4] [MQTT5-3.8.3-5] They are in SUBSCRIBE, at the first connection and when it is made again; those
    that the standard does not have are refused before a byte is sent."""
    client = make5(broker.port)
    options = {"a": 2 | NO_LOCAL, "b": 1 | RETAIN_AS_PUBLISHED | RETAIN_IF_NEW, "c": RETAIN_NEVER}
    client.subscribe(list(options.items()), handler=print)
    for wrong in (3, 7, 0x31, 0x40):
        with pytest.raises(ValueError, match="qos is"):
            client.subscribe("x", wrong)
    with pytest.raises(ValueError, match="NO_LOCAL"):
        client.subscribe("$share/g/x", 1 | NO_LOCAL)
    client.subscribe("$share/g/x", 1 | RETAIN_AS_PUBLISHED)
    with pytest.raises(ValueError, match="level 5"):
        make(broker.port).subscribe("a", 1 | NO_LOCAL)

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
