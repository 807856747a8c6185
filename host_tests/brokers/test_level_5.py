"""What brokers do with the features of MQTT 5."""

import time

import pytest

from inflight import RamFlash, properties
from inflight.level5.properties5 import NO_LOCAL, RETAIN_AS_PUBLISHED, RETAIN_IF_NEW, RETAIN_NEVER

pytestmark = pytest.mark.parametrize("level", [5], indirect=True, ids=[""])


def test_expiry(broker, join, together):
    """[MQTT5-3.3.2-6] What waits too long is not delivered; what is delivered has waited so long less. Properties stay
    with a message that waits."""
    listener, got = join(broker, "listener", device=RamFlash()), []
    listener.subscribe(f"{broker.root}/t", 2, lambda m: got.append((m.payload, m.content_type, m.user, m.expiry)))
    listener.disconnect()
    sender = join(broker, "sender")
    for seconds in (1, 1000):
        given = properties(seconds, "text/plain", user=[("a", "1"), ("a", "2")])
        sender.publish(f"{broker.root}/t", b"%d" % seconds, 1, properties=given)
    assert sender.drain(5000)
    time.sleep(2.1)  # the broker's clock
    listener.connect()
    assert together([listener], lambda: got)
    listener.ping()
    (found,) = got
    assert found[:3] == (b"1000", "text/plain", [("a", "1"), ("a", "2")]) and found[3] <= 998


def test_aliases(broker, join, arrived, together):
    """[MQTT5-3.3.2-12] As many topics as the broker allows leave without their name, on each of three connections."""
    listener = join(broker, "listener", "#")
    sender = join(broker, "sender", aliases=20)
    for k in range(90):
        if k % 30 == 29:
            assert sender.drain(5000)
            sender.connect()
        sender.publish(f"{broker.root}/topic/{k % 15}", b"%02d" % k, k % 2)
    assert sender.drain(5000)
    assert together([listener], lambda: len(listener.got) == 90)
    assert sorted((topic, payload) for topic, payload, _, _ in listener.got) == sorted(
        (f"topic/{k % 15}", b"%02d" % k) for k in range(90)
    )
    assert sender.errors == []


def test_options_of_a_subscription(broker, join, together):
    """[MQTT5-3.8.3-3] [MQTT5-3.3.1-12] [MQTT5-3.3.1-13] Not what the client publishes itself; RETAIN as published, or
    cleared; retained messages never, or once."""
    sender = join(broker, "sender")
    sender.publish(f"{broker.root}/kept", b"old", 1, retain=True)
    assert sender.drain(5000)
    client = join(broker, "client")
    options = {"own": 1 | NO_LOCAL, "kept": 1 | RETAIN_NEVER | RETAIN_AS_PUBLISHED, "plain": 1}
    for name, qos in options.items():
        client.subscribe(
            f"{broker.root}/{name}", qos, lambda m, name=name: client.got.append((name, m.payload, m.retain))
        )
    client.publish(f"{broker.root}/own", b"mine", 1)
    assert client.drain(5000)
    for name in options:
        sender.publish(f"{broker.root}/{name}", b"new", 1, retain=True)
    assert sender.drain(5000)
    assert together([client], lambda: len(client.got) == 3)
    assert sorted(client.got) == [("kept", b"new", True), ("own", b"new", False), ("plain", b"new", False)]
    for _ in range(2):
        client.subscribe(f"{broker.root}/kept", 1 | RETAIN_IF_NEW, print)
    client.ping()
    assert len(client.got) == 3
    for name in options:
        sender.publish(f"{broker.root}/{name}", b"", 1, retain=True)
    assert sender.drain(5000)


def test_session_expiry(broker, join):
    """[MQTT5-3.1.2-23] A session ends when its time has passed without a connection, and not before."""
    for seconds, present in ((1, False), (1000, True)):
        device = RamFlash()
        client = join(broker, f"dev{seconds}", "t", device, session_expiry=seconds)
        client.disconnect()
        client.connect()
        assert client.session.present
        client.disconnect()
        time.sleep(0 if present else 2.1)  # the broker's clock
        client.connect()
        assert client.session.present == present
        client.disconnect()


