"""Messages of both clients: what they publish and hand over, waiting for the broker and for space, large payloads.
host_tests/device/lib tests the packets of each flow."""

import pytest

from host_tests.lib.either import only_blocking
from inflight import OutboxFull
from inflight.cpython import stream
from nor import NorFlash
from tools.reference.kinds import PUBLISH
from tools.reference.wire import puback, publish

BOTH_CLIENTS = True


def deliver(client, qos):
    """Connects, publishes b"0", b"1" and so on at these QoS, and acknowledges them."""
    client.connect()
    for k, level in enumerate(qos):
        client.publish("t", b"%d" % k, qos=level)
    assert client.drain(60_000)


# --- publishing ---


def test_a_message_of_each_qos(broker, make, monkeypatch):
    """[MQTT-4.3.1-1] [MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT-3.3.1-2] [MQTT-2.3.1-1] [MQTT-2.3.1-5] [MQTT-2.3.1-6]
    [MQTT-3.6.1-1] Without DUP; QoS 1 and 2 are pending until the broker has them, QoS 0 has no Message ID.
    Each in one write: two would cost 40 ms of delayed acknowledgement on a default socket."""
    client = make(broker.port)
    writes = []
    write = stream.write
    monkeypatch.setattr(stream, "write", lambda *of: writes.append(of) or write(*of))

    def script(b):
        b.welcome()
        b.expect(PUBLISH, topic="a/ü", payload="é".encode(), qos=0, dup=False, retain=True)
        for qos in (1, 2):
            b.take(topic="t", payload=b"%d" % qos, qos=qos, dup=False, retain=False)

    with broker.play(script):
        for ask in (lambda: client.publish("a", b"QoS 0 is not kept"), client.ping, lambda: client.unsubscribe("a")):
            with pytest.raises(OSError):
                ask()
        client.connect()
        assert client.publish("a/ü", "é", retain=True) == 0
        for qos in (1, 2):
            mid = client.publish("t", b"%d" % qos, qos=qos)
            assert client.pending == 1 and client.is_pending(mid)
            assert client.drain(60_000)
    assert client.counters()["completed"] == 2 and client.counters()["resent"] == 0
    assert len(writes) == 5  # CONNECT, three PUBLISH, PUBREL


def test_drain_without_a_bound(broker, make, reads):
    """It takes as long as the broker takes, but where nothing is sent any more: behind disconnect(), or with
    reconnect=False."""
    client, once = make(broker.port), make(broker.port, client_id="once", reconnect=False)

    def script(b):
        b.welcome()
        message = b.expect(PUBLISH)
        b.sleep(60)
        b.acknowledge(message)
        b.goodbye()
        b.welcome()
        b.expect(PUBLISH)
        b.cut()

    with broker.play(script):
        client.publish("t", b"1", qos=1)
        assert client.drain() and len(reads) < 150  # who waits reads when a timer expires, each second
        client.disconnect()
        client.publish("t", b"2", qos=1)
        assert client.drain() is False
        once.connect()
        once.publish("t", b"3", qos=1)
        with pytest.raises(OSError):
            once.drain()


@only_blocking
def test_disconnect_at_the_end_of_with(broker, make):
    """Whatever ends it."""

    def script(b):
        b.welcome()
        b.take()
        b.goodbye()

    with broker.play(script), pytest.raises(KeyError), make(broker.port) as client:
        client.publish("t", b"1", qos=1)
        assert client.drain()
        raise KeyError


@pytest.mark.parametrize("rest", ["drain", "disconnect", "idle", "offline"])
def test_acknowledged_messages_are_not_sent_after_a_power_cut(broker, make, pump, rest):
    """After drain(), disconnect() or idle time the acknowledgements are durable, also in a volatile cache of flash."""
    device = NorFlash(4, 1024, 16, cache=True)
    client = make(broker.port, device, backoff_ms=(60_000, 60_000))

    def script(b):
        b.welcome()
        b.take(qos=1)
        b.take(qos=2)
        if rest == "offline":
            b.cut()
        elif rest == "disconnect":
            b.goodbye()

    with broker.play(script):
        client.connect()
        for qos in (1, 2):
            client.publish("t", b"x", qos=qos)
        if rest == "drain":
            assert client.drain(60_000)
        pump(client, lambda: not client.pending)
        if rest == "disconnect":
            client.disconnect()
        if rest == "offline":
            pump(client, lambda: not client.connected)
        if rest in ("idle", "offline"):
            pump(client, device.is_durable)
    make.cut_power(client)
    device.lose_power()
    assert make(broker.port, device).pending == 0


@only_blocking
def test_connect_again_inside_a_flow(broker, make):
    """connect() while connected sends DISCONNECT first, so that the will is not published; nothing is lost."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH)
        b.goodbye()
        b.welcome(1)
        b.expect(PUBLISH, mid=p.mid, dup=True)
        b.send(puback(p.mid))

    with broker.play(script):
        client.connect()
        client.publish("t", b"1", qos=1)
        client.connect()
        assert client.drain(60_000)


# --- receiving ---


def test_what_a_handler_gets(broker, make, pump):
    """[MQTT-3.3.4-1] [MQTT-3.3.1-8] [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-4.3.2-2] [MQTT-4.3.3-2] [MQTT-2.3.1-4]
    [MQTT-2.3.1-6] [MQTT31-8] [MQTT31-18] Each message once, before it is acknowledged; the Message IDs of the broker
    are independent of the client's."""
    got = []

    def note(m):
        got.append((m.topic, m.payload, m.qos, m.dup, m.retain, m.mid, m.redelivered))

    client = make(broker.port, on_message=note)

    def script(b):
        b.welcome()
        own = b.expect(PUBLISH, qos=2)
        b.send(publish("a/é", b"", retain=1))
        b.deliver("t", b"1", 1, own.mid, dup=1)
        for dup in (0, 1):
            b.deliver("t", b"2", 2, own.mid, dup=dup)
        b.acknowledge(own)
        b.release(own.mid)
        b.deliver("t", b"3", 2, own.mid)

    with broker.play(script):
        client.connect()
        mid = client.publish("out", b"", 2)
        pump(client, lambda: broker.finished)
    assert got == [
        ("a/é", b"", 0, False, True, 0, False),
        ("t", b"1", 1, True, False, mid, False),
        ("t", b"2", 2, False, False, mid, False),
        ("t", b"3", 2, False, False, mid, False),
    ]
    assert client.counters()["duplicates"] == 1 and not client.pending


# --- a full journal ---


def test_full_outbox_empties_while_publishing(broker, make):
    """Offline publish() raises OutboxFull. While the broker acknowledges messages it waits for space."""
    client = make(broker.port)
    n = 0
    with pytest.raises(OutboxFull):
        while True:
            client.publish("t", b"%060d" % n, qos=1)
            n += 1
    assert client.pending == n > 10

    def script(b):
        b.welcome()
        for k in range(n + 200):
            b.take(qos=1, payload=b"%060d" % k)

    with broker.play(script):
        client.connect()
        for k in range(n, n + 200):
            client.publish("t", b"%060d" % k, qos=1)
        assert client.drain(60_000)
