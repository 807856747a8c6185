"""What is to be told is told by the call in which it happens, at the latest by disconnect()."""

import pytest

from host_tests.lib.either import only_blocking
from host_tests.thorough import some
from inflight import MessageDamaged, MessageSetAside, OutboxFull, PublishRefused
from inflight.journal.records import OUT, OVERHEAD
from nor import NorFlash
from tools.reference.kinds import PUBLISH
from tools.reference.wire import puback

BOTH_CLIENTS = True
MAXIMUM = 0x27  # of a packet, in CONNACK
WAYS = {
    "disconnect": lambda client: None,
    "ping": lambda client: client.ping(),
    "publish": lambda client: client.publish("t", b"next", qos=1),
    "drain": lambda client: client.drain(1000),
}


@pytest.mark.parametrize(
    "way, told", [*((way, MessageSetAside) for way in WAYS), ("ping", PublishRefused), ("drain", PublishRefused)]
)
def test_a_message_that_the_broker_does_not_take(broker, make, way, told):
    """[MQTT5-3.2.2-15] CONNACK tells that the broker takes less; [MQTT5-3.4.2-1] or the PUBACK that the call reads
    refuses it."""
    client = make(broker.port, protocol_level=5)
    client.publish("t", bytes(100), qos=1)

    def script(b):
        b.welcome(announced=((MAXIMUM, 50),) if told is MessageSetAside else ())
        if told is PublishRefused:
            b.send(puback(b.expect(PUBLISH).mid, 0x87))
        if way == "ping":
            b.answer_ping()
        if way in ("publish", "drain"):
            b.take(payload=b"next")
        b.goodbye()

    with broker.play(script):
        client.connect()
        if way == "drain":
            client.publish("t", b"next", qos=1)
        WAYS[way](client)
        client.disconnect()
        assert [type(error) for error in client.errors] == [told]


def test_a_full_journal_that_drops_what_was_set_aside(broker, make):
    """Offline, by publish() itself."""
    client = make(broker.port, protocol_level=5, when_full="oldest")
    client.publish("t", bytes(400), qos=1)

    def script(b):
        b.welcome(announced=((MAXIMUM, 350),))
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.disconnect()
    del client.errors[:]
    for _ in range(12):
        client.publish("t", bytes(300), qos=1)
    full, dropped = client.errors  # each once
    assert isinstance(full, OutboxFull) and isinstance(dropped, MessageSetAside) and not dropped.kept
    assert dropped.size > 350 and client.counters()["dropped"] > 1  # and then others


@only_blocking
def test_a_message_that_nobody_takes(broker, make, pump):
    """The first one is told; `on_message` may be set later, as the other callbacks."""
    client = make(broker.port)
    got = []

    def script(b):
        b.welcome()
        b.grant()
        b.deliver("a/\x1b[2J", b"0")
        b.deliver("a/b", b"1", 1, 1)
        b.deliver("a/b", b"2", 1, 2)
        b.answer_ping()
        b.deliver("a/b", b"3", 1, 3)

    with broker.play(script):
        client.connect()
        client.subscribe("a/#", 1)
        pump(client, lambda: client.counters()["unhandled"] == 3)
        client.on_message = lambda message: got.append(message.payload)
        client.ping()
        pump(client, lambda: got)
    assert client.counters()["unhandled"] == 3 and got == [b"3"]
    assert [str(e) for e in client.errors] == ["[Errno 2] no handler takes messages to a/\\x1b[2J: they are lost"]


@pytest.mark.parametrize("count, victim", [(3, 1), (3, 2), (1, 0)], ids=["middle", "newest", "alone"])
def test_what_a_start_lost(automatic, make, count, victim):
    """A bit of a record flips while the power is off: if a message is missing, on_error and counters() are told before
    drain() says so, once; at the newest record that looks like a power cut within publish()."""
    device = NorFlash(4, 1024, 16)
    client = make(1, device)
    messages = [b"message %d" % k for k in range(count)]
    for message in messages:
        client.publish("t", message, qos=1)
    journal = client.session.journal
    begin = journal.find(OUT, victim)
    end = begin + journal.found_len + OVERHEAD
    image = device.snapshot()
    losses = 0
    with automatic() as broker:
        for bit in some(range(8 * begin, 8 * end), 7):
            device.restore(image)
            device.data[bit // 8] ^= 1 << bit % 8
            broker.forget()
            del broker.arrived[:]
            client = make(broker.port, device, protocol_level=3 + bit % 3)
            if bit % 2:
                client.connect()
            completed = client.drain(60_000)
            missing = count - len({*broker.payloads()} & {*messages})
            assert completed == (not missing)
            assert [type(error) for error in client.errors] == [MessageDamaged] * missing
            assert client.counters()["damaged"] == missing
            assert client.drain(60_000) and len(client.errors) == missing
            client.disconnect()
            losses += missing
    assert losses > 20
