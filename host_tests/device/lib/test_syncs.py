# What is durable before a packet leaves, where syncs are shared. A power cut loses all that is not synced.

from harness import eq
from nor import CachedFile
from session_peer import Peer, ack, message, mid_of, split

RUNTIMES = "cpython micropython-x86"
WAITING = 8  # messages that are done


def test_what_a_packet_says_survives_it():
    """[MQTT-4.1.0-1] [MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT-4.3.3-2] Power is cut behind each packet that leaves."""
    for leaves, goes_on in (
        (b"", [0x32, 0x34]),  # PUBLISHes: both are sent again
        (ack(0x50, 2), [0x32, 0x62]),  # PUBREL: no PUBLISH of it follows
        (message(b"in", b"x", 2, 7), [0x32, 0x34]),
    ):
        device = CachedFile()
        peer = Peer(device)
        peer.publish(b"one", 1)
        peer.publish(b"two", 2)
        peer.up()
        peer.feed(leaves)
        device.lose_power()
        peer = Peer(device)
        eq([p[0] & 0xF7 for p in peer.up(1)], goes_on)
        # PUBREC had left: the application has the message.
        eq(peer.feed(message(b"in", b"x", 2, 7, 1)), [ack(0x50, 7)])
        eq(len(peer.got), 0 if leaves[:1] == b"\x34" else 1)
        # PUBCOMP leaves: the id is free for another message.
        eq(peer.feed(ack(0x62, 7)), [ack(0x70, 7)])
        device.lose_power()
        peer = Peer(device)
        peer.up(1)
        peer.feed(message(b"in", b"y", 2, 7))
        eq(peer.got, [(b"y", False)])


def drained(device, n, waiting):
    """A backlog of n messages of QoS 1 on this flash, of which all but `waiting` are acknowledged, one after the other;
    how many syncs that took."""
    peer = Peer(device, max_inflight=4)
    for k in range(n):
        peer.publish(b"%02d" % k)
    packets = peer.up()
    before = device.syncs
    for _ in range(n - waiting):
        packets += peer.feed(ack(0x40, mid_of(packets.pop(0))))
    return peer, device.syncs - before


def test_acknowledgements_share_a_sync():
    """Each arrives alone, and the next message leaves: a sync for nine of them, in a clean session one for each."""
    syncs = drained(CachedFile(8), 40, 4)[1]
    assert syncs <= 40 // (WAITING + 1), syncs
    device = CachedFile(8)
    peer = Peer(device, max_inflight=2)
    peer.up(0, True)
    for k in range(6):
        peer.publish(b"%d" % k)
    packets = peer.sent()
    while packets:
        sent = peer.feed(ack(0x40, mid_of(packets.pop(0))))
        assert device.is_durable() or not sent
        packets += sent


def test_a_power_cut_repeats_what_waited_for_a_sync():
    """[MQTT-3.3.1-1] [MQTT-4.4.0-1] As many as may wait, with their Message IDs and DUP; those that never left go
    without DUP but for so many; a clean session gives up none of these, wherever power is cut, and they are new to
    it."""
    for acknowledged in range(8, 20):
        for clean in (False, True):
            device = CachedFile(8)
            drained(device, 40, 40 - acknowledged)
            device.lose_power()
            peer = Peer(device, max_inflight=4)
            repeated = acknowledged + peer.session.pending - 40
            assert 0 <= repeated <= WAITING, repeated
            packets = peer.up(1 - clean, clean)
            sent = list(packets)
            while packets:
                packets = peer.feed(b"".join([ack(0x40, mid_of(p)) for p in packets]))
                sent += packets
            numbers = [int(p[-2:]) for p in sent]
            eq(numbers, sorted(numbers))
            eq(numbers[-1], 39)
            # A clean session gives up the window alone: of a backlog whose marks are lost those that are done.
            eq(numbers[0], acknowledged - repeated + 4 * clean)
            eq(peer.count("dropped"), 4 * clean)
            eq([mid_of(p) for p in sent], [n + 1 for n in numbers])
            first, last = (0, 0) if clean else (acknowledged + 4, acknowledged + 4 + WAITING)
            for p, n in zip(sent, numbers):
                assert p[0] & 8 or n >= first, n
                assert not p[0] & 8 or n < last, n


def test_pubrels_leave_in_the_order_of_pubrecs():
    """[MQTT-4.6.0-4] Also those that are written together, whatever the order of the PUBLISHes was."""
    peer = Peer()
    peer.up()
    for k in range(5):
        peer.publish(b"%d" % k, 2)
    peer.sent()
    s = peer.session
    data = ack(0x50, 4) + ack(0x50, 1) + ack(0x50, 5) + ack(0x50, 2) + ack(0x50, 1)
    s.into[: len(data)] = data
    s.bytes_received(len(data), 0)
    while s.next_event(0):
        pass
    eq(split(peer.written()), [ack(0x62, mid) for mid in (4, 1, 5, 2)])
    eq(peer.feed(ack(0x70, 1) + ack(0x70, 4)), [])
    eq(peer.session.pending, 3)
    s.connection_lost()
    eq([p[0] for p in peer.up(1)], [0x3C, 0x62, 0x62])
