"""Subscriptions and handlers: both clients with a scripted broker. Filters are tested in device/lib/test_topic.py,
requests and their answers in device/lib/test_session.py and test_session5.py."""

from unittest.mock import Mock

import pytest

from host_tests.clients import cut_power
from host_tests.lib.either import only_blocking
from inflight.client import handlers
from tools.reference.kinds import NAMES, PINGREQ, PUBACK, PUBCOMP, PUBLISH, PUBREC, SUBSCRIBE, UNSUBSCRIBE
from tools.reference.properties import block
from tools.reference.wire import connack, puback, publish, pubrel, suback, unsuback

BOTH_CLIENTS = True


def reconnected(client, times):
    """True when so many connections were made, and the last one stands."""
    return lambda: client.counters()["connects"] >= times and client.connected


@pytest.mark.parametrize(("level", "journal"), [(3, None), (4, False), (5, None)], ids=str)
def test_requests(broker, make, level, journal):
    """[MQTT-3.8.1-1] [MQTT-2.2.2-1] [MQTT-2.3.1-7] [MQTT-3-8.3-4] [MQTT-3.8.3-3] [MQTT-3.8.4-1] [MQTT-3.8.4-2]
    [MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.9.3-1] [MQTT-3.9.3-2] [MQTT-3.10.1-1] [MQTT-3.10.3-2] [MQTT-3.10.4-4]
    [MQTT-3.10.4-5] [MQTT31-6] [MQTT31-16] [MQTT5-3.10.4-5] [MQTT5-3.11.3-1] One filter; several in one SUBSCRIBE, or
    at level 5 one each, given in any way; the granted QoS may be lower. A message may come before the SUBACK; an answer
    with another Message ID is counted."""
    client = make(broker.port, journal, protocol_level=level)
    filters = [("a/+/ü/#", 0), ("b/#", 2), ("+/c", 1), ("d", 2)]
    granted = 0, 2, 0x80, 1
    asked = (
        [([pair], [code]) for pair, code in zip(filters, granted, strict=True)] if level == 5 else [(filters, granted)]
    )
    several = (list, tuple, iter)
    early = []

    def script(b):
        b.welcome()
        for granted in (1, 2, 0):
            assert b.grant(granted, flags=2).filters == [("a", 2)]
        for _ in several:
            for some, answer in asked:
                p = b.expect(SUBSCRIBE, filters=some)
                b.send(publish("d", b"early", 1, 3, retain=1, properties=b.none))
                b.send(suback(p.mid + 1, 0, properties=b.none), suback(p.mid, *answer, properties=b.none))
                b.expect(PUBACK, mid=3)
        p = b.expect(UNSUBSCRIBE, filters=[("a", None), ("b/#", None)], flags=2)
        codes = (0, 0x11) if level == 5 else ()
        b.send(unsuback(p.mid + 1, *codes, properties=b.none), unsuback(p.mid, *codes, properties=b.none))
        b.answer_ping()

    with broker.play(script):
        client.connect()
        assert [client.subscribe("a", 2) for _ in range(3)] == [1, 2, 0]
        for given in several:
            codes = client.subscribe(given(filters), handler=lambda m: early.append((m.payload, m.retain)))
            assert codes == [*granted]
        client.unsubscribe(*[["a", "b/#"]] if level == 5 else ["a", "b/#"])
        client.ping()
    assert early == [(b"early", True)] * 3 * len(asked)
    assert client.counters()["unknown_acks"] == 3 * len(asked) + 1


