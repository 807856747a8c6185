"""Overlapping filters: which handlers run for each copy of a message that the broker sends. At level 5 a Subscription
Identifier tells for which subscribe() a copy is."""

import pytest

from host_tests.lib import aio_clients
from inflight import NO_LOCAL, RamFlash
from tools.reference.properties import block
from tools.reference.wire import publish

BOTH_CLIENTS = True

SUBSCRIPTION = 0x0B


def identifier(subscribe):
    """The one that a SUBSCRIBE has; None: it has none."""
    return dict(subscribe.properties).get(SUBSCRIPTION)


@pytest.fixture
def heard():
    """What handlers were called with: {name: [payload, ...]}. Its method `of` makes one."""

    class Heard(dict):
        def of(self, name):
            self[name] = []
            return lambda message: self[name].append(message.payload)

    return Heard()


def test_messages_that_waited_for_another_life(mosquitto, make, pump, heard):
    """[MQTT5-4.4.0-1] What the broker kept while the device was off runs each handler once, although the program
    subscribes in another order now: an identifier follows from the filters."""
    port = mosquitto().port
    device = RamFlash()
    before = make(port, device, protocol_level=5)
    before.subscribe("ov/#", 2, print)
    before.subscribe([("ov/relay", 2), ("else", 2)], handler=print)
    before.connect()
    before.disconnect()
    sender = make(port, client_id="sender", protocol_level=5)
    sender.connect()
    for k in range(3):
        sender.publish("ov/relay", b"%d" % k, 2)
    assert sender.drain(60_000)
    client = make(port, device, protocol_level=5)
    client.subscribe([("ov/relay", 2), ("else", 2)], handler=heard.of("relay"))
    client.subscribe("ov/#", 2, heard.of("all"))
    client.connect()
    sender.publish("else", b"end", 2)
    assert sender.drain(60_000)
    pump(client, lambda: heard["relay"][-1:] == [b"end"])
    assert heard == {"relay": [b"0", b"1", b"2", b"end"], "all": [b"0", b"1", b"2"]}


def test_consumers_and_handlers(mosquitto, heard):
    """[MQTT5-3.3.4-3] With asyncio, at QoS 2: each handler once, and once to the consumer what comes for subscriptions
    without a handler."""
    port = mosquitto().port

    async def scene():
        got = []
        relays = heard.of("relays")
        client = aio_clients.make(port, protocol_level=5, keepalive=60)
        async with client:
            await client.connect()
            await client.subscribe([("ov/#", 2), ("ov/+", 2)])
            await client.subscribe("ov/relay", 2, heard.of("relay"))
            for name in ("+/relay", "ov/relay/#"):
                await client.subscribe(name, 2, relays)
            for k in range(5):
                await client.publish("ov/relay", b"%d" % k, 2)
            await client.publish("ov/end", b"end", 2)
            async for message in client:
                got.append(message.payload)
                if message.payload == b"end":
                    break
            assert await client.drain(60_000)
        return got

    expected = [b"%d" % k for k in range(5)]
    assert aio_clients.run(scene()) == [*expected, b"end"]
    assert heard == {"relay": expected, "relays": expected}


def subscribed(b, count):
    """The identifiers of so many SUBSCRIBEs, which are granted."""
    return [identifier(b.grant()) for _ in range(count)]


def receive(client, broker, script, condition):
    with broker.play(script):
        client.connect()
        while not condition():
            client.run_for(10)


def test_identifiers_of_a_copy(broker, make, heard):
    """[MQTT5-3.3.4-3] [MQTT5-3.3.4-4] A copy runs the handlers of the subscriptions that it names, each once. One that
    names none, none that is known, or more than are told apart, runs those whose filters match."""
    client = make(broker.port, protocol_level=5)
    for name in ("a/#", "a/b", "+/b"):
        client.subscribe(name, 0, heard.of(name))
    client.subscribe("end", 0, heard.of("end"))

    def script(b):
        b.welcome()
        first, second, third, end = subscribed(b, 4)
        assert len({first, second, third, end}) == 4

        def copy(payload, *identifiers, more=()):
            return publish("a/b", payload, properties=block(*((SUBSCRIPTION, n) for n in identifiers), *more))

        b.send(
            copy(b"1", first),
            copy(b"13", first, third),
            copy(b"2", second, more=[(0x26, ("name", "value"))]),
            copy(b"none"),
            copy(b"unknown", 5, 70_000, 268_435_455),
            copy(b"2 and unknown", 127, second, 128),
            copy(b"many", *range(1, 20)),
            copy(b"no match", end),
            publish("end", properties=block((SUBSCRIPTION, end))),
        )

    receive(client, broker, script, lambda: heard["end"])
    assert heard["a/#"] == [b"1", b"13", b"none", b"unknown", b"many", b"no match"]
    assert heard["a/b"] == [b"2", b"none", b"unknown", b"2 and unknown", b"many", b"no match"]
    assert heard["+/b"] == [b"13", b"none", b"unknown", b"many", b"no match"]


