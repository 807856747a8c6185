"""What an application learns about its connection and its messages, with both clients."""

import errno
import threading

import pytest

from host_tests.lib.either import only_blocking
from inflight import ConnectRefused, ProtocolError
from inflight.session.refused import MessageDamaged
from nor import NorFlash
from tools.reference.kinds import PUBLISH, PUBREL, SUBSCRIBE
from tools.reference.wire import connack, pingresp, pubcomp, publish, pubrec, suback

BOTH_CLIENTS = True
TOLD = ("connect", "disconnect", "complete", "error")


class CallbackLog(list):
    """The calls of the callbacks, in order: (name, value)."""

    def options(self):
        return {"on_" + name: (lambda value, name=name: self.append((name, value))) for name in TOLD}

    def of(self, name):
        return [value for told, value in self if told == name]


@pytest.fixture
def diary():
    return CallbackLog()


# --- connections ---


def test_on_connect_and_on_disconnect(broker, make, pump, diary):
    """on_disconnect gets the error, or None after disconnect(). Of an attempt that fails on_error is told alone, of a
    protocol error too."""
    client = make(broker.port, **diary.options())
    up = threading.Event()

    def script(b):
        for raw in (connack(0, 3), pingresp()):
            b.called()
            b.send(raw)
            b.expect_close()
        b.welcome(0)
        b.until(up.is_set)
        b.cut()
        b.welcome(1)
        b.goodbye()

    with broker.play(script):
        pump(client, lambda: diary.of("connect"))
        up.set()
        pump(client, lambda: len(diary.of("connect")) == 2)
        client.disconnect()
        client.disconnect()
    assert [name for name, _ in diary] == ["error", "error", "connect", "disconnect", "connect", "disconnect"]
    assert [type(e) for e in diary.of("error")] == [ConnectRefused, ProtocolError]
    assert diary.of("connect") == [False, True]
    assert isinstance(diary.of("disconnect")[0], OSError) and diary.of("disconnect")[1] is None


def test_on_connect_comes_after_the_subscriptions(broker, make, diary):
    """A refused subscription is reported before. An exception in the callback is reported, and has no other effect."""

    def on_connect(present):
        diary.append(("connect", present))
        raise KeyError(present)

    client = make(broker.port, **{**diary.options(), "on_connect": on_connect})

    def script(b):
        b.welcome()
        b.grant(128)
        mid = b.expect(SUBSCRIBE).mid
        assert not diary.of("connect")
        b.send(suback(mid, 1))
        b.goodbye()

    with broker.play(script):
        for name in ("no", "yes"):
            client.subscribe(name, 1, print)
        client.connect()
        client.disconnect()
    assert [name for name, _ in diary] == ["error", "connect", "error", "disconnect"]
    assert [type(e) for e in diary.of("error")] == [PermissionError, KeyError]


@pytest.mark.parametrize("callback", ["on_connect", "on_disconnect", "on_complete"])
def test_a_callback_may_publish(broker, make, pump, callback):
    """At QoS 1; the message is sent on the current or the next connection."""
    said, taken = [], []

    def call_publish(value):
        if not said:
            said.append(value)
            client.publish("from", b"callback", 1)

    client = make(broker.port, **{callback: call_publish, "on_error": lambda e: None})

    def script(b):
        b.welcome()
        taken.append(b.take(qos=1).topic)
        if callback == "on_disconnect":
            b.cut()
            b.welcome(1)
        while not {"first", "from"} <= {*taken}:  # a reset may lose the acknowledgement of the first one
            taken.append(b.take(qos=1).topic)

    with broker.play(script):
        client.connect()
        client.publish("first", b"", 1)
        pump(client, lambda: said and not client.pending and broker.finished)
    assert (taken[0] == "from") == (callback == "on_connect")


# --- one connection ---


def test_one_connection_raises_its_error(broker, make, diary, client_kind):
    """reconnect=False: the client does not reconnect, and raises the error."""
    client = make(broker.port, reconnect=False, **diary.options())

    def script(b):
        b.welcome()
        b.expect(PUBLISH)
        b.send(pubcomp(9), connack())

    with broker.play(script):
        client.connect()
        client.publish("t", b"", 1)
        for _ in range(2):
            with pytest.raises(ProtocolError):
                if client_kind == "blocking":
                    client.drain(60_000)
                else:
                    client.call(client.client.drain, 60_000)  # without `async with` around it
    assert len(broker.connections) == 1 and client.pending == 1
    assert [name for name, _ in diary] == ["connect", "disconnect"]
    assert isinstance(diary.of("disconnect")[0], ProtocolError)


