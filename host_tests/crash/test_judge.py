"""Tests of the simulated broker and the oracle: each wrong exchange leads to a Finding."""

import pytest

from tools.crash.messages import SHARED, outgoing, payload
from tools.crash.peer import Peer
from tools.reference.kinds import PUBACK
from tools.reference.oracle import LOST, ORDER, OTHER, REUSED, TWICE, Finding
from tools.reference.wire import packet, publish, pubrec, pubrel, string

CONNECT = packet(0x10, string("MQTT") + b"\x04\x00\x00\x00" + string("dev"))
SUBSCRIBE = packet(0x82, b"\0\x63" + string("in/#") + b"\2")


def connected():
    peer = Peer()
    for raw in (CONNECT, SUBSCRIBE):
        peer.written(raw)
        peer.arrive()
        peer.next()
    return peer


def accept(peer, mid, qos=2, size=8):
    number = peer.out.begin(outgoing(len(peer.out.messages), qos, size))
    peer.out.accept(number, mid, number)
    return number


def send(peer, number, mid, qos=2, size=8, dup=0):
    message = outgoing(number, qos, size)
    peer.written(publish(message.topic, message.payload, qos, mid, dup))


def cut_and_connect(peer):
    peer.power_cut(None)
    peer.written(CONNECT)
    peer.arrive()
    peer.next()


def lose(peer):
    accept(peer, 1)
    peer.judge()


def release_without_pubrec(peer):
    number = accept(peer, 1)
    send(peer, number, 1)
    peer.written(pubrel(1))
    peer.arrive()


def send_after_pubrec(peer):
    number = accept(peer, 1)
    send(peer, number, 1)
    peer.arrive()
    peer.next()
    peer.out.handled()
    send(peer, number, 1, dup=1)


def send_after_puback(peer):
    number = accept(peer, 1, qos=1)
    send(peer, number, 1, qos=1)
    peer.arrive()
    peer.next()
    peer.out.handled()
    cut_and_connect(peer)
    send(peer, number, 1, qos=1, dup=1)


def no_dup(peer):
    number = accept(peer, 1)
    send(peer, number, 1)
    cut_and_connect(peer)
    send(peer, number, 1)


def dup_at_once(peer):
    send(peer, accept(peer, 1), 1, dup=1)


def another_id(peer):
    number = accept(peer, 1)
    send(peer, number, 1)
    cut_and_connect(peer)
    send(peer, number, 2, dup=1)


def id_in_use(peer):
    accept(peer, 1)
    accept(peer, 1)


def overtake(peer):
    accept(peer, 1)
    send(peer, accept(peer, 2), 2)


def backwards(peer):
    first, second = accept(peer, 1, qos=1), accept(peer, 2, qos=1)
    send(peer, first, 1, qos=1)
    send(peer, second, 2, qos=1)
    send(peer, first, 1, qos=1, dup=1)


def alter(peer):
    number = accept(peer, 1)
    peer.written(publish(SHARED, payload(number, 8)[:7] + b"?", 2, 1))


def sequence_again(peer):
    for _ in range(2):
        number = peer.out.begin(outgoing(len(peer.out.messages), 1, 0))
        peer.out.accept(number, number + 1, 5)


def answer_nothing(peer):
    peer.written(packet(0x40, b"\0\5"))


def answer_out_of_order(peer):
    for qos in (2, 2):
        peer.publish_to_client(qos, 3)
    peer.send_queued()
    peer.next()
    peer.next()
    peer.written(pubrec(2))


def deliver(peer, times, redelivered):
    peer.publish_to_client(2, 3)
    peer.send_queued()
    peer.next()
    for _ in range(times):
        peer.inc.application_received(0, 0, payload(0, 3), redelivered)


def deliver_nothing(peer):
    peer.publish_to_client(1, 3)
    peer.send_queued()
    peer.judge()


REFUSED = {
    "accepted and never sent": (lose, LOST),
    "PUBREL before PUBREC": (release_without_pubrec, OTHER),
    "PUBLISH after PUBREC": (send_after_pubrec, TWICE),
    "PUBLISH after PUBACK": (send_after_puback, TWICE),
    "repeated without DUP": (no_dup, OTHER),
    "DUP in the first PUBLISH": (dup_at_once, OTHER),
    "repeated under another id": (another_id, REUSED),
    "an id in use": (id_in_use, REUSED),
    "a message skipped": (overtake, ORDER),
    "messages in reverse order": (backwards, ORDER),
    "other bytes than published": (alter, OTHER),
    "a sequence number again": (sequence_again, OTHER),
    "an unexpected answer": (answer_nothing, OTHER),
    "an answer out of order": (answer_out_of_order, OTHER),
    "delivered twice": (lambda peer: deliver(peer, 2, False), TWICE),
    "redelivered at the first delivery": (lambda peer: deliver(peer, 1, True), OTHER),
    "never delivered": (deliver_nothing, LOST),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    does, kind = REFUSED[what]
    with pytest.raises(Finding) as found:
        does(connected())
    assert found.value.kind == kind


def test_accepted():
    """A correct exchange with interruptions leads to no Finding."""
    peer = connected()
    number = accept(peer, 1)
    send(peer, number, 1)
    cut_and_connect(peer)
    send(peer, number, 1, dup=1)
    peer.arrive()
    peer.next()
    peer.written(pubrel(1))
    cut_and_connect(peer)
    peer.written(pubrel(1))
    peer.arrive()
    peer.next()
    peer.out.handled()
    peer.judge()
    assert accept(peer, 1) == 1


def test_cut_during_an_acknowledgement_allows_both_outcomes():
    for again in (False, True):
        peer = connected()
        number = accept(peer, 1, qos=1)
        send(peer, number, 1, qos=1)
        peer.arrive()
        assert peer.next()[0] >> 4 == PUBACK
        cut_and_connect(peer)
        if again:
            send(peer, number, 1, qos=1, dup=1)
        accept(peer, 2 if again else 1)