@pytest.mark.parametrize("way", ["vanishes", "comes back"])
def test_will_delay(broker, join, make, together, way):
    """The will is published when the delay has passed, unless the client is back before."""
    listener = join(broker, "listener", "w")
    device = RamFlash()
    delay = 60 if way == "comes back" else 1
    client = join(
        broker, "dev", device=device, will=(f"{broker.root}/w", b"gone", 1, False, properties(will_delay=delay))
    )
    make.cut_power(client)
    if way == "comes back":
        client = join(broker, "dev", device=device)
        listener.ping()
        assert client.ping() >= 0 and listener.got == []
    else:
        assert together([listener], lambda: listener.got)
        assert listener.got == [("w", b"gone", 1, False)]


def test_nobody_listens(broker, join):
    """[MQTT5-3.4.2-1] A broker may say that a message has no subscriber: that is counted, and no error."""
    sender = join(broker, "sender")
    sender.publish(f"{broker.root}/nobody", b"x", 1)
    assert sender.drain(5000)
    assert sender.counters()["unheard"] == 1 and not sender.errors


def test_taken_over(broker, join, together):
    """[MQTT5-3.1.4-3] The first of two clients with one id is told why its connection ends."""
    first = join(broker, "twin", backoff_ms=(10_000, 60_000))
    join(broker, "twin", clean_session=True, backoff_ms=(10_000, 60_000))
    assert together([first], lambda: not first.connected)
    assert first.errors[0].code == 0x8E and first.counters()["taken_over"] == 1


def test_shared_subscription(broker, join, together):
    """Each message goes to one of the group."""
    group = [join(broker, f"worker{k}") for k in range(2)]
    for worker in group:
        worker.subscribe(f"$share/g/{broker.root}/jobs", 1, lambda m, worker=worker: worker.got.append(m.payload))
    sender = join(broker, "sender")
    for k in range(20):
        sender.publish(f"{broker.root}/jobs", b"%02d" % k, 1)
    assert sender.drain(5000)
    if not broker.shared:
        assert sender.counters()["unheard"] == 20
        return
    assert together(group, lambda: sum(len(worker.got) for worker in group) >= 20)
    assert sorted(payload for worker in group for payload in worker.got) == [b"%02d" % k for k in range(20)]


def test_a_first_session_over_a_restart(mortal, join):
    """[MQTT5-3.1.2-23] The broker has the sessions of clients that connected once: with a new journal, also if an old
    session had to end before, and without a journal, which begins with Clean Start."""
    if not mortal.survives_restart:
        pytest.skip(f"{mortal.name} keeps no sessions")
    new = join(mortal, "new", "t")
    join(mortal, "erased", "t").disconnect()
    erased = join(mortal, "erased", "t")
    bare = join(mortal, "bare", "t", device=False)
    mortal.stop()
    mortal.start()
    for client, kept in ((new, True), (erased, True), (bare, mortal.saves_clean_start)):
        client.connect()
        assert client.session.present == kept


def test_an_unknown_session_ends_silently(broker, join, together):
    """[MQTT5-3.2.2-4] Its messages and its subscription are gone, and its will is not published, although the broker is
    still sending its messages when the client leaves."""
    observer = join(broker, "observer", "#", buffer=bytearray(1 << 19), device=RamFlash(128, 1 << 16))
    join(broker, "erased", "old").disconnect()
    for _ in range(20):
        observer.publish(f"{broker.root}/old", bytes(60_000), 1)
    assert observer.drain(30_000) and together([observer], lambda: len(observer.got) == 20)
    observer.got.clear()
    erased = join(broker, "erased", "new", will=(f"{broker.root}/will", b"gone", 1, False))
    assert erased.counters()["connects"] == 1
    for topic in ("old", "new"):
        observer.publish(f"{broker.root}/{topic}", b"now", 2)
    assert together([observer, erased], lambda: len(observer.got) >= 2 and erased.got)
    assert [topic for topic, *_ in observer.got] == ["old", "new"]
    assert [got[:2] for got in erased.got] == [("new", b"now")]
