"""The judge judged: what the peer and the promises refuse, played on them by hand."""

import pytest

from dev.reference.kinds import PUBACK
from dev.reference.oracle import LOST, ORDER, OTHER, REUSED, TWICE, Finding
from dev.reference.wire import packet, publish, pubrec, pubrel, string
from host_tests.crash.messages import SHARED, outgoing, payload
from host_tests.crash.peer import Peer

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


def take_twice(peer):
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


def complete_and_send_again(peer):
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


def spoil(peer):
    number = accept(peer, 1)
    peer.written(publish(SHARED, payload(number, 8)[:7] + b"?", 2, 1))


def sequence_again(peer):
    for _ in range(2):
        number = peer.out.begin(outgoing(len(peer.out.messages), 1, 0))
        peer.out.accept(number, number + 1, 5)


def answer_nothing(peer):
    peer.written(packet(0x40, b"\0\5"))


def answer_out_of_turn(peer):
    for qos in (2, 2):
        peer.give(qos, 3)
    peer.hand_out()
    peer.next()
    peer.next()
    peer.written(pubrec(2))


def hear(peer, times, redelivered):
    peer.give(2, 3)
    peer.hand_out()
    peer.next()
    for _ in range(times):
        peer.inc.hear(0, 0, payload(0, 3), redelivered)


def hear_nothing(peer):
    peer.give(1, 3)
    peer.hand_out()
    peer.judge()


REFUSED = {
    "accepted and never sent": (lose, LOST),
    "PUBREL before PUBREC": (take_twice, OTHER),
    "PUBLISH after PUBREC": (send_after_pubrec, TWICE),
    "PUBLISH after PUBACK": (complete_and_send_again, TWICE),
    "again without DUP": (no_dup, OTHER),
    "DUP at the first time": (dup_at_once, OTHER),
    "again under another id": (another_id, REUSED),
    "an id in use": (id_in_use, REUSED),
    "one overtakes another": (overtake, ORDER),
    "one after the other, backwards": (backwards, ORDER),
    "other bytes than published": (spoil, OTHER),
    "a sequence number again": (sequence_again, OTHER),
    "an answer to nothing": (answer_nothing, OTHER),
    "an answer out of turn": (answer_out_of_turn, OTHER),
    "heard twice": (lambda peer: hear(peer, 2, False), TWICE),
    "redelivered without a reason": (lambda peer: hear(peer, 1, True), OTHER),
    "never heard": (hear_nothing, LOST),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    does, kind = REFUSED[what]
    with pytest.raises(Finding) as found:
        does(connected())
    assert found.value.kind == kind


def test_accepted():
    """A whole exchange, interrupted wherever it may be, is none of these."""
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


def test_a_cut_while_an_acknowledgement_is_handled_may_go_either_way():
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
