"""A mosquitto that requires a password or TLS; host_tests/brokers tests the rest."""

import socket

import pytest
import trustme

from host_tests import mosquitto_lines
from host_tests.broker import PATIENCE_S
from host_tests.lib.either import only_blocking
from tools.peers.certificates import client_context
from tools.reference.wire import packet, publish, string

BOTH_CLIENTS = True


# --- a session that the journal does not know ---


@only_blocking
def test_a_new_journal_receives_queued_messages(mosquitto, make, pump):
    """[MQTT-4.3.3-2] [MQTT-4.4.0-1] The session continues: queued messages are delivered, and new QoS 2 messages are
    not taken for repetitions of those that an earlier journal left unfinished."""
    port = mosquitto().port
    got, heard = [], []
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as lost:
        lost.sendall(packet(0x10, string("MQTT") + b"\x04\0\0\0" + string("dev")))
        lost.sendall(packet(0x82, b"\0\x09" + string("in/#") + b"\2"))
        lost.sendall(b"".join(publish("out", b"old", 2, mid) for mid in (1, 2, 3)))
        answers = b""
        while len(answers) < 4 + 5 + 3 * 4:  # CONNACK, SUBACK, PUBREC
            answers += lost.recv(100)  # without PUBREL: mosquitto keeps the ids in use
    other = make(port, client_id="other")
    other.subscribe("out", 2, lambda m: heard.append(m.payload))
    other.connect()
    for k in range(20):
        other.publish("in/x", b"%d" % k, 1 + k % 2)
    assert other.drain(60_000)
    fresh = make(port)
    fresh.subscribe("in/#", 2, lambda m: got.append(m.payload))
    fresh.connect()
    for k in range(20):
        fresh.publish("out", b"%d" % k, 2)
    assert fresh.drain(60_000)
    pump(fresh, lambda: len(got) == 20)
    pump(other, lambda: heard[-1:] == [b"19"])
    assert sorted(got, key=int) == [b"%d" % k for k in range(20)]
    assert [p for p in heard if p != b"old"] == [b"%d" % k for k in range(20)]


@only_blocking
@pytest.mark.parametrize(("client_id", "size"), [("dev", 128), ("", 160)])
def test_a_small_buffer(mosquitto, make, pump, client_id, size):
    """[MQTT5-3.2.2-16] The smallest one; and one that the client id fits that mosquitto assigns."""
    got = []
    options = {"protocol_level": 5, "buffer": bytearray(size), "on_message": lambda m: got.append(m.payload)}
    client = make(mosquitto("max_packet_size 2000").port, client_id=client_id, **options)
    client.subscribe("t", 1)
    client.connect()
    client.publish("t", b"x", 1)
    pump(client, lambda: got and client.session.maximum_out == 2000)  # a busy machine may connect more than once


# --- TLS ---

AUTHORITY = trustme.CA()


@pytest.fixture
def secure(mosquitto, tmp_path):
    """secure(certificate's name, *lines) starts a Mosquitto with TLS."""
    return lambda name, *lines: mosquitto(*mosquitto_lines.tls(tmp_path, AUTHORITY, name), *lines)


def test_tls(secure, make, pump):
    """[MQTT-7.1.2-1] All QoS, and payloads longer than a TLS record."""
    got = []
    client = make(secure("127.0.0.1").port, tls=client_context(AUTHORITY))
    client.subscribe("t", 2, lambda m: got.append(m.payload), stream=True)
    client.connect()
    for qos in range(3):
        client.publish("t", b"%d" % qos, qos=qos)
    client.publish("t", bytes(50_000))
    assert client.drain(60_000)
    pump(client, lambda: sum(map(len, got)) >= 50_003)
    assert sorted(g for g in got if len(g) == 1) == [b"0", b"1", b"2"]
