"""The flows of QoS 0, 1 and 2 in both directions, packet by packet, with a scripted broker."""

import contextlib
import threading
from array import array
from errno import ENOBUFS

import pytest

from host_tests.lib.either import only_blocking
from inflight import FileFlash, OutboxFull, ProtocolError, RamFlash
from inflight.cpython import stream
from nor import NorFlash, PowerCut
from tools.reference.kinds import PINGREQ, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL
from tools.reference.wire import connack, puback, pubcomp, publish, pubrec, pubrel

BOTH_CLIENTS = True


@pytest.fixture(params=["ram", "file"])
def device(request, tmp_path):
    """The flash of a journal, in RAM or in a file."""
    flash = RamFlash() if request.param == "ram" else FileFlash(str(tmp_path / "flash"), blocks=6, block_size=1024)
    yield flash
    flash.close()


# --- publishing ---


def deliver(client, qos):
    """Connects, publishes b"0", b"1" and so on at these QoS, and acknowledges them."""
    client.connect()
    for k, level in enumerate(qos):
        client.publish("t", b"%d" % k, qos=level)
    assert client.drain(60_000)


def test_qos_0(broker, make):
    """[MQTT-4.3.1-1] [MQTT-3.3.1-2] [MQTT-2.3.1-5] [MQTT-3.3.2-1] Sent once, without DUP or a Message ID."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.expect(PUBLISH, topic="a/b", payload=b"hello", qos=0, dup=False, retain=False)
        b.expect(PUBLISH, topic="a/ü", payload="é".encode(), qos=0, retain=True)
        b.expect(PUBLISH, topic="a", payload=b"", retain=True)
        b.answer_ping()

    with broker.play(script):
        client.connect()
        assert client.publish("a/b", b"hello") == 0
        client.publish("a/ü", "é", retain=True)
        client.publish("a", retain=True)
        client.ping()
    assert client.pending == 0


def test_qos_0_offline(make):
    """publish() raises, since a QoS 0 message is not kept."""
    client = make(1)
    with pytest.raises(OSError):
        client.publish("a", b"x")


def test_qos_1(broker, make, device):
    """[MQTT-4.3.2-1] [MQTT-2.3.1-1] [MQTT-3.3.1-1] PUBLISH without DUP, unacknowledged until PUBACK."""
    client = make(broker.port, device)
    seen = []

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH, topic="t", payload=b"one", qos=1, dup=False)
        seen.append(p.mid)
        b.answer_ping()
        b.answer_ping(puback(p.mid))

    with broker.play(script):
        client.connect()
        mid = client.publish("t", b"one", qos=1)
        client.ping()
        assert client.pending == 1
        client.ping()
    assert seen == [mid]
    assert client.pending == 0
    assert client.counters()["completed"] == 1


def test_qos_2(broker, make, device, pump):
    """[MQTT-4.3.3-1] [MQTT-2.3.1-6] [MQTT-3.6.1-1] PUBLISH, PUBREC, PUBREL and PUBCOMP have the same Message ID."""
    client = make(broker.port, device)

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH, topic="t", payload=b"two", qos=2, dup=False)
        b.answer_ping()
        b.send(pubrec(p.mid))
        b.expect(PUBREL, mid=p.mid, flags=2)
        b.answer_ping(pubcomp(p.mid))

    with broker.play(script):
        client.connect()
        client.publish("t", b"two", qos=2)
        client.ping()
        pump(client, lambda: broker.connection.packets[-1].kind == PUBREL)
        assert client.pending == 1
        client.ping()
        assert client.pending == 0
    assert client.counters()["completed"] == 1
    assert client.counters()["resent"] == 0


def test_a_packet_is_sent_in_one_write(broker, make, monkeypatch):
    """Two writes would cost 40 ms of delayed acknowledgement on a default socket."""
    client = make(broker.port)
    writes = []
    write = stream.write
    monkeypatch.setattr(stream, "write", lambda *of: writes.append(of) or write(*of))

    def script(b):
        b.welcome()
        for _ in range(3):
            b.expect(PUBLISH)

    with broker.play(script):
        client.connect()
        del writes[:]
        for qos in range(3):
            client.publish("topic", b"payload", qos=qos)
    assert len(writes) == 3


def test_offline_outbox(broker, make, device):
    """[MQTT-4.6.0-1] Messages accepted offline are sent in order after connect(), at first without DUP."""
    client = make(broker.port, device)
    for k in range(20):
        client.publish("t", b"%d" % k, qos=1 + k % 2)
    assert client.pending == 20
    got = []

    def script(b):
        b.welcome()
        ended = 0
        while ended < 20:
            p = b.receive()
            if p.kind == PUBLISH:
                assert not p.dup
                got.append(p.payload)
                b.send(puback(p.mid) if p.qos == 1 else pubrec(p.mid))
                ended += p.qos == 1
            else:
                assert p.kind == PUBREL
                b.send(pubcomp(p.mid))
                ended += 1

    with broker.play(script):
        client.connect()
        assert client.drain(60_000)
    assert got == [b"%d" % k for k in range(20)]


def test_max_inflight(broker, make, pump):
    """Up to max_inflight messages are pipelined; the others wait, and follow in order."""
    client = make(broker.port, max_inflight=3)

    def script(b):
        b.welcome()
        mids = [b.expect(PUBLISH, payload=b"%d" % k).mid for k in range(3)]
        b.answer_ping()  # no more messages were sent
        b.send(puback(mids[0]), puback(mids[1]))
        mids += [b.expect(PUBLISH, payload=b"%d" % k).mid for k in (3, 4)]
        b.answer_ping()
        b.send(*[puback(m) for m in mids[2:]])
        b.take(qos=1, payload=b"5")
        assert len(set(mids)) == 5

    with broker.play(script):
        client.connect()
        for k in range(6):
            client.publish("t", b"%d" % k, qos=1)
        client.ping()
        pump(client, lambda: client.counters()["sent"] == 5)
        client.ping()
        assert client.drain(60_000)


def test_max_inflight_of_one(broker, make):
    """[MQTT-4.6.0-6] Each message waits for the completion of the one before."""
    client = make(broker.port, max_inflight=1)

    def script(b):
        b.welcome()
        for k in range(5):
            b.take(payload=b"%d" % k, qos=2)

    with broker.play(script):
        deliver(client, [2] * 5)


def test_acks_out_of_order(broker, make):
    """[MQTT-4.3.2-1] Acknowledgements may come in any order."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        mids = [b.expect(PUBLISH).mid for _ in range(6)]
        b.send(*[puback(m) for m in reversed(mids)])

    with broker.play(script):
        deliver(client, [1] * 6)


