"""Tests of the simulated broker and the oracle: each wrong exchange leads to a Finding."""

import pytest

from tools.crash.messages import outgoing, payload
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


def accept(peer, mid, qos=2, seq=None):
    number = peer.out.begin(outgoing(len(peer.out.messages), qos, 8))
    peer.out.accept(number, mid, number if seq is None else seq)
    return number


def send(peer, number, mid, qos=2, dup=0, body=None):
    message = outgoing(number, qos, 8)
    peer.written(publish(message.topic, body or message.payload, qos, mid, dup))


def cut_and_connect(peer):
    peer.power_cut(None)
    peer.written(CONNECT)
    peer.arrive()
    peer.next()


def incoming(peer, qos):
    peer.publish_to_client(qos, 3)
    peer.send_queued()
    peer.next()


DO = {
    "accept": accept,
    "send": send,
    "cut": cut_and_connect,
    "incoming": incoming,
    "write": lambda peer, raw: peer.written(raw),
    "arrive": lambda peer: peer.arrive(),
    "answer": lambda peer: (peer.arrive(), peer.next(), peer.out.handled()),
    "hand over": lambda peer, again: peer.inc.application_received(0, 0, payload(0, 3), again),
    "judge": lambda peer: peer.judge(),
}
ONE = (("accept", 1), ("send", 0, 1))
ONE_OF_QOS_1 = (("accept", 1, 1), ("send", 0, 1, 1))
REFUSED = {
    "accepted and never sent": (LOST, ("accept", 1), ("judge",)),
    "PUBREL before PUBREC": (OTHER, *ONE, ("write", pubrel(1)), ("arrive",)),
    "PUBLISH after PUBREC": (TWICE, *ONE, ("answer",), ("send", 0, 1, 2, 1)),
    "PUBLISH after PUBACK": (TWICE, *ONE_OF_QOS_1, ("answer",), ("cut",), ("send", 0, 1, 1, 1)),
    "repeated without DUP": (OTHER, *ONE, ("cut",), ("send", 0, 1)),
    "DUP in the first PUBLISH": (OTHER, ("accept", 1), ("send", 0, 1, 2, 1)),
    "repeated under another id": (REUSED, *ONE, ("cut",), ("send", 0, 2, 2, 1)),
    "an id in use": (REUSED, ("accept", 1), ("accept", 1)),
    "a message skipped": (ORDER, ("accept", 1), ("accept", 2), ("send", 1, 2)),
    "messages in reverse order": (ORDER, *ONE_OF_QOS_1, ("accept", 2, 1), ("send", 1, 2, 1), ("send", 0, 1, 1, 1)),
    "other bytes than published": (OTHER, ("accept", 1), ("send", 0, 1, 2, 0, payload(0, 8)[:7] + b"?")),
    "a sequence number again": (OTHER, ("accept", 1, 1, 5), ("accept", 2, 1, 5)),
    "an unexpected answer": (OTHER, ("write", packet(0x40, b"\0\5"))),
    "an answer out of order": (OTHER, ("incoming", 2), ("incoming", 2), ("write", pubrec(2))),
    "delivered twice": (TWICE, ("incoming", 2), ("hand over", False), ("hand over", False)),
    "redelivered at the first delivery": (OTHER, ("incoming", 2), ("hand over", True)),
    "never delivered": (LOST, ("incoming", 1), ("judge",)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    kind, *steps = REFUSED[what]
    peer = connected()
    with pytest.raises(Finding) as found:
        for does, *values in steps:
            DO[does](peer, *values)
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
