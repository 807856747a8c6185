"""What an application learns about its connection and its messages, with both clients."""

import asyncio
import errno
import threading

import pytest

from host_tests.clients import cut_power
from host_tests.virtual import new_loop
from inflight import AsyncClient, ConnectRefused, Journal, ProtocolError, RamFlash
from inflight.session.refused import MessageDamaged
from nor import NorFlash
from tools.reference.kinds import PUBACK, PUBLISH, PUBREL, SUBSCRIBE
from tools.reference.wire import connack, pingresp, puback, pubcomp, publish, pubrec, suback

TOLD = ("connect", "disconnect", "complete", "error")


class CallbackLog(list):
    """The calls of the callbacks, in order: (name, value)."""

    def options(self):
        return {"on_" + name: (lambda value, name=name: self.append((name, value))) for name in TOLD}

    def of(self, name):
        return [value for told, value in self if told == name]


class Blocking:
    """A common interface for tests of both clients; this one drives the blocking client."""

    def __init__(self, port, **options):
        options = {"timeout_ms": 60_000, "backoff_ms": (0, 0), "keepalive": 0, **options}
        self.device = options.pop("device", None) or RamFlash()
        self.client = self.make("127.0.0.1", "dev", Journal(self.device), port=port, **options)

    def make(self, *arguments, **options):
        from inflight import Client

        return Client(*arguments, **options)

    def do(self, name, *arguments):
        return getattr(self.client, name)(*arguments)

    def drain(self, *arguments):
        """drain() of a client that works, connected or not."""
        return self.client.drain(*arguments)

    def until(self, condition):
        while not condition():
            self.client.run_for(2)

    def end(self):
        cut_power(self.client)


class Asyncio(Blocking):
    def __init__(self, port, **options):
        self.loop = new_loop()
        super().__init__(port, **options)

    make = AsyncClient

    def do(self, name, *arguments):
        return self.loop.run_until_complete(getattr(self.client, name)(*arguments))

    def drain(self, *arguments):
        async def drain():
            await self.client.__aenter__()
            return await self.client.drain(*arguments)

        return self.loop.run_until_complete(drain())

    def until(self, condition):
        async def wait():
            await self.client.__aenter__()
            while not condition():
                await asyncio.sleep(0.001)

        self.loop.run_until_complete(wait())

    def end(self):
        self.do("disconnect")
        self.loop.close()


@pytest.fixture(params=[Blocking, Asyncio])
def drive(request):
    """drive(port, ...) creates a client and its driver."""
    made = []

    def make(port, **options):
        made.append(request.param(port, **options))
        return made[-1]

    yield make
    for driver in made:
        driver.end()


# --- connections ---


def test_on_connect_and_on_disconnect(broker, drive):
    """on_disconnect gets the error, or None after disconnect(); on_error is not called."""
    diary = CallbackLog()
    d = drive(broker.port, **diary.options())

    up = threading.Event()

    def script(b):
        b.welcome(0)
        b.until(up.is_set)
        b.cut()
        b.welcome(1)
        b.goodbye()

    with broker.play(script):
        d.do("connect")
        up.set()
        d.until(lambda: len(diary.of("connect")) == 2)
        d.do("disconnect")
        d.do("disconnect")
    assert [name for name, _ in diary] == ["connect", "disconnect", "connect", "disconnect"]
    assert diary.of("connect") == [False, True]
    assert isinstance(diary.of("disconnect")[0], OSError) and diary.of("disconnect")[1] is None


def test_a_failed_attempt_calls_on_error(broker, drive):
    """on_disconnect is not called, even after a protocol error."""
    diary = CallbackLog()
    d = drive(broker.port, **diary.options())

    def script(b):
        for raw in (connack(0, 3), pingresp()):
            b.called()
            b.send(raw)
            b.expect_close()
        b.welcome()

    with broker.play(script):
        d.until(lambda: diary.of("connect"))
    assert [name for name, _ in diary] == ["error", "error", "connect"]
    assert [type(e) for e in diary.of("error")] == [ConnectRefused, ProtocolError]