def test_who_subscribes_hears_of_too_little_memory(broker, make, monkeypatch):
    """What messages need is loaded before SUBSCRIBE leaves; without it the broker is not asked, nor at the next
    connection."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.answer_ping()
        b.cut()
        b.welcome(1)
        b.answer_ping()
        b.grant(1)

    with broker.play(script):
        client.connect()
        with monkeypatch.context() as patch:
            patch.setattr(handlers, "Message", Mock(side_effect=MemoryError))
            with pytest.raises(ValueError, match="filter"):
                client.subscribe("a/#/b", 1, print)  # nothing is loaded for it
            with pytest.raises(MemoryError):
                client.subscribe("a", 1, print)
        client.ping()
        client.connect()
        client.ping()
        assert client.subscribe("a", 1, print) == 1


@pytest.mark.parametrize("present", [0, 1])
def test_refused_filter_is_requested_again(broker, make, pump, present):
    """[MQTT-3.9.3-2] [MQTT5-3.8.4-7] [MQTT5-3.9.3-1] With a connection, and at the next one: the handler stays,
    on_error gets the refusal, and other filters are not affected. After unsubscribe() nobody asks."""
    got = []
    client = make(broker.port, protocol_level=5, on_message=lambda m: got.append("rest"))

    def refuse(b, code):
        b.send(suback(b.expect(SUBSCRIBE, filters=[("a", 1)]).mid, code, properties=block((0x1F, "no"))))

    def script(b):
        b.welcome()
        b.grant(filters=[("early", 1)])
        refuse(b, 0x87)
        b.cut()
        for code in (0x8F, 0x80):
            b.welcome(present)
            if not present:
                b.grant(filters=[("early", 1)])
            refuse(b, code)
            b.cut()
        b.welcome(present)
        if not present:
            b.grant(filters=[("early", 1)])
        b.grant(1, filters=[("a", 1)])
        b.answer_ping(publish("a", b"x", properties=b.none))
        b.send(unsuback(b.expect(UNSUBSCRIBE).mid, 0, properties=b.none))
        b.cut()
        b.welcome(0)
        b.grant(filters=[("early", 1)])
        b.answer_ping(publish("a", b"y", properties=b.none))

    with broker.play(script):
        client.subscribe("early", 1)
        client.connect()
        assert client.subscribe("a", 1, lambda m: got.append(m.payload)) == 0x87
        pump(client, reconnected(client, 4))
        client.ping()
        client.unsubscribe("a")
        pump(client, reconnected(client, 5))
        client.ping()
    assert got == [b"x", "rest"]
    refusals = [str(e) for e in client.errors if "refused" in str(e)]
    assert refusals == [f"[Errno 13] subscription refused: a, code {code}" for code in (0x87, 0x8F, 0x80)]


REQUESTS = {
    PINGREQ: (lambda client: client.ping(), "PINGRESP"),
    SUBSCRIBE: (lambda client: client.subscribe([("a/#", 0), ("b", 1)]), 'SUBACK of "a/#"'),
    UNSUBSCRIBE: (lambda client: client.unsubscribe("a"), 'UNSUBACK of "a"'),
}


@pytest.mark.parametrize("asked", REQUESTS, ids=NAMES.__getitem__)
def test_answer_never_comes(virtual, make, asked):
    """[MQTT-3.8.4-1] [MQTT-3.10.4-4] [MQTT-3.12.4-1] [MQTT5-3.12.4-1] [MQTT31-26] The wait has a time-out, which
    tells for what, then the connection is closed."""
    client = make(virtual.port, timeout_ms=150, protocol_level=5)
    ask, what = REQUESTS[asked]

    def script(b):
        b.welcome()
        b.expect(asked)
        b.expect_close()

    with virtual.play(script):
        client.connect()
        start = virtual.clock.now
        with pytest.raises(OSError, match="timed out waiting for " + what):
            ask(client)
        assert 0.149 < virtual.clock.now - start < 0.19  # asyncio looks each 37 ms
    assert not client.connected


def test_refused_arguments_subscribe_to_nothing(broker, make):
    """ValueError before a byte is sent, also if a request does not fit the buffer; the next connection asks for what
    was accepted."""
    client = make(broker.port, buffer=bytearray(128))
    client.subscribe("a", 1, print)
    refused = (
        ("x", 3, print, False),
        ("x", 1, 5, False),
        ("x", 1, print, "yes"),
        ([("x", 1), ("y", "1")], 0, print, False),
        ([("x", 1), ("y#", 1)], 0, print, False),
        ([("x" * 40, 0), ("y" * 40, 0)], 0, print, False),
    )
    for arguments in refused:
        with pytest.raises(ValueError):
            client.subscribe(*arguments)
    client.subscribe(iter([["b", 1], ("c", 2)]), handler=print)

    def script(b):
        for _ in range(2):
            b.welcome()
            for wanted in (("a", 1), ("b", 1), ("c", 2)):
                b.grant(filters=[wanted])
            b.answer_ping()
            b.cut()

    with broker.play(script):
        client.connect()
        for arguments in refused:
            with pytest.raises(ValueError):
                client.subscribe(*arguments)
        for filters in ([], ["a#"], ["a", ""], [b"\xff"], ["x" * 90], [[]], [None], [["a#"]]):
            with pytest.raises(ValueError):
                client.unsubscribe(*filters)
        client.ping()
        cut_power(client)
        client.connect()
        client.ping()


def test_messages_after_unsubscribe_are_acknowledged(broker, make, pump):
    """[MQTT-3.10.4-3] [MQTT-4.5.0-2] [MQTT5-3.3.1-12] [MQTT5-3.3.1-13] [MQTT5-3.10.4-3] [MQTT5-4.3.3-13]
    [MQTT5-4.5.0-2] [MQTT5-3.3.2-3] Messages in flight are completed, expired ones too, without a handler. RETAIN is
    handed on before."""
    client = make(broker.port, protocol_level=5)
    got = []

    def script(b):
        b.welcome()
        b.grant()
        b.send(publish("a", b"0", retain=1, properties=b.none))
        b.deliver("a", b"1", 2, 4)
        p = b.expect(UNSUBSCRIBE)
        b.send(publish("a", b"2", 1, 5, properties=block((0x02, 0))), unsuback(p.mid, 0, properties=b.none))
        b.send(publish("a", b"3", 1, 6, properties=b.none), pubrel(4))
        b.expect(PUBACK, mid=5)
        b.expect(PUBACK, mid=6)
        b.expect(PUBCOMP, mid=4)

    with broker.play(script):
        client.connect()
        client.subscribe("a", 2, lambda m: got.append((m.payload, m.retain)))
        pump(client, lambda: len(got) == 2)
        client.unsubscribe("a")
        pump(client, lambda: broker.finished)
    assert got == [(b"0", True), (b"1", False)]


@pytest.mark.parametrize("told", [True, False], ids=["before SUBACK", "before CONNACK"])
def test_lost_session_and_lost_connection(told, broker, make, pump):
    """[MQTT-3.2.2-3] The connection was lost before the client subscribed in a new session. The next CONNACK has
    session present = 1; the client subscribes nevertheless. Likewise if SUBACK does not come at first: the caller gets
    an error."""
    client = make(broker.port)

    def script(b):
        b.welcome(0)
        b.expect(SUBSCRIBE)
        b.cut()
        b.called()
        if told:
            b.send(connack(0))
            b.expect(SUBSCRIBE)
        b.cut()
        b.welcome(1)
        b.grant(filters=[("a", 2)])
        b.cut()
        b.welcome(1)  # now the subscription exists
        b.answer_ping()

    with broker.play(script):
        client.connect()
        with pytest.raises(OSError):
            client.subscribe("a", 2)
        pump(client, reconnected(client, 4 if told else 3))
        client.ping()


def test_a_session_has_its_subscriptions(broker, make, pump):
    """[MQTT-3.1.2-4] [MQTT-3.2.2-2] A program that finds it need not subscribe: on_message gets what comes."""
    got = []

    def script(b):
        b.welcome(0)
        b.grant(2, filters=[("a", 2)])
        b.goodbye()
        b.welcome(1)
        b.deliver("a", b"1", 2, 1)

    with broker.play(script):
        client = make(broker.port)
        client.subscribe("a", 2)
        client.connect()
        client.disconnect()
        client = make(broker.port, on_message=lambda m: got.append(m.payload))
        client.connect()
        assert client.session.present
        pump(client, lambda: got)
    assert got == [b"1"]


def test_handlers_by_filter(broker, make):
    """[MQTT-3.8.4-3] [MQTT-4.7.2-1] [MQTT-4.7.3-4] [MQTT-3.3.2-3] Every handler whose filter matches is called, also
    when another one raises; on_message gets the other messages. Of a shared subscription, $share/GROUP/FILTER, topics
    match FILTER. Subscribing to the same filter again replaces the handler. payload is a copy, view is not."""
    got = []
    client = make(broker.port, on_message=lambda m: got.append(("rest", m.topic)))
    filters = ("a/#", "+/b", "$SYS/#", "é", "$share/g/s/+", "$share/g/t")
    topics = ("a/b", "a", "A/b", "$SYS/x", "é", "e\u0301", "s/1", "t", "$share/g/t")

    def handler(name):
        def heard(message):
            assert isinstance(message.view, memoryview) and isinstance(message.payload, bytes)
            assert bytes(message.view) == message.payload == b"\0\xff"
            assert (message.offset, message.size) == (0, 2)
            got.append((name, message.topic))
            if name == "a/#":
                raise ValueError(name)

        return heard

    def script(b):
        b.welcome()
        for _ in range(len(filters) + 1):
            b.grant()
        b.send(*[publish(topic, b"\0\xff") for topic in topics])
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.subscribe("a/#", 0, lambda m: got.append("replaced"))
        for name in filters:
            client.subscribe(name, 0, handler(name))
        client.ping()
    heard = "a/# a/b, +/b a/b, a/# a, +/b A/b, $SYS/# $SYS/x, é é, rest e\u0301, $share/g/s/+ s/1, $share/g/t t"
    assert got == [tuple(pair.split()) for pair in f"{heard}, rest $share/g/t".split(", ")]
    assert [str(e) for e in client.errors] == ["a/#"] * 2


def test_connection_breaks_while_a_handler_publishes(broker, make, pump):
    """The handler's message is in the journal; the message that it handled is not delivered twice."""
    client = make(broker.port)
    got = []

    def handler(m):
        got.append(m.payload)
        broker.cut()  # the connection breaks now
        client.publish("t", b"kept", qos=1)

    client.subscribe("a", 2, handler)

    def script(b):
        b.welcome()
        b.grant()
        b.expect(PINGREQ)
        b.send(publish("a", b"1", 2, 5))
        b.expect_close()
        b.accept()
        b.expect(1)
        b.send(connack(1), publish("a", b"1", 2, 5, dup=1))
        kinds = sorted((b.receive() for _ in range(2)), key=lambda p: p.kind)
        assert kinds[0].kind == PUBLISH and kinds[0].payload == b"kept"
        assert kinds[1].kind == PUBREC
        b.send(puback(kinds[0].mid), pubrel(5))
        b.expect(PUBCOMP)

    with broker.play(script):
        client.connect()
        with pytest.raises(OSError):
            client.ping()
        pump(client, lambda: not client.pending and client.counters()["connects"] >= 2)
        pump(client, lambda: broker.finished)
    assert got == [b"1"]


@only_blocking
def test_calls_refused_in_a_handler(broker, make):
    """A handler may only call publish()."""
    client = make(broker.port)
    calls = [("connect",), ("disconnect",), ("ping",), ("run_for", 1), ("drain", 1), ("subscribe", "b")]
    calls.append(("unsubscribe", "b"))
    left = list(calls)

    def handler(message):
        name, *arguments = left.pop()
        getattr(client, name)(*arguments)

    client.subscribe("a", 0, handler)

    def script(b):
        b.welcome()
        b.grant()
        for _ in calls:
            b.answer_ping(publish("a"))

    with broker.play(script):
        client.connect()
        for _ in calls:
            client.ping()
    assert [type(e) for e in client.errors] == [ValueError] * len(calls)
