"""A broker that sends a malformed PUBLISH on each connection: messages to the broker get through all the same."""

import random

import pytest

from host_tests.broker import Gone
from inflight import RamFlash
from tools.reference.kinds import DISCONNECT, PUBLISH, SUBSCRIBE
from tools.reference.properties import block
from tools.reference.wire import packet, puback, publish, string, suback

NO_ID = packet(0x32, string("t") + b"\0\0\0payload")
WILDCARD = packet(0x32, string("t/+") + b"\0\5\0payload")
LONG = packet(0x32, string("t/+") + b"\0\5\0" + bytes(3000))
LONG_TOPIC = packet(0x32, string("t" * 700 + "+") + b"\0\5\0" + bytes(3000))
PROPERTIES = packet(0x32, string("t") + b"\0\5" + block((0x01, 1), (0x01, 1)) + b"payload")
PROPERTIES_OF_LONG = packet(0x32, string("t") + b"\0\5" + block((0x01, 1), (0x01, 1)) + bytes(3000))

CASES = [
    (4, NO_ID),
    (5, WILDCARD),
    (4, LONG),
    (5, LONG),
    (4, LONG_TOPIC),
    (5, LONG_TOPIC),
    (5, PROPERTIES),
    (5, PROPERTIES_OF_LONG),
]


def serve(b, bad, taken, wanted):
    """Plays connections that begin with `bad`, until `wanted` payloads are taken. Returns how many there were, and the
    reason codes of the DISCONNECTs."""
    connections, codes = 0, []
    while len(taken) < wanted:
        b.called()
        b.send(b"\x20\x02\0\0" if b.connection.level < 5 else b"\x20\x03\0\0\0", bad)
        connections += 1
        try:
            while True:
                p = b.receive()
                if p.kind == PUBLISH:
                    taken.append(p.payload)
                    b.send(puback(p.mid))
                elif p.kind == SUBSCRIBE:
                    b.send(suback(p.mid, 1, properties=b.none))
                else:
                    assert p.kind == DISCONNECT, p
                    codes.append(p.code)
        except Gone:
            pass
    b.close()  # nobody waits for a third one
    return connections, codes


@pytest.mark.parametrize(
    ("level", "bad", "client_kind"), [*((*case, "blocking") for case in CASES), (4, WILDCARD, "asyncio")]
)
def test_messages_get_through(broker, make, level, bad):
    """[MQTT-4.8.0-1] [MQTT5-4.13.1-1] The first connection ends at once. On the next one the malformed PUBLISH is
    neither acknowledged nor delivered; all messages leave and are acknowledged, then that connection ends, too."""
    got, taken = [], []
    client = make(broker.port, RamFlash(16, 4096), protocol_level=level, on_message=got.append)
    client.subscribe("t", 1)
    sent = [b"%d" % k for k in range(20)]
    for payload in sent:
        client.publish("out", payload, 1)

    def script(b):
        connections, codes = serve(b, bad, taken, len(sent))
        assert connections == 2
        assert level < 5 or codes in ([0x81], [0x82]) or codes in ([0x81] * 2, [0x82] * 2)

    with broker.play(script):
        while client.connected or client.pending:
            client.run_for(10)
    assert list(dict.fromkeys(taken)) == sent and not got
    assert client.counters()["completed"] == 20 and client.counters()["received"] == 0
    assert client.counters()["protocol_errors"] == 2


def test_others_are_delivered_meanwhile(broker, make, pump):
    """[MQTT-4.5.0-2] Messages behind the malformed one are handled as ever."""
    got = []
    client = make(broker.port, on_message=lambda m: got.append(m.payload))
    client.publish("out", b"x", 1)

    def script(b):
        b.called()
        b.send(b"\x20\x02\0\0", WILDCARD)
        b.expect_close()
        b.called()
        b.send(b"\x20\x02\0\0", WILDCARD, publish("t", b"fine", 1, 6), NO_ID)
        b.expect(4, mid=6)
        b.take()
        b.expect_close()

    with broker.play(script):
        while client.connected or client.pending:
            client.run_for(10)
    assert got == [b"fine"]


def test_a_broker_that_acknowledges_nothing(virtual, make, monkeypatch):
    """[MQTT-4.8.0-1] The connection ends when an answer has not come for timeout_ms; pauses grow."""
    monkeypatch.setattr("random.getrandbits", random.Random(1).getrandbits)
    client = make(virtual.port, timeout_ms=2000, backoff_ms=(1000, 60_000))
    client.publish("out", b"x", 1)
    waited, pauses = [], []

    def script(b):
        for k in range(4):
            began = virtual.clock.now
            b.called()
            since = virtual.clock.now
            pauses.append(since - began)
            if k == 3:
                return
            b.send(b"\x20\x02\0\0", WILDCARD)
            if k:
                b.expect(PUBLISH)
            b.expect_close()
            waited.append(virtual.clock.now - since)

    with virtual.play(script):
        while len(pauses) < 4:
            client.run_for(100)
    assert waited[0] < 1 and all(2 <= s < 4 for s in waited[1:])
    assert max(pauses) > 1.1  # the first one is at most a second


@pytest.mark.parametrize("level", [4, 5])
def test_nothing_waits(broker, make, level):
    """[MQTT-4.8.0-1] Without messages that wait each connection ends at once."""
    client = make(broker.port, protocol_level=level)

    def script(b):
        for _ in range(3):
            b.called()
            b.send(b"\x20\x02\0\0" if level < 5 else b"\x20\x03\0\0\0", WILDCARD)
            if level == 5:
                b.expect(DISCONNECT, code=0x81)
            b.expect_close()

    with broker.play(script):
        while client.counters()["protocol_errors"] < 3:
            client.run_for(10)
