"""The broker restarts, or is killed, in the middle of everything; and so does the client. Payloads are numbers; what a
broker has acknowledged and then forgotten is its loss, and only that may be missing."""

import pytest

from inflight import FileFlash, RamFlash

COUNT = 60
WINDOW = 8


@pytest.fixture(params=[1, 2], ids=["qos1", "qos2"])
def qos(request, kind):
    if request.param == 2 and not kind.qos_2:
        pytest.skip(f"{kind.name} has no QoS 2")
    return request.param


def numbers(count=COUNT):
    return [b"%03d" % k for k in range(count)]


def check(broker, qos, payloads, sender, forgotten=0, keeps=True):
    """`payloads` arrived; the first `forgotten` numbers were acknowledged by a broker that then ended."""
    told = sender.counters()
    assert told["dropped"] == 0 and sender.pending == 0 or not broker.answers_pubrel
    missing = set(numbers()) - set(payloads)
    if not keeps:
        missing -= set(numbers(forgotten))  # the broker's loss: it had acknowledged them
    assert len(missing) <= sender.pending
    if qos == 2 and keeps:
        assert len(payloads) == len(set(payloads))
    if broker.ordered and keeps:
        first = list(dict.fromkeys(payloads))
        assert first == numbers(len(first))


def finish(broker, sender):
    """Until the broker has completed everything. One that leaves a PUBREL without an answer never does: the message is
    kept, and `pending` tells; when eight are, nothing else leaves any more, until that broker restarts."""
    done = sender.drain(20_000 if broker.answers_pubrel else 2_000)
    assert done or not broker.answers_pubrel


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_broker_ends(mortal, join, together, arrived, qos, end):
    """[MQTT-4.4.0-1] [MQTT-3.2.2-3] Twice, between messages that are on their way in both directions: what it had not
    acknowledged arrives; what it had, too, if it remembers; and subscriptions are made again if it does not."""
    keeps = mortal.survives_restart if end == "restart" else mortal.survives_kill
    listener = join(mortal, "listener", "t", qos=qos)
    sender = join(mortal, "sender")
    forgotten = 0
    for k, payload in enumerate(numbers()):
        if k in (20, 40):
            getattr(mortal, "stop" if end == "restart" else "kill")()
            forgotten = sender.counters()["completed"] + WINDOW  # PUBACK and PUBREC may be on their way
            mortal.start()
            connects = listener.counters()["connects"]
            assert keeps or together([listener], lambda: listener.counters()["connects"] > connects)  # noqa: B023
        sender.publish(f"{mortal.root}/t", payload, qos=qos)
        sender.run_for(1)
        listener.run_for(1)
    finish(mortal, sender)
    assert sender.counters()["accepted"] == COUNT
    assert together([listener], lambda: listener.connected)
    if not keeps:  # the client heard of it, and made its subscription again
        other = join(mortal, "other")
        other.publish(f"{mortal.root}/t", b"last", qos=1)
        assert other.drain(20_000)
        assert b"last" in arrived(mortal, listener, [b"last"])
    payloads = arrived(mortal, listener, numbers() if keeps else numbers()[forgotten:])
    check(mortal, qos, [p for p in payloads if p != b"last"], sender, forgotten, keeps)


def test_broker_is_away(mortal, join, arrived, qos):
    """[MQTT-4.1.0-1] The journal is the outbox: all that was published meanwhile arrives, in order."""
    listener = join(mortal, "listener", "t", qos=qos)
    sender = join(mortal, "sender")
    mortal.stop()
    for payload in numbers():
        sender.publish(f"{mortal.root}/t", payload, qos=qos)
    sender.run_for(10)
    assert sender.pending == COUNT
    mortal.start()
    listener.connect()
    assert sender.drain(20_000)
    check(mortal, qos, arrived(mortal, listener, numbers()), sender)


def test_client_restarts(mortal, join, make, arrived, tmp_path, qos):
    """[MQTT-4.1.0-1] [MQTT-3.3.1-1] Power is cut again and again between publish() and its end; a file is the flash."""
    listener = join(mortal, "listener", "t", qos=qos)
    flash = str(tmp_path / "flash")
    waiting = iter(numbers())
    for k in range(COUNT // 2):
        device = FileFlash(flash, blocks=4, block_size=4096)
        sender = join(mortal, "sender", device=device)
        for _ in range(2):
            sender.publish(f"{mortal.root}/t", next(waiting), qos=qos)
        if k % 3:
            sender.run_for(k % 4)
        make.cut_power(sender)
        device.close()
    sender = join(mortal, "sender", device=FileFlash(flash, blocks=4, block_size=4096))
    finish(mortal, sender)
    check(mortal, qos, arrived(mortal, listener, numbers()), sender)


def test_client_restarts_while_it_receives(mortal, join, make, arrived, qos):
    """[MQTT-4.3.3-2] Each QoS 2 message reaches a handler once, though the power is cut again and again."""
    if not mortal.queues:
        pytest.skip(f"{mortal.name} keeps nothing for a session that is away: test_session_resumes shows it")
    device = RamFlash()
    join(mortal, "listener", "t", device, qos=qos).disconnect()
    sender = join(mortal, "sender")
    for payload in numbers():
        sender.publish(f"{mortal.root}/t", payload, qos=qos)
    assert sender.drain(20_000)
    got = []

    def note(m):
        got.append(("t", m.payload, m.qos, m.retain))

    def next_life():
        client = join(mortal, "listener", device=device, on_message=note)
        client.got = got
        return client

    for _ in range(100):
        client = next_life()
        client.run_for(2)
        make.cut_power(client)
    payloads = arrived(mortal, next_life(), numbers())
    check(mortal, qos, payloads if mortal.resumes_in_order else sorted(payloads), sender)
