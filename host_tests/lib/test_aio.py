"""The asyncio client against the scripted broker: every flow, every loss, and cancellation at every await."""

import asyncio
import contextlib
import copy
import errno
import functools
import gc
import socket
import sys
import threading
import time
import types
import warnings

import pytest

from dev.reference.kinds import CONNECT, PINGREQ, PUBACK, PUBLISH, PUBREC, PUBREL, SUBSCRIBE, UNSUBSCRIBE
from dev.reference.wire import connack, pingresp, puback, pubcomp, publish, pubrec, suback, unsuback
from host_tests.broker import PATIENCE_S, Automatic, Faults, Gone
from inflight import AsyncClient, ConnectRefused, Journal, OutboxFull, ProtocolError, RamFlash
from inflight.compat import ticks_add, ticks_ms
from inflight.transport import Transport
from nor import NorFlash

pytestmark = [
    pytest.mark.filterwarnings("error::ResourceWarning"),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]

LIMIT_S = 10
POINTS = 150  # of one life at which it is interrupted


def run(main, limit=LIMIT_S):
    """Runs the coroutine in a loop of its own; nothing may be left behind: no task, no unheard exception."""
    problems = []

    async def watched():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        result = await asyncio.wait_for(main, limit)
        for _ in range(3):  # cancelled tasks come to their end
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    result = asyncio.run(watched(), debug=True)
    gc.collect()
    assert not problems
    return result


def make(port, device=None, client_id="dev", **options):
    """An AsyncClient with a RAM journal; `errors` lists what on_error was told. device False: no journal."""
    device = RamFlash() if device is None else device
    errors = []
    settings = {"timeout_ms": 3000, "backoff_ms": (0, 0), "keepalive": 0, "on_error": errors.append, **options}
    client = AsyncClient("127.0.0.1", client_id, Journal(device) if device else None, port=port, **settings)
    client.errors = errors
    client.device = device
    return client


def play(broker, script, scene):
    """The broker plays script(broker) in its thread while scene() runs in the event loop."""
    with broker.play(script):
        return run(scene())


def narrow(end):
    """A connected client, or a broker before anybody comes, whose socket takes little at once."""
    if isinstance(end, AsyncClient):
        end._transport.stream._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    else:
        end._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


async def until(condition):
    """Lets the loop run until the condition holds; run() bounds it."""
    while not condition():
        await asyncio.sleep(0.001)


def plain(script):
    """A script between a welcome and a goodbye."""

    @functools.wraps(script)
    def whole(b):
        b.welcome()
        script(b)
        b.goodbye()

    return whole


# --- connecting ---


def test_connect_and_leave(broker):
    """[MQTT-3.1.0-1] [MQTT-3.14.4-1]"""
    client = make(broker.port, user="u", password="p", will=("w", b"gone", 1, True))

    async def scene():
        async with client:
            await client.connect()
            assert client.connected
            await client.connect()  # it stands: nothing happens
        assert not client.connected

    def script(b):
        p = b.welcome(client_id="dev", clean=False, user="u", password=b"p", will=("w", b"gone", 1, True))
        assert p.level == 4
        b.goodbye()

    play(broker, script, scene)


@pytest.mark.parametrize("code", range(1, 6))
def test_refused(broker, code):
    """[MQTT-3.2.2-5] connect() says why; the next attempt may do better."""
    client = make(broker.port)

    async def scene():
        with pytest.raises(ConnectRefused) as told:
            await client.connect()
        assert told.value.code == code
        await client.connect()
        await client.disconnect()

    def script(b):
        b.called()
        b.send(connack(0, code))
        b.expect_close()
        b.welcome()
        b.goodbye()

    play(broker, script, scene)
    assert client.counters()["refused"] == 1


def test_nobody_listens(broker):
    broker.close()
    client = make(broker.port)

    async def scene():
        with pytest.raises(ConnectionRefusedError):
            await client.connect()
        await client.disconnect()

    run(scene())