def test_pubrel_in_the_order_of_pubrec(broker, make):
    """[MQTT-4.6.0-4] Even if PUBRECs arrive in another order than the messages were sent."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        mids = [b.expect(PUBLISH).mid for _ in range(5)]
        order = [mids[k] for k in (3, 0, 4, 1, 2)]
        b.send(*[pubrec(m) for m in order])
        assert [b.expect(PUBREL).mid for _ in order] == order
        b.send(*[pubcomp(m) for m in order])

    with broker.play(script):
        deliver(client, [2] * 5)


def test_repeated_acks(broker, make):
    """[MQTT-4.3.3-1] A second PUBACK or PUBCOMP is ignored, a second PUBREC is answered again."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        one, two = b.expect(PUBLISH).mid, b.expect(PUBLISH).mid
        b.send(puback(one), puback(one), pubrec(two), pubrec(two))
        b.expect(PUBREL, mid=two, flags=2)
        b.expect(PUBREL, mid=two, flags=2)
        b.send(pubcomp(two), pubcomp(two))
        b.answer_ping()

    with broker.play(script):
        deliver(client, [1, 2])
        client.ping()
    assert client.connected
    assert client.counters()["unknown_acks"] == 2
    assert client.counters()["completed"] == 2


def test_acks_for_unknown_ids(broker, make, pump):
    """[MQTT-4.3.3-1] [MQTT-4.3.3-2] These are legitimate after a power cut: PUBREC is answered with PUBREL, PUBREL
    with PUBCOMP, the others are counted."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.send(puback(77), pubcomp(78), pubrec(79), pubrel(80), pubrec(65535))
        b.expect(PUBREL, mid=79)
        b.expect(PUBCOMP, mid=80)
        b.expect(PUBREL, mid=65535)
        b.answer_ping()

    with broker.play(script):
        client.connect()
        pump(client, lambda: client.counters()["unknown_acks"] == 4)
        pump(client, lambda: broker.connection.packets[-1].mid == 65535)
        client.ping()


WRONG = {
    "PUBREC for QoS 1": (1, [pubrec]),
    "PUBCOMP for QoS 1": (1, [pubcomp]),
    "PUBACK for QoS 2": (2, [puback]),
    "PUBCOMP before PUBREC": (2, [pubcomp]),
    "PUBACK after PUBREC": (2, [pubrec, puback]),
}


@pytest.mark.parametrize("case", WRONG)
def test_acks_of_the_wrong_kind(broker, make, case):
    """[MQTT-4.8.0-1] [MQTT-4.3.2-1] [MQTT-4.3.3-1] A protocol error; the message stays in the journal, and is sent
    again."""
    client = make(broker.port)
    qos, answers = WRONG[case]

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH)
        b.send(*[answer(p.mid) for answer in answers])
        if len(answers) > 1:
            b.expect(PUBREL)
        b.expect_close()
        b.welcome(1)
        if len(answers) > 1:
            b.expect(PUBREL, mid=p.mid)
            b.send(pubcomp(p.mid))
            return
        b.take(mid=p.mid, dup=True)

    with broker.play(script):
        deliver(client, [qos])
    assert client.counters()["protocol_errors"] == 1


# --- redelivery ---


def test_redelivery(broker, make, device):
    """[MQTT-4.4.0-1] [MQTT-3.3.1-1] [MQTT-4.6.0-1] [MQTT-2.3.1-3] [MQTT31-13] Every unacknowledged PUBLISH and PUBREL
    is sent again: same ids, DUP, original order."""
    client = make(broker.port, device)

    def script(b):
        b.welcome()
        mids = [b.expect(PUBLISH, qos=1 + k % 2, dup=False).mid for k in range(6)]
        b.send(pubrec(mids[1]), puback(mids[2]), pubrec(mids[5]))
        b.expect(PUBREL, mid=mids[1])
        b.expect(PUBREL, mid=mids[5])
        b.cut()
        b.welcome(1)
        again = [b.receive() for _ in range(5)]
        publishes = [p for p in again if p.kind == PUBLISH]
        assert [(p.mid, p.dup, p.payload) for p in publishes] == [(mids[k], True, b"%d" % k) for k in (0, 3, 4)]
        releases = [p for p in again if p.kind == PUBREL]
        assert [(p.mid, p.flags) for p in releases] == [(mids[1], 2), (mids[5], 2)]
        b.send(puback(mids[0]), pubcomp(mids[1]), puback(mids[4]), pubcomp(mids[5]), pubrec(mids[3]))
        b.expect(PUBREL, mid=mids[3])
        b.send(pubcomp(mids[3]))

    with broker.play(script):
        deliver(client, [1, 2] * 3)
    assert client.counters()["completed"] == 6


def test_no_redelivery_while_connected(broker, make):
    """[MQTT31-12] [MQTT-4.4.0-1] At level 4 nothing is repeated on the same connection."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH)
        b.answer_ping()
        b.send(puback(p.mid))

    with broker.play(script):
        client.connect()
        client.publish("t", b"1", qos=1)
        client.run_for(100)
        client.ping()
        assert client.drain(60_000)


