"""The client at cloud brokers, with a certificate of its own: an hour of virtual time, and what such brokers do not
allow."""

import random
import ssl

import pytest
import trustme

from host_tests.clients import cut_power
from host_tests.clouds import AWS_IOT_CORE, EVENT_GRID, IOT_HUB, Cloud, certified
from inflight import Client, Journal, MessageSetAside, RamFlash

RULES = {"aws": AWS_IOT_CORE, "event-grid": EVENT_GRID, "iot-hub": IOT_HUB}
TOPICS = {
    "aws": ("a/dev/out", "a/dev/in", "a/dev/in"),
    "event-grid": ("a/dev/out", "a/dev/in", "a/dev/in"),
    "iot-hub": (
        "devices/dev/messages/events/",
        "devices/dev/messages/devicebound/#",
        "devices/dev/messages/devicebound/x",
    ),
}


@pytest.fixture
def connect(tmp_path, clock):
    """connect(rules, device=flash, ...): a stand-in, and a function that makes a client of it."""
    random.seed(1)
    brokers, clients = [], []

    def made(rules):
        ca = trustme.CA()
        broker = Cloud(clock, ca, RULES[rules])
        brokers.append(broker)
        files = certified(ca, tmp_path, "dev")
        context = ssl.create_default_context(cafile=files["tls_ca"])
        context.load_cert_chain(files["tls_cert"], files["tls_key"])

        def client(flash, client_id="dev", **options):
            errors = []
            options = {"tls": context, "on_error": errors.append, "backoff_ms": (100, 1000), **options}
            clients.append(Client("localhost", client_id, Journal(flash), port=broker.port, **options))
            clients[-1].errors = errors
            return clients[-1]

        return broker, client

    yield made
    for client in clients:
        cut_power(client)
    for broker in brokers:
        broker.stop()


@pytest.mark.parametrize("rules, level", [("aws", 5), ("iot-hub", 4)])
def test_an_hour(connect, clock, rules, level):
    broker, make = connect(rules)
    out, pattern, inward = TOPICS[rules]
    flash = RamFlash(8, 4096)
    got = []

    def start():
        client = make(flash, protocol_level=level)
        client.subscribe(pattern, 1, lambda m: got.append(m.payload))
        return client

    client = start()
    for k in range(60):
        client.publish(out, b"%d" % k, 1)
        if k % 6 == 0:
            broker.give(inward, b"%d" % k, 1)
        if k in (9, 23, 34):
            broker.cut()
        if k in (16, 42):
            cut_power(client)
            client = start()
        client.run_for(60_000)
    assert client.drain(60_000) and broker.closed == []
    assert list(dict.fromkeys(broker.payloads())) == [b"%d" % k for k in range(60)]
    assert set(got) == {b"%d" % k for k in range(0, 60, 6)}


@pytest.mark.parametrize("rules", ["event-grid", "iot-hub"])
def test_a_message_of_qos_2_ends_the_connection_and_is_set_aside(connect, rules):
    broker, make = connect(rules)
    client = make(RamFlash(8, 4096))
    out = TOPICS[rules][0]
    mid = client.publish(out, b"2", 2)
    for k in range(5):
        client.publish(out, b"%d" % k, 1)
    assert not client.drain(120_000)
    assert [(e.mid, e.topic) for e in client.errors if isinstance(e, MessageSetAside)] == [(mid, out)]
    assert sorted(broker.payloads(1)) == [b"0", b"1", b"2", b"3", b"4"] and set(broker.closed) == {"QoS 2"}


def test_level_5_says_that_there_is_no_qos_2(connect):
    """The message leaves at QoS 1."""
    broker, make = connect("aws")
    client = make(RamFlash(8, 4096), protocol_level=5)
    client.publish("a/dev/out", b"2", 2)
    assert client.drain(60_000) and broker.payloads(1) == [b"2"] and client.counters()["lowered"] == 1


@pytest.mark.parametrize(
    "rules, why",
    [
        ({"client_id": "other"}, "client id"),
        ({"will": ("a/" * 8 + "a", "", 1, False)}, "topic"),
    ],
)
def test_what_the_stand_in_refuses(connect, clock, rules, why):
    broker, make = connect("aws")
    client = make(RamFlash(8, 4096), **rules)
    client.run_for(3_000)
    assert set(broker.closed) == {why} and not client.connected