@pytest.fixture
def pit():
    """A port that neither takes connections nor refuses them: its queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        others = []
        for _ in range(4):
            others.append(socket.socket())
            others[-1].setblocking(False)
            others[-1].connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for other in others:
            other.close()


def test_no_answer_to_the_dial(pit):
    client = make(pit, timeout_ms=100)

    async def scene():
        with pytest.raises(OSError) as told:
            await client.connect()
        assert told.value.args[0] == errno.ETIMEDOUT
        await client.disconnect()

    run(scene(), 2)


def test_silent_broker(broker):
    client = make(broker.port, timeout_ms=100)

    async def scene():
        with pytest.raises(OSError) as told:
            await client.connect()
        assert told.value.args[0] == errno.ETIMEDOUT
        await client.disconnect()

    def script(b):
        b.called()
        b.expect_close()

    play(broker, script, scene)


def test_protocol_error(broker):
    """[MQTT-4.8.0-1]"""
    client = make(broker.port)

    async def scene():
        with pytest.raises(ProtocolError):
            await client.connect()
        await client.disconnect()

    def script(b):
        b.called()
        b.send(pingresp())
        b.expect_close()

    play(broker, script, scene)
    assert client.counters()["protocol_errors"] == 1


def test_connect_packet_longer_than_the_buffer():
    """It is told when the client is made."""
    with pytest.raises(ValueError, match="buffer too small"):
        make(1, buffer=bytearray(128), will=("w", b"x" * 100, 0, False))


def test_comes_back_by_itself(broker):
    """Cut before CONNACK, after it, and in the middle of it."""
    client = make(broker.port)

    async def scene():
        async with client:
            await until(lambda: client.counters()["connects"] == 3)
            await client.ping()

    def script(b):
        for raw in (b"", connack(), connack()[:3], connack()):
            b.called()
            b.send(raw)
            b.cut()
        b.welcome()
        b.answer_ping()
        b.goodbye()

    play(broker, script, scene)
    assert len(client.errors) == 4


def test_back_off(broker):
    """The pauses grow to the longest, jittered; a connection that stands sets them back."""
    broker.close()
    now = [0]
    client = make(broker.port, backoff_ms=(100, 1000), on_error=lambda e: None)
    for tries, longest in enumerate((100, 200, 400, 800, 1000, 1000)):
        assert client._attempts == tries
        client._back_off(now[0])
        assert 0 <= client._next_attempt <= longest


# --- publishing ---


def test_publish(broker):
    """[MQTT-4.3.1-1] [MQTT-4.3.2-1] [MQTT-4.3.3-1]"""
    client = make(broker.port)

    async def scene():
        async with client:
            await client.connect()
            assert await client.publish("t", "zero", retain=True) == 0
            assert await client.publish("t", b"one", 1) == 1
            assert await client.publish("t", memoryview(b"two"), 2) == 2
            assert client.pending == 2
            assert await client.drain(3000)

    @plain
    def script(b):
        b.expect(PUBLISH, topic="t", payload=b"zero", qos=0, retain=True)
        b.expect(PUBLISH, payload=b"one", qos=1, mid=1, dup=False)
        b.expect(PUBLISH, payload=b"two", qos=2, mid=2, dup=False)
        b.send(puback(1), pubrec(2))
        b.expect(PUBREL, mid=2)
        b.send(pubcomp(2))

    play(broker, script, scene)
    assert client.pending == 0


def test_bad_arguments(broker):
    """Refused before a byte is written, connected or not."""
    client = make(broker.port, device=False)

    async def scene():
        for arguments in (("#",), ("",), ("t", 5), ("t", b"", 3), ("t", b"", 1)):
            with pytest.raises(ValueError):
                await client.publish(*arguments)
        for filters in ([], "a/#/b", [("a", 3)]):
            with pytest.raises(ValueError):
                await client.subscribe(filters)
        with pytest.raises(ValueError):
            await client.unsubscribe()

    run(scene())


def test_offline(broker):
    """QoS 1 and 2 wait, in order; QoS 0 and questions have nowhere to go."""
    client = make(broker.port)

    async def scene():
        with pytest.raises(OSError):
            await client.publish("t", b"lost")
        with pytest.raises(OSError):
            await client.ping()
        with pytest.raises(OSError):
            await client.unsubscribe("t")
        assert await client.subscribe("t") is None
        for k in range(20):
            await client.publish("t", b"%d" % k, 1 + k % 2)
        assert not await client.drain(20)
        async with client:
            await client.connect()
            assert await client.drain(3000)

    run_with = Automatic()
    client._port = run_with.port
    with run_with as b:
        run(scene())
    assert b.payloads() == [b"%d" % k for k in range(20)]


def test_redelivery(broker):
    """[MQTT-4.4.0-1] [MQTT-3.3.1-1] The same ids, in order, with DUP; what was released is not published again."""
    client = make(broker.port)

    async def scene():
        async with client:
            await client.connect()
            for qos in (1, 2, 2):
                await client.publish("t", b"%d" % qos, qos)
            assert await client.drain(3000)

    def script(b):
        b.welcome()
        for mid in (1, 2, 3):
            b.expect(PUBLISH, mid=mid, dup=False)
        b.send(pubrec(2))
        b.expect(PUBREL, mid=2)
        b.cut()
        b.welcome(1)
        b.expect(PUBLISH, mid=1, dup=True, payload=b"1")
        b.expect(PUBREL, mid=2)
        b.expect(PUBLISH, mid=3, dup=True, payload=b"2")
        b.send(puback(1), pubcomp(2), pubrec(3))
        b.expect(PUBREL, mid=3)
        b.send(pubcomp(3))
        b.goodbye()

    play(broker, script, scene)


def test_session_forgotten(broker):
    """[MQTT-3.2.2-3] Session present 0: subscriptions are made again, messages go out again."""
    client = make(broker.port)

    async def scene():
        async with client:
            assert await client.subscribe("s", 1) is None
            await client.connect()
            await client.publish("t", b"x", 1)
            assert await client.drain(3000)

    def script(b):
        b.welcome()
        b.grant(1, filters=[("s", 1)])
        mid = b.expect(PUBLISH, dup=False).mid
        b.cut()
        b.welcome(1)
        b.expect(PUBLISH, dup=True, mid=mid)
        b.cut()
        b.welcome(0)
        p, q = b.receive(), b.receive()
        assert {p.kind, q.kind} == {SUBSCRIBE, PUBLISH}
        sub, pub = (p, q) if p.kind == SUBSCRIBE else (q, p)
        assert sub.filters == [("s", 1)] and pub.mid == mid and pub.dup
        b.send(suback(sub.mid, 1), puback(mid))
        b.goodbye()

    play(broker, script, scene)


def test_clean_session(broker):
    """[MQTT-3.1.2-6]"""
    client = make(broker.port, clean_session=True)

    async def scene():
        async with client:
            await client.connect()

    def script(b):
        b.welcome(clean=True)
        b.goodbye()

    play(broker, script, scene)


def test_session_of_a_stranger(broker):
    """In a session that this journal has never met ids are freed before they are used at QoS 2."""
    client = make(broker.port)

    async def scene():
        await client.publish("t", b"x", 2)
        async with client:
            await client.connect()
            assert await client.drain(3000)

    def script(b):
        b.welcome(1, clean=False)
        b.free_ids()
        mid = b.expect(PUBLISH, payload=b"x").mid
        b.send(pubrec(mid))
        b.expect(PUBREL)
        b.send(pubcomp(mid))
        b.goodbye()

    play(broker, script, scene)


# --- requests ---


def test_subscribe(broker):
    """[MQTT-3.8.4-5] Before connect() and after, several at once, refused; unsubscribe."""
    client = make(broker.port)

    async def scene():
        async with client:
            assert await client.subscribe("early", 1) is None
            await client.connect()
            assert await client.subscribe("one", 2) == 1
            assert await client.subscribe([("a", 0), ("b/+", 1), ("c/#", 2)]) == [0, 1, 128]
            assert await client.subscribe("no") == 128
            await client.unsubscribe("a", "one")
        assert [h[0] for h in client._handlers] == [b"early", b"b/+"]

    @plain
    def script(b):
        for filters, codes in (
            ([("early", 1)], (1,)),
            ([("one", 2)], (1,)),
            ([("a", 0), ("b/+", 1), ("c/#", 2)], (0, 1, 128)),
            ([("no", 0)], (128,)),
        ):
            b.grant(*codes, filters=filters)
        b.send(unsuback(b.expect(UNSUBSCRIBE, filters=[("a", None), ("one", None)]).mid))

    play(broker, script, scene)


def test_subscribe_while_connecting(broker):
    """Asked for when the connection has asked for its handlers already: not forgotten until the next one."""
    client = make(broker.port)
    asked = threading.Event()

    async def scene():
        async with client:
            await client.subscribe("first")
            await until(asked.is_set)
            assert await client.subscribe("second", 1) == 1

    @plain
    def script(b):
        mid = b.expect(SUBSCRIBE, filters=[("first", 0)]).mid
        asked.set()
        with pytest.raises(TimeoutError):
            b.connection.sock.settimeout(0.05)
            b.connection.sock.recv(1)  # it waits for its turn
        b.connection.sock.settimeout(PATIENCE_S)
        b.send(suback(mid, 0))
        b.grant(1, filters=[("second", 1)])

    play(broker, script, scene)


def test_link_lost_while_asking(broker):
    """The caller hears of it; the next connection asks again."""
    client = make(broker.port)

    async def scene():
        async with client:
            await client.connect()
            for ask in (client.subscribe("s"), client.ping(), client.unsubscribe("x")):
                with pytest.raises(OSError) as told:
                    await ask
                assert told.value.args[0] == errno.ECONNRESET
                await client.connect()

    def script(b):
        b.welcome()
        b.expect(SUBSCRIBE)
        b.cut()
        for kind in (PINGREQ, UNSUBSCRIBE):
            b.welcome(1)
            b.grant(0) if kind == PINGREQ else None
            b.expect(kind)
            b.cut()
        b.welcome(1)
        b.goodbye()

    play(broker, script, scene)


@pytest.mark.parametrize("ask", [lambda c: c.subscribe("s"), lambda c: c.ping(), lambda c: c.unsubscribe("s")])
def test_no_answer(broker, ask):
    """[MQTT-3.12.4-1] A question has a time limit; the connection goes with it. Whoever notices first, the caller hears
    of the reason."""
    client = make(broker.port, timeout_ms=500)

    async def scene():
        await client.connect()
        with pytest.raises(OSError) as told:
            await ask(client)
        assert told.value.args[0] == errno.ETIMEDOUT
        await until(lambda: client.errors)
        await client.disconnect()

    def script(b):
        b.welcome()
        b.receive()
        b.expect_close()

    play(broker, script, scene)


def test_no_answer_within_the_keep_alive(broker):
    """[MQTT-3.12.4-1] It is the client's own task that notices; the caller hears the same."""
    client = make(broker.port, keepalive=1)

    async def scene():
        await client.connect()
        with pytest.raises(OSError) as told:
            await client.ping()
        assert told.value.args[0] == errno.ETIMEDOUT
        await client.disconnect()

    def script(b):
        b.welcome(keepalive=1)
        b.expect(PINGREQ)
        b.expect_close()

    play(broker, script, scene)