def test_retry_of_level_3(broker, make, pump):
    """[MQTT31-9] [MQTT31-12] Repeated with DUP while connected, at growing intervals; PUBREL with DUP too."""
    client = make(broker.port, protocol_level=3, retry_ms=30, clean_session=True)

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH, dup=False, qos=2)
        b.expect(PUBLISH, dup=True, mid=p.mid, payload=b"1")
        b.expect(PUBLISH, dup=True, mid=p.mid, payload=b"1")
        b.send(pubrec(p.mid))
        b.expect(PUBREL, mid=p.mid, flags=2)
        b.expect(PUBREL, mid=p.mid, flags=10)
        b.send(pubcomp(p.mid))

    with broker.play(script):
        client.connect()
        client.publish("t", b"1", qos=2)
        pump(client, lambda: not client.pending)


def test_pubrel_again_at_level_3(broker, make):
    """[MQTT31-9] [MQTT31-13] On the next connection PUBREL has DUP too."""
    client = make(broker.port, protocol_level=3)

    def script(b):
        b.welcome(clean=False)
        b.free_ids()
        p = b.expect(PUBLISH, qos=2, dup=False)
        b.send(pubrec(p.mid))
        b.expect(PUBREL, mid=p.mid, flags=2)
        b.cut()
        b.welcome()
        b.expect(PUBREL, mid=p.mid, flags=10)
        b.send(pubcomp(p.mid))

    with broker.play(script):
        deliver(client, [2])


