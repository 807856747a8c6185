"""What the asyncio client receives: handlers, `async for`, consumers that end."""

import asyncio
import contextlib
import errno
import threading

import pytest

from host_tests.broker import Gone
from host_tests.lib.aio_clients import LIMIT_S, VIRTUAL, connected, make, plain, play, run, subscribed, until
from inflight import RamFlash
from tools.reference.kinds import PINGREQ, PUBACK, PUBLISH, PUBREC
from tools.reference.wire import publish

pytestmark = VIRTUAL


def test_handlers_that_raise(broker):
    """[MQTT-4.3.2-2] A handler's exception is reported, and its message acknowledged; also that of a task that it looks
    at."""
    client = make(broker.port, keepalive=1)
    errors = [KeyError(), asyncio.CancelledError()]

    def raises(m):
        raise errors[m.qos - 1]

    async def scene():
        async with connected(client, ("t/+", 2, raises)):
            await until(lambda: broker.connection.packets[-1].kind == PINGREQ)

    @subscribed
    def script(b):
        for qos in (1, 2):
            b.deliver("t/1", b"b", qos, 7)
        b.answer_ping()

    play(broker, script, scene)
    assert client.errors == errors and client.counters()["handler_errors"] == 2


def test_long_messages_for_a_consumer(broker):
    """Any one that the buffer holds whole, beyond 64 KiB too."""
    client = make(broker.port, RamFlash(16, 16384), buffer=bytearray(1 << 18), protocol_level=5)

    @subscribed
    def script(b):
        b.send(publish("t", b"a" * 65_530, properties=b.none), publish("t", b"b" * 131_000, properties=b.none))

    async def scene():
        async with connected(client, ("t", 1)):
            for letter, n in ((b"a", 65_530), (b"b", 131_000)):
                message = await client.__anext__()
                assert (message.topic, message.payload) == ("t", letter * n)

    play(broker, script, scene)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_iterator(broker, qos):
    """Messages come in order; each is acknowledged when the next one is requested, and not before."""
    client = make(broker.port)
    steps = []
    acknowledged = {0: None, 1: PUBACK, 2: PUBREC}[qos]

    async def scene():
        async with client:
            await client.subscribe("t", qos)
            messages = client.__aiter__()
            for k in range(5):
                message = await messages.__anext__()
                assert (message.topic, message.payload) == ("t", b"%d" % k)
                steps.append(k)
                await client.publish("fence", b"%d" % k)
                await asyncio.sleep(0)
            after = asyncio.create_task(messages.__anext__())
            await until(lambda: len(steps) == 6)
            after.cancel()

    @subscribed
    def script(b):
        b.send(*(publish("t", b"%d" % k, qos, k + 1) for k in range(5)))
        for k in range(5):
            b.expect(PUBLISH, payload=b"%d" % k, topic="fence")
            if acknowledged:
                b.expect(acknowledged, mid=k + 1)
        steps.append("acknowledged")

    play(broker, script, scene)


def test_too_long_for_the_iterator(broker):
    """[MQTT-4.5.0-2] Counted and acknowledged, one with too long a topic as well; a stream handler would have received
    it in chunks."""
    client = make(broker.port, buffer=bytearray(256))
    pieces = []

    async def scene():
        async with client:
            await client.subscribe("s", 1, lambda m: pieces.append((m.offset, m.payload, m.size)), stream=True)
            await client.subscribe("t", 1)
            async for message in client:
                assert message.payload == b"short"
                break

    @subscribed
    def script(b):
        b.grant(1)
        b.send(publish("t", bytes(100_000), 1, 1), publish("s", b"y" * 5000, 2, 2))
        b.send(publish("t" * 300, bytes(1000), 1, 3), publish("t" * 300, b"fits", 1, 4))
        b.send(publish("t", b"short", 0))
        b.expect(PUBACK, mid=1)
        b.expect(PUBREC, mid=2)
        b.expect(PUBACK, mid=3)
        b.expect(PUBACK, mid=4)

    play(broker, script, scene)
    assert client.counters()["too_long"] == 3 and [e.args[0] for e in client.errors] == [errno.ENOBUFS] * 2
    assert b"".join(piece for _, piece, _ in pieces) == b"y" * 5000
    assert [at for at, _, _ in pieces] == [sum(len(p[1]) for p in pieces[:k]) for k in range(len(pieces))]