@only_blocking
def test_one_connection_that_is_interrupted(broker, make):
    """Ctrl-C in a handler ends the connection, and the client does not reconnect."""

    def handler(message):
        raise KeyboardInterrupt

    client = make(broker.port, reconnect=False)
    client.subscribe("t", 1, handler)

    def script(b):
        b.welcome()
        b.grant()
        b.take()
        b.send(publish("t", b"x", 1, 7))
        b.expect_close()

    with broker.play(script):
        client.connect()
        client.publish("asks", b"", 1)
        with pytest.raises(KeyboardInterrupt):
            client.run_for(60_000)
        with pytest.raises(OSError) as told:
            client.run_for(60_000)
    assert told.value.errno == errno.ECONNABORTED


def test_one_connection_that_was_not_made(make, client_kind):
    client = make(1, reconnect=False)
    if client_kind == "blocking":
        with pytest.raises(OSError) as told:
            client.run_for(1000)
        assert told.value.errno == errno.ENOTCONN
    client.publish("t", b"", 1)
    with pytest.raises(ConnectionRefusedError):
        client.connect()


def test_a_refusal_has_its_code_and_an_errno():
    """[MQTT-3.2.2-5] `code` is that of CONNACK, `errno` one of the system's; at level 5 the broker's text is in it."""
    for code in (1, 2, 3, 4, 5, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x9A, 0x9B):
        e = ConnectRefused(code, "go away")
        assert (e.code, e.errno == errno.EACCES) == (code, code in (4, 5, 0x86, 0x87, 0x8A, 0x8C))
        assert e.errno in (errno.EACCES, errno.ECONNREFUSED) and "refused" in str(e)
        assert ("go away" in str(e)) == (code > 5)


# --- messages ---


def test_one_message_is_completed(broker, make, diary):
    """Of two messages: on_complete reports it, drain() waits for it, is_pending() becomes False for it."""
    client = make(broker.port, **diary.options())
    go = threading.Event()

    def script(b):
        b.welcome()
        first, second = b.expect(PUBLISH), b.expect(PUBLISH)
        b.acknowledge(second)
        b.until(go.is_set)
        b.acknowledge(first)

    with broker.play(script):
        client.connect()
        first, second = (client.publish("t", b"", qos) for qos in (1, 2))
        assert client.is_pending(first) and client.is_pending(second)
        assert client.drain(60_000, second)
        assert not client.is_pending(second) and client.is_pending(first)
        assert not client.drain(0, first)
        go.set()
        assert client.drain(60_000)
    assert diary.of("complete") == [second, first]


def test_a_message_is_completed_by_the_loss_of_its_session(broker, make, diary):
    """[MQTT-4.3.3-1] The broker has had it since its PUBREC, and answers no PUBREL any more."""
    client = make(broker.port, protocol_level=5, **diary.options())

    def script(b):
        b.welcome()
        b.send(pubrec(b.expect(PUBLISH).mid))
        b.expect(PUBREL)
        b.cut()
        b.welcome(0)

    with broker.play(script):
        client.connect()
        mid = client.publish("t", b"", 2)
        assert client.drain(60_000)
    assert diary.of("complete") == [mid] and client.counters()["completed"] == 1


@pytest.mark.parametrize("level", (4, 5))
@pytest.mark.parametrize("drain", ("all", "damaged", "before"))
def test_a_message_that_is_damaged_while_it_waits(automatic, make, pump, diary, level, drain):
    """drain() returns False, of that message and of all; on_error gets its Message ID and sequence number; the others
    arrive."""
    device = NorFlash(8, 1024, 16)
    with automatic() as b:
        client = make(b.port, device, max_inflight=1, protocol_level=level, **diary.options())
        mids = [client.publish("t", payload, 1) for payload in (b"first", b"second", b"third")]
        device.data[bytes(device.data).index(b"second")] ^= 0x11
        if drain == "before":
            pump(client, lambda: diary.of("error") and not client.pending)
        assert client.drain(60_000, *mids[1:2][: drain == "damaged"]) is False
        assert client.drain(60_000)
        assert [packet.payload for packet in b.arrived] == [b"first", b"third"]
        told = [error for error in diary.of("error") if isinstance(error, MessageDamaged)]
        assert [(error.mid, error.seq) for error in told] == [(mids[1], 1)]
        assert (client.counters()["damaged"], client.counters()["dropped"]) == (1, 1)
        assert not client.is_pending(mids[1])
        assert client.drain(0, mids[1])  # it does not wait any more
        client.disconnect()