def test_session_lost_by_the_broker(broker, make):
    """[MQTT-3.2.2-3] [MQTT-3.1.2-4] Session present = 0: PUBLISH and PUBREL are sent again."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        one, two, three = (b.expect(PUBLISH).mid for _ in range(3))
        b.send(pubrec(two))
        b.expect(PUBREL, mid=two)
        b.cut()
        b.welcome(0)
        again = {}
        for _ in range(3):
            p = b.receive()
            again[p.mid] = p
        assert again[one].kind == PUBLISH and again[one].dup
        assert again[two].kind == PUBREL
        assert again[three].kind == PUBLISH and again[three].dup
        b.send(puback(one), pubcomp(two), pubrec(three))
        b.expect(PUBREL, mid=three)
        b.send(pubcomp(three))

    with broker.play(script):
        deliver(client, [1, 2, 2])
    assert client.counters()["dropped"] == 0


def test_clean_session(broker, make, pump):
    """[MQTT-3.1.2-6] [MQTT-4.1.0-2] Messages in flight are discarded with their connection, and old ids have no
    meaning."""
    got = []
    client = make(broker.port, clean_session=True, on_message=lambda m: got.append(m.payload))

    def script(b):
        b.welcome(clean=True)
        b.expect(PUBLISH, payload=b"old")
        b.deliver("t", b"q2", 2, 5)
        b.cut()
        b.welcome(clean=True)
        b.deliver("t", b"q2 again", 2, 5)
        b.take(qos=1, payload=b"new", dup=False)

    with broker.play(script):
        client.connect()
        client.publish("t", b"old", qos=1)
        pump(client, lambda: len(got) >= 2)
        assert client.pending == 0
        client.publish("t", b"new", qos=1)
        assert client.drain(60_000)
    assert got == [b"q2", b"q2 again"]


def test_clean_session_of_a_journal(broker, make):
    """[MQTT-3.1.2-6] A confirmed clean session discards the messages that an earlier session has sent."""
    device = RamFlash()
    first = make(broker.port, device)

    def script(b):
        b.welcome()
        b.expect(PUBLISH, payload=b"old")
        b.cut()
        b.welcome(clean=True)
        b.answer_ping()

    with broker.play(script):
        first.connect()
        first.publish("t", b"old", qos=1)
        make.cut_power(first)
        second = make(broker.port, device, clean_session=True)
        second.connect()
        second.ping()
    assert second.pending == 0


def test_drain_after_messages_were_discarded(broker, make):
    """drain() returns True only if the broker completed all messages, not if a clean session discarded some."""
    client = make(broker.port, clean_session=True)

    def script(b):
        b.welcome(clean=True)
        b.expect(PUBLISH, payload=b"1")
        b.cut()
        b.welcome(clean=True)
        b.take(qos=1, payload=b"2")

    with broker.play(script):
        client.connect()
        client.publish("t", b"1", qos=1)
        assert not client.drain(60_000)
        assert client.pending == 0
        client.publish("t", b"2", qos=1)
        assert client.drain(60_000)


# --- flash with a volatile cache ---


def acknowledged(b):
    """A script that completes a message of QoS 1 and one of QoS 2."""
    b.welcome()
    b.take(qos=1)
    b.take(qos=2)


@pytest.mark.parametrize("rest", ["drain", "disconnect", "idle", "offline"])
def test_acknowledged_messages_are_not_sent_after_a_power_cut(broker, make, pump, rest):
    """After drain(), disconnect() or idle time the acknowledgements are durable."""
    device = NorFlash(4, 1024, 16, cache=True)
    client = make(broker.port, device, backoff_ms=(60_000, 60_000))

    def script(b):
        acknowledged(b)
        if rest == "offline":
            b.cut()
        elif rest == "disconnect":
            b.goodbye()

    with broker.play(script):
        client.connect()
        for qos in (1, 2):
            client.publish("t", b"x", qos=qos)
        if rest == "drain":
            assert client.drain(60_000)
        pump(client, lambda: not client.pending)
        if rest == "disconnect":
            client.disconnect()
        if rest == "offline":
            pump(client, lambda: not client.connected)
        if rest in ("idle", "offline"):
            pump(client, device.is_durable)
    make.cut_power(client)
    device.lose_power()
    assert make(broker.port, device).pending == 0


# --- restart ---


def restart(make, broker, device, client, **options):
    make.cut_power(client)
    return make(broker.port, device, **options)


def test_restart_after_publish(broker, make, device):
    """[MQTT-4.1.0-1] [MQTT-3.3.1-1] [MQTT-2.3.1-3] [MQTT-4.6.0-1] Power is cut before any answer: all messages are
    sent again, with the same ids and order, and DUP."""
    client = make(broker.port, device)
    mids = []

    def script(b):
        b.welcome()
        mids.extend(b.expect(PUBLISH).mid for _ in range(4))
        b.expect_close()
        b.welcome(1)
        for k in range(4):
            p = b.expect(PUBLISH, mid=mids[k], payload=b"%d" % k, qos=1 + k % 2, dup=True)
            b.send(puback(p.mid) if p.qos == 1 else pubrec(p.mid))
        for k in (1, 3):
            b.expect(PUBREL, mid=mids[k])
            b.send(pubcomp(mids[k]))

    with broker.play(script):
        client.connect()
        for k in range(4):
            client.publish("t", b"%d" % k, qos=1 + k % 2)
        client = restart(make, broker, device, client, max_inflight=8)
        assert client.pending == 4
        client.connect()
        assert client.drain(60_000)


def test_restart_after_pubrel(broker, make, device, pump):
    """[MQTT-4.3.3-1] [MQTT-4.1.0-1] Power is cut after PUBREL: PUBREL is sent again, not the PUBLISH."""
    client = make(broker.port, device)

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH)
        b.send(pubrec(p.mid))
        b.expect(PUBREL, mid=p.mid)
        b.expect_close()
        b.welcome(1)
        b.expect(PUBREL, mid=p.mid, flags=2)
        b.answer_ping()
        b.send(pubcomp(p.mid))

    with broker.play(script):
        client.connect()
        client.publish("t", b"1", qos=2)
        pump(client, lambda: broker.connection.packets[-1].kind == PUBREL)
        client = restart(make, broker, device, client)
        client.connect()
        client.ping()
        assert client.drain(60_000)


def test_restart_offline(broker, make, device):
    """[MQTT-4.1.0-1] [MQTT-3.3.1-1] Accepted, never sent, power cut: the message is delivered."""
    client = make(broker.port, device)
    mid = client.publish("t", b"1", qos=2)
    client = restart(make, broker, device, client)

    def script(b):
        b.welcome()
        b.expect(PUBLISH, mid=mid, payload=b"1", dup=False)
        b.send(pubrec(mid))
        b.expect(PUBREL, mid=mid)
        b.send(pubcomp(mid))

    with broker.play(script):
        client.connect()
        assert client.drain(60_000)
    assert make(broker.port, device).pending == 0


def test_restart_does_not_reuse_ids(broker, make, device):
    """[MQTT-2.3.1-2] New messages do not use the ids of recovered ones."""
    client = make(broker.port, device)
    old = [client.publish("t", b"%d" % k, qos=1) for k in range(5)]
    client = restart(make, broker, device, client)
    new = [client.publish("t", b"%d" % k, qos=1) for k in range(5)]
    assert len(set(old + new)) == 10


def test_restart_many_times(broker, make, device):
    """Twenty restarts with a message each, all offline; then all arrive in order."""
    for k in range(20):
        make(broker.port, device).publish("t", b"%d" % k, qos=1)
    client = make(broker.port, device)

    def script(b):
        b.welcome()
        for k in range(20):
            b.take(qos=1, payload=b"%d" % k)

    with broker.play(script):
        client.connect()
        assert client.drain(60_000)


# --- receiving ---


@pytest.fixture
def listen(make, broker):
    """listen() creates a client that records what its handler receives: (topic, payload, qos, dup, retain,
    redelivered)."""

    def start(device=None, **options):
        got = []

        def note(m):
            got.append((m.topic, m.payload, m.qos, m.dup, m.retain, m.redelivered))

        client = make(broker.port, device, on_message=note, **options)
        client.got = got
        return client

    return start


def test_receive_qos_0(broker, listen):
    """[MQTT-3.3.4-1] [MQTT-3.3.1-8] [MQTT-3.3.1-9] [MQTT-3.3.1-10] Delivered with its retain flag, not acknowledged."""
    client = listen()

    def script(b):
        b.welcome()
        b.send(publish("a", b"1"), publish("a/é", b"", retain=1))
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.ping()
    assert client.got == [("a", b"1", 0, False, False, False), ("a/é", b"", 0, False, True, False)]


def test_receive_qos_1(broker, listen, pump):
    """[MQTT-3.3.4-1] [MQTT-4.3.2-2] [MQTT-2.3.1-6] The handler runs before PUBACK; afterwards the id belongs to a new
    message, even with DUP."""
    client = listen()

    def script(b):
        b.welcome()
        for dup in (0, 1, 1):
            b.send(publish("a", b"x", 1, 9, dup))
            b.expect(PUBACK, mid=9)
        b.answer_ping()

    with broker.play(script):
        client.connect()
        pump(client, lambda: len(client.got) == 3)
        client.ping()
    assert [g[3] for g in client.got] == [False, True, True]
    assert not any(g[5] for g in client.got)


@pytest.mark.parametrize("qos, kind", [(1, PUBACK), (2, PUBREC)], ids=["PUBACK", "PUBREC"])
def test_answers_in_order(broker, listen, pump, qos, kind):
    """[MQTT-4.6.0-2] [MQTT-4.6.0-3] PUBACKs and PUBRECs are sent in the order of the messages."""
    client = listen()

    def script(b):
        b.welcome()
        b.send(*[publish("a", b"x", qos, m) for m in (7, 3, 65535, 1, 2)])
        assert [b.expect(kind).mid for _ in range(5)] == [7, 3, 65535, 1, 2]

    with broker.play(script):
        client.connect()
        pump(client, lambda: broker.finished)


def test_answers_of_all_kinds_in_order(broker, listen, pump):
    """[MQTT-4.6.0-2] [MQTT-4.6.0-3] [MQTT-4.6.0-4] Packets of all kinds in one read are answered in order."""
    client = listen()

    def script(b):
        b.welcome()
        b.send(publish("a", b"", 2, 1), publish("a", b"", 1, 2), pubrel(1), publish("a", b"", 2, 3), pubrec(9))
        got = [b.receive() for _ in range(5)]
        assert [(p.kind, p.mid) for p in got] == [(PUBREC, 1), (PUBACK, 2), (PUBCOMP, 1), (PUBREC, 3), (PUBREL, 9)]

    with broker.play(script):
        client.connect()
        pump(client, lambda: broker.finished)


def test_receive_qos_2(broker, listen, device, pump):
    """[MQTT-4.3.3-2] [MQTT-3.3.4-1] [MQTT-2.3.1-6] [MQTT31-18] Repetitions are answered and not delivered; after
    PUBCOMP the id belongs to a new message."""
    client = listen(device)

    def script(b):
        b.welcome()
        b.deliver("a", b"x", 2, 9)
        b.deliver("a", b"x", 2, 9, dup=1)
        b.send(publish("a", b"x", 2, 9, dup=0))  # the id decides, not DUP
        b.expect(PUBREC, mid=9)
        b.release(9)
        b.release(9)
        b.deliver("a", b"y", 2, 9, dup=1)
        b.release(9)

    with broker.play(script):
        client.connect()
        pump(client, lambda: broker.finished)
    assert [g[1] for g in client.got] == [b"x", b"y"]
    assert client.counters()["duplicates"] == 2


def test_both_directions_have_their_own_ids(broker, listen):
    """[MQTT-2.3.1-4] [MQTT31-8] The broker's Message ID 1 is independent of the client's."""
    client = listen()

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH, qos=2)
        b.deliver("a", b"x", 2, p.mid)
        b.send(pubrec(p.mid))
        b.expect(PUBREL, mid=p.mid)
        b.release(p.mid)
        b.send(pubcomp(p.mid))

    with broker.play(script):
        deliver(client, [2])
    assert len(client.got) == 1


def test_receive_qos_2_across_connections(broker, listen, pump):
    """[MQTT-4.3.3-2] [MQTT-4.4.0-1] PUBREC was lost with its connection: PUBREC is sent again, the message is not
    delivered again."""
    client = listen()

    def script(b):
        b.welcome()
        b.deliver("a", b"x", 2, 9)
        b.cut()
        b.welcome(1)
        b.deliver("a", b"x", 2, 9, dup=1)
        b.release(9)
        b.cut()
        b.welcome(1)
        b.release(9)

    with broker.play(script):
        client.connect()
        pump(client, lambda: client.counters()["connects"] == 3)
        pump(client, lambda: broker.finished)
    assert len(client.got) == 1


def test_received_ids_end_with_the_session(broker, listen, pump):
    """[MQTT-3.2.2-3] Session present = 0: the ids of received messages belong to new messages."""
    client = listen()

    def script(b):
        b.welcome()
        b.deliver("a", b"x", 2, 9)
        b.cut()
        b.welcome(0)
        b.deliver("a", b"y", 2, 9)

    with broker.play(script):
        client.connect()
        pump(client, lambda: len(client.got) == 2)
    assert [g[1] for g in client.got] == [b"x", b"y"]


def test_restart_after_pubrec(broker, listen, device, make, pump):
    """[MQTT-4.1.0-1] [MQTT-4.3.3-2] The id survives a power cut: the message is not delivered again; PUBREC and
    PUBCOMP are sent."""
    client = listen(device)

    def script(b):
        b.welcome()
        b.deliver("a", b"x", 2, 9)
        b.expect_close()
        b.welcome(1)
        b.deliver("a", b"x", 2, 9, dup=1)
        b.release(9)
        b.deliver("a", b"new", 2, 9)

    with broker.play(script):
        client.connect()
        pump(client, lambda: broker.connection.packets[-1].kind == PUBREC)
        make.cut_power(client)
        second = listen(device)
        second.connect()
        pump(second, lambda: second.got)
    assert len(client.got) == 1
    assert second.got == [("a", b"new", 2, False, False, False)]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_power_cut_in_the_handler(broker, make, device, pump, qos):
    """[MQTT-4.3.3-2] [MQTT-4.3.2-2] Nothing was acknowledged, and the message is delivered again, at QoS 2 with
    `redelivered`."""

    def dying(m):
        raise PowerCut

    client = make(broker.port, device, on_message=dying)
    got = []

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        b.send(publish("a", b"x", qos, 9))
        b.expect_close()
        b.welcome(1)
        if qos:
            b.send(publish("a", b"x", qos, 9, dup=1))
            p = b.expect(PUBACK if qos == 1 else PUBREC, mid=9)
        if qos == 2:
            b.deliver("a", b"x", 2, 9, dup=1)
            b.send(pubrel(p.mid))
            b.expect(PUBCOMP, mid=9)
        b.send(publish("a", b"y", qos, 10))

    with broker.play(script):
        client.connect()
        with pytest.raises(PowerCut):
            client.ping()
        make.cut_power(client)
        second = make(broker.port, device, on_message=lambda m: got.append((m.payload, m.redelivered)))
        second.connect()
        pump(second, lambda: (b"y", False) in got)
    assert got == {0: [], 1: [(b"x", False)], 2: [(b"x", True)]}[qos] + [(b"y", False)]


def test_too_many_qos_2_without_pubrel(broker, make):
    """The client's memory is limited; it closes the connection. This is not a protocol error, since CONNECT of 3.1.1
    cannot announce the limit."""
    client = make(broker.port, receive_maximum=3)

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        for m in (1, 2, 3):
            b.deliver("a", b"x", 2, m)
        b.send(publish("a", b"x", 2, 4))
        b.expect_close()

    with broker.play(script):
        client.connect()
        with pytest.raises(OSError, match="receive_maximum") as caught:
            client.ping()
    assert caught.value.errno == ENOBUFS
    assert client.counters()["protocol_errors"] == 0


def test_messages_go_out_while_qos_2_finds_no_space(broker, make, pump):
    """A QoS 2 message without space ends its connection when the client's own messages are acknowledged. Until then no
    other one goes before it [MQTT-4.6.0-3]."""
    got, errors = [], []
    callbacks = {"on_message": lambda m: got.append(m.payload), "on_error": errors.append}
    client = make(broker.port, receive_maximum=1, backoff_ms=(1, 1), **callbacks)
    for _ in range(3):
        client.publish("b", b"x", 1)

    def script(b):
        b.welcome()
        b.send(*(publish("a", b"%d" % mid, 2, mid) for mid in (1, 2, 3)))
        own = []
        kinds = set()
        while len(own) < 3 or PUBCOMP not in kinds:
            p = b.receive()
            kinds.add(p.kind)
            if p.kind == PUBLISH:
                own.append(p.mid)
            elif p.kind == PUBREC:
                assert p.mid == 1
                b.send(pubrel(1), publish("a", b"4", 2, 4))
        b.send(*map(puback, own))
        b.expect_close()
        b.welcome(1)
        for mid in (2, 3, 4):
            b.deliver("a", b"%d" % mid, 2, mid, dup=True)
            b.release(mid)

    with broker.play(script):
        client.connect()
        pump(client, lambda: len(got) == 4)
    assert got == [b"1", b"2", b"3", b"4"] and not client.pending
    assert [e.errno for e in errors] == [ENOBUFS]


def test_more_in_flight_than_receive_maximum(broker, make, pump):
    """Each connection receives some; a client with a small table receives all of them, once."""
    got = []
    client = make(broker.port, receive_maximum=1, backoff_ms=(1, 1), on_message=lambda m: got.append(m.payload))

    def script(b):
        flight = {mid: b"%d" % mid for mid in (1, 2, 3)}
        while flight:
            b.welcome(1)
            b.send(*(publish("a", payload, 2, mid, dup=True) for mid, payload in flight.items()))
            mid = b.expect(PUBREC).mid
            del flight[mid]
            if flight:
                b.expect_close()
                b.welcome(1)
            b.release(mid)
            b.cut()
        over.set()

    over = threading.Event()
    with broker.play(script):
        pump(client, over.is_set)
    assert got == [b"1", b"2", b"3"]


def test_pubrel_before_pubrec(broker, make):
    """[MQTT-4.8.0-1] PUBREL for a message that was not acknowledged, since its handler was interrupted, is a protocol
    error."""
    device = RamFlash()

    def dying(m):
        raise PowerCut

    client = make(broker.port, device, on_message=dying)

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        b.send(publish("a", b"x", 2, 9))
        b.expect_close()
        b.welcome(1)
        b.expect(PINGREQ)
        b.send(pubrel(9))
        b.expect_close()

    with broker.play(script):
        client.connect()
        with pytest.raises(PowerCut):
            client.ping()
        make.cut_power(client)
        second = make(broker.port, device)
        second.connect()
        with pytest.raises(ProtocolError):
            second.ping()


# --- large payloads ---


def big(n):
    return bytes((k * 13 + k // 251) & 255 for k in range(n))


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("size", [100, 117, 118, 119, 120, 121, 122, 128, 129, 500, 20_000])
def test_large_payload_out(broker, make, qos, size):
    """A payload longer than the buffer is sent in chunks, at QoS 0 from the caller's buffer, at QoS 1 and 2 from
    flash."""
    client = make(broker.port, RamFlash(16, 32768) if size > 900 else RamFlash(4, 2048), buffer=bytearray(256))

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH, topic="topic", payload=big(size), qos=qos, dup=False)
        b.expect(PUBLISH, payload=b"next", qos=0)
        if qos:
            b.cut()
            b.welcome(1)
            b.take(topic="topic", payload=big(size), qos=qos, mid=p.mid, dup=True)

    with broker.play(script):
        client.connect()
        client.publish("topic", big(size), qos=qos)
        client.publish("t", b"next")
        assert client.drain(60_000)


def test_very_large_payload_out(broker, make):
    """A megabyte at QoS 0, while the broker is slow to read."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.expect(PUBLISH, payload=big(1_000_000))
        b.answer_ping()

    with broker.play(script):
        client.connect()
        client.publish("t", big(1_000_000))
        client.ping()


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("size", [0, 5, 1000])
def test_payload_types(broker, make, form, size):
    """bytes, bytearray and memoryview, short and long."""
    client = make(broker.port, RamFlash(4, 4096), buffer=bytearray(256))

    def script(b):
        b.welcome()
        for qos in range(3):
            b.expect(PUBLISH, payload=big(size), qos=qos)

    with broker.play(script):
        client.connect()
        for qos in range(3):
            client.publish("t", form(big(size)), qos=qos)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("size", [3, 300])
