"""Subscriptions and handlers: both clients with a scripted broker."""

import pytest

from host_tests.broker import Gone
from host_tests.lib.either import only_blocking
from inflight import ProtocolError
from tools.reference.kinds import NAMES, PINGREQ, PUBACK, PUBCOMP, PUBLISH, PUBREC, SUBSCRIBE, UNSUBSCRIBE
from tools.reference.wire import Violation, connack, pingresp, puback, publish, pubrec, pubrel, suback, unsuback

BOTH_CLIENTS = True

with_journal = pytest.mark.parametrize("make", [None], ids=["journal"], indirect=True)  # messages of QoS 1 and 2 leave


@pytest.fixture(params=[None, False], ids=["journal", "no-journal"])
def make(request, make):
    """As make(), with a journal and without one."""

    def start(port, device=request.param, **options):
        return make(port, device, **options)

    return start


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_one_filter(broker, make, qos, granted):
    """[MQTT-3.8.1-1] [MQTT-2.2.2-1] [MQTT-3-8.3-4] [MQTT-3.8.4-1] [MQTT-3.8.4-6] The granted QoS may be lower."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        p = b.grant(granted)
        assert p.filters == [("a/+/ü/#", qos)] and p.flags == 2

    with broker.play(script):
        client.connect()
        assert client.subscribe("a/+/ü/#", qos) == granted


@pytest.mark.parametrize("given", [list, tuple, iter])
def test_several_filters(broker, make, given):
    """[MQTT-3.8.3-3] [MQTT-3.8.4-5] [MQTT-3.9.3-1] [MQTT-3.9.3-2] One SUBSCRIBE, with return codes in its order."""
    client = make(broker.port)
    filters = [("a", 0), ("b/#", 2), ("+/c", 1), ("d", 2)]

    def script(b):
        b.welcome()
        p = b.grant(0, 2, 0x80, 1)
        assert p.filters == filters

    with broker.play(script):
        client.connect()
        assert client.subscribe(given(filters)) == [0, 2, 0x80, 1]


@pytest.mark.parametrize("present", [0, 1])
@pytest.mark.parametrize("online", [False, True])
def test_refused_filter_is_requested_again(broker, make, pump, online, present):
    """[MQTT-3.9.3-2] With a connection, and at the next one: the handler stays, and on_error gets the refusal. After
    unsubscribe() nobody asks."""
    got = []
    client = make(broker.port, on_message=lambda m: got.append("rest"))

    def script(b):
        b.welcome()
        b.grant(0x80)
        b.cut()
        b.welcome(present)
        b.grant(0x80)
        b.cut()
        b.welcome(present)
        b.grant(1)
        b.answer_ping(publish("a", b"x"))
        p = b.expect(UNSUBSCRIBE)
        b.send(unsuback(p.mid))
        b.cut()
        b.welcome(0)
        b.answer_ping(publish("a", b"y"))

    with broker.play(script):
        if online:
            client.connect()
        answer = client.subscribe("a", 1, lambda m: got.append(m.payload))
        assert answer == (0x80 if online else None)
        pump(client, lambda: client.counters()["connects"] == 3 and client.connected)
        client.ping()
        client.unsubscribe("a")
        pump(client, lambda: client.counters()["connects"] == 4 and client.connected)
        client.ping()
    assert got == [b"x", "rest"]
    refusals = [str(e) for e in client.errors if "refused" in str(e)]
    assert refusals == ["[Errno 13] subscription refused: a, code 128"] * 2


REQUESTS = {
    PINGREQ: lambda client: client.ping(),
    SUBSCRIBE: lambda client: client.subscribe([("a", 0), ("b", 1)]),
    UNSUBSCRIBE: lambda client: client.unsubscribe("a"),
}
BAD_ANSWERS = {
    "one code too few": (SUBSCRIBE, lambda mid: suback(mid, 0)),
    "one code too many": (SUBSCRIBE, lambda mid: suback(mid, 0, 0, 0)),
    "code 3": (SUBSCRIBE, lambda mid: suback(mid, 0, 3)),
    "code 0x81": (SUBSCRIBE, lambda mid: suback(mid, 0x81, 0)),
    "UNSUBACK": (SUBSCRIBE, unsuback),
    "SUBACK": (UNSUBSCRIBE, lambda mid: suback(mid, 0)),
    "PUBACK with Message ID 0": (UNSUBSCRIBE, lambda mid: puback(0)),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_bad_answer(broker, make, kind):
    """[MQTT-3.8.4-5] [MQTT-3.9.3-1] [MQTT-3.9.3-2] [MQTT-3.10.4-4] A protocol error closes the connection."""
    client = make(broker.port)
    request, answer = BAD_ANSWERS[kind]

    def script(b):
        b.welcome()
        b.send(answer(b.expect(request).mid))
        b.expect_close()

    with broker.play(script):
        client.connect()
        with pytest.raises(ProtocolError):
            REQUESTS[request](client)


@pytest.mark.parametrize("asked", REQUESTS, ids=NAMES.__getitem__)
def test_answer_never_comes(virtual, make, asked):
    """[MQTT-3.8.4-1] [MQTT-3.10.4-4] [MQTT-3.12.4-1] [MQTT31-26] The wait has a time-out, then the connection is
    closed."""
    client = make(virtual.port, timeout_ms=150)

    def script(b):
        b.welcome()
        b.expect(asked)
        b.expect_close()

    with virtual.play(script):
        client.connect()
        start = virtual.clock.now
        with pytest.raises(OSError):
            REQUESTS[asked](client)
        assert 0.149 < virtual.clock.now - start < 0.19  # asyncio looks each 37 ms
    assert not client.connected


def test_answer_with_another_id(broker, make):
    """[MQTT-2.3.1-7] [MQTT-3.8.4-2] [MQTT-3.10.4-4] It belongs to another request: it is counted, and the client keeps
    waiting."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        mid = b.expect(SUBSCRIBE).mid
        b.send(suback(mid + 1, 0, 0), suback(mid, 0, 1))
        mid = b.expect(UNSUBSCRIBE).mid
        b.send(unsuback(mid + 1), unsuback(mid))

    with broker.play(script):
        client.connect()
        assert client.subscribe([("a", 0), ("b", 1)]) == [0, 1]
        client.unsubscribe("a")
    assert client.counters()["unknown_acks"] == 2


