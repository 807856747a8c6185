# Messages from the broker: the table of received Message IDs, acknowledgements, interrupted handlers; those that cannot
# be taken, and peers that are no brokers.

from errno import ENOBUFS

import inflight.packet as packet
from harness import eq, raises
from inflight.errors import OutboxFull
from inflight.flash.flash import RamFlash
from inflight.packet import ProtocolError
from nor import NorFlash
from session_peer import Peer, ack, message, mid_of
from session_peer5 import NONE, Peer5
from tools.reference import wire
from tools.reference.properties import block

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"


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
    `redelivered`, then never again, also with a volatile cache. A PUBREL before PUBREC is an error."""
    device = NorFlash(4, 1024, 16, cache=True)
    peer = Peer.connected(device)
    peer.session.into[:8] = message(b"t", b"x", 2, 5)
    peer.session.bytes_received(8, 0)
    eq(peer.session.next_event(0), packet.PUBLISH)
    assert peer.session.deliver and not peer.session.redelivered
    device.lose_power()
    peer = Peer.connected(device, present=1)
    raises(ProtocolError, peer.feed, ack(0x62, 5))  # no PUBREC has left
    for k in range(2):
        peer = Peer.connected(device, present=1)
        eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
        eq(peer.got, [(b"x", True)] if k == 0 else [])


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


TWICE = block((0x01, 1), (0x01, 1))
MALFORMED = (
    (Peer, wire.packet(0x32, wire.string("t") + b"\0\0\0payload")),  # Message ID 0
    (Peer5, wire.packet(0x32, wire.string("t/+") + b"\0\5\0payload")),
    (Peer, wire.packet(0x32, wire.string("t/+") + b"\0\5" + bytes(3000))),
    (Peer5, wire.packet(0x32, wire.string("t/+") + b"\0\5\0" + bytes(3000))),
    (Peer, wire.packet(0x32, wire.string("t" * 700 + "+") + b"\0\5" + bytes(3000))),
    (Peer5, wire.packet(0x32, wire.string("t" * 700 + "+") + b"\0\5\0" + bytes(3000))),
    (Peer5, wire.packet(0x32, wire.string("t") + b"\0\5" + TWICE + b"payload")),
    (Peer5, wire.packet(0x32, wire.string("t") + b"\0\5" + TWICE + bytes(3000))),
)


def with_malformed(kind, bad):
    """A peer with messages that wait, on the second connection on which the broker sends the packet `bad`, and what it
    has sent then: the first one has ended at once."""
    peer = kind(RamFlash(16, 4096), max_inflight=2, timeout_ms=2000)
    peer.publish_numbers(5)
    peer.up()
    raises(ProtocolError, peer.feed, bad)
    peer.session.connection_lost()
    sent = peer.up(1)
    eq(peer.feed(bad), [])
    return peer, sent


def test_messages_get_through_though_another_one_is_malformed():
    """[MQTT-4.8.0-1] [MQTT5-4.13.1-1] [MQTT-4.5.0-2] On the second connection it is neither acknowledged nor delivered,
    and others are as ever; when all messages are acknowledged that connection ends, too."""
    for kind, bad in MALFORMED:
        peer, sent = with_malformed(kind, bad)
        none = b"\0" if kind is Peer5 else None
        eq(len(peer.feed(wire.publish("t", b"fine", 1, 6, properties=none) + bad)), 1)
        for p in sent:
            peer.session.collect()
            sent += peer.feed(wire.puback(p.mid if kind is Peer5 else mid_of(p)))
        raises(ProtocolError, peer.session.collect)
        eq((len(sent), peer.count("completed"), peer.count("received")), (5, 5, 1))
        peer = kind.connected()
        for _ in range(2):  # nothing waits
            raises(ProtocolError, peer.feed, bad)
            peer.up(1)


def test_a_malformed_message_and_a_broker_that_acknowledges_nothing():
    """[MQTT-4.8.0-1] The connection ends when an answer has not come for the time-out."""
    peer, _ = with_malformed(*MALFORMED[0])
    peer.now = 1999
    peer.sent()
    peer.session.collect()
    peer.now = 2000
    peer.sent()
    raises(ProtocolError, peer.session.collect)


def test_messages_leave_while_qos_2_finds_no_space():
    """[MQTT-4.6.0-3] One without space ends the connection when all messages are acknowledged. Until then no other one
    of QoS 2 goes before it."""
    peer = Peer(receive_maximum=1, timeout_ms=2000)
    for _ in range(3):
        peer.publish(b"x")
    peer.up()
    eq(peer.feed(b"".join([message(b"a", b"%d" % mid, 2, mid) for mid in (1, 2, 3)])), [ack(0x50, 1)])
    eq(peer.feed(ack(0x62, 1) + message(b"a", b"4", 2, 4)), [ack(0x70, 1)])
    peer.session.collect()
    peer.feed(b"".join([ack(0x40, mid) for mid in (1, 2, 3)]))
    eq(raises(OSError, peer.session.collect).errno, ENOBUFS)
    peer.session.connection_lost()
    peer.up(1)
    for mid in (2, 3, 4):
        eq(peer.feed(message(b"a", b"%d" % mid, 2, mid, 1) + ack(0x62, mid)), [ack(0x50, mid), ack(0x70, mid)])
    eq([payload for payload, _ in peer.got if payload], [b"1", b"2", b"3", b"4"])


def test_ids_that_the_broker_never_releases():
    """[MQTT-4.3.3-2] [MQTT-4.4.0-1] A broker that is killed forgets those of some messages, and tells of a session all
    the same. What it still has comes again before anything new; the others make space. Each message comes once."""
    for level in (4, 3, 5):
        for restart in (False, True):
            device = NorFlash(4, 512, 16)
            kind, options = (Peer5, {}) if level == 5 else (Peer, {"protocol_level": level})
            most = 2 if level == 5 else 4
            none = NONE if level == 5 else None
            peer = kind(device, receive_maximum=most, **options)
            got = []
            abandoned = notices = 0
            for k in range(30):
                peer.up(1 if k else 0)
                if k:
                    peer.feed(wire.publish("t", b"%d" % (2 * k), 2, 2 * k, 1, properties=none))
                for mid in (2 * k + 1, 2 * k + 2):
                    if level == 5 and mid & 1 and k:
                        peer.feed(wire.pubrel(2 * k))
                    eq(len(peer.feed(wire.publish("t", b"%d" % mid, 2, mid, properties=none))), 1)
                got += [int(payload) for payload, _ in peer.got]
                del peer.got[:]
                notices += len(peer.notices)
                peer.session.notices = ()
                peer.session.connection_lost()
                if restart:
                    abandoned += peer.count("abandoned")
                    peer = kind(device, receive_maximum=most, **options)
            eq(got, list(range(1, 61)))
            abandoned = abandoned or peer.count("abandoned")
            assert abandoned > 10 and notices == abandoned, (abandoned, notices)


def test_ids_take_no_space_of_messages():
    """Whatever a broker sends and does not release, over restarts, as many messages are accepted as without it."""
    for kind in (Peer, Peer5):
        device = NorFlash(4, 512, 16)
        for life in range(3):
            peer = kind(device, receive_maximum=32)
            peer.up(1 if life else 0)
            try:
                for ids in range(33):
                    mid = 100 * life + ids + 1
                    peer.feed(wire.publish("t", b"", 2, mid, properties=NONE if kind is Peer5 else None))
            except (OSError, ProtocolError):
                pass
            assert 8 <= ids < 32, ids
            eq(ids, peer.session.receive_maximum if kind is Peer5 else ids)
            peer.session.connection_lost()
        other = kind(NorFlash(4, 512, 16))
        for p in (peer, other):
            raises(OutboxFull, p.publish_numbers, 100)
        eq(peer.session.pending, other.session.pending)


OTHERS = (
    (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "HTTP"),
    (b"<html>\r\n<head><title>400 Bad Request</title></head>" + bytes(100), "HTTP"),
    (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "SSH"),
    (b"\x15\x03\x01\x00\x02\x02\x46", "TLS"),
    (b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76", "TLS"),
    (b"220 mail.example ESMTP ready, and a text that is long enough for a packet\r\n", "220 mail"),
)


def test_a_peer_that_is_no_broker():
    """[MQTT-4.8.0-1] The first bytes tell which protocol it speaks, and so may what is wrong with the port. Behind
    CONNACK they are no other protocol."""

    def feed(peer, data, step):
        for i in range(0, len(data), step):
            peer.feed(data[i : i + step])

    for data, text in OTHERS:
        for kind, step in ((Peer, 100), (Peer, 1), (Peer5, 100)):
            peer = kind()
            peer.session.connect(0, False, 60, None, None, None)
            peer.sent()
            error = str(raises(ProtocolError, feed, peer, data, step))
            assert text in error and "port" in error, error
            assert "port" not in str(raises(ProtocolError, feed, kind.connected(), data, step))
