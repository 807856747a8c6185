# A session that the journal does not know: Message IDs are freed before they are used at QoS 2.


from harness import eq
from nor import NorFlash
from session_peer import PING, Peer, ack, mid_of

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"


def probed(packets, first):
    """True if these are PUBRELs for ids from `first` on."""
    return packets == [ack(0x62, first + k) for k in range(16)]


def test_ids_are_freed_in_an_unknown_session():
    """[MQTT-4.3.3-2] [MQTT-2.3.1-2] PUBREL and PUBCOMP come before the first use of an id at QoS 2; QoS 1 needs
    neither."""
    for level, present in ((4, 1), (3, 0)):
        device = NorFlash(8, 1024, 16, cache=True)
        peer = Peer(device, protocol_level=level)
        peer.publish(b"one", 1)
        peer.publish(b"two", 2)
        peer.publish(b"three", 1)
        sent = peer.up(present)
        eq(sent[0][0], 0x32)
        assert probed(sent[1:], 1), sent
        for k in range(16, 1, -1):
            eq(peer.feed(ack(0x70, k)), [])
        eq([p[0] for p in peer.feed(ack(0x70, 1))], [0x34, 0x32])
        for _ in range(14):
            peer.publish(b"x", 2)
        # The next fifteen ids were freed together with the first.
        eq([p[0] for p in peer.sent()], [0x34] * 5)
        for mid in range(1, 4):
            peer.feed(ack(0x40, mid) if mid != 2 else ack(0x50, mid) + ack(0x70, mid))
        assert peer.session.pending == 14


def test_freed_ids_are_known_after_a_power_cut():
    """[MQTT-4.3.3-1] A message that was sent is not released before its PUBREC, even while ids are freed."""
    device = NorFlash(8, 1024, 16, cache=True)
    peer = Peer.connected(device, present=1)
    for _ in range(20):
        peer.publish(b"x", 2)
    assert probed(peer.sent(), 1)
    device.lose_power()
    peer = Peer(device)
    assert probed(peer.up(1), 1)
    sent = peer.feed(b"".join([ack(0x70, k) for k in range(1, 17)]))
    eq([mid_of(p) for p in sent], list(range(1, 9)))
    device.lose_power()
    peer = Peer(device)
    eq([(p[0], mid_of(p)) for p in peer.up(1)], [(0x3C, k) for k in range(1, 9)])
    sent = peer.feed(b"".join([ack(0x50, k) + ack(0x70, k) for k in range(1, 17)]))
    eq([mid for mid in range(1, 40) if ack(0x62, mid) in sent], list(range(1, 33)))
    peer.session.commit()
    device.lose_power()
    peer = Peer(device)
    assert probed(peer.up(1), 17)


def test_ids_far_from_the_first_cost_one_session_record():
    """All ids before that of the message are freed; a connection that ends does not begin anew, a restart does."""
    device = NorFlash(8, 1024, 16, cache=True)
    peer = Peer.connected(device, present=1)
    for mid in range(1, 101):
        peer.send(b"x", 1)
        peer.feed(ack(0x40, mid))
    peer.publish(b"x", 2)
    serial = peer.session.record_serial
    sent = peer.sent()
    for first in (1, 17, 33):
        assert probed(sent, first), sent
        sent = peer.feed(b"".join([ack(0x70, first + k) for k in range(16)]))
    peer.session.connection_lost()
    sent = peer.up(1)
    for first in (49, 65, 81, 97):
        assert probed(sent, first), sent
        eq(peer.session.record_serial, serial)
        sent = peer.feed(b"".join([ack(0x70, first + k) for k in range(16)]))
    eq([(p[0], mid_of(p)) for p in sent], [(0x34, 101)])
    eq(peer.session.record_serial, serial + 1)
    device.lose_power()
    eq([(p[0], mid_of(p)) for p in Peer(device).up(1)], [(0x3C, 101)])


def test_a_new_session_has_no_ids_to_be_freed():
    """[MQTT-3.2.2-3] Session present = 0: all ids are free, after restarts as well."""
    device = NorFlash(8, 1024, 16, cache=True)
    peer = Peer.connected(device, present=1)
    peer.publish(b"x", 2)
    assert probed(peer.sent(), 1)
    peer.session.connection_lost()
    eq([p[0] for p in peer.up(0)], [0x34])
    device.lose_power()
    eq([p[0] for p in Peer(device).up(1)], [0x3C])


def test_a_broker_that_does_not_answer_pubrel():
    """An answer to a later PINGREQ shows that it has received the PUBRELs; the client does not wait longer. A late
    PUBCOMP is no error."""
    peer = Peer.connected(present=1)
    peer.publish(b"x", 2)
    assert probed(peer.sent(), 1)
    peer.now = 1000
    eq(peer.sent(), [PING])
    eq([p[0] for p in peer.feed(b"\xd0\x00")], [0x34])
    eq(peer.feed(ack(0x70, 1)), [])
    assert peer.session.pending


def test_probes_are_repeated_at_level_3():
    """[MQTT31-12] Like every packet without answer."""
    peer = Peer.connected(protocol_level=3, retry_ms=1000)
    peer.publish(b"x", 2)
    assert probed(peer.sent(), 1)
    peer.feed(ack(0x70, 1))
    peer.now = 2000
    assert probed(peer.sent(), 1)
    eq([p[0] for p in peer.feed(b"".join([ack(0x70, k) for k in range(1, 17)]))], [0x34])