def test_disconnected_while_asking(broker):
    """No error of an earlier connection is told for it."""
    client = make(broker.port)

    async def scene():
        await client.connect()
        with pytest.raises(OSError):
            await client.ping()
        await client.connect()
        ask = asyncio.create_task(client.ping())
        await asyncio.sleep(0)
        await client.disconnect()
        with pytest.raises(OSError) as told:
            await ask
        assert told.value.args[0] == errno.ENOTCONN

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        b.cut()
        b.welcome()
        b.expect(PINGREQ)
        b.goodbye()

    play(broker, script, scene)


def test_keep_alive(broker):
    """[MQTT-3.1.2-23] Pings while nobody does anything; one without answer ends the connection."""
    client = make(broker.port, keepalive=1, timeout_ms=300)

    async def scene():
        async with client:
            await until(lambda: client.counters()["connects"] == 2)

    def script(b):
        b.welcome(keepalive=1)
        b.answer_ping()
        b.expect(PINGREQ)
        b.expect_close()
        b.welcome()
        b.goodbye()

    play(broker, script, scene)
    assert client.errors[0].args[0] == errno.ETIMEDOUT


def test_waiting_sleeps(broker, looks):
    """A client with nothing to do looks at its socket when a timer is due, not all the time."""
    client = make(broker.port)

    async def scene():
        await client.connect()
        del looks[:]
        await asyncio.sleep(0.3)
        assert len(looks) <= 4
        await client.disconnect()

    def script(b):
        b.welcome()
        b.goodbye()

    play(broker, script, scene)


# --- receiving ---


def subscribed(script, *filters):
    """A script between a welcome with its SUBSCRIBE for "t" and a goodbye."""

    @functools.wraps(script)
    def whole(b):
        b.welcome()
        b.grant(2)
        script(b)
        b.goodbye()

    return whole


def test_handlers(broker):
    """[MQTT-4.3.2-2] [MQTT-4.3.3-2] One that raises is reported, its message acknowledged."""
    client = make(broker.port)
    got = []
    done = threading.Event()

    def note(m):
        got.append((m.topic, m.payload, m.qos, m.retain, m.dup))
        if m.qos == 1:
            raise KeyError(m.topic)

    async def scene():
        async with client:
            await client.subscribe("t/+", 2, note)
            await client.connect()
            await until(done.is_set)
            await client.ping()

    @subscribed
    def script(b):
        b.send(publish("t/0", b"a", retain=1), publish("t/1", b"b", 1, 7), publish("t/2", b"c", 2, 8))
        b.expect(PUBACK, mid=7)
        b.expect(PUBREC, mid=8)
        b.deliver("t/2", b"c", 2, 8, dup=1)
        b.release(8)
        done.set()
        b.answer_ping()

    play(broker, script, scene)
    assert got == [("t/0", b"a", 0, True, False), ("t/1", b"b", 1, False, False), ("t/2", b"c", 2, False, False)]
    assert [type(e) for e in client.errors] == [KeyError]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_iterator(broker, qos):
    """In order; a message is acknowledged when the next one is asked for, and not before."""
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


@pytest.mark.parametrize("qos", [1, 2])
def test_link_lost_in_the_body(broker, qos):
    """The message stays readable; at QoS 1 it comes again, at QoS 2 it does not."""
    client = make(broker.port)
    got = []
    here, cut = threading.Event(), threading.Event()

    async def scene():
        async with client:
            await client.subscribe("t", qos)
            await client.connect()
            await client.ping()
            async for message in client:
                if not got:
                    here.set()
                    await until(cut.is_set)
                    await until(lambda: client.counters()["outages"])
                    assert await client.publish("kept", b"", 1)
                got.append((message.payload, message.dup))
                if message.payload == b"last":
                    break

    def script(b):
        b.welcome()
        b.grant(2)
        b.answer_ping()
        b.send(publish("t", b"first", qos, 1))
        assert here.wait(PATIENCE_S)
        b.cut()
        cut.set()
        b.welcome(1)
        b.send(publish("t", b"first", qos, 1, dup=1))
        p, q = b.receive(), b.receive()
        if p.kind == PUBLISH:
            p, q = q, p
        assert (p.kind, q.kind) == (PUBACK if qos == 1 else PUBREC, PUBLISH) and q.topic == "kept"
        b.send(puback(q.mid), publish("t", b"last"))
        b.goodbye()

    play(broker, script, scene)
    again = [(b"first", True)] if qos == 1 else []
    assert got == [(b"first", False), *again, (b"last", False)]


