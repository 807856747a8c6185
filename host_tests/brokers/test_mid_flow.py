"""The broker or the client restarts, or is killed, while messages are in flight. Payloads are numbers. Only messages
that the broker had acknowledged and then lost may be missing."""

import pytest

from host_tests.brokers.conftest import numbers
from inflight import FileFlash, RamFlash

COUNT = 60
WINDOW = 8
pytestmark = pytest.mark.parametrize("qos", [1, 2], ids=["qos1", "qos2"], indirect=True)


def check(broker, qos, payloads, sender, forgotten=0, keeps=True):
    """`payloads` arrived. The broker may have acknowledged the first `forgotten` numbers before it was stopped."""
    result = sender.counters()
    assert result["dropped"] == 0 and sender.pending == 0 or not broker.answers_pubrel
    missing = set(numbers(COUNT)) - set(payloads)
    if not keeps:
        missing -= set(numbers(forgotten))  # the broker's loss: it had acknowledged them
    assert len(missing) <= sender.pending
    if qos == 2 and keeps:
        assert len(payloads) == len(set(payloads))
    if broker.ordered and keeps:
        first = list(dict.fromkeys(payloads))
        assert first == numbers(len(first))


def finish(broker, sender):
    """Waits until the broker has acknowledged everything. A broker that does not answer some PUBREL never does: these
    messages stay in flight (`pending`), and with eight of them no other message is sent until the broker restarts."""
    done = sender.drain(20_000 if broker.answers_pubrel else 2_000)
    assert done or not broker.answers_pubrel


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_broker_ends(mortal, join, together, arrived, qos, end):
    """[MQTT-4.4.0-1] [MQTT-3.2.2-3] Twice, with messages in flight in both directions. Unacknowledged messages arrive.
    Acknowledged ones arrive if the broker keeps its session; if not, the client subscribes again."""
    keeps = mortal.survives_restart if end == "restart" else mortal.survives_kill
    listener = join(mortal, "listener", "t", qos=qos)
    if end == "kill" and not mortal.survives_early_kill:
        mortal.restart()  # an orderly stop stores the subscription
        listener.connect()
    sender = join(mortal, "sender")
    forgotten = 0
    for k, payload in enumerate(numbers(COUNT)):
        if k in (20, 40):
            getattr(mortal, "stop" if end == "restart" else "kill")()
            forgotten = sender.counters()["completed"] + WINDOW  # some PUBACK and PUBREC may not have arrived
            mortal.start()
            connects = listener.counters()["connects"]
            assert keeps or together([listener], lambda: listener.counters()["connects"] > connects)  # noqa: B023
        sender.publish(f"{mortal.root}/t", payload, qos=qos)
        sender.run_for(1)
        listener.run_for(1)
    finish(mortal, sender)
    assert sender.counters()["accepted"] == COUNT
    assert together([listener], lambda: listener.connected)
    if not keeps:  # the client has subscribed again
        other = join(mortal, "other")
        other.publish(f"{mortal.root}/t", b"last", qos=1)
        assert other.drain(20_000)
        assert b"last" in arrived(mortal, listener, [b"last"])
    payloads = arrived(mortal, listener, numbers(COUNT) if keeps else numbers(COUNT)[forgotten:])
    check(mortal, qos, [p for p in payloads if p != b"last"], sender, forgotten, keeps)


def test_broker_is_down(mortal, join, arrived, qos):
    """[MQTT-4.1.0-1] All that was published meanwhile arrives in order."""
    listener = join(mortal, "listener", "t", qos=qos)
    sender = join(mortal, "sender")
    mortal.stop()
    for payload in numbers(COUNT):
        sender.publish(f"{mortal.root}/t", payload, qos=qos)
    sender.run_for(10)
    assert sender.pending == COUNT
    mortal.start()
    listener.connect()
    assert sender.drain(20_000)
    check(mortal, qos, arrived(mortal, listener, numbers(COUNT)), sender)


def test_client_restarts(mortal, join, make, arrived, tmp_path, qos):
    """[MQTT-4.1.0-1] [MQTT-3.3.1-1] The power is cut repeatedly between publish() and its completion."""
    listener = join(mortal, "listener", "t", qos=qos)
    flash = str(tmp_path / "flash")
    waiting = iter(numbers(COUNT))
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
    check(mortal, qos, arrived(mortal, listener, numbers(COUNT)), sender)


def test_client_restarts_while_it_receives(mortal, join, make, arrived, qos):
    """[MQTT-4.3.3-2] Each QoS 2 message reaches a handler once, although the power is cut repeatedly."""
    if not mortal.queues:
        pytest.skip(f"{mortal.name} stores nothing for an offline session: see test_session_resumes")
    device = RamFlash()
    join(mortal, "listener", "t", device, qos=qos).disconnect()
    sender = join(mortal, "sender")
    for payload in numbers(COUNT):
        sender.publish(f"{mortal.root}/t", payload, qos=qos)
    assert sender.drain(20_000)
    got = []

    def note(m):
        got.append(("t", m.payload, m.qos, m.retain))

    def restart():
        client = join(mortal, "listener", device=device, on_message=note)
        vars(client)["got"] = got
        return client

    for _ in range(100):
        client = restart()
        client.run_for(2)
        make.cut_power(client)
    payloads = arrived(mortal, restart(), numbers(COUNT))
    check(mortal, qos, payloads if mortal.resumes_in_order else sorted(payloads), sender)