def test_payload_of_wide_items(broker, make, qos, size):
    """A memoryview of 16-bit items is sent as its bytes or raises ValueError; never a part of it."""
    client = make(broker.port, RamFlash(4, 4096), buffer=bytearray(256))
    items = array("H", range(size))

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH)
        assert p.payload in (b"after", items.tobytes())

    with broker.play(script):
        client.connect()
        with contextlib.suppress(ValueError):
            client.publish("t", memoryview(items), qos=qos)
        client.publish("t", b"after")


def test_payload_longer_than_the_journal(broker, make):
    """ValueError, and nothing is written; the next message is sent."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.take(qos=1, payload=b"small")

    with broker.play(script):
        client.connect()
        with pytest.raises(ValueError):
            client.publish("t", bytes(5000), qos=1)
        client.publish("t", b"small", qos=1)
        assert client.drain(60_000)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_large_payload_in(broker, make, pump, qos):
    """A streaming handler receives a payload longer than the buffer in chunks; it is acknowledged once."""
    pieces = []
    client = make(broker.port, buffer=bytearray(256))
    client.subscribe("big", qos, lambda m: pieces.append((m.topic, m.offset, m.payload, m.size)), stream=True)

    def script(b):
        b.welcome()
        b.grant()
        b.deliver("big", big(5000), qos, 7)
        b.answer_ping()

    with broker.play(script):
        client.connect()
        pump(client, lambda: sum(len(p[2]) for p in pieces) >= 5000)
        client.ping()
    assert b"".join(p[2] for p in pieces) == big(5000)
    assert all(p[0] == "big" and p[3] == 5000 for p in pieces)
    assert [p[1] for p in pieces] == [sum(len(q[2]) for q in pieces[:k]) for k in range(len(pieces))]


@pytest.mark.parametrize("qos", [1, 2])
def test_too_large_for_the_handler(broker, make, pump, qos):
    """[MQTT-4.5.0-2] Without a streaming handler the message is counted and acknowledged."""
    got = []
    client = make(broker.port, on_message=lambda m: got.append(m.payload), buffer=bytearray(256))

    def script(b):
        b.welcome()
        b.deliver("big", big(5000), qos, 7)
        b.deliver("t" * 300, b"x", qos, 8)
        b.send(publish("small", b"small"))

    with broker.play(script):
        client.connect()
        pump(client, lambda: got)
    assert got == [b"small"]
    assert client.counters()["too_long"] == 2


# --- invalid arguments ---


BAD = [
    {"topic": ""},
    {"topic": "#"},
    {"topic": "a/+"},
    {"topic": "a\0"},
    {"topic": "x" * 65536},
    {"topic": "x" * 70_000},
    {"topic": b"\xff"},
    {"topic": "\ud800"},
    {"topic": None},
    {"qos": 3},
    {"qos": -1},
    {"qos": None},
    {"payload": None},
    {"payload": 5},
    {"payload": [1, 2]},
]


@pytest.mark.parametrize("mistake", BAD, ids=lambda m: repr(m)[:30])
def test_bad_publish(broker, make, mistake):
    """[MQTT-3.3.2-1] [MQTT-3.3.2-2] [MQTT-4.7.1-1] [MQTT-4.7.3-1] [MQTT-4.7.3-2] [MQTT-4.7.3-3] [MQTT-1.5.3-1]
    [MQTT-3.3.1-4] ValueError before a byte is sent; the next packet is sent correctly."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        b.expect(PUBLISH, payload=b"after")

    with broker.play(script):
        client.connect()
        for qos in (0, 1):
            with pytest.raises(ValueError):
                client.publish(**{"topic": "t", "payload": b"x", "qos": qos, **mistake})
        client.publish("t", b"after")
    assert client.pending == 0