@pytest.mark.parametrize("qos", [1, 2])
def test_consumer_cancelled_in_the_body(broker, qos):
    """A new loop asks for the next message: so the first one is through. One ends meanwhile, nothing is lost."""
    client = make(broker.port)
    got = []
    inside = asyncio.Event()

    async def consume(dwell):
        async for message in client:
            got.append(message.payload)
            inside.set()
            if dwell:
                await asyncio.Event().wait()
            if message.payload == b"3":
                return

    async def scene():
        async with client:
            await client.subscribe("t", qos)
            first = asyncio.create_task(consume(True))
            await inside.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            await consume(False)

    @subscribed
    def script(b):
        b.send(*(publish("t", b"%d" % k, qos, k) for k in (1, 2, 3)))
        for mid in (1, 2):
            b.expect(PUBACK if qos == 1 else PUBREC, mid=mid)

    play(broker, script, scene)
    assert got == [b"1", b"2", b"3"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_requests_in_the_body(broker, qos):
    """Whatever waits for an answer of the broker gets it while a message is in use, and others wait behind that."""
    client = make(broker.port)

    async def scene():
        async with client:
            await client.subscribe("t", qos)
            async for message in client:
                assert await client.subscribe("x", 1, print) == 1
                await client.unsubscribe("x")
                assert await client.ping() >= 0
                assert await client.publish("out", b"", 2)
                assert await client.drain(3000)
                assert (message.topic, message.payload, message.mid) == ("t", b"first", 1 if qos else 0)
                break

    @subscribed
    def script(b):
        b.send(publish("t", b"first", qos, 1), publish("t", b"second", qos, 2))
        b.grant(1)
        b.send(unsuback(b.expect(UNSUBSCRIBE).mid))
        b.answer_ping()
        mid = b.expect(PUBLISH).mid
        b.send(pubrec(mid))
        b.expect(PUBREL)
        b.send(pubcomp(mid))

    play(broker, script, scene)
    assert client.errors == []


def test_pings_in_the_body(broker):
    """[MQTT-3.1.2-24] A body longer than the keep alive does not end the connection."""
    client = make(broker.port, keepalive=1, timeout_ms=300)
    done = threading.Event()

    async def scene():
        async with client:
            await client.subscribe("t")
            async for message in client:
                if message.payload == b"last":
                    break
                await until(done.is_set)

    @subscribed
    def script(b):
        b.send(publish("t", b"first"))
        for _ in range(3):
            b.answer_ping()
        done.set()
        b.send(publish("t", b"last"))

    play(broker, script, scene)
    assert client.errors == []


def test_too_long_for_the_iterator(broker):
    """Counted and acknowledged; a stream handler would have had it in pieces."""
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
        b.send(publish("t", b"short", 0))
        b.expect(PUBACK, mid=1)
        b.expect(PUBREC, mid=2)

    play(broker, script, scene)
    assert client.counters()["too_long"] == 1
    assert b"".join(piece for _, piece, _ in pieces) == b"y" * 5000
    assert [at for at, _, _ in pieces] == [sum(len(p[1]) for p in pieces[:k]) for k in range(len(pieces))]


def test_a_flood_leaves_time_to_others(broker):
    """The broker never pauses: other tasks run all the same."""
    client = make(broker.port)
    turns = []
    stop = threading.Event()

    async def scene():
        async with client:
            await client.subscribe("t", 0, lambda m: None)
            await client.connect()
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


# --- much at once ---


def test_backpressure(broker):
    """A QoS 0 payload longer than all buffers waits for the broker, then goes on; others wait their turn."""
    narrow(broker)
    client = make(broker.port, timeout_ms=2000)
    payload = bytes(range(256)) * 500
    waits = threading.Event()
    order = []

    async def one(name, data, qos):
        await client.publish(name, data, qos)
        order.append(name)

    async def scene():
        async with client:
            await client.connect()
            narrow(client)
            tasks = [asyncio.create_task(one("big", payload, 0))]
            await until(lambda: client._out_left)
            tasks += [asyncio.create_task(one("q%d" % q, b"small", q)) for q in (0, 1, 2)]
            for _ in range(20):
                await asyncio.sleep(0)
            assert order == []
            waits.set()
            await asyncio.gather(*tasks)
            assert await client.drain(3000)

    @plain
    def script(b):
        assert waits.wait(PATIENCE_S)
        b.expect(PUBLISH, topic="big", payload=payload)
        answers = {PUBLISH: {0: None, 1: puback, 2: pubrec}, PUBREL: {0: pubcomp}}
        for _ in range(4):
            p = b.receive()
            answer = answers[p.kind][p.qos]
            b.send(answer(p.mid) if answer else b"")

    play(broker, script, scene)


def test_large_qos_1_goes_on_alone(broker):
    """Accepted and half written: no caller is left, and the socket takes it piece by piece all the same."""
    narrow(broker)
    client = make(broker.port, RamFlash(8, 32768), timeout_ms=4000)
    payload = bytes(range(250)) * 100

    async def scene():
        async with client:
            await client.connect()
            narrow(client)
            start = time.monotonic()
            for _ in range(4):
                await client.publish("big", payload, 1)
            assert await client.drain(3000)
            assert time.monotonic() - start < client._tick / 1000  # not at the pace of the timers

    @plain
    def script(b):
        for _ in range(4):
            b.take(qos=1, payload=payload)

    play(broker, script, scene)


def test_a_peer_that_takes_nothing(broker):
    """Bounded, also without a keep alive; QoS 0 is told, QoS 1 goes out on the next connection."""
    narrow(broker)
    client = make(broker.port, timeout_ms=200)
    done = threading.Event()

    async def scene():
        async with client:
            await client.connect()
            await client.publish("kept", b"x", 1)
            narrow(client)
            with pytest.raises(OSError):
                await client.publish("big", bytes(100_000))
            assert await client.drain(3000)
        done.set()

    def script(b):
        b.welcome()
        b.accept()  # the next connection, while the first one stands unread
        b.expect(CONNECT)
        b.send(connack(1))
        b.take(qos=1, topic="kept", dup=True)
        b.goodbye()

    play(broker, script, scene)
    assert client.errors[0].args[0] == errno.ETIMEDOUT


def test_many_publishers():
    """Order per task, packets whole, ids unique; with large ones in between."""
    with Automatic() as b:
        client = make(b.port, RamFlash(16, 4096), timeout_ms=LIMIT_S * 1000)

        async def one(name):
            for k in range(30):
                size = 3000 if k % 10 == 9 else 10
                await client.publish(name, b"%d " % k + b"x" * size, k % 3)
                if k % 4 == 0:
                    await asyncio.sleep(0)

        async def scene():
            async with client:
                await client.connect()
                narrow(client)
                await asyncio.gather(*(one("task/%d" % t) for t in range(20)))
                assert await client.drain(LIMIT_S * 1000)

        narrow(b)
        run(scene())
    for t in range(20):
        assert [int(m.payload.split()[0]) for m in b.arrived if m.topic == "task/%d" % t and m.qos] == [
            k for k in range(30) if k % 3
        ]
        assert [int(m.payload.split()[0]) for m in b.arrived if m.topic == "task/%d" % t and not m.qos] == [
            k for k in range(30) if not k % 3
        ]


def test_many_requests():
    """Subscriptions, pings and messages from many tasks at once: every question gets its own answer."""
    with Automatic() as b:
        client = make(b.port)

        async def ask(k):
            assert await client.subscribe("s/%d" % k, k % 3) == k % 3
            assert await client.ping() >= 0
            assert await client.subscribe([("u/%d" % k, 0), ("v/%d" % k, 1)]) == [0, 1]
            await client.unsubscribe("u/%d" % k)

        async def scene():
            async with client:
                await client.connect()
                await asyncio.gather(*(ask(k) for k in range(20)))
                assert len(client._handlers) == 40

        run(scene())


def test_outbox_full(broker):
    """Offline: at once. While the broker takes messages: when there is room; not for ever."""
    client = make(broker.port, timeout_ms=300)
    sent = []

    async def fill():
        while True:
            await client.publish("t", b"x" * 200, 1)
            sent.append(1)

    async def scene():
        with pytest.raises(OutboxFull):
            await fill()
        n = len(sent)
        async with client:
            await client.connect()
            await client.publish("t", b"y" * 200, 1)  # waits for an acknowledgement
            sent.append(1)
            with pytest.raises(OutboxFull):
                await fill()
            assert len(sent) > n
            go.set()
            assert await client.drain(3000)

    go = threading.Event()

    @plain
    def script(b):
        for _ in range(3):
            mid = b.expect(PUBLISH).mid
            b.send(puback(mid))
        assert go.wait(PATIENCE_S)
        while client.pending:
            b.take(qos=1)
            if len([p for p in b.connection.packets if p.kind == PUBLISH]) == len(sent):
                break

    play(broker, script, scene)


@pytest.mark.parametrize("reset", [False, True])
def test_outages(reset):
    """The link breaks every few bytes: all arrives, QoS 2 once."""
    faults = Faults(in_bytes=45, reset=reset)
    with Automatic(faults) as b:

        def again():
            if b.cuts < 15:
                faults.in_bytes = b.total["in_bytes"] + 45

        faults.after_cut = again
        client = make(b.port, RamFlash(8, 4096))

        async def scene():
            async with client:
                for k in range(60):
                    await client.publish("t", b"%d" % k, 1 + k % 2)
                    await asyncio.sleep(0)
                assert await client.drain(8000)

        run(scene())
    assert b.cuts == 15
    assert b.payloads(2) == [b"%d" % k for k in range(1, 60, 2)]
    assert set(b.payloads(1)) == {b"%d" % k for k in range(0, 60, 2)}


# --- leaving ---


def test_leave_while_dialling(pit):
    client = make(pit)

    async def scene():
        waiting = asyncio.create_task(client.connect())
        await until(lambda: client._waiter._fd >= 0)
        await client.disconnect()
        with pytest.raises(OSError):
            await waiting

    run(scene())


def test_leave_while_connecting(broker):
    client = make(broker.port)
    came = threading.Event()

    async def scene():
        waiting = asyncio.create_task(client.connect())
        await until(came.is_set)
        await client.disconnect()
        with pytest.raises(OSError):
            await waiting
        await client.connect()  # and again, in the same turn of the loop
        await client.disconnect()

    def script(b):
        b.called()
        came.set()
        b.expect_close()
        b.welcome()
        b.goodbye()

    play(broker, script, scene)


def test_leave_between_attempts(broker):
    broker.close()
    client = make(broker.port, backoff_ms=(10_000, 10_000))

    async def scene():
        with pytest.raises(OSError):
            await client.connect()
        await client.disconnect()
        await client.disconnect()

    run(scene(), 2)


def test_other_tasks_run_while_there_is_no_network(monkeypatch):
    """A name that cannot be looked up fails at once, again and again."""

    async def dial(*args):
        raise OSError(errno.EHOSTUNREACH, "no network")

    monkeypatch.setattr("inflight.aio.open_socket", dial)
    client = make(1)

    async def scene():
        with pytest.raises(OSError):
            await client.connect()
        await until(lambda: len(client.errors) > 20)
        await client.disconnect()

    run(scene(), 5)


@pytest.mark.parametrize("inside", [True, False])
def test_leave_with_a_message_held(broker, inside):
    """[MQTT-4.3.3-2] It was not acknowledged, so the broker sends it again: who had it does not get it again."""
    client = make(broker.port)
    got = []

    async def scene():
        async with client:
            await client.connect()  # a grant is known when subscribe() returns
            await client.subscribe("t", 2)
            messages = client.__aiter__()
            if inside:
                got.append((await messages.__anext__()).payload)
            else:
                await until(lambda: client.counters()["received"] == 1)
            await client.disconnect()
            await client.connect()
            while got[-1:] != [b"last"]:
                got.append((await messages.__anext__()).payload)

    def script(b):
        b.welcome()
        b.send(suback(b.expect(SUBSCRIBE).mid, 2), publish("t", b"x", 2, 1))
        b.goodbye()
        b.welcome(1)
        b.deliver("t", b"x", 2, 1, dup=1)
        b.send(publish("t", b"last"))
        b.goodbye()

    play(broker, script, scene)
    assert got == [b"x", b"last"]


def test_leave_with_a_packet_half_written(broker):
    """[MQTT-3.14.4-1] The rest is written first, so that DISCONNECT can be understood: no will is sent."""
    narrow(broker)
    client = make(broker.port)
    payload = bytes(100_000)
    leaves = threading.Event()

    async def scene():
        await client.connect()
        narrow(client)
        writer = asyncio.create_task(client.publish("big", payload))
        await until(lambda: client._out_left)
        leaving = asyncio.create_task(client.disconnect())
        await asyncio.sleep(0)
        leaves.set()
        await leaving
        await writer

    @plain
    def script(b):
        assert leaves.wait(PATIENCE_S)
        b.expect(PUBLISH, payload=payload)

    play(broker, script, scene)


class Resets:
    """From operation `at` on, counted once it is armed, the link is reset."""

    def __init__(self, monkeypatch):
        self.armed = False
        self.done = self.at = 0
        for name in ("send", "receive"):
            monkeypatch.setattr(Transport, name, self._broken(getattr(Transport, name)))

    def _broken(self, operation):
        def call(*of):
            self.done += self.armed
            if self.done > self.at:
                raise ConnectionResetError(errno.ECONNRESET, "reset")
            return operation(*of)

        return call


@pytest.mark.parametrize("half_written", [False, True])
def test_a_reset_while_leaving(monkeypatch, half_written):
    """Whenever it comes, `async with` ends without an error, nothing goes on, and nobody connects again."""
    resets = Resets(monkeypatch)

    async def scene(client, b):
        writer = None
        async with client:
            await client.connect()
            narrow(client)
            await client.publish("kept", b"x", 1)
            if half_written:
                writer = await _long_first(client, b)
                await until(lambda: client._out_left)
            resets.armed = True
            b.reads.set()
        assert not client.connected
        if writer:
            await asyncio.gather(writer, return_exceptions=True)

    while resets.done <= resets.at < 200:
        resets.armed, resets.done = False, 0
        with Slow() as b:
            narrow(b)
            run(scene(make(b.port), b))
        assert len(b.connections) == 1
        resets.at += 1 if resets.at < 5 else 20
    assert resets.at > 1


def test_leaving_a_peer_that_takes_nothing(broker):
    """It ends with the time-out."""
    narrow(broker)
    client = make(broker.port, timeout_ms=200)
    done = threading.Event()

    async def scene():
        async with client:
            await client.connect()
            narrow(client)
            writer = asyncio.create_task(client.publish("long", LONG))
            await until(lambda: client._out_left)
        assert not client.connected
        assert isinstance((await asyncio.gather(writer, return_exceptions=True))[0], OSError)
        done.set()

    def script(b):
        b.welcome()
        assert done.wait(PATIENCE_S)

    play(broker, script, scene)


def test_leaving_when_all_tasks_were_cancelled(broker):
    """As a program does that is stopped: the client's own tasks are among them."""
    client = make(broker.port, timeout_ms=200)
    done = threading.Event()

    async def scene():
        with contextlib.suppress(asyncio.CancelledError):
            async with client:
                await client.connect()
                narrow(client)
                writer = asyncio.create_task(client.publish("long", LONG))
                await until(lambda: client._out_left)
                for task in asyncio.all_tasks() - {asyncio.current_task(), *outer}:
                    task.cancel()
                await asyncio.gather(writer)
        assert not client.connected
        done.set()

    async def main():
        outer.update(asyncio.all_tasks())
        await scene()

    outer = set()

    def script(b):
        b.welcome()
        assert done.wait(PATIENCE_S)

    narrow(broker)
    play(broker, script, main)


def watched_files():
    """How many files the loop waits for, beside its own."""
    return len(asyncio.get_running_loop()._selector.get_map()) - 1


def test_nothing_is_watched_after_leaving(broker, pit):
    """Not for reading or writing, whatever the client was at: dialling, connecting, waiting, writing."""

    async def leave(client, when):
        waiting = asyncio.create_task(client.connect())
        await until(when)
        await client.disconnect()
        assert watched_files() == 0
        await asyncio.gather(waiting, return_exceptions=True)

    async def scene():
        dialling = make(pit)
        await leave(dialling, lambda: dialling._waiter._fd >= 0)
        client = make(broker.port)
        await leave(client, asked.is_set)
        await leave(client, lambda: client.connected)
        await client.connect()
        narrow(client)
        writer = asyncio.create_task(client.publish("long", LONG))
        await until(lambda: client._out_left)
        reads.set()
        writer.cancel()
        leaving = asyncio.create_task(client.disconnect())
        await asyncio.sleep(0)
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
        assert watched_files() == 0

    asked, reads = threading.Event(), threading.Event()

    def script(b):
        b.called()
        asked.set()
        b.expect_close()
        b.welcome()
        b.goodbye()
        b.welcome()
        reads.wait(10)
        with contextlib.suppress(Gone):
            while True:
                b.connection.fill()

    narrow(broker)
    play(broker, script, scene)


@pytest.mark.parametrize("code", [1, 128])
def test_subscribe_cancelled_before_its_answer(broker, code):
    """Its SUBACK counts for it, and not for the one that asks next, for another filter or the same one."""
    client = make(broker.port)
    got = []

    async def cancelled(when, *arguments):
        task = asyncio.create_task(client.subscribe(*arguments))
        await until(when.is_set)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def scene():
        async with client:
            await client.connect()
            await cancelled(asked[0], "a", 1, print)
            second = asyncio.create_task(client.subscribe("b", 2, print))
            await asyncio.sleep(0)
            answer[0].set()
            assert await second == 2
            await cancelled(asked[1], "s", 1, print)
            second = asyncio.create_task(client.subscribe("s", 2, lambda m: got.append(m.payload)))
            await asyncio.sleep(0)
            answer[1].set()
            assert await second == 2
            await until(lambda: got)
            again.set()
            await until(lambda: client.counters()["connects"] == 2)
            await client.connect()

    asked = threading.Event(), threading.Event()
    answer = threading.Event(), threading.Event()
    again = threading.Event()

    def script(b):
        b.welcome()
        for k, (first, second) in enumerate((("a", "b"), ("s", "s"))):
            mid = b.expect(SUBSCRIBE, filters=[(first, 1)]).mid
            asked[k].set()
            assert answer[k].wait(PATIENCE_S)
            b.send(suback(mid, code))
            b.grant(2, filters=[(second, 2)])
        b.send(publish("s", b"x"))
        assert again.wait(PATIENCE_S)
        b.cut()
        b.welcome(1)
        b.goodbye()  # all has been asked for

    play(broker, script, scene)
    assert [h[0] for h in client._handlers] == ([b"a"] if code == 1 else []) + [b"b", b"s"]


# --- cancellation at any await ---


@types.coroutine
def cut_short(coroutine, k, late, waits_now):
    """Runs the coroutine, cancelling its task at its k-th suspension: as soon as it waits, or (late) at the very moment
    it would be woken. Calls waits_now() at the first one. Returns what the coroutine returns."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    steps = coroutine.__await__()
    error = None
    n = 0
    while True:
        try:
            waits = steps.throw(error) if error else steps.send(None)
        except StopIteration as end:
            return end.value
        error = None
        n += 1
        if n == 1:
            waits_now()
        if n == k and late and waits is not None:
            waits.add_done_callback(lambda _: task.cancel())
        elif n == k:
            loop.call_soon(task.cancel)
        try:
            yield waits
        except BaseException as e:
            error = e


LONG = bytes(range(256)) * 400  # in many pieces, through a narrow socket


class Slow(Automatic):
    """Reads nothing while `reads` is clear."""

    def __init__(self):
        self.reads = threading.Event()
        self.reads.set()
        super().__init__()

    def _read(self, connection):
        assert self.reads.wait(PATIENCE_S)
        super()._read(connection)


async def _long_first(client, b):
    """Another task's long packet is half written: whoever comes now has to wait."""
    b.reads.clear()
    task = asyncio.create_task(client.publish("long", LONG))
    await asyncio.sleep(0)
    return task


async def _full(client, b):
    """The journal is full."""
    with pytest.raises(OutboxFull):
        while True:
            client._try_publish("fill", b"x" * 150, 1, False, False)


CALLS = {
    "connect": (None, lambda c: c.connect()),
    "publish 0": (_long_first, lambda c: c.publish("cut", b"0", 0)),
    "publish 1": (_long_first, lambda c: c.publish("cut", b"1", 1)),
    "publish 2": (_long_first, lambda c: c.publish("cut", b"2", 2)),
    "publish 0 long": (_long_first, lambda c: c.publish("cut", LONG, 0)),
    "publish 1 long": (_long_first, lambda c: c.publish("cut", b"1" * 900, 1)),
    "publish 2 long": (_long_first, lambda c: c.publish("cut", b"2" * 900, 2)),
    "publish 1 full": (_full, lambda c: c.publish("cut", b"1" * 150, 1)),
    "subscribe": (_long_first, lambda c: c.subscribe([("cut", 1), ("cut/2", 2)])),
    "unsubscribe": (_long_first, lambda c: c.unsubscribe("u")),
    "ping": (_long_first, lambda c: c.ping()),
    "drain": (_full, lambda c: c.drain(3000)),
    "__anext__": (None, lambda c: c.__anext__()),
    "disconnect": (_long_first, lambda c: c.disconnect()),
}


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "waking"])
@pytest.mark.parametrize("name", CALLS)
def test_cancelled_anywhere(name, late):
    """Whatever await a caller is cancelled at: afterwards the same client does all it promises."""
    k = 1
    while cancelled_once(name, k, late):
        k += 1
        assert k < 200
    assert k > 1  # it has waited somewhere