def test_on_connect_comes_after_the_subscriptions(broker, drive):
    """A refused subscription is reported before. An exception in the callback is reported, and has no other effect."""
    diary = CallbackLog()

    def on_connect(present):
        diary.append(("connect", present))
        raise KeyError(present)

    d = drive(broker.port, **{**diary.options(), "on_connect": on_connect})

    def script(b):
        b.welcome()
        b.grant(128)
        mid = b.expect(SUBSCRIBE).mid
        assert not diary.of("connect")
        b.send(suback(mid, 1))
        b.goodbye()

    with broker.play(script):
        for name in ("no", "yes"):
            if isinstance(d, Asyncio):
                d.do("subscribe", name, 1, print)
            else:
                d.client.subscribe(name, 1, print)
        d.do("connect")
        d.do("disconnect")
    assert [name for name, _ in diary] == ["error", "connect", "error", "disconnect"]
    assert [type(e) for e in diary.of("error")] == [PermissionError, KeyError]


def test_without_on_disconnect_errors_go_to_on_error(broker, drive):
    errors = []
    d = drive(broker.port, on_error=errors.append)

    def script(b):
        b.welcome()
        b.connection.finish()
        b.welcome(1)

    with broker.play(script):
        d.until(lambda: d.client.counters()["connects"] == 2 and d.client.connected)
    assert [type(e) for e in errors] == [ConnectionResetError]


@pytest.mark.parametrize("callback", ["on_connect", "on_disconnect", "on_complete"])
def test_a_callback_may_publish(broker, drive, callback):
    """At QoS 1; the message is sent on the current or the next connection."""
    said = []

    def publish(value):
        if not said:
            said.append(value)
            made = d.client.publish("from", b"callback", 1)
            if isinstance(d, Asyncio):
                with pytest.raises(StopIteration):
                    made.send(None)

    d = drive(broker.port, **{callback: publish, "on_error": lambda e: None})

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH)
        if callback == "on_connect":
            assert p.topic == "from"
            b.send(puback(p.mid))
            p = b.expect(PUBLISH)
        b.send(puback(p.mid))
        if callback == "on_disconnect":
            b.cut()
            b.welcome(1)
            p = b.receive()
            if p.topic == "first":  # the reset lost its acknowledgement
                b.send(puback(p.mid))
                p = b.receive()
            assert p.topic == "from"
            b.send(puback(p.mid))
        elif callback == "on_complete":
            b.take(qos=1, topic="from")

    with broker.play(script):
        d.do("connect")
        d.do("publish", "first", b"", 1)
        d.until(lambda: said and not d.client.pending)


# --- one connection ---


def test_one_connection_raises_its_error(broker, drive):
    """reconnect=False: the client does not reconnect, and raises the error once."""
    diary = CallbackLog()
    d = drive(broker.port, reconnect=False, **diary.options())

    def script(b):
        b.welcome()
        b.expect(PUBLISH)
        b.send(pubcomp(9), connack())

    with broker.play(script):
        d.do("connect")
        d.do("publish", "t", b"", 1)
        with pytest.raises(ProtocolError):
            d.do("drain", 60_000)
        with pytest.raises(ProtocolError):
            d.do("drain", 60_000)
    assert len(broker.connections) == 1 and d.client.pending == 1
    assert [name for name, _ in diary] == ["connect", "disconnect"]
    assert isinstance(diary.of("disconnect")[0], ProtocolError)


def test_one_connection_and_then_another(broker, drive):
    """connect() raises, and may be called again."""
    d = drive(broker.port, reconnect=False, on_error=print)

    def script(b):
        b.called()
        b.send(connack(0, 5))
        b.expect_close()
        b.welcome()
        b.take(qos=1)
        b.goodbye()

    with broker.play(script):
        d.do("publish", "t", b"", 1)
        with pytest.raises(ConnectRefused) as told:
            d.do("connect")
        assert (told.value.code, told.value.errno) == (5, errno.EACCES)
        d.do("connect")
        assert d.do("drain", 60_000)
        d.do("disconnect")


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