def test_topic_longer_than_the_buffer(broker, make):
    """ValueError: the header of a packet must fit the buffer."""
    client = make(broker.port, buffer=bytearray(128))

    def script(b):
        b.welcome()
        b.expect(PUBLISH, payload=b"after")

    with broker.play(script):
        client.connect()
        for qos in range(3):
            with pytest.raises(ValueError):
                client.publish("t" * 64, b"x", qos=qos)
        client.publish("t", b"after")
    assert client.pending == 0


def test_topics_of_level_3(make):
    """[MQTT31-23] At most 32767 bytes."""
    client = make(1, False, protocol_level=3, buffer=bytearray(200_000))
    with pytest.raises(ValueError, match="32767"):
        client.publish("t" * 32_768, b"")


def test_qos_without_a_journal(make):
    """Without a journal only QoS 0 is possible."""
    client = make(1, False)
    for qos in (1, 2):
        with pytest.raises(ValueError):
            client.publish("t", b"x", qos=qos)


def test_name_changed_between_publishes(broker, make):
    """A cached topic is not used for another one."""
    client = make(broker.port)
    topics = ["a", "b", "b", "a", b"a", "a" * 1]

    def script(b):
        b.welcome()
        for topic in topics:
            b.expect(PUBLISH, topic=topic if isinstance(topic, str) else topic.decode())

    with broker.play(script):
        client.connect()
        for topic in topics:
            client.publish(topic, b"")
        with pytest.raises(ValueError):
            client.publish("#", b"")