def cancelled_once(name, k, late):
    before, call = CALLS[name]
    got = []
    with Slow() as b:
        narrow(b)
        client = make(b.port, RamFlash(4, 1024 if before is _full else 4096))
        if name == "__anext__":
            client.__aiter__()
        else:
            client._on_message = lambda m: got.append(m.payload)

        async def scene():
            other = None
            if name != "connect":
                await client.subscribe("in", 2)
                await client.connect()
                narrow(client)
            if before:
                other = await before(client, b)

            def waits_now():
                b.reads.set()
                if name == "__anext__":
                    b.give("in", b"in 1", 2)

            if name == "__anext__":
                b.give("in", b"in 0", 2)
                got.append((await client.__anext__()).payload)
            task = asyncio.create_task(cut_short(call(client), k, late, waits_now))
            result = (await asyncio.gather(task, return_exceptions=True))[0]
            check_journal(client)
            b.reads.set()
            cancelled = isinstance(result, asyncio.CancelledError)
            if isinstance(result, BaseException) and not cancelled:
                raise result
            if other:
                await asyncio.gather(other, return_exceptions=name == "disconnect")
            await still_works(client, b, got, name, result)
            return cancelled

        cancelled = run(scene())
    check_arrived(b, name, cancelled)
    check_journal(client)
    assert client.pending == 0 and client.counters()["outages"] == 0
    return cancelled