def test_broker_without_identifiers(broker, make, heard):
    """Subscription Identifiers Available = 0: no SUBSCRIBE has one on this connection; filters tell."""
    client = make(broker.port, protocol_level=5)
    client.subscribe("a/#", 0, heard.of("early"))

    def script(b):
        b.welcome(0, ((0x29, 0),))
        assert subscribed(b, 2) == [None, None]
        b.send(publish("a/b", b"1", properties=b"\0"))
        b.goodbye()
        b.welcome()
        assert None not in subscribed(b, 2)
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.subscribe("a/b", 0, heard.of("late"))
        while not heard["late"]:
            client.run_for(10)
        client.disconnect()
        client.connect()
        client.disconnect()
    assert heard == {"early": [b"1"], "late": [b"1"]}


# Two filters with their QoS, the answers, for each copy the filters that it names, and the calls of their handler.
OVERLAPPING = {
    "copies": (("a/#", 1), ("a/b", 1), (1, 1), ((0,), (1,)), 1),
    "one copy": (("a/#", 0), ("a/b", 1), (0, 1), ((0, 1),), 1),
    "a better one": (("a/#", 0), ("a/b", 1), (0, 1), ((0,), (1,)), 2),  # the first one may be lost
    "refused": (("a/#", 1), ("a/b", 1), (0x80, 1), ((1,),), 1),
    "shared": (("$share/g/a/#", 1), ("a/b", 1), (1, 1), ((1,),), 1),  # the first one went to another member
    "not its own": (("a/#", 1 | NO_LOCAL), ("a/b", 1), (1, 1), ((1,),), 1),
    "no identifiers": (("a/#", 1), ("a/b", 1), (1, 1), ((),), 1),
}


@pytest.mark.parametrize("case", OVERLAPPING)
@pytest.mark.parametrize("calls", [1, 2])
def test_one_handler_of_overlapping_filters(broker, make, heard, case, calls):
    """Of one subscribe(), or of two: it gets a message once, unless the broker may send the other copy alone, or more
    reliably. Another handler gets it too."""
    *filters, codes, copies, times = OVERLAPPING[case]
    client = make(broker.port, protocol_level=5)
    handler = heard.of("both")
    for some in [filters] if calls == 1 else [[pair] for pair in filters]:
        client.subscribe(some, handler=handler)
    client.subscribe("+/b", 0, heard.of("one"))
    client.subscribe("end", 0, heard.of("end"))

    def script(b):
        b.welcome()
        known = [identifier(b.grant(code)) for code in codes]
        last = [identifier(b.grant()) for _ in range(2)][0]
        for k, copy in enumerate(copies):
            named = [(SUBSCRIPTION, known[n]) for n in copy] + [(SUBSCRIPTION, last)] * (not k and copy != ())
            b.send(publish("a/b", b"1", properties=block(*named)))
        b.send(publish("end", b"2", properties=b.none))

    receive(client, broker, script, lambda: heard["end"])
    assert heard == {"both": [b"1"] * times, "one": [b"1"], "end": [b"2"]}


def test_identifiers_that_would_be_the_same(broker, make, monkeypatch, heard):
    """[MQTT5-3.3.4-3] Two subscriptions never have one identifier; that of the same filter stays."""
    monkeypatch.setattr("inflight.client.subscriptions.crc32", lambda *_: 0xFFFFFFFF)
    client = make(broker.port, protocol_level=5)
    for name in ("a", "b", "c"):
        client.subscribe(name, 0, heard.of(name))

    def script(b):
        b.welcome()
        first, *others = subscribed(b, 3)
        assert len({first, *others}) == 3
        assert subscribed(b, 1) == [first]
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.subscribe("a", 0, heard.of("new"))
        client.disconnect()
