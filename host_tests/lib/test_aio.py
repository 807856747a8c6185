"""The asyncio client against the scripted broker: connecting, publishing, requests."""

import asyncio
import errno
import threading

import pytest

from host_tests.lib.aio_clients import LIMIT_S, VIRTUAL, make, plain, play, run, times_out, until
from inflight import ConnectRefused, ProtocolError
from tools.reference.kinds import PINGREQ, PUBLISH, PUBREL, SUBSCRIBE, UNSUBSCRIBE
from tools.reference.wire import connack, pingresp, puback, pubcomp, pubrec, suback, unsuback

pytestmark = VIRTUAL


# --- connecting ---


def test_connect_and_disconnect(broker):
    """[MQTT-3.1.0-1] [MQTT-3.14.4-1]"""
    client = make(broker.port, user="u", password="p", will=("w", b"gone", 1, True))

    async def scene():
        async with client:
            await client.connect()
            assert client.connected
            await client.connect()  # already connected: no effect
        assert not client.connected

    def script(b):
        p = b.welcome(client_id="dev", clean=False, user="u", password=b"p", will=("w", b"gone", 1, True))
        assert p.level == 4
        b.goodbye()

    play(broker, script, scene)


@pytest.mark.parametrize("code", range(1, 6))
def test_refused(broker, code):
    """[MQTT-3.2.2-5] connect() raises with the reason; the next attempt may succeed."""
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


def test_tcp_connect_times_out(unresponsive_port):
    client = make(unresponsive_port, timeout_ms=100)

    async def scene():
        await times_out(client.connect())
        await client.disconnect()

    run(scene())


def test_silent_broker(broker):
    client = make(broker.port, timeout_ms=100)

    async def scene():
        await times_out(client.connect())
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
    """Reported when the client is created."""
    with pytest.raises(ValueError, match="buffer too small"):
        make(1, buffer=bytearray(128), will=("w", b"x" * 100, 0, False))


def test_reconnects(broker):
    """After a cut before CONNACK, after it, and within it."""
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
    """Pauses grow to the maximum, with jitter; an established connection resets them."""
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
            assert await client.drain(LIMIT_S * 1000)

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
    """Refused before a byte is sent, connected or not."""
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


def test_offline(automatic):
    """QoS 1 and 2 are queued in order; QoS 0 and requests raise."""
    client = make(1)

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
            assert await client.drain(LIMIT_S * 1000)

    with automatic() as b:
        client._port = b.port
        run(scene())
    assert b.payloads() == [b"%d" % k for k in range(20)]


def test_redelivery(broker):
    """[MQTT-4.4.0-1] [MQTT-3.3.1-1] Same Message IDs, same order, with DUP; a released message is not published
    again."""
    client = make(broker.port)

    async def scene():
        async with client:
            await client.connect()
            for qos in (1, 2, 2):
                await client.publish("t", b"%d" % qos, qos)
            assert await client.drain(LIMIT_S * 1000)

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
    """[MQTT-3.2.2-3] Session present 0: the client subscribes again and retransmits its messages."""
    client = make(broker.port)

    async def scene():
        async with client:
            assert await client.subscribe("s", 1) is None
            await client.connect()
            await client.publish("t", b"x", 1)
            assert await client.drain(LIMIT_S * 1000)

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


def test_unknown_session(broker):
    """In a session that the journal does not know, Message IDs are freed before they are used at QoS 2."""
    client = make(broker.port)

    async def scene():
        await client.publish("t", b"x", 2)
        async with client:
            await client.connect()
            assert await client.drain(LIMIT_S * 1000)

    def script(b):
        b.welcome(1, clean=False)
        b.free_ids()
        b.take(qos=2, payload=b"x")
        b.goodbye()

    play(broker, script, scene)


# --- requests ---


def test_subscribe(broker):
    """[MQTT-3.8.4-5] Before and after connect(), several at once, refused; unsubscribe."""
    client = make(broker.port)

    async def scene():
        async with client:
            assert await client.subscribe("early", 1) is None
            await client.connect()
            assert await client.subscribe("one", 2) == 1
            assert await client.subscribe([("a", 0), ("b/+", 1), ("c/#", 2)]) == [0, 1, 128]
            assert await client.subscribe("no") == 128
            await client.unsubscribe("a", "one")
        assert [h[0] for h in client._handlers] == [b"early", b"b/+", b"c/#", b"no"]

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
    """Subscribed after the reconnecting client has sent its SUBSCRIBEs: it is sent on this connection too."""
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
        b.sleep(1)
        with pytest.raises(BlockingIOError):
            b.connection.sock.recv(1)  # the SUBSCRIBE waits behind a packet
        b.send(suback(mid, 0))
        b.grant(1, filters=[("second", 1)])

    play(broker, script, scene)


def test_connection_lost_during_a_request(broker):
    """The caller gets the error; the client sends the request again on the next connection."""
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
    """[MQTT-3.12.4-1] A request has a time-out, which ends the connection. The caller gets the reason, whoever notices
    first."""
    client = make(broker.port, timeout_ms=500)

    async def scene():
        await client.connect()
        await times_out(ask(client))
        await until(lambda: client.errors)
        await client.disconnect()

    def script(b):
        b.welcome()
        b.receive()
        b.expect_close()

    play(broker, script, scene)


def test_no_answer_within_the_keep_alive(broker):
    """[MQTT-3.12.4-1] The client's own task notices; the caller gets the same error."""
    client = make(broker.port, keepalive=1, timeout_ms=300)

    async def scene():
        await client.connect()
        await times_out(client.ping())
        await client.disconnect()

    def script(b):
        b.welcome(keepalive=1)
        b.expect(PINGREQ)
        b.expect_close()

    play(broker, script, scene)


def test_disconnect_during_a_request(broker):
    """The caller does not get an error of an earlier connection."""
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
    """[MQTT-3.1.2-23] Pings are sent while the client is idle; one without answer ends the connection."""
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


def test_idle_client_sleeps(broker, reads):
    """An idle client reads its socket only when a timer expires."""
    client = make(broker.port)

    async def scene():
        await client.connect()
        del reads[:]
        await asyncio.sleep(10)
        assert len(reads) <= 10_000 / client._tick + 1
        await client.disconnect()

    def script(b):
        b.welcome()
        b.goodbye()

    play(broker, script, scene)