async def still_works(client, b, got, name, result):
    if name == "__anext__":
        if hasattr(result, "payload"):
            got.append(result.payload)
        while len(got) < 2:
            got.append((await client.__anext__()).payload)
        assert got == [b"in 0", b"in 1"]
        client._on_message = lambda m: got.append(m.payload)
        waiting = asyncio.create_task(client.__anext__())  # through with the last one
        await until(lambda: not any(session.flight for session in b.sessions.values()))
        waiting.cancel()
    await client.connect()
    for qos in (0, 1, 2):
        await client.publish("after", b"%d" % qos, qos)
    assert await client.drain(3000)
    assert await client.subscribe("in", 2) == 2
    assert await client.ping() >= 0
    b.give("in", b"last", 2)
    await until(lambda: got and got[-1] == b"last")
    await client.ping()
    await client.disconnect()


def check_arrived(b, name, cancelled):
    after = [m.payload for m in b.arrived if m.topic == "after"]
    assert sorted(after) == [b"0", b"1", b"2"] and after.index(b"1") < after.index(b"2")
    times = len([m for m in b.arrived if m.topic == "cut"])
    if name.startswith("publish"):
        assert times <= 1 if cancelled else times == 1
        if cancelled and name.startswith(("publish 1", "publish 2")):
            assert times == 0  # not taken
    last = b.connections[-1]
    assert last._parsed == len(last.received)


