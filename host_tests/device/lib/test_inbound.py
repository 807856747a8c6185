# Messages from the broker: the table of received Message IDs, acknowledgements, interrupted handlers.

from errno import ENOBUFS

import inflight.packet as packet
from harness import eq, raises
from inflight.flash.flash import RamFlash
from inflight.packet import ProtocolError
from nor import NorFlash
from session_peer import Peer, ack, message

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"


def test_answers():
    """[MQTT-3.3.4-1] [MQTT-4.6.0-2] [MQTT-4.6.0-3] None, PUBACK and PUBREC, in the order of arrival."""
    peer = Peer.connected()
    data = message(b"t", b"0") + message(b"t", b"1", 1, 5) + message(b"t", b"2", 2, 6) + message(b"t", b"3", 1, 4)
    eq(peer.feed(data), [ack(0x40, 5), ack(0x50, 6), ack(0x40, 4)])
    eq([g[0] for g in peer.got], [b"0", b"1", b"2", b"3"])


def test_qos_2_once():
    """[MQTT-4.3.3-2] Repetitions until PUBREL are answered and not delivered, across connections and restarts."""
    device = RamFlash()
    peer = Peer.connected(device)
    eq(peer.feed(message(b"t", b"x", 2, 5)), [ack(0x50, 5)])
    eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
    peer.session.connection_lost()
    peer.up(1)
    eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
    eq(len(peer.got), 1)
    peer = Peer.connected(device, present=1)
    eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
    eq(peer.got, [])
    eq(peer.feed(ack(0x62, 5)), [ack(0x70, 5)])
    eq(peer.feed(ack(0x62, 5)), [ack(0x70, 5)])
    eq(peer.feed(message(b"t", b"y", 2, 5, 1)), [ack(0x50, 5)])
    eq(peer.got, [(b"y", False)])


def test_interrupted_handler():
    """[MQTT-4.3.3-2] [MQTT-4.1.0-1] [MQTT-4.8.0-1] Power is cut before delivered(): the message is delivered again with
    `redelivered`, then never again. A PUBREL before PUBREC is an error."""
    device = RamFlash()
    peer = Peer.connected(device)
    peer.session.into[:8] = message(b"t", b"x", 2, 5)
    peer.session.bytes_received(8, 0)
    eq(peer.session.next_event(0), packet.PUBLISH)
    assert peer.session.deliver and not peer.session.redelivered
    peer = Peer.connected(device, present=1)
    raises(ProtocolError, peer.feed, ack(0x62, 5))  # no PUBREC has left
    for k in range(2):
        peer = Peer.connected(device, present=1)
        eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
        eq(peer.got, [(b"x", True)] if k == 0 else [])


def test_session_lost_by_the_broker():
    """[MQTT-3.2.2-3] Session present = 0: received ids are discarded, sent messages are sent again."""
    peer = Peer.connected()
    peer.feed(message(b"t", b"x", 2, 5))
    peer.send(b"out")
    peer.session.connection_lost()
    eq([p[0] for p in peer.up(0)], [0x3A])
    peer.feed(message(b"t", b"y", 2, 5))
    eq([g[0] for g in peer.got], [b"x", b"y"])


def test_ids_of_a_lost_session_do_not_come_back_with_the_power():
    """[MQTT-3.2.2-3] They are forgotten for good before the broker can use them again, also if nothing is sent."""
    device = NorFlash(cache=True)
    peer = Peer.connected(device)
    peer.feed(message(b"t", b"x", 2, 5))
    peer.session.connection_lost()
    eq(peer.up(0), [])
    device.lose_power()
    peer = Peer.connected(device, present=1)
    peer.feed(message(b"t", b"y", 2, 5))
    eq(peer.got, [(b"y", False)])


def test_level_3_ignores_the_reserved_byte():
    """[MQTT31-5] Received ids are kept, whatever byte 1 of CONNACK is."""
    for reserved in (0, 1, 255):
        peer = Peer(protocol_level=3)
        peer.up(reserved)
        peer.feed(message(b"t", b"x", 2, 5))
        peer.session.connection_lost()
        peer.up(reserved)
        eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
        eq(len(peer.got), 1)


def test_limit_of_received_ids():
    """A broker cannot make the client use more memory."""
    peer = Peer.connected(receive_maximum=2)
    peer.feed(message(b"t", b"x", 2, 1) + message(b"t", b"x", 2, 2))
    error = raises(OSError, peer.feed, message(b"t", b"x", 2, 3))
    eq(error.errno, ENOBUFS)
    assert not peer.session.busy  # the journal has not failed


def test_unknown_acks():
    """[MQTT-4.3.3-1] [MQTT-4.3.3-2] They are answered or counted; none is an error."""
    peer = Peer.connected()
    eq(peer.feed(ack(0x40, 9) + ack(0x70, 9)), [])
    eq(peer.feed(ack(0x50, 9) + ack(0x62, 8)), [ack(0x62, 9), ack(0x70, 8)])
    eq(peer.count("unknown_acks"), 3)