def test_one_connection_that_was_not_made(drive):
    d = drive(1, reconnect=False)
    if isinstance(d, Blocking) and not isinstance(d, Asyncio):
        with pytest.raises(OSError) as told:
            d.client.run_for(1000)
        assert told.value.errno == errno.ENOTCONN
    d.do("publish", "t", b"", 1)
    with pytest.raises(ConnectionRefusedError):
        d.do("connect")


def test_the_iterator_raises_the_error_of_the_one_connection(broker):
    d = Asyncio(broker.port, reconnect=False)

    async def everything():
        return [m.payload async for m in d.client]

    up = threading.Event()

    def script(b):
        b.welcome()
        b.until(up.is_set)
        b.cut()

    with broker.play(script):
        d.do("connect")
        up.set()
        with pytest.raises(ConnectionResetError):
            d.loop.run_until_complete(everything())
    d.end()


@pytest.mark.parametrize("code", range(1, 6))
def test_a_refusal_has_its_code_and_an_errno(code):
    """[MQTT-3.2.2-5] `code` is that of CONNACK, `errno` one of the system's."""
    e = ConnectRefused(code)
    assert (e.code, e.errno) == (code, errno.EACCES if code > 3 else errno.ECONNREFUSED)
    assert "refused" in str(e)


# --- messages ---


@pytest.mark.parametrize("qos", [1, 2])
def test_one_message_is_completed(broker, drive, qos):
    """Of two messages: on_complete reports it, drain() waits for it, is_pending() becomes False for it."""
    diary = CallbackLog()
    d = drive(broker.port, **diary.options())
    go = threading.Event()

    def complete(b, mid):
        if qos == 1:
            b.send(puback(mid))
        else:
            b.send(pubrec(mid))
            b.expect(PUBREL, mid=mid)
            b.send(pubcomp(mid))

    def script(b):
        b.welcome()
        mids = [b.expect(PUBLISH).mid for _ in range(2)]
        complete(b, mids[1])
        b.until(go.is_set)
        complete(b, mids[0])

    with broker.play(script):
        d.do("connect")
        first, second = [d.do("publish", "t", b"", qos) for _ in range(2)]
        assert d.client.is_pending(first) and d.client.is_pending(second)
        assert d.do("drain", 60_000, second)
        assert not d.client.is_pending(second) and d.client.is_pending(first)
        assert not d.do("drain", 0, first)
        go.set()
        assert d.do("drain", 60_000)
    assert diary.of("complete") == [second, first]


def test_message_is_completed_after_two_lost_sessions(broker, drive):
    """[MQTT-4.3.3-1] The broker has the message since its PUBREC, and never answers the PUBREL."""
    diary = CallbackLog()
    d = drive(broker.port, **diary.options())

    def script(b):
        b.welcome()
        mid = b.expect(PUBLISH).mid
        b.send(pubrec(mid))
        b.expect(PUBREL, mid=mid)
        b.cut()
        b.welcome(0)
        b.expect(PUBREL, mid=mid)
        b.cut()
        b.welcome(0)

    with broker.play(script):
        d.do("connect")
        mid = d.do("publish", "t", b"", 2)
        assert d.do("drain", 60_000)
    assert diary.of("complete") == [mid]
    assert d.client.counters()["completed"] == 1


@pytest.mark.parametrize("level", (3, 4, 5))
@pytest.mark.parametrize("drain", ("all", "damaged", "before"))
def test_a_message_that_is_damaged_while_it_waits(automatic, drive, level, drain):
    """drain() returns False, of that message and of all; on_error gets its Message ID and sequence number; the others
    arrive."""
    device = NorFlash(8, 1024, 16)
    diary = CallbackLog()
    with automatic() as b:
        d = drive(b.port, device=device, max_inflight=1, protocol_level=level, **diary.options())
        mids = [d.do("publish", "t", payload, 1) for payload in (b"first", b"second", b"third")]
        device.data[bytes(device.data).index(b"second")] ^= 0x11
        if drain == "before":
            d.until(lambda: diary.of("error") and not d.client.pending)
        else:
            assert d.drain(60_000, *mids[1:2][: drain == "damaged"]) is False
            assert d.drain(60_000)
        assert [packet.payload for packet in b.arrived] == [b"first", b"third"]
        told = [error for error in diary.of("error") if isinstance(error, MessageDamaged)]
        assert [(error.mid, error.seq) for error in told] == [(mids[1], 1)]
        assert (d.client.counters()["damaged"], d.client.counters()["dropped"]) == (1, 1)
        assert not d.client.is_pending(mids[1])
        assert d.drain(0, mids[1])  # it does not wait any more
        d.do("disconnect")