def check_journal(client):
    """Mounted anew on a copy of its flash, it says what the client says."""
    anew = Journal(copy.deepcopy(client.device))
    assert (anew.live, anew.epoch) == (client.pending, client.session.journal.epoch)
    assert anew.next_seq == client.session.journal.next_seq


def test_iterator_that_leaves_lets_the_others_go_on(broker):
    """Who broke out of the loop and is gone holds nothing up, and what it had counts as taken."""
    client = make(broker.port)

    async def first():
        async for message in client:
            return message.payload

    async def scene():
        async with client:
            await client.subscribe("t", 1)
            await client.connect()
            assert await asyncio.create_task(first()) == b"x"
            await client.publish("out", b"y", 1)
            assert await client.drain(3000)

    def script(b):
        b.welcome()
        p = b.expect(SUBSCRIBE)
        b.send(suback(p.mid, 1), publish("t", b"x", 1, 9))
        kinds = {}
        while len(kinds) < 2:
            p = b.receive()
            kinds[p.kind] = p.mid
        assert kinds[PUBACK] == 9
        b.send(puback(kinds[PUBLISH]))
        b.goodbye()

    with broker.play(script):
        run(scene())


def test_iterator_ends_with_disconnect(broker):
    """`async for` does not wait for ever for what cannot come."""
    client = make(broker.port)

    async def everything():
        return [m.payload async for m in client]

    async def scene():
        async with client:
            await client.connect()
            loop = asyncio.create_task(everything())
            await asyncio.sleep(0)
            await client.disconnect()
            assert await loop == []

    def script(b):
        b.welcome()
        b.goodbye()

    with broker.play(script):
        run(scene())


# --- consumers that leave ---


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
    client.other = asyncio.create_task(client.__anext__())
    return message


async def nobody(client):
    await until(lambda: client.counters()["received"])


LEAVING = [breaks, cancelled_in_the_body, raises, waits_for, another_consumer, nobody]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("leave", LEAVING)
def test_whoever_leaves_holds_nothing_up(leave, qos):
    """Acknowledgements are read, answers come, handlers run, and the message stays what it was."""
    handled = []
    with Automatic() as b:
        client = make(b.port, timeout_ms=1000)

        async def scene():
            async with client:
                await client.subscribe("t", 2)
                await client.subscribe("h", 2, lambda m: handled.append(m.payload))
                await client.connect()
                for k in range(3):
                    b.give("t", b"%d" % k, qos)
                message = await leave(client)
                b.give("h", b"handled", qos)
                for own in (1, 2):
                    await client.publish("out", b"%d" % own, own)
                assert await client.drain(3000)
                assert await client.subscribe("later", 1, print) == 1
                assert await client.ping() >= 0
                await until(lambda: handled)
                if message:
                    assert (message.topic, message.payload, message.qos) == ("t", b"0", qos)
                    assert message.mid == (1 if qos else 0) and not message.redelivered
                if leave is another_consumer:
                    assert (await client.other).payload == b"1"

        run(scene())
    assert b.payloads() == [b"1", b"2"] and handled == [b"handled"]
    assert client.errors == [] and client.counters()["outages"] == 0


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("leave", LEAVING)
def test_nothing_is_acknowledged_that_was_not_handed_over(leave, qos):
    """What the broker sends again after a power cut and what consumers had are together all messages."""
    with Automatic() as b:
        client = make(b.port, timeout_ms=1000)
        had = []

        async def scene():
            await client.subscribe("t", 2)
            await client.connect()
            for k in range(5):
                b.give("t", b"%d" % k, qos)
            message = await leave(client)
            had.extend([message.payload] if message else [])
            await client.publish("out", b"", 1)
            assert await client.drain(3000)
            if leave is another_consumer:
                had.append((await client.other).payload)
            await client.disconnect()

        run(scene())
        waiting = [message.payload for message, released in b.sessions["dev"].flight.values() if not released]
    assert set(waiting) | set(had) == {b"%d" % k for k in range(5)}
    assert len(waiting) >= 5 - len(had)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_no_consumer_for_more_than_fits(qos):
    """Reading goes on beyond the inbox: the broker keeps what did not fit, and sends it when somebody comes."""
    count = 12 if qos == 2 else 40
    with Automatic() as b:
        client = make(b.port, timeout_ms=400, buffer=bytearray(512))

        async def scene():
            async with client:
                await client.subscribe("t", 2)
                await client.connect()
                for k in range(count):
                    b.give("t", b"%3d" % k + bytes(50), qos)
                await client.publish("out", b"own", 2)
                assert await client.drain(5000)
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


def test_a_message_for_a_handler_waits_for_its_turn(broker):
    """[MQTT-4.6.0-2] A consumer that is quick is waited for, one that is not is overtaken."""
    client = make(broker.port, timeout_ms=400)
    order = []
    overtaken = threading.Event()

    async def scene():
        async with client:
            await client.subscribe([("t", 1)])
            await client.subscribe("h", 1, lambda m: order.append(m.payload))
            await client.connect()
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
    """[MQTT-4.6.0-2] Each message goes to one of them, and is acknowledged in its turn, when its consumer is done."""
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
        async with client:
            await client.subscribe("t", 1)
            await client.connect()
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
        b.answer_ping()  # 2 is through, and waits for its turn
        b.expect(PUBACK, mid=1)
        b.expect(PUBACK, mid=2)
        acknowledged.set()
        b.expect(PUBACK, mid=3)
        b.send(publish("t", b"end", 0))

    play(broker, script, scene)
    assert got == [b"1", b"2", b"3", b"end"]


