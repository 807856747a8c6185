"""The client with brokers of other projects, without restarts. Where a broker deviates from the standard,
tools/peers/brokers has a trait, the test asserts the deviation, and README.md lists it."""

from errno import ENOBUFS

import pytest

from host_tests.brokers.conftest import numbers
from inflight import ProtocolError, RamFlash


@pytest.mark.parametrize("level", [4], indirect=True, ids=[""])
@pytest.mark.parametrize("other", [3, 5])
def test_another_level(broker, join, other):
    """[MQTT-3.1.2-2] [MQTT5-3.1.2-2] Accepted, or an exception says that the broker does not know it."""
    if {3: broker.level_3, 5: broker.level_5}[other]:
        assert join(broker, "dev", protocol_level=other).ping() >= 0
        return
    said = {3: "the broker closed the connection", 5: "refused: 0x84|no answer"}[other]
    with pytest.raises(OSError, match=said) as caught:
        join(broker, "dev", protocol_level=other, timeout_ms=1000)
    assert other == 3 or getattr(caught.value, "code", 0x84) == 0x84


def in_order(broker, found, wanted):
    """True if all of `wanted` was found, in that order if the broker keeps it."""
    return found == wanted if broker.ordered else sorted(found) == sorted(wanted)


@pytest.mark.parametrize("level", [5, 4, 3], indirect=True, ids=["level5", "level4", "level3"])
def test_out_and_in(broker, join, arrived, qos):
    """[MQTT-4.3.1-1] [MQTT-4.3.2-1] [MQTT-4.3.2-2] [MQTT-4.3.3-1] [MQTT-4.3.3-2] Each QoS, there and back, in order."""
    listener = join(broker, "listener", "t/#")
    sender = join(broker, "sender")
    for payload in numbers(50):
        sender.publish(f"{broker.root}/t/{payload.decode()}", payload, qos=qos)
    assert sender.drain(5000)
    assert arrived(broker, listener, numbers(50)) == numbers(50)
    marks = qos if broker.keeps_qos else 2, False
    assert sorted(listener.got) == [(f"t/{payload.decode()}", payload, *marks) for payload in numbers(50)]


def test_window(broker, join, arrived, qos):
    """[MQTT-4.6.0-6] 300 messages, at most 20 in flight, counted on both sides."""
    listener = join(broker, "listener", "t")
    sender = join(broker, "sender", max_inflight=20)
    for payload in numbers(300):
        sender.publish(f"{broker.root}/t", payload, qos=qos)
    assert sender.drain(20_000)
    assert arrived(broker, listener, numbers(300)) == numbers(300)
    result = sender.counters()
    assert (result["accepted"], result["completed"], result["resent"]) == ((300, 300, 0) if qos else (0, 0, 0))
    assert sender.pending == 0 and not sender.errors and not listener.errors


def test_several_filters(broker, join, together):
    """[MQTT-3.8.4-5] [MQTT-3.9.3-1] [MQTT-3.10.4-1] Three filters, three return codes; UNSUBSCRIBE."""
    client = join(broker, "dev")
    highest = 2 if broker.qos_2 else 1
    got = []
    filters = [(f"{broker.root}/{name}", qos) for name, qos in (("a", 0), ("b/+", 1), ("c/#", 2))]
    assert client.subscribe(filters, handler=lambda m: got.append(m.topic[len(broker.root) + 1 :])) == [0, 1, highest]
    client.unsubscribe(f"{broker.root}/a", f"{broker.root}/b/+")
    for name in ("a", "b/1", "b/1/2", "c", "c/1/2", "d"):
        client.publish(f"{broker.root}/{name}", qos=1)
    assert client.drain(5000)
    assert together([client], lambda: len(got) >= 2)
    assert client.ping() >= 0
    assert in_order(broker, got, ["c", "c/1/2"])


def test_retained(broker, join, together):
    """[MQTT-3.3.1-8] [MQTT-3.3.1-9] [MQTT-3.3.1-10] Stored, delivered with RETAIN, removed by an empty payload."""
    sender = join(broker, "sender")
    sender.publish(f"{broker.root}/r", b"kept", qos=1, retain=True)
    assert sender.drain(5000)
    first = join(broker, "first", "r", qos=1)
    assert together([first], lambda: first.got)
    assert first.got == [("r", b"kept", 1, True)]
    sender.publish(f"{broker.root}/r", b"", qos=1, retain=True)
    assert sender.drain(5000)
    assert together([first], lambda: len(first.got) == 2)
    assert first.got[1] == ("r", b"", 1, False)
    second = join(broker, "second", "r", qos=1)
    second.ping()
    assert second.got == []


def test_will(broker, join, make, together):
    """[MQTT-3.1.2-9] [MQTT-3.14.4-1] Published after a lost connection, not after DISCONNECT."""
    listener = join(broker, "listener", "status/#", qos=1)
    for name, dies in (("one", False), ("two", True)):
        client = join(broker, name, will=(f"{broker.root}/status/{name}", b"gone", 1, True))
        if dies:
            make.cut_power(client)
        else:
            client.disconnect()
    assert together([listener], lambda: listener.got)
    listener.ping()
    assert listener.got == [("status/two", b"gone", 1, False)]