def test_suback_never_comes_while_messages_do(broker, make):
    """[MQTT-3.8.4-1] Incoming messages do not prolong the time-out."""
    client = make(broker.port, timeout_ms=150)

    def script(b):
        b.welcome()
        b.expect(SUBSCRIBE)
        with pytest.raises((Gone, Violation)):
            for k in range(1000):
                b.send(publish("a", b"x", 1, 1 + k))
                b.expect(PUBACK)
                b.sleep(0.01)

    with broker.play(script):
        client.connect()
        with pytest.raises(OSError):
            client.subscribe("a")


def test_publish_before_suback(broker, make):
    """[MQTT-3.8.4-6] A message may arrive before the SUBACK; its handler is called."""
    client = make(broker.port)
    got = []

    def script(b):
        b.welcome()
        p = b.expect(SUBSCRIBE)
        b.send(publish("a", b"early", 1, 3, retain=1), suback(p.mid, 1))
        b.expect(PUBACK, mid=3)

    with broker.play(script):
        client.connect()
        client.subscribe("a", 1, lambda m: got.append((m.payload, m.retain)))
    assert got == [(b"early", True)]


BAD_FILTERS = ["", "a#", "a/#/b", "a+", "x/+y", "a\0", b"\xff", "x" * 65536, []]
BAD_FILTERS += [[("a", 3)], [("a", -1)], [("a", 0), ("", 0)]]
BAD_REQUESTS = [("subscribe", [filters]) for filters in BAD_FILTERS]
BAD_REQUESTS += [("unsubscribe", filters) for filters in ([], ["a#"], ["a", ""], [b"\xff"])]