def test_a_flood_does_not_block_other_tasks(broker):
    """The broker sends without pause; other tasks still run."""
    client = make(broker.port)
    turns = []
    stop = threading.Event()

    async def scene():
        async with connected(client, ("t", 0, lambda m: None)):
            while client.counters()["received"] < 2000:
                turns.append(client.counters()["received"])
                await asyncio.sleep(0)
            stop.set()

    def script(b):
        b.welcome()
        b.grant(0)
        while not stop.is_set():
            try:
                b.send(publish("t", b"x" * 50) * 100)
            except Gone:
                return

    play(broker, script, scene)
    assert len(turns) > 10


def test_iterator_ends_with_disconnect(broker):
    """`async for` ends, since no message can come."""
    client = make(broker.port)

    async def everything():
        return [m.payload async for m in client]

    async def scene():
        async with connected(client):
            loop = asyncio.create_task(everything())
            await asyncio.sleep(0)
            await client.disconnect()
            assert await loop == []

    play(broker, plain(lambda b: None), scene)


def test_the_iterator_raises_the_error_of_the_one_connection(broker):
    """reconnect=False: what ended the connection."""
    client = make(broker.port, reconnect=False)
    up = threading.Event()

    async def scene():
        await client.connect()
        up.set()
        with pytest.raises(ConnectionResetError):
            async for _ in client:
                pass
        await client.disconnect()

    def script(b):
        b.welcome()
        b.until(up.is_set)
        b.cut()

    play(broker, script, scene)


async def breaks(client):
    async for message in client:
        return message


async def cancelled_in_the_body(client):
    inside = asyncio.Event()

    async def consume():
        async for message in client:
            found.append(message)
            inside.set()
            await asyncio.Event().wait()

    found = []
    task = asyncio.create_task(consume())
    await inside.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return found[0]


async def raises(client):
    async def consume():
        async for message in client:
            raise KeyError(message)

    try:
        await asyncio.create_task(consume())
    except KeyError as e:
        return e.args[0]


async def waits_for(client):
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(client.__anext__(), 0)
    return await asyncio.wait_for(client.__anext__(), LIMIT_S)


async def another_consumer(client):
    message = await client.__anext__()
    vars(client)["other"] = asyncio.create_task(client.__anext__())
    return message


async def nobody(client):
    await until(lambda: client.counters()["received"])


LEAVING = [breaks, cancelled_in_the_body, raises, waits_for, another_consumer, nobody]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("leave", LEAVING)
def test_nothing_waits_for_an_ended_consumer(automatic, leave, qos):
    """Acknowledgements are read, answers arrive, handlers run, and the message stays readable. The messages that
    consumers received and those that the broker sends after a power cut are together all messages."""
    handled, had = [], []
    with automatic() as b:
        client = make(b.port, timeout_ms=1000)

        async def scene():
            async with connected(client, ("t", 2), ("h", 2, lambda m: handled.append(m.payload))):
                for k in range(5):
                    b.give("t", b"%d" % k, qos)
                message = await leave(client)
                b.give("h", b"handled", qos)
                for own in (1, 2):
                    await client.publish("out", b"%d" % own, own)
                assert await client.drain(LIMIT_S * 1000)
                assert await client.subscribe("later", 1, print) == 1
                await client.unsubscribe("later")
                assert await client.ping() >= 0
                await until(lambda: handled)
                if message:
                    assert (message.topic, message.payload, message.qos, message.mid) == ("t", b"0", qos, 1)
                    assert not message.redelivered
                    had.append(message.payload)
                if leave is another_consumer:
                    had.append((await client.other).payload)

        run(scene())
        waiting = [message.payload for message, released in b.sessions["dev"].flight.values() if not released]
    assert b.payloads() == [b"1", b"2"] and handled == [b"handled"]
    assert client.errors == [] and client.counters()["outages"] == 0
    assert {*waiting, *had} - {b"handled"} == {b"%d" % k for k in range(5)}
    assert len(waiting) >= 5 - len(had)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_more_messages_than_the_inbox_holds(automatic, qos):
    """The client keeps reading: the broker keeps the surplus, and sends it when a consumer comes."""
    count = 12 if qos == 2 else 40
    with automatic() as b:
        client = make(b.port, timeout_ms=400, buffer=bytearray(512))

        async def scene():
            async with connected(client, ("t", 2)):
                for k in range(count):
                    b.give("t", b"%3d" % k + bytes(50), qos)
                await client.publish("out", b"own", 2)
                assert await client.drain(LIMIT_S * 1000)
                got = []
                while len(got) < count and (qos or got == [] or got[-1] < 3):
                    got.append(int((await client.__anext__()).payload[:3]))
                return got

        got = run(scene())
        if qos:
            assert got == list(range(count))
            assert client.counters()["connects"] > 1 and client.counters()["outages"] == 0
            assert [e.errno for e in client.errors][:1] == [errno.ENOBUFS]
        else:
            assert got == [0, 1, 2, 3] and client.counters()["unhandled"] > 0 and client.counters()["connects"] == 1