# --- a full outbox ---


def fill(client, qos=1):
    n = 0
    while True:
        try:
            client.publish("t", b"%060d" % n, qos=qos)
        except OutboxFull:
            return n
        n += 1
        assert n < 1000


def test_outbox_full(broker, make, device):
    """A full journal raises OutboxFull; accepted messages arrive in order, and then there is space again."""
    client = make(broker.port, device)
    n = fill(client)
    assert n > 10
    assert client.pending == n
    fresh = make(broker.port, device)
    assert fresh.pending == n

    def script(b):
        b.welcome()
        for k in range(n + 1):
            b.take(qos=1, payload=b"%060d" % k)

    with broker.play(script):
        fresh.connect()
        assert fresh.drain(60_000)
        fresh.publish("t", b"%060d" % n, qos=1)
        assert fresh.drain(60_000)


def test_full_outbox_empties_while_publishing(broker, make):
    """While the broker acknowledges messages, publish() waits for space, with a time-out."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        for k in range(500):
            b.take(qos=1, payload=b"%060d" % k)

    with broker.play(script):
        client.connect()
        for k in range(500):
            client.publish("t", b"%060d" % k, qos=1)
        assert client.drain(60_000)


@pytest.mark.parametrize("drop", ["oldest", "newest"])
def test_drop_policies(broker, make, drop):
    """The caller's policy applies, and drops are counted; messages in flight are never dropped."""
    client = make(broker.port, when_full=drop, max_inflight=4)
    n = 200
    for k in range(n):
        client.publish("t", b"%060d" % k, qos=1)
    kept = client.pending
    dropped = client.counters()["dropped"]
    assert kept + dropped == n and dropped > 50
    got = []

    def script(b):
        b.welcome()
        for _ in range(kept):
            p = b.expect(PUBLISH)
            got.append(int(p.payload))
            b.send(puback(p.mid))

    with broker.play(script):
        client.connect()
        assert client.drain(60_000)
    assert got == sorted(got)
    if drop == "newest":
        assert got == list(range(kept))
    else:
        assert got == [0, 1, 2, 3, *range(n - kept + 4, n)]