@pytest.mark.parametrize("qos", [0, 1])
def test_a_burst_for_an_idle_consumer(broker, qos):
    """More than the inbox holds, while another consumer has been busy for long: all of it comes, at once."""
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
            client._consumer_active_at = ticks_add(ticks_ms(), -client._timeout_ms)  # nobody has asked for long
            got.append((await client.__anext__()).payload[0])

    async def scene():
        async with client:
            await client.subscribe("t", qos)
            await client.connect()
            first = asyncio.create_task(busy())
            await idle()
            first.cancel()

    @subscribed
    def script(b):
        b.send(publish("t", b"first", qos, 100))
        assert ready.wait(PATIENCE_S)
        b.send(*(publish("t", bytes([k]) + bytes(40), qos, k + 1) for k in range(12)))
        acknowledged = 0
        while qos and acknowledged != 11:  # the consumer is not through with the last one
            acknowledged = b.expect(PUBACK).mid

    play(broker, script, scene)
    assert got == list(range(12)) and client.errors == [] and client.counters()["dropped"] == 0


# --- flash that fails, programs that are interrupted ---


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("asleep", [False, True], ids=["connected", "offline"])
def test_flash_fails_in_publish(qos, asleep):
    """The journal is mounted again in place, and publish() returns as if nothing had been."""
    with Automatic() as b:
        client = make(b.port, NorFlash())

        async def scene():
            async with client:
                if not asleep:
                    await client.connect()
                for k in range(5):
                    if k == 2:
                        client.device.fail_at(0)
                    assert await client.publish("t", b"%d" % k, qos)
                assert await client.drain(LIMIT_S * 1000)

        run(scene())
    assert set(b.payloads()) == {b"0", b"1", b"2", b"3", b"4"}
    assert qos == 1 or len(b.arrived) == 5
    assert [error.errno for error in client.errors] == ([] if asleep else [errno.EIO])


@pytest.mark.parametrize("how", ["program", "read"])
@pytest.mark.parametrize("qos", [1, 2])
def test_flash_fails_while_acknowledging(qos, how):
    """The acknowledgements of the broker, and those of a consumer's messages: the client's task lives on."""
    with Automatic() as b:
        client = make(b.port, NorFlash())
        got = []

        async def scene():
            async with client:
                await client.subscribe("t", 2)
                await client.connect()
                for k in range(3):
                    assert await client.publish("out", b"%d" % k, qos)
                client.device.fail_at(0, how)
                assert await client.drain(LIMIT_S * 1000)
                for k in range(3):
                    b.give("t", b"%d" % k, qos)
                async for message in client:
                    got.append((message.payload, message.redelivered))
                    if {payload for payload, _ in got} == {b"0", b"1", b"2"}:
                        break
                    if len(got) == 1:
                        client.device.fail_at(0, how)
                assert await client.publish("out", b"last", 1)
                assert await client.drain(LIMIT_S * 1000)

        run(scene())
    assert set(b.payloads()) == {b"0", b"1", b"2", b"last"} and (qos == 1 or len(b.arrived) == 4)
    assert qos == 1 or len([payload for payload, again in got if not again]) == 3
    assert client.errors and all(isinstance(e, OSError) for e in client.errors)


def test_flash_that_fails_for_longer():
    """publish() raises what the flash says, nothing else ends; the client is back when the flash is."""
    with Automatic() as b:

        async def scene():
            async with client:
                await client.connect()
                assert await client.publish("t", b"0", 2)
                client.device.off_line = True
                with pytest.raises(OSError):
                    await client.publish("t", b"1", 2)
                await until(lambda: len(client.errors) > 3)
                client.device.off_line = False
                assert await client.publish("t", b"2", 2)
                assert await client.drain(LIMIT_S * 1000)

        class Unplugged(NorFlash):
            off_line = False

            def _alive(self):
                if self.off_line:
                    raise OSError(errno.EIO)
                super()._alive()

        client = make(b.port, Unplugged())
        run(scene())
    assert b.payloads() == [b"0", b"2"]


class Interrupt:
    """Raises `error` before bytecode `at` of the code in lib/ that runs here, and counts them."""

    def __init__(self, error, at=-1):
        self.error, self.at, self.count, self.where = error, at, 0, None

    def _call(self, frame, event, arg):
        code = frame.f_code
        # Whoever is interrupted with a message in its hands is through with it; a question hits who asked it.
        if "/lib/inflight/" not in code.co_filename or code.co_name in ("_next", "pending"):
            return None
        frame.f_trace_opcodes = True
        return self._run_step

    def _step(self, frame, event, arg):
        if event == "opcode":
            self.count += 1
            if self.count == self.at:
                self.where = (frame.f_code.co_name, frame.f_lineno)
                raise self.error()
        return self._run_step

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)


def interrupted_life(error, at):
    """Publishes and receives with one interrupt; whoever runs the loop goes on. Returns the bytecodes of that."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # tasks of the application that the interrupt ended
    out = [(b"%d" % k, 1 + k % 2) for k in range(4)]
    accepted, got = [], []

    async def produce(client):
        while out:
            payload, qos = out.pop(0)
            await client.publish("out", payload, qos)
            accepted.append(payload)

    async def consume(client):
        async for message in client:
            got.append((message.payload, message.redelivered))

    async def life(client, b):
        tasks = [asyncio.create_task(produce(client)), asyncio.create_task(consume(client))]
        try:
            while out or client.pending or {payload for payload, _ in got} != gifts or not client.connected:
                for k, work in enumerate((produce, consume)):
                    if tasks[k].done() and (work is consume or out):
                        tasks[k] = asyncio.create_task(work(client))
                await asyncio.sleep(0.001)
        finally:
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def go_on(work):
        task = loop.create_task(asyncio.wait_for(work, LIMIT_S))
        while True:
            try:
                return loop.run_until_complete(task)
            except KeyboardInterrupt:
                assert not task.done()

    gifts = {b"a", b"b", b"c"}
    with Automatic() as b:
        client = make(b.port, NorFlash(page=4))
        go_on(client.subscribe("t", 2))
        go_on(client.__aenter__())
        go_on(client.connect())
        for k, gift in enumerate(sorted(gifts)):
            b.give("t", gift, 1 + k % 2)
        with Interrupt(error, at) as interrupt:
            go_on(life(client, b))
        go_on(client.disconnect())
        go_on(asyncio.sleep(0))
        assert not asyncio.all_tasks(loop), interrupt.where
        loop.close()
        arrived = b.payloads()
        assert set(accepted) <= set(arrived), (interrupt.where, accepted, arrived)
        for payload in (b"1", b"3"):
            assert arrived.count(payload) <= 1, interrupt.where
        assert [payload for payload, again in got if not again].count(b"b") <= 1, interrupt.where
    return interrupt.count


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupted_between_two_bytecodes(error):
    """What publish() took arrives, what the broker gave is handed over, and a packet that was cut is the last one of
    its connection: the broker checks each."""
    n = interrupted_life(error, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a socket or a coroutine that has no name yet is the collector's
        for at in range(1, n, max(1, n // POINTS)):
            interrupted_life(error, at)
        gc.collect()