@pytest.mark.parametrize("asked, filters", BAD_REQUESTS)
def test_bad_filters(broker, make, pump, asked, filters):
    """[MQTT-3.8.3-1] [MQTT-3.8.3-3] [MQTT-3-8.3-4] [MQTT-3.10.3-1] [MQTT-3.10.3-2] [MQTT-4.7.1-2] [MQTT-4.7.1-3]
    [MQTT-4.7.3-1] [MQTT-4.7.3-2] [MQTT-4.7.3-3] [MQTT-1.5.3-1] ValueError before a byte is sent; the filter is not
    stored."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.answer_ping()
        b.cut()
        b.welcome()
        b.answer_ping()

    with broker.play(script):
        client.connect()
        with pytest.raises(ValueError):
            getattr(client, asked)(*filters)
        client.ping()
        pump(client, lambda: client.counters()["connects"] >= 2)
        client.ping()


def test_filters_that_do_not_fit_the_buffer(broker, make):
    """ValueError; the connection stays usable."""
    client = make(broker.port, buffer=bytearray(128))

    def script(b):
        b.welcome()
        b.answer_ping()

    with broker.play(script):
        client.connect()
        with pytest.raises(ValueError):
            client.subscribe([("a" * 40, 0), ("b" * 40, 0)])
        client.ping()


def test_unsubscribe(broker, make):
    """[MQTT-3.10.1-1] [MQTT-3.10.4-4] [MQTT-3.10.4-5] [MQTT-3.10.3-2] Several filters, one UNSUBACK."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        p = b.expect(UNSUBSCRIBE, filters=[("a", None), ("b/#", None)], flags=2)
        b.send(unsuback(p.mid))
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.unsubscribe("a", "b/#")
        client.ping()


def test_messages_after_unsubscribe_are_acknowledged(broker, make, pump):
    """[MQTT-3.10.4-3] [MQTT-4.5.0-2] Messages in flight are completed, without a handler."""
    client = make(broker.port)
    got = []

    def script(b):
        b.welcome()
        b.grant()
        b.deliver("a", b"1", 2, 4)
        p = b.expect(UNSUBSCRIBE)
        b.send(publish("a", b"2", 1, 5), unsuback(p.mid), publish("a", b"3", 1, 6), pubrel(4))
        b.expect(PUBACK, mid=5)
        b.expect(PUBACK, mid=6)
        b.expect(PUBCOMP, mid=4)

    with broker.play(script):
        client.connect()
        client.subscribe("a", 2, lambda m: got.append(m.payload))
        pump(client, lambda: got)
        client.unsubscribe("a")
        pump(client, lambda: broker.finished)
    assert got == [b"1"]


