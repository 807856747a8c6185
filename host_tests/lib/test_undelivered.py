"""Messages that a handler could not take: for want of memory, because it raised, or because their topic is longer than
the buffer."""

import errno
from unittest.mock import Mock

import pytest

from inflight.session.session import Session
from inflight.states import NEW
from tools.reference.kinds import PINGREQ, PUBLISH
from tools.reference.wire import pingresp, puback, publish

BOTH_CLIENTS = True


class Shy:
    """A handler of which the first calls raise. `seen`: the payloads, with dup and redelivered, of all calls."""

    def __init__(self, error, times):
        self.error, self.times = error, times
        self.seen = []

    def __call__(self, message):
        self.seen.append((message.payload, message.dup, message.redelivered))
        if len(self.seen) <= self.times:
            raise self.error


def redelivering(b, qos, connections, *, rest=(), payload=b"x", subscriptions=0):
    """The broker sends the message on each connection, on the first one when the client has published something, or
    when so many subscriptions are made, until it is acknowledged on the last one."""
    for k in range(connections):
        b.welcome(int(k > 0 and not subscriptions))
        for _ in range(subscriptions):
            b.grant()
        if not k and not subscriptions:
            b.send(puback(b.expect(PUBLISH).mid))
        b.send(publish("t", payload, qos, 7, int(k > 0), properties=b.none))
        if k < connections - 1:
            b.expect_close()
    b.expect(4 if qos == 1 else 5, mid=7)
    for topic, payload in rest:
        b.send(publish(topic, payload, properties=b.none))
    b.goodbye()


def codes(client):
    return [e.args[0] if isinstance(e, OSError) else type(e) for e in client.errors]


@pytest.mark.parametrize(("level", "qos", "most"), [(4, 1, 5), (5, 2, 5), (4, 1, 2)])
def test_redelivery_after_an_exception(broker, make, pump, level, qos, most):
    """[MQTT-4.4.0-1] [MQTT5-4.4.0-1] [MQTT-4.5.0-2] max_redeliveries: the message is not acknowledged, and comes on the
    next connection, until the handler takes it, or has had it so often: then on_error is told. At QoS 2 it is
    `redelivered` then. Others go on."""
    never = most == 2
    handler = Shy(ValueError("not now"), 2 + never)
    client = make(broker.port, protocol_level=level, on_message=handler, max_redeliveries=most)
    with broker.play(lambda b: redelivering(b, qos, 3, rest=[("t", b"y")])):
        client.connect()
        client.publish("go", b"", 1)
        pump(client, lambda: len(handler.seen) == 4)
        client.disconnect()
    assert handler.seen == [*((b"x", k > 0, k > 0 and qos == 2) for k in range(3)), (b"y", False, False)]
    assert codes(client) == [ValueError, errno.ECONNABORTED] * 2 + [ValueError, errno.EIO] * never
    assert client.counters()["handler_errors"] == 2 + never
    assert not never or "message 7 is acknowledged: its handler raised 3 times" in str(client.errors[-1])


def test_pieces_come_again_from_the_first(broker, make, pump):
    """[MQTT-4.4.0-1] A handler that raises on a piece gets the whole message again; when that is enough, each further
    piece is told, and nothing else."""
    seen = []

    def handler(message):
        seen.append(message.offset)
        if message.offset:
            raise ValueError("no pieces")

    client = make(broker.port, buffer=bytearray(256), max_redeliveries=1)
    client.subscribe("t", 1, handler, stream=True)
    with broker.play(lambda b: redelivering(b, 1, 2, payload=bytes(500), subscriptions=1)):
        pump(client, lambda: client.counters()["received"])
        client.disconnect()
    assert seen.count(0) == 2
    assert codes(client).count(errno.ECONNABORTED) == 1


def test_a_failure_is_of_one_message(broker, make, pump, monkeypatch):
    """Also where there was no memory to end its delivery: the next message is not one whose handler raised."""
    handler = Shy(ValueError("not now"), 1)
    client = make(broker.port, on_message=handler, max_redeliveries=5)

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        b.send(publish("t", b"x", 1, 7))
        b.expect_close()
        b.welcome(1)
        b.deliver("t", b"y")
        b.goodbye()

    with broker.play(script):
        client.connect()
        with monkeypatch.context() as patch:
            patch.setattr(client, "_end_delivery", Mock(side_effect=MemoryError))
            with pytest.raises((MemoryError, OSError)):
                client.ping()
        pump(client, lambda: len(handler.seen) == 2)
        client.disconnect()
    assert [payload for payload, *_ in handler.seen] == [b"x", b"y"]


