"""The client at cloud brokers, with a certificate of its own: an hour of virtual time, and QoS 2, which such brokers do
not allow. (firmware/test_clouds.py has a sensor there.)"""

import random
import ssl

import pytest
import trustme

from host_tests.clients import cut_power
from host_tests.clouds import EVENT_GRID, IOT_HUB, Cloud, certified
from inflight import Client, Journal, MessageSetAside, RamFlash


@pytest.fixture
def connect(tmp_path, clock):
    """connect(rules): a stand-in, and a function that makes a client of it, with this flash."""
    random.seed(1)
    brokers, clients = [], []

    def made(rules):
        ca = trustme.CA()
        broker = Cloud(clock, ca, rules)
        brokers.append(broker)
        files = certified(ca, tmp_path, "dev")
        context = ssl.create_default_context(cafile=files["tls_ca"])
        context.load_cert_chain(files["tls_cert"], files["tls_key"])

        def client(flash):
            errors = []
            options = {"tls": context, "on_error": errors.append, "backoff_ms": (100, 1000)}
            clients.append(Client("localhost", "dev", Journal(flash), port=broker.port, **options))
            vars(clients[-1])["errors"] = errors
            return clients[-1]

        return broker, client

    yield made
    for client in clients:
        cut_power(client)
    for broker in brokers:
        broker.stop()


OUT = "devices/dev/messages/events/"  # of IoT Hub
IN = "devices/dev/messages/devicebound/"


def test_an_hour(connect, clock):
    broker, make = connect(IOT_HUB)
    flash = RamFlash(8, 4096)
    got = []

    def start():
        client = make(flash)
        client.subscribe(IN + "#", 1, lambda m: got.append(m.payload))
        return client

    client = start()
    for k in range(60):
        client.publish(OUT, b"%d" % k, 1)
        if k % 6 == 0:
            broker.give(IN + "x", b"%d" % k, 1)
        if k in (9, 23, 34):
            broker.cut()
        if k in (16, 42):
            cut_power(client)
            client = start()
        client.run_for(60_000)
    assert client.drain(60_000) and broker.closed == []
    assert list(dict.fromkeys(broker.payloads())) == [b"%d" % k for k in range(60)]
    assert set(got) == {b"%d" % k for k in range(0, 60, 6)}


@pytest.mark.parametrize("rules, out", [(EVENT_GRID, "a/dev/out"), (IOT_HUB, OUT)], ids=["event-grid", "iot-hub"])
def test_a_message_of_qos_2_ends_the_connection_and_is_set_aside(connect, rules, out):
    broker, make = connect(rules)
    client = make(RamFlash(8, 4096))
    mid = client.publish(out, b"2", 2)
    for k in range(5):
        client.publish(out, b"%d" % k, 1)
    assert not client.drain(120_000)
    assert [(e.mid, e.topic) for e in client.errors if isinstance(e, MessageSetAside)] == [(mid, out)]
    assert sorted(broker.payloads(1)) == [b"0", b"1", b"2", b"3", b"4"] and set(broker.closed) == {"QoS 2"}