@with_journal
def test_ids_are_shared_with_publish(broker, make):
    """[MQTT-2.3.1-2] [MQTT-2.3.1-1] SUBSCRIBE, UNSUBSCRIBE and PUBLISH never use the same Message ID at a time."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        mids = [b.expect(PUBLISH).mid]
        p = b.expect(SUBSCRIBE)
        assert p.mid not in mids
        b.send(suback(p.mid, 0))
        p = b.expect(UNSUBSCRIBE)
        assert p.mid not in mids
        b.send(unsuback(p.mid), puback(mids[0]))

    with broker.play(script):
        client.connect()
        client.session.last_mid = 65534
        client.publish("t", b"held", qos=1)
        client.session.last_mid = 65534
        client.subscribe("a")
        client.session.last_mid = 65534
        client.unsubscribe("a")
        assert client.drain(60_000)


@with_journal
def test_publish_in_a_handler_while_subscribing(broker, make):
    """[MQTT-2.3.1-2] The id of an unanswered SUBSCRIBE is in use."""
    client = make(broker.port)

    def answer(m):
        client.session.last_mid -= 1
        client.publish("out", b"x", qos=1)

    def script(b):
        b.welcome()
        p = b.expect(SUBSCRIBE)
        b.send(publish("a", b"x"))
        q = b.expect(PUBLISH)
        assert q.mid != p.mid
        b.send(suback(p.mid, 0), puback(q.mid))

    with broker.play(script):
        client.connect()
        client.subscribe("a", 0, answer)
        assert client.drain(60_000)


# --- after a reconnection ---


def test_subscribes_again_after_a_lost_session(broker, make, pump):
    """[MQTT-3.2.2-3] [MQTT-3.1.2-4] Session present = 0: the client subscribes again; 1: it does not."""
    client = make(broker.port)
    got = []

    def script(b):
        b.welcome(0)
        b.grant()
        b.cut()
        b.welcome(1)
        b.deliver("a", b"1", 1, 1)
        b.cut()
        b.welcome(0)
        b.grant(filters=[("a", 2)])
        b.send(publish("a", b"2"))

    with broker.play(script):
        client.connect()
        client.subscribe("a", 2, lambda m: got.append(m.payload))
        pump(client, lambda: len(got) >= 2)


@pytest.mark.parametrize("told", [True, False], ids=["before SUBACK", "before CONNACK"])
def test_lost_session_and_lost_connection(told, broker, make, pump):
    """[MQTT-3.2.2-3] The connection was lost before the client subscribed in a new session. The next CONNACK has
    session present = 1; the client subscribes nevertheless."""
    client = make(broker.port)

    def script(b):
        b.welcome(0)
        b.grant()
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
        client.subscribe("a", 2)
        pump(client, lambda: client.counters()["connects"] >= (4 if told else 3) and client.connected)
        client.ping()


def test_what_the_session_has_is_not_asked_for_after_a_restart(broker, make, pump):
    """[MQTT-3.1.2-4] [MQTT-3.2.2-2] Subscriptions are part of the session: a program that kept `known` does
    not subscribe once more, as long as the broker has the session and the filters are the same."""
    got = []

    def script(b):
        b.welcome(0)
        b.grant(2, filters=[("a", 2)])
        b.grant(1, filters=[("b/#", 1)])
        b.goodbye()
        b.welcome(1)
        b.deliver("b/c", b"1", 1, 1)

    with broker.play(script):
        client = make(broker.port)
        client.subscribe("a", 2)
        client.subscribe("b/#", 1)
        assert client.known == 0
        client.connect()
        known = client.known
        client.disconnect()
        client = make(broker.port)
        client.known = known
        client.subscribe("a", 2)
        client.subscribe("b/#", 1, lambda m: got.append(m.payload))
        client.connect()
        assert client.known == known > 0
        pump(client, lambda: got)


@pytest.mark.parametrize("why", ["no session", "filter", "qos", "one more", "level", "not known"])
def test_otherwise_it_is(broker, make, why):
    """[MQTT-3.2.2-3]"""
    filters = [("b" if why == "filter" else "a", 1 if why == "qos" else 2)] + [("c", 0)] * (why == "one more")

    def script(b):
        b.welcome(0)
        b.grant(2, filters=[("a", 2)])
        b.goodbye()
        b.welcome(0 if why == "no session" else 1)
        for wanted in filters:
            b.grant(filters=[wanted])
        b.answer_ping()

    with broker.play(script):
        client = make(broker.port)
        client.subscribe("a", 2)
        client.connect()
        known = client.known
        client.disconnect()
        client = make(broker.port, protocol_level=3 if why == "level" else 4)
        client.known = 0 if why == "not known" else known
        for topic, qos in filters:
            client.subscribe(topic, qos)
        client.connect()
        assert (client.known == known) == (why in ("no session", "not known"))
        client.ping()


def test_what_changes_behind_connect_is_not_known(broker, make):
    """A later life of the program subscribes in front of connect(), perhaps to what this one gave up."""
    client = make(broker.port)

    def script(b):
        b.welcome(0)
        b.grant(2)
        b.grant(0)
        b.goodbye()
        b.welcome(1)
        b.send(unsuback(b.expect(UNSUBSCRIBE).mid))

    with broker.play(script):
        client.subscribe("a", 2)
        client.connect()
        assert client.known
        client.subscribe("a", 0)
        assert client.known == 0
        client.disconnect()
        client.connect()
        assert client.known
        client.unsubscribe("a")
        assert client.known == 0


def test_a_refused_filter_is_not_subscribed(broker, make):
    client = make(broker.port)

    def script(b):
        b.welcome(0)
        b.grant(0x80)
        b.grant(0)

    with broker.play(script):
        client.subscribe("a", 2)
        client.subscribe("b")
        client.connect()
        assert client.known == 0


def test_subscription_cut_short(broker, make, pump):
    """The connection breaks before SUBACK: the caller gets an error, and connect() subscribes again."""
    client = make(broker.port)

    def script(b):
        b.welcome(0)
        b.expect(SUBSCRIBE)
        b.cut()
        b.welcome(1)
        b.grant(filters=[("a", 1)])
        b.answer_ping()

    with broker.play(script):
        client.connect()
        with pytest.raises(OSError):
            client.subscribe("a", 1)
        pump(client, lambda: client.connected)
        client.ping()


def test_unsubscribed_filter_is_not_requested_again(broker, make, pump):
    client = make(broker.port)

    def script(b):
        b.welcome(0)
        b.grant()
        b.grant()
        b.send(unsuback(b.expect(UNSUBSCRIBE).mid))
        b.cut()
        b.welcome(0)
        b.grant(filters=[("b", 0)])
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.subscribe("a")
        client.subscribe("b")
        client.unsubscribe("a")
        pump(client, lambda: client.counters()["connects"] >= 2)
        client.ping()


def test_refused_filter_at_reconnection(broker, make, pump):
    """A refused filter does not affect the others."""
    client = make(broker.port)
    got = []
    client.subscribe("no", 1)
    client.subscribe("yes", 1, lambda m: got.append(m.payload))

    def script(b):
        b.welcome(0)
        b.grant(0x80)
        b.grant(1)
        b.send(publish("yes", b"1"))

    with broker.play(script):
        client.connect()
        pump(client, lambda: got)


def test_subscribe_again_at_level_3(broker, make):
    """[MQTT31-9] [MQTT31-12] [MQTT31-16] A SUBSCRIBE without answer is repeated with DUP: 82, then 8A."""
    client = make(broker.port, protocol_level=3, retry_ms=30, clean_session=True)

    def script(b):
        b.welcome()
        p = b.expect(SUBSCRIBE, flags=2)
        b.expect(SUBSCRIBE, flags=10, mid=p.mid, filters=p.filters)
        b.send(suback(p.mid, 1))
        p = b.expect(UNSUBSCRIBE, flags=2)
        b.expect(UNSUBSCRIBE, flags=10, mid=p.mid)
        b.send(unsuback(p.mid))

    with broker.play(script):
        client.connect()
        client.subscribe("a", 1)
        client.unsubscribe("a")


@with_journal
def test_first_subscribe_after_a_retry_at_level_3(broker, make, pump):
    """[MQTT31-9] A repeated PUBLISH does not set DUP in a new SUBSCRIBE."""
    client = make(broker.port, protocol_level=3, retry_ms=30, clean_session=True)

    def script(b):
        b.welcome()
        b.expect(PUBLISH, dup=False)
        p = b.expect(PUBLISH, dup=True)
        b.answer_ping()
        q = b.receive()
        while q.kind == PUBLISH:
            q = b.receive()
        assert q.kind == SUBSCRIBE and q.flags == 2, q
        b.send(suback(q.mid, 1), puback(p.mid))

    with broker.play(script):
        client.connect()
        client.publish("t", b"1", qos=1)
        pump(client, lambda: client.counters()["resent"] >= 1)
        client.ping()
        client.subscribe("a", 1)


def test_refused_filter_at_level_3(broker, make):
    """[MQTT31-6] Level 3 has return codes 0 to 2; for 0x80 the caller gets an error, or the connection is closed."""
    client = make(broker.port, protocol_level=3, clean_session=True)

    def script(b):
        b.welcome()
        b.grant(0x80)

    with broker.play(script):
        client.connect()
        try:
            assert client.subscribe("a", 1) == 0x80
        except ProtocolError:
            assert not client.connected


# --- handlers ---


def test_handlers_by_filter(broker, make):
    """[MQTT-4.7.2-1] [MQTT-4.7.3-4] [MQTT-3.3.2-3] Every handler whose filter matches is called; on_message gets the
    other messages."""
    got = []
    client = make(broker.port, on_message=lambda m: got.append(("rest", m.topic)))

    def script(b):
        b.welcome()
        for _ in range(4):
            b.grant()
        b.send(*[publish(t, b"") for t in ("a/b", "a", "A/b", "$SYS/x", "é", "e\u0301")])
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.subscribe("a/#", 0, lambda m: got.append(("a/#", m.topic)))
        client.subscribe("+/b", 0, lambda m: got.append(("+/b", m.topic)))
        client.subscribe("$SYS/#", 0, lambda m: got.append(("$SYS/#", m.topic)))
        client.subscribe("é", 0, lambda m: got.append(("é", m.topic)))
        client.ping()
    assert got == [
        ("a/#", "a/b"),
        ("+/b", "a/b"),
        ("a/#", "a"),
        ("+/b", "A/b"),
        ("$SYS/#", "$SYS/x"),
        ("é", "é"),
        ("rest", "e\u0301"),
    ]


def test_handler_is_replaced(broker, make):
    """[MQTT-3.8.4-3] Subscribing to the same filter again replaces the handler."""
    client = make(broker.port)
    got = []

    def script(b):
        b.welcome()
        b.grant()
        b.grant()
        b.send(publish("a", b"1"))
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.subscribe("a", 0, lambda m: got.append("old"))
        client.subscribe("a", 1, lambda m: got.append("new"))
        client.ping()
    assert got == ["new"]


def test_no_handler(broker, make):
    """[MQTT-4.5.0-2] [MQTT-3.3.4-1] A message without handler is acknowledged and counted."""
    client = make(broker.port, buffer=bytearray(256))

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        b.send(publish("a", b"1", 1, 1), publish("a", b"2", 2, 2), publish("a", bytes(1000)))
        b.expect(PUBACK, mid=1)
        b.expect(PUBREC, mid=2)
        b.send(pingresp())

    with broker.play(script):
        client.connect()
        client.ping()
    assert client.counters()["unhandled"] == 3


def test_handler_that_is_a_coroutine(broker, make):
    """It would never run: an error is reported, and the message acknowledged."""
    ran = []

    async def handler(message):
        ran.append(message)

    client = make(broker.port, on_message=handler)

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        b.deliver("a", b"1", 1, 1)
        b.send(pingresp())

    with broker.play(script):
        client.connect()
        client.ping()
    assert [type(e) for e in client.errors] == [TypeError]
    assert client.counters()["handler_errors"] == 1 and not ran


def test_shared_subscription(broker, make):
    """$share/GROUP/FILTER: topics match FILTER only."""
    got = []
    client = make(broker.port, on_message=lambda m: got.append(("rest", m.topic)))
    client.subscribe("$share/g/a/+", 1, lambda m: got.append(("a/+", m.topic)))
    client.subscribe("$share/g/b", 1, lambda m: got.append(("b", m.topic)))

    def script(b):
        b.welcome()
        assert [b.grant().filters for _ in range(2)] == [[("$share/g/a/+", 1)], [("$share/g/b", 1)]]
        b.send(*[publish(t, b"") for t in ("a/1", "b", "c", "$share/g/b")])
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.ping()
    assert got == [("a/+", "a/1"), ("b", "b"), ("rest", "c"), ("rest", "$share/g/b")]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_handler_that_raises(broker, make, qos):
    """[MQTT-4.5.0-2] The exception is reported and the message acknowledged, so there is no endless loop."""
    client = make(broker.port, on_message=lambda m: 1 / 0)

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        b.send(publish("a", b"1", qos, 1))
        if qos:
            b.expect(PUBACK if qos == 1 else PUBREC, mid=1)
        b.send(pingresp())

    with broker.play(script):
        client.connect()
        client.ping()
    assert [type(e) for e in client.errors] == [ZeroDivisionError]
    assert client.counters()["handler_errors"] == 1
    assert client.connected


def test_both_handlers_run_when_one_raises(broker, make):
    client = make(broker.port)
    got = []
    client.subscribe("#", 0, lambda m: 1 / 0)
    client.subscribe("a", 0, lambda m: got.append(m.payload))

    def script(b):
        b.welcome()
        b.grant()
        b.grant()
        b.answer_ping(publish("a", b"1"))

    with broker.play(script):
        client.connect()
        client.ping()
    assert got == [b"1"]


@only_blocking  # with asyncio, handlers create tasks
@with_journal
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_publish_in_a_handler(broker, make, pump, qos):
    """The message is sent, and the one being handled is not changed."""
    client = make(broker.port, max_inflight=2)
    seen = []

    def handler(m):
        client.publish("echo/" + m.topic, m.payload, qos=qos)
        seen.append((m.topic, m.payload, m.qos))

    client.subscribe("in/#", 2, handler)

    def script(b):
        b.welcome()
        b.grant()
        for k in range(5):
            b.send(publish(f"in/{k}", b"payload %d" % k, 2, 10 + k))
            p = b.expect(PUBLISH, topic=f"echo/in/{k}", payload=b"payload %d" % k, qos=qos)
            b.expect(PUBREC, mid=10 + k)
            b.release(10 + k)
            b.acknowledge(p)

    with broker.play(script):
        client.connect()
        pump(client, lambda: broker.finished)
    assert seen == [(f"in/{k}", b"payload %d" % k, 2) for k in range(5)]


@pytest.mark.parametrize("level", [4, 5])
def test_refused_arguments_subscribe_to_nothing(broker, make, level):
    """The next connection asks for what was accepted."""
    client = make(broker.port, protocol_level=level)
    client.subscribe("a", 1, print)
    for filters, qos, handler, stream in (
        ("x", 3, print, False),
        ("x", 1, 5, False),
        ("x", 1, print, "yes"),
        ([("x", 1), ("y", "1")], 0, print, False),
        ([("x", 1), ("y#", 1)], 0, print, False),
    ):
        with pytest.raises(ValueError):
            client.subscribe(filters, qos, handler, stream)
    client.subscribe(iter([["b", 1], ("c", 2)]), handler=print)

    def script(b):
        b.welcome()
        for wanted in (("a", 1), ("b", 1), ("c", 2)):
            b.grant(filters=[wanted])
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.ping()


@with_journal
def test_many_publishes_in_a_handler(broker, make, pump):
    """More than max_inflight: the others wait."""
    client = make(broker.port, max_inflight=2)
    client.subscribe("go", 0, lambda m: [client.publish("t", b"%d" % k, qos=1) for k in range(10)])

    def script(b):
        b.welcome()
        b.grant()
        b.send(publish("go"))
        for k in range(10):
            b.take(qos=1, payload=b"%d" % k)

    with broker.play(script):
        client.connect()
        pump(client, lambda: client.counters()["completed"] >= 10)


@with_journal
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
@pytest.mark.parametrize("call", ["connect", "disconnect", "ping", "run_for", "drain", "subscribe", "unsubscribe"])
def test_calls_refused_in_a_handler(broker, make, call):
    """A handler may only call publish()."""
    client = make(broker.port)
    arguments = {"run_for": [1], "drain": [1], "subscribe": ["b"], "unsubscribe": ["b"]}.get(call, [])
    client.subscribe("a", 0, lambda m: getattr(client, call)(*arguments))

    def script(b):
        b.welcome()
        b.grant()
        b.answer_ping(publish("a"))
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.ping()
        client.ping()
    assert [type(e) for e in client.errors] == [ValueError]


def test_message_views(broker, make):
    """payload is a copy, view is not."""
    client = make(broker.port)
    got = []

    def handler(m):
        assert isinstance(m.view, memoryview) and isinstance(m.payload, bytes)
        assert bytes(m.view) == m.payload
        got.append((m.topic, m.payload, m.offset, m.size))

    client.subscribe("a", 0, handler)

    def script(b):
        b.welcome()
        b.grant()
        b.answer_ping(publish("a", b"\0\xff"), publish("a", b""))

    with broker.play(script):
        client.connect()
        client.ping()
    assert client.errors == []
    assert got == [("a", b"\0\xff", 0, 2), ("a", b"", 0, 0)]


def test_qos_2_duplicate_while_subscribing(broker, make):
    """[MQTT-4.3.3-2] A repetition is not delivered during other waits either."""
    client = make(broker.port)
    got = []

    def script(b):
        b.welcome()
        p = b.expect(SUBSCRIBE)
        b.send(publish("a", b"1", 2, 5), publish("a", b"1", 2, 5, dup=1), pubrec(77))
        b.expect(PUBREC, mid=5)
        b.expect(PUBREC, mid=5)
        b.receive()
        b.send(suback(p.mid, 2))

    with broker.play(script):
        client.connect()
        client.subscribe("a", 2, lambda m: got.append(m.payload))
    assert got == [b"1"]