def test_a_handler_message_waits_for_a_consumer(broker):
    """[MQTT-4.6.0-2] Its acknowledgement waits for a quick consumer, and overtakes a slow one."""
    client = make(broker.port, timeout_ms=400)
    order = []
    overtaken = threading.Event()

    async def scene():
        async with connected(client, ([("t", 1)],), ("h", 1, lambda m: order.append(m.payload))):
            async for message in client:
                order.append(message.payload)
                if message.payload == b"quick":
                    await until(lambda: client.counters()["received"])
                elif message.payload == b"slow":
                    await until(overtaken.is_set)
                else:
                    break

    def script(b):
        b.welcome()
        for _ in range(2):
            b.grant(1)
        b.send(publish("t", b"quick", 1, 1), publish("h", b"h1", 1, 2))
        b.expect(PUBACK, mid=1)
        b.expect(PUBACK, mid=2)
        b.send(publish("t", b"slow", 1, 3), publish("h", b"h2", 1, 4))
        b.expect(PUBACK, mid=4)
        overtaken.set()
        b.expect(PUBACK, mid=3)
        b.send(publish("t", b"end", 0))
        b.goodbye()

    play(broker, script, scene)
    assert order == [b"quick", b"h1", b"slow", b"h2", b"end"]


def test_two_consumers(broker):
    """[MQTT-4.6.0-2] Each message goes to one of them, and is acknowledged in order, when its consumer has handled
    it."""
    client = make(broker.port)
    acknowledged = threading.Event()
    gates = {b"1": asyncio.Event(), b"2": asyncio.Event(), b"3": asyncio.Event()}
    got = []

    async def consume():
        async for message in client:
            payload = message.payload
            got.append(payload)
            if payload in gates:
                await gates[payload].wait()
            assert message.payload == payload
            if payload == b"end":
                return

    async def scene():
        async with connected(client, ("t", 1)):
            consumers = [asyncio.create_task(consume()) for _ in range(2)]
            await until(lambda: len(got) == 2)
            gates[b"2"].set()
            await until(lambda: len(got) == 3)
            await client.ping()
            gates[b"1"].set()
            await until(acknowledged.is_set)
            gates[b"3"].set()
            await until(lambda: any(c.done() for c in consumers))
            for consumer in consumers:
                consumer.cancel()
            await asyncio.gather(*consumers, return_exceptions=True)

    @subscribed
    def script(b):
        b.send(*(publish("t", b"%d" % k, 1, k) for k in (1, 2, 3)))
        b.answer_ping()  # 2 is handled; its acknowledgement waits for that of 1
        b.expect(PUBACK, mid=1)
        b.expect(PUBACK, mid=2)
        acknowledged.set()
        b.expect(PUBACK, mid=3)
        b.send(publish("t", b"end", 0))

    play(broker, script, scene)
    assert got == [b"1", b"2", b"3", b"end"]


@pytest.mark.parametrize("qos", [0, 1])
def test_a_burst_for_an_idle_consumer(broker, qos):
    """More messages than the inbox holds, while another consumer was busy for long: all arrive at once."""
    client = make(broker.port, buffer=bytearray(256))
    inside, ready = asyncio.Event(), threading.Event()
    got = []

    async def busy():
        await client.__anext__()
        inside.set()
        await asyncio.Event().wait()

    async def idle():
        await inside.wait()
        ready.set()
        while len(got) < 12:
            got.append((await client.__anext__()).payload[0])

    async def scene():
        async with connected(client, ("t", qos)):
            first = asyncio.create_task(busy())
            await idle()
            first.cancel()

    @subscribed
    def script(b):
        b.send(publish("t", b"first", qos, 100))
        b.until(ready.is_set)
        b.sleep(LIMIT_S)  # no message is requested for long
        b.send(*(publish("t", bytes([k]) + bytes(40), qos, k + 1) for k in range(12)))
        acknowledged = 0
        while qos and acknowledged != 11:  # the consumer has not handled the last one
            acknowledged = b.expect(PUBACK).mid

    play(broker, script, scene)
    assert got == list(range(12)) and client.errors == [] and client.counters()["dropped"] == 0
