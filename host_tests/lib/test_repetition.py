"""Messages with the topic of the one before are encoded on a shorter path; the packets are the same."""

import random

import pytest

from host_tests.clients import narrow
from host_tests.thorough import more
from inflight.cpython import stream
from tools.reference.kinds import PUBLISH

TOPICS = ("sensors/attic/temperature", "a", "ü/é")
SIZES = (0, 1, 4, 4, 4, 31, 32, 33, 127, 128, 129, 450)


def some_message(choice):
    payload = bytes(choice.choices(range(256), k=choice.choice(SIZES)))
    kind = choice.choice((bytes, bytes, bytes, bytearray, memoryview, bytes.hex))
    return choice.choice(TOPICS), kind(payload), choice.choice((0, 0, 0, 0, 1, 2)), choice.random() < 0.1


def plain(payload):
    return payload.encode() if isinstance(payload, str) else bytes(payload)


@pytest.mark.parametrize("seed", [*range(5), *more(*range(5, 20))])
def test_every_message_arrives_as_it_was_published(automatic, make, seed):
    """[MQTT-3.3.1-2] [MQTT-3.3.2-1] [MQTT-4.6.0-1] Whatever message came before it; in order for each QoS."""
    choice = random.Random(seed)
    with automatic() as broker:
        client = make(broker.port)
        client.connect()
        published = []
        for _ in range(150):
            topic, payload, qos, retain = some_message(choice)
            if choice.random() < 0.02:
                assert client.drain(60_000)  # otherwise some would be sent again
                client.ping()  # the broker has read all of the old connection
                client.disconnect()
                with pytest.raises(OSError):
                    client.publish(topic, payload, 0, retain)
                client.connect()
            client.publish(topic, payload, qos, retain)
            published.append((topic, plain(payload), qos, retain))
        assert client.drain(60_000)
        client.ping()
        for qos in range(3):
            arrived = [(m.topic, m.payload, m.qos, m.retain) for m in broker.arrived if m.qos == qos]
            assert arrived == [message for message in published if message[2] == qos]


def test_a_handler_publishes_to_another_topic(automatic, make, pump):
    """It does not affect the program's next message."""
    with automatic() as broker:
        client = make(broker.port)
        heard = []

        def on_message(message):
            heard.append(message.topic)
            client.publish("other", b"1234")

        client.subscribe("in", 0, on_message)
        client.connect()
        for i in range(3):
            client.publish("mine", b"%04d" % i)
            broker.give("in")
            pump(client, lambda n=i + 1: len(heard) == n)
            client.publish("mine", b"%04d" % (i + 10))
        client.ping()
        arrived = [(m.topic, m.payload) for m in broker.arrived]
    wanted = [[("mine", b"%04d" % i), ("other", b"1234"), ("mine", b"%04d" % (i + 10))] for i in range(3)]
    assert arrived == [message for three in wanted for message in three]


def test_bad_arguments_are_still_refused(automatic, make):
    with automatic() as broker:
        client = make(broker.port)
        client.connect()
        for arguments in (("a", [1], 0), ("a", b"1234", 3), ("a", b"1234", None), ("#", b"1234", 0)):
            client.publish("a", b"1234")
            client.publish("a", b"5678")
            with pytest.raises(ValueError):
                client.publish(*arguments)
        client.ping()
        assert broker.payloads() == 4 * [b"1234", b"5678"]


def test_a_publish_within_a_repeated_one_is_refused(automatic, make, monkeypatch):
    """As a scheduled function may call it. The packet stays whole."""
    write = stream.write
    refused = []

    def scheduled(*of):
        with pytest.raises(RuntimeError, match="busy"):
            client.publish("a", b"5678")
        refused.append(of)
        return write(*of)

    with automatic() as broker:
        client = make(broker.port)
        client.connect()
        client.publish("a", b"1234")
        with monkeypatch.context() as now:
            now.setattr(stream, "write", scheduled)
            client.publish("a", b"9012")
        client.ping()
        assert len(refused) == 1 and broker.payloads() == [b"1234", b"9012"]


def test_a_slow_broker_receives_whole_messages(virtual, make):
    """Each message is larger than the socket buffers. The broker reads while the client waits."""
    client = make(virtual.port, False, buffer=bytearray(32_768))
    count = 50
    read = []

    def script(b):
        b.welcome()
        for i in range(count):
            read.append(b.expect(PUBLISH, topic="a", payload=b"%016000d" % i))
        b.answer_ping()

    virtual.narrow()
    with virtual.play(script):
        client.connect()
        narrow(client)
        for i in range(count):
            client.publish("a", b"%016000d" % i)
        assert read  # publish() has blocked
        client.ping()