def test_dropped_messages_stay_dropped(broker, make):
    """A message dropped by when_full="oldest" does not return after a restart."""
    device = RamFlash()
    client = make(broker.port, device, when_full="oldest")
    for k in range(100):
        client.publish("t", b"%060d" % k, qos=1)
    assert make(broker.port, device).pending == client.pending


# --- ids ---


def test_ids_wrap(broker, make, pump):
    """[MQTT-2.3.1-1] [MQTT-2.3.1-2] 1 follows 65535; an id in use is skipped."""
    client = make(broker.port, max_inflight=4)
    client.session.last_mid = 65533

    def script(b):
        b.welcome()
        held = b.expect(PUBLISH, payload=b"held")
        assert held.mid == 65534
        mids = []
        for _ in range(3):
            p = b.expect(PUBLISH)
            mids.append(p.mid)
            b.send(puback(p.mid))
        assert mids == [65535, 1, 2]
        client.session.last_mid = 65533
        b.send(puback(60000))
        p = b.expect(PUBLISH)
        assert p.mid == 65535
        b.send(puback(p.mid), puback(held.mid))

    with broker.play(script):
        client.connect()
        client.publish("t", b"held", qos=1)
        for _ in range(3):
            client.publish("t", b"x", qos=1)
        pump(client, lambda: client.pending == 1 and client.counters()["unknown_acks"] == 1)
        client.publish("t", b"y", qos=1)
        assert client.drain(60_000)


def test_ids_of_queued_messages_are_in_use(broker, make):
    """[MQTT-2.3.1-2] Messages that wait in the journal keep their ids, across the wrap as well."""
    device = RamFlash()
    client = make(broker.port, device, max_inflight=2)
    client.session.last_mid = 65530
    mids = [client.publish("t", b"x", qos=1) for _ in range(20)]
    assert len(set(mids)) == 20 and 0 not in mids
    client = make(broker.port, device, max_inflight=2)
    mids += [client.publish("t", b"x", qos=1) for _ in range(5)]
    assert len(set(mids)) == 25 and 0 not in mids


def test_ids_after_many_messages(broker, make):
    """[MQTT-2.3.1-2] Of 66,000 ids none is 0, and none is the one that stays in use."""
    client = make(broker.port, RamFlash(8, 4096), max_inflight=2)
    session = client.session
    held = client.publish("t", b"held", qos=1)
    seen = set()
    for _ in range(66_000):
        mid = session.last_mid = session.free_mid(0)
        assert 0 < mid < 65536 and mid != held
        seen.add(mid)
    assert len(seen) == 65534


def test_refused_publishes_use_no_ids(make):
    """[MQTT-2.3.1-2] After any number of OutboxFull the next message gets the next id."""
    client = make(1)
    last = 0
    with pytest.raises(OutboxFull):
        while True:
            last = client.publish("t", bytes(60), qos=1)
    for _ in range(100):
        with pytest.raises(OutboxFull):
            client.publish("t", bytes(60), qos=1)
    assert client.session.free_mid(0) == last + 1


@pytest.mark.parametrize("drop", ["oldest", "newest"])
def test_message_too_long_drops_no_other(make, drop):
    """A message that never fits raises ValueError, whatever the policy of a full journal."""
    client = make(1, when_full=drop)
    for n in range(12):
        client.publish("t", b"%d" % n, qos=1)
    with pytest.raises(ValueError):
        client.publish("t", bytes(5000), qos=1)
    assert client.pending == 12
    assert client.counters()["dropped"] == 0


@only_blocking
def test_connect_again_inside_a_flow(broker, make):
    """connect() while connected sends DISCONNECT first, so that the will is not published; nothing is lost."""
    client = make(broker.port)

    def script(b):
        b.welcome()
        p = b.expect(PUBLISH)
        b.goodbye()
        b.called()
        b.send(connack(1))
        b.expect(PUBLISH, mid=p.mid, dup=True)
        b.send(puback(p.mid))

    with broker.play(script):
        client.connect()
        client.publish("t", b"1", qos=1)
        client.connect()
        assert client.drain(60_000)