@pytest.mark.parametrize("qos", [1, 2], ids=["qos1", "qos2"], indirect=True)
def test_session_resumes(broker, join, together, arrived, qos):
    """[MQTT-3.1.2-4] [MQTT-3.2.2-2] [MQTT-4.1.0-1] Messages sent meanwhile are delivered; subscriptions stay."""
    device = RamFlash()
    first = join(broker, "listener", "t", device)
    first.disconnect()
    witness = join(broker, "witness", "t")
    sender = join(broker, "sender")
    for payload in numbers(5):
        sender.publish(f"{broker.root}/t", payload, qos=qos)
    assert sender.drain(5000)
    assert arrived(broker, witness, numbers(5)) == numbers(5)  # amqtt acknowledges them before it delivers them
    got = []  # without retained messages for other clients, which amqtt may send
    second = join(broker, "listener", device=device, on_message=lambda m: m.retain or got.append(m.payload))
    assert second.session.present
    if broker.queues:
        assert together([second], lambda: len(got) >= 5)
        assert (got if broker.ordered else sorted(got)) == numbers(5)
        return
    second.ping()
    # The broker acknowledged five, and lost those that it was to deliver before the listener was back.
    assert sender.counters()["completed"] == 5
    sender.publish(f"{broker.root}/t", b"new", qos=1)
    assert sender.drain(5000)
    assert together([second], lambda: got[-1:] == [b"new"])  # its subscription stands
    late = got[:-1]
    assert late == numbers(5)[5 - len(late) :]


def test_clean_session(broker, join, together):
    """[MQTT-3.1.2-6] Clean session 1 discards the old session."""
    device = RamFlash()
    join(broker, "dev", "t", device).disconnect()
    join(broker, "dev", device=device, clean_session=True).disconnect()
    sender = join(broker, "sender")
    sender.publish(f"{broker.root}/t", b"for nobody", qos=1)
    assert sender.drain(5000)
    got = []
    again = join(broker, "dev", device=device, on_message=lambda m: m.retain or got.append(m.payload))
    assert again.session.present == (not broker.clean_wipes)  # if present, the session is empty
    again.ping()
    assert got == []


def test_takeover(broker, join, make, together):
    """[MQTT-3.1.4-2] The older connection of a client id is closed. It reconnects with back-off."""
    first = join(broker, "twin", backoff_ms=(50, 100))
    second = join(broker, "twin", clean_session=True, backoff_ms=(10_000, 10_000))
    if not broker.takes_over:
        assert first.ping() >= 0 and second.ping() >= 0
        return
    assert together([first], lambda: first.counters()["connects"] >= 2)
    assert first.counters()["outages"] >= 1
    assert together([second], lambda: second.counters()["outages"])
    assert first.ping() >= 0
    assert first.counters()["connects"] <= 4


def test_keep_alive(broker, join, make, together):
    """[MQTT-3.1.2-23] [MQTT-3.1.2-24] A client that sends PINGREQ stays connected. A silent client is disconnected
    within one and a half times the keep alive, and its will is published."""
    listener = join(broker, "listener", "status", qos=1)
    awake = join(broker, "awake", keepalive=1)
    silent = join(broker, "silent", keepalive=1, will=(f"{broker.root}/status", b"silent", 1, False))
    if broker.keep_alive:
        assert together([listener, awake], lambda: listener.got)
        assert listener.got == [("status", b"silent", 1, False)]
    else:
        assert not together([listener, awake], lambda: listener.got, 3000)
    assert silent.connected  # it has not read its socket
    assert awake.counters()["outages"] == 0 and awake.counters()["pings"] >= 1


def test_qos_2(broker, join, level, together):
    """[MQTT-4.3.3-1] [MQTT5-3.2.2-11] A broker without QoS 2: the message is kept, and the error is reported; at level
    5 the broker says it before, and the message leaves at QoS 1."""
    if broker.qos_2:
        pytest.skip(f"{broker.name} has QoS 2: test_out_and_in shows it")
    sender = join(broker, "sender", backoff_ms=(10_000, 10_000))
    if level == 5:
        listener = join(broker, "listener", "t")
        sender.publish(f"{broker.root}/t", b"1", qos=2)
        assert sender.drain(5000) and sender.counters()["lowered"] == 1
        assert together([listener], lambda: listener.got == [("t", b"1", 1, False)])
        return
    sender.publish(f"{broker.root}/t", b"1", qos=2)
    assert not sender.drain(500)
    assert sender.pending == 1
    assert isinstance(sender.errors[0], ProtocolError)
    assert sender.counters()["protocol_errors"] == 1


def test_overrun(broker, join, together):
    """A broker that does not limit messages in flight sends more QoS 2 messages than receive_maximum. The client closes
    the connection, keeps the messages that it has received, and gets the others on the next connection."""
    if broker.window or not broker.qos_2:
        pytest.skip(f"{broker.name} has at most 20 messages in flight towards a client")
    listener = join(broker, "listener", "t", receive_maximum=4)
    sender = join(broker, "sender", max_inflight=100)
    for payload in numbers(100):
        sender.publish(f"{broker.root}/t", payload, qos=2)
    assert sender.drain(20_000)
    together([listener], lambda: len(listener.got) >= 100, 5_000)
    payloads = [payload for _, payload, _, _ in listener.got]
    assert len(payloads) == len(set(payloads))
    assert any(getattr(error, "errno", 0) == ENOBUFS for error in listener.errors)
    assert all(isinstance(error, OSError) for error in listener.errors)
    if broker.queues:
        assert sorted(payloads) == numbers(100)