async def coroutine(message):
    raise AssertionError("nobody runs it")


@pytest.mark.parametrize("most", [0, 3])
@pytest.mark.parametrize(
    ("handler", "error"),
    [(coroutine, TypeError), (Shy(ValueError(), 9), ValueError), (Shy(MemoryError(), 9), MemoryError)],
    ids=["coroutine", "raises", "no memory"],
)
def test_by_default_a_message_is_acknowledged(broker, make, handler, error, most):
    """[MQTT-4.5.0-2] Without max_redeliveries, and at QoS 0 with it, no connection ends, so there is no endless loop;
    also for a MemoryError of what the handler does itself. A coroutine would never run: that is an error, too."""
    client = make(broker.port, on_message=handler, max_redeliveries=most)
    times = 1 if most else 3

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        for qos in range(times):
            b.deliver("t", b"x", qos, 7)
        b.send(pingresp())

    with broker.play(script):
        client.connect()
        client.ping()
    assert [type(e) for e in client.errors] == [error] * times
    assert client.counters()["handler_errors"] == times
    assert client.connected


@pytest.fixture
def short_of_memory(monkeypatch):
    """short_of_memory(name, times): so many copies of the payload, or topics, of messages fail."""

    def short(name, times):
        left = [times]

        def failing(*of):
            if left[0]:
                left[0] -= 1
                raise MemoryError
            return {"bytes": bytes, "str": str}[name](*of)

        monkeypatch.setattr("inflight.client.handlers." + name, failing, raising=False)

    return short


@pytest.mark.parametrize(("level", "qos", "name", "field"), [(4, 1, "bytes", "payload"), (5, 2, "str", "topic")])
def test_no_memory_for_a_message(broker, make, pump, short_of_memory, level, qos, name, field):
    """[MQTT-4.5.0-2] A message whose payload or topic could not be made is not acknowledged: it comes on the next
    connection."""
    short_of_memory(name, 2)
    got = []
    client = make(broker.port, protocol_level=level, on_message=lambda m: got.append(getattr(m, field)))
    with broker.play(lambda b: redelivering(b, qos, 3)):
        client.connect()
        client.publish("go", b"", 1)
        pump(client, lambda: client.counters()["received"])
        client.disconnect()
    assert got == [b"x" if field == "payload" else "t"]
    assert codes(client) == [MemoryError, errno.ECONNABORTED] * 2


def test_there_is_never_memory(broker, make, pump, short_of_memory):
    """[MQTT-4.5.0-2] It comes three times again, then it is acknowledged, and on_error is told. Another handler of the
    same message, which needs no memory, does not change that."""
    short_of_memory("bytes", 99)
    client = make(broker.port)
    client.subscribe("t", 1, lambda m: m.payload)
    client.subscribe("#", 1, lambda m: m.view)
    with broker.play(lambda b: redelivering(b, 1, 4, subscriptions=2)):
        pump(client, lambda: client.counters()["received"])
        client.disconnect()
    assert codes(client) == [MemoryError, errno.ECONNABORTED] * 3 + [MemoryError, errno.EIO]


@pytest.mark.parametrize("level", [4, 5])
def test_topic_longer_than_the_buffer(automatic, make, pump, level):
    """[MQTT-4.5.0-2] Nobody can get it: it is acknowledged, counted, and on_error is told its length."""
    got = []
    with automatic() as broker:
        client = make(
            broker.port, protocol_level=level, buffer=bytearray(256), on_message=lambda m: got.append(m.topic)
        )
        client.subscribe("#", 2)
        client.connect()
        for qos in range(3):
            broker.give("t" * 300, bytes(1000), qos)
        broker.give("end", b"", 2)
        pump(client, lambda: got)
    assert got == ["end"]
    assert (client.counters()["too_long"], client.counters()["received"]) == (3, 1)
    assert codes(client) == [errno.ENOBUFS] * 3
    assert "take 300 bytes" in str(client.errors[0]) and "has 128" in str(client.errors[0])


def test_no_memory_for_the_rows_of_qos_2(monkeypatch):
    """Without a journal nothing else tells of them: the next message finds its row."""
    session = Session(None, bytearray(256), b"client")

    def short(n):
        monkeypatch.undo()
        raise MemoryError

    monkeypatch.setattr("inflight.session.session.bytearray", short, raising=False)
    with pytest.raises(MemoryError):
        session.take_qos_2(7)
    assert (session.take_qos_2(7), session.row(7, session.limit)) == (NEW, session.limit)