def test_one_client_at_a_time(automatic, drive):
    """A second one on the same journal is refused until disconnect(), or until a connection or an attempt has ended;
    then the first one is."""
    with automatic() as b:
        first = drive(b.port)
        journal = first.client.session.journal

        with pytest.raises(ValueError, match=r"disconnect\(\) it first"):
            first.make("127.0.0.1", "dev", journal, port=b.port)
        first.do("connect")
        with pytest.raises(ValueError, match=r"disconnect\(\) it first"):
            first.make("127.0.0.1", "dev", journal, port=b.port)
        first.do("disconnect")
        first.do("publish", "t", b"offline", 1)  # it is still its own
        taken = first.make("127.0.0.1", "dev", journal, port=b.port)
        assert taken.pending == 1
        with pytest.raises(ValueError, match="make a new one"):
            first.do("publish", "t", b"late", 1)
        assert journal.live == 1


def test_queued_and_recovered_messages_are_pending(automatic, drive):
    """Until the broker has each; ids that were never used are not pending."""
    device = RamFlash(8, 4096)
    before = drive(1, device=device, max_inflight=2)
    mids = [before.do("publish", "t", b"%d" % k, 1) for k in range(10)]
    assert all(before.client.is_pending(mid) for mid in mids)
    with automatic() as b:
        diary = CallbackLog()
        d = drive(b.port, device=device, max_inflight=3, **diary.options())
        assert all(d.client.is_pending(mid) for mid in mids)
        assert not any(d.client.is_pending(mid) for mid in (0, mids[-1] + 1, 65535, 65536, -1))
        d.do("connect")
        assert d.do("drain", 60_000)
    assert diary.of("complete") == mids
    assert not any(d.client.is_pending(mid) for mid in mids)


def test_a_discarded_message_is_not_pending(drive):
    """Nor is it reported as completed."""
    diary = CallbackLog()
    d = drive(1, when_full="oldest", max_inflight=1, **diary.options())
    mids = [d.do("publish", "t", bytes(200), 1) for _ in range(60)]
    dropped = d.client.counters()["dropped"]
    assert dropped > 0
    assert [d.client.is_pending(mid) for mid in mids] == [True] + [False] * dropped + [True] * (59 - dropped)
    assert diary.of("complete") == []


def test_is_pending_across_the_wrap_of_ids(drive):
    """Queued messages have the ids 65535, then 1."""
    d = drive(1, max_inflight=1)
    d.client.session.last_mid = 65532
    mids = [d.do("publish", "t", b"", 1) for _ in range(6)]
    assert mids == [65533, 65534, 65535, 1, 2, 3]
    assert all(d.client.is_pending(mid) for mid in mids)
    assert not d.client.is_pending(4) and not d.client.is_pending(65532)


def test_a_message_has_its_id(broker, drive):
    """0 at QoS 0 [MQTT-2.3.1-5]."""
    got = []
    d = drive(broker.port, on_message=lambda m: got.append((m.qos, m.mid)))

    def script(b):
        b.welcome()
        b.grant(1)
        b.send(publish("t", b"", 1, 77), publish("t", b"", 0))
        b.expect(PUBACK, mid=77)

    with broker.play(script):
        d.do("subscribe", "t", 1) if isinstance(d, Asyncio) else d.client.subscribe("t", 1)
        d.until(lambda: len(got) == 2)
    assert got == [(1, 77), (0, 0)]
