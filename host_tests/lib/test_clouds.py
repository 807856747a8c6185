"""A program at IoT Hub, which has topics of its own: an hour of virtual time. (firmware/test_clouds.py has a sensor at
the other clouds.)"""

import random
import ssl

import trustme

from host_tests.clients import cut_power
from host_tests.clouds import IOT_HUB, Cloud, certified
from inflight import Client, Journal, RamFlash

OUT = "devices/dev/messages/events/"
IN = "devices/dev/messages/devicebound/"


def test_an_hour(tmp_path, clock):
    """With a certificate of its own; the service cuts connections, and the power is cut."""
    random.seed(1)
    ca = trustme.CA()
    files = certified(ca, tmp_path, "dev")
    context = ssl.create_default_context(cafile=files["tls_ca"])
    context.load_cert_chain(files["tls_cert"], files["tls_key"])
    flash, got = RamFlash(8, 4096), []

    def start():
        client = Client("localhost", "dev", Journal(flash), port=broker.port, tls=context, backoff_ms=(100, 1000))
        client.subscribe(IN + "#", 1, lambda m: got.append(m.payload))
        return client

    with Cloud(clock, ca, IOT_HUB) as broker:
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
        cut_power(client)
    assert list(dict.fromkeys(broker.payloads())) == [b"%d" % k for k in range(60)]
    assert set(got) == {b"%d" % k for k in range(0, 60, 6)}
