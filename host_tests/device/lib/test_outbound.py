# Messages to the broker: the table of states, Message IDs, max_inflight, dropped messages, recovery after a restart.


from harness import eq, raises
from inflight.flash.flash import RamFlash
from inflight.journal.journal import OUT, Journal, OutboxFull
from inflight.packet import PUBACK, PUBCOMP, PUBREC, ProtocolError
from inflight.session.session import Session
from inflight.states import ERROR, FINISH, IGNORED, RELEASE, REPEAT, UNKNOWN
from nor import NorFlash
from session_peer import Peer, ack, message, mid_of, two

RUNTIMES = "cpython micropython-x64"
MORE_RUNTIMES = "micropython-x86"

# Rows as in session.py: SEND, ACK, REC, REL, COMP; columns PUBACK, PUBREC, PUBCOMP.
OUTBOUND = (
    (IGNORED, IGNORED, IGNORED),
    (FINISH, ERROR, ERROR),
    (ERROR, RELEASE, ERROR),
    (IGNORED, IGNORED, IGNORED),
    (ERROR, REPEAT, FINISH),
)


def session():
    return Session(Journal(RamFlash()), bytearray(256), b"dev", max_inflight=4)


def accept(s, mid, qos):
    s.last_mid = mid - 1
    eq(s.publish(b"t", b"", qos, False), mid)


def test_table_of_the_sender():
    """[MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT-2.3.1-3] Every acknowledgement in every state."""
    for state in range(5):
        for k in range(3):
            outbound = session()
            journal = outbound.journal
            accept(outbound, 7, 2)
            outbound.states[0] = state
            kind = (PUBACK, PUBREC, PUBCOMP)[k]
            want = OUTBOUND[state][k]
            got = outbound.acknowledged(kind, 7)
            if state in (0, 3) and kind == PUBREC and got == REPEAT:
                continue  # answering at once is correct too
            eq((state, kind, got), (state, kind, want))
            eq(journal.live, 0 if want == FINISH else 1)
            eq(outbound.rows, journal.live)
            eq(outbound.acknowledged(kind, 8), UNKNOWN)


def test_ids_go_around():
    """[MQTT-2.3.1-1] [MQTT-2.3.1-2] 1 to 65535, then 1 again; never 0, never one in use."""
    outbound = session()
    eq(outbound.free_mid(0), 1)
    outbound.last_mid = 65534
    eq(outbound.free_mid(0), 65535)
    eq(outbound.free_mid(0), 65535)
    eq(outbound.free_mid(65535), 1)
    for mid in (65535, 1, 2):
        accept(outbound, mid, 1)
    outbound.last_mid = 65534
    eq(outbound.free_mid(3), 4)


def test_recovered_has_dup():
    """[MQTT-3.3.1-1] [MQTT-4.4.0-1] After a restart, messages that may have been sent have DUP, the others have not."""
    device = RamFlash()
    peer = Peer(device)
    peer.publish(b"a")
    peer.publish(b"b", 2)
    peer = Peer(device)
    peer.publish(b"c")
    eq([(p[0], p[-1:]) for p in peer.up()], [(0x32, b"a"), (0x34, b"b"), (0x32, b"c")])
    peer.publish(b"d")
    peer.session.connection_lost()
    peer.publish(b"e")
    peer = Peer(device)
    eq([(p[0], p[-1:]) for p in peer.up(1)], [(0x3A, b"a"), (0x3C, b"b"), (0x3A, b"c"), (0x3A, b"d"), (0x32, b"e")])


def test_redelivery():
    """[MQTT-4.4.0-1] [MQTT-3.3.1-1] [MQTT-4.6.0-1] [MQTT-4.6.0-4] [MQTT-2.3.1-2] [MQTT-2.3.1-3] [MQTT-3.2.2-3]
    [MQTT31-9] [MQTT31-13] PUBRELs leave in the order of PUBRECs. Every unacknowledged PUBLISH and PUBREL is sent again,
    after a restart and on each connection: same ids, DUP, RETAIN, original order. At level 3 PUBREL has DUP, too. A
    broker that lost the session gets all of them. New messages have new ids."""
    for level, pubrel in ((4, 0x62), (3, 0x6A)):
        device = RamFlash()
        peer = Peer.connected(device)
        for k in range(6):
            eq(peer.session.publish(b"t", b"%d" % k, 1 + k % 2, k > 3), k + 1)
        peer.sent()
        eq(peer.feed(ack(0x50, 6) + ack(0x40, 3) + ack(0x50, 2)), [ack(0x62, 6), ack(0x62, 2)])
        again = [message(b"t", b"%d" % k, 1 + k % 2, k + 1, 1, k > 3) for k in (0, 3, 4)]
        want = [again[0], ack(pubrel, 2), again[1], again[2], ack(pubrel, 6)]
        for present in (1, 1, 0):
            peer = Peer(device, protocol_level=level)
            eq(peer.up(present), want)
            peer.session.connection_lost()
            eq(peer.up(1), want)
        eq(peer.publish(b"new"), 7)
        eq(peer.sent(), [message(b"t", b"new", 1, 7)])
        peer.feed(
            ack(0x40, 7) + ack(0x40, 1) + ack(0x70, 2) + ack(0x50, 4) + ack(0x40, 5) + ack(0x70, 6) + ack(0x70, 4)
        )
        eq((peer.session.pending, peer.count("completed"), peer.count("dropped")), (0, 6, 0))


def test_released_with_a_smaller_max_inflight():
    """[MQTT-4.3.3-1] [MQTT-4.6.0-4] After a restart with a smaller max_inflight all PUBRELs are sent, in order."""
    device = RamFlash()
    peer = Peer.connected(device, max_inflight=6)
    peer.publish_numbers(6, 2)
    peer.sent()
    for mid in (1, 2, 3, 4):
        peer.feed(ack(0x50, mid))
    peer = Peer(device, max_inflight=2)
    eq(peer.up(1), [ack(0x62, 1), ack(0x62, 2)])
    eq(peer.feed(ack(0x70, 1)), [ack(0x62, 3)])
    eq(peer.feed(ack(0x70, 2)), [ack(0x62, 4)])
    eq(peer.feed(ack(0x70, 3))[0][-1:], b"4")
    eq(peer.feed(ack(0x70, 4))[0][-1:], b"5")
    eq(peer.feed(ack(0x50, 5) + ack(0x70, 5) + ack(0x50, 6) + ack(0x70, 6)), [ack(0x62, 5), ack(0x62, 6)])
    eq(peer.session.pending, 0)


def test_ids_of_an_earlier_larger_max_inflight():
    """[MQTT-2.3.1-2] Messages sent out of order with a larger max_inflight keep their ids after a restart with a
    smaller one."""
    device = NorFlash(8, 1024, 16)
    peer = Peer.connected(device, max_inflight=8)
    for _ in range(8):
        peer.publish(b"x")
    peer.sent()
    for mid in (2, 3, 4, 6, 8):
        peer.feed(ack(0x40, mid))
    peer = Peer(device, max_inflight=1)
    outbound = peer.session
    outbound.last_mid = 65534
    mids = []
    for _ in range(8):
        mids.append(peer.publish(b"y"))
    eq(mids, [65535, 2, 3, 4, 6, 8, 9, 10])
    eq(Peer(device, max_inflight=1).publish(b"z"), 11)


FIRST = (  # packets in place of CONNACK
    (b"\x20\x02\x02\0", b"\x20\x02\x80\0", b"\x21\x02\0\0", b"\x20\x01\0", b"\x20\x03\0\0\0")
    + tuple([ack(first, 1) for first in (0x40, 0x50, 0x62, 0x70, 0xB0)])
    + (message(b"t", b"x"), b"\x90\x03\0\1\0", b"\xd0\0", b"HTTP/1.1 400 Bad Request\r\n")
)
LATER = (  # packets that a broker never sends to a client that is connected
    (
        b"\x20\x02\0\0",
        b"\x36\x06\0\1t\0\1x",
        b"\x38\x04\0\1tx",
        b"\x41\x02\0\1",
        ack(0x40, 0),
        message(b"t", b"x", 1, 0),
    )
    + (
        b"\x40\x03\0\1\0",
        b"\x30\xff\xff\xff\xff\x7f",
        message(b"\xff", b"x"),
        message(b"a/#", b"x"),
        message(b"a\0", b"x"),
    )
    + (message(b"", b"x"), b"\x30\4\0\x09ab", b"\x10\0", b"\xf0\0", ack(0x60, 1), ack(0x6A, 1), b"\xc0\0", b"\xe0\0")
)


def test_packets_out_of_place():
    """[MQTT-3.2.0-1] [MQTT-3.2.2-1] [MQTT-4.8.0-1] [MQTT-2.2.2-2] [MQTT-1.5.3-1] [MQTT-1.5.3-2] [MQTT-3.3.1-4]
    [MQTT-3.6.1-1] [MQTT31-27] No packet but a good CONNACK comes first, no second CONNACK, nothing that is malformed;
    no session present for a clean session."""
    for clean, packets in ((False, FIRST), (True, (b"\x20\x02\1\0",))):
        for data in packets:
            peer = Peer()
            peer.session.connect(0, clean, 60, None, None, None)
            peer.sent()
            told = str(raises(ProtocolError, peer.feed, data))
            assert not peer.session.connected and (not clean or "session present 1, code 0" in told)
    for data in LATER:
        peer = Peer.connected()
        raises(ProtocolError, peer.feed, data)
        eq((peer.got, peer.sent()), ([], []))


def test_refusals():
    """[MQTT-3.2.2-4] The code counts, whatever else the packet says."""
    for answer in (b"\0\1", b"\0\5", b"\1\5", b"\x80\5", b"\0\6", b"\0\xff"):
        peer = Peer()
        peer.session.connect(0, False, 60, None, None, None)
        peer.sent()
        peer.feed(b"\x20\x02" + answer)
        eq((peer.session.code, peer.session.connected, peer.count("refused")), (answer[1], False, 1))


def test_dropped_when_full():
    """The oldest message that was not sent is dropped, or the newest. Without a policy OutboxFull is raised, and
    nothing changes."""
    for drop in ("oldest", "newest"):
        peer = Peer(when_full=drop, max_inflight=2)
        for k in range(100):
            peer.publish(b"%060d" % k)
        assert peer.count("dropped") > 20
        eq(peer.session.pending + peer.count("dropped"), 100)
    peer = Peer()
    n = 0
    try:
        while True:
            peer.publish(b"%060d" % n)
            n += 1
    except OutboxFull:
        pass
    eq(peer.session.pending, n)
    raises(ValueError, peer.publish, bytes(5000))
    eq((peer.session.free_mid(0), peer.session.pending, peer.count("dropped")), (n + 1, n, 0))
    for p in peer.up()[:2]:  # one more for the space of the session record
        peer.feed(ack(0x40, mid_of(p)))
    peer.publish(b"%060d" % n)


def test_dropped_after_a_restart_as_before_it():
    """The oldest messages that cannot have been sent are dropped one by one; those that may have been sent stay, with
    a smaller max_inflight as well."""
    for window in (2, 8, 12):
        device = NorFlash(8, 1024, 16)
        peer = Peer.connected(device, max_inflight=8)
        for k in range(8):
            peer.publish(b"%060d" % k, 2)
        peer.sent()
        peer.session.connection_lost()
        k = 8
        while peer.session.journal.fits(OUT, 66):
            peer.publish(b"%060d" % k)
            k += 1
        peer = Peer(device, max_inflight=window, when_full="oldest")
        full = peer.session.pending
        for n in range(k, k + 10):
            assert peer.publish(b"%060d" % n)
            assert peer.session.pending >= full - 1
        dropped = peer.count("dropped")
        assert dropped >= 10
        out = peer.up(1)
        eq([p[0] for p in out[:8]], [0x3C] * min(window, 8) + [0x32] * min(8 - min(window, 8), len(out) - window))
        got = []
        while out:
            p = out.pop(0)
            if p[0] == 0x62:
                out += peer.feed(ack(0x70, p[2] << 8 | p[3]))
                continue
            got.append(int(p[-60:]))
            out += peer.feed(ack(0x50 if p[0] & 4 else 0x40, mid_of(p)))
        rest = max(8, window)
        eq(got, list(range(rest)) + list(range(rest + dropped, k + 10)))


def test_message_that_would_not_fit_drops_no_other():
    """[MQTT-3.3.1-1] Dropping all unsent messages would not free enough space for it: it is dropped itself."""
    peer = Peer(NorFlash(5, 2048, 16), max_inflight=20, when_full="oldest")
    while peer.publish(b"%040d" % 0):
        if peer.session.queued == 3:
            break
    assert not peer.publish(bytes(900))
    eq((peer.count("dropped"), peer.session.pending), (1, 23))


def test_copied_around_the_ring():
    """[MQTT-2.3.1-3] [MQTT-4.3.3-2] [MQTT-4.4.0-1] An unacknowledged message is sent again, whole, and a received
    Message ID is known."""
    device = RamFlash()
    peer = Peer.connected(device, max_inflight=4)
    held = (peer.publish(b"held 1", 1), peer.publish(b"held 2", 2))
    peer.sent()
    peer.feed(ack(0x50, held[1]) + message(b"t", b"once", 2, 77))
    for k in range(300):
        mid = peer.publish(b"%050d" % k)
        eq(len(peer.sent()), 1)
        peer.feed(ack(0x40, mid))
    eq(peer.session.pending, 2)
    peer.session.connection_lost()
    want = [b"\x3a" + message(b"t", b"held 1", 1, held[0])[1:], ack(0x62, held[1])]
    for again in (peer, Peer(device, max_inflight=4)):
        eq(again.up(1), want)
        eq(again.feed(message(b"t", b"once", 2, 77, 1)), [ack(0x50, 77)])
    eq((len(peer.got), again.got), (1, []))


def test_buffer_longer_than_the_journal():
    """Messages are read from flash into half of the buffer."""
    Peer(RamFlash(4, 1024), 8192)
    raises(ValueError, Peer, RamFlash(4, 1024), 8194)


def test_long_messages():
    """A payload longer than the buffer is sent in chunks: at QoS 0 from the caller's buffer, whatever that is, at QoS 1
    and 2 from flash, repeatedly."""
    for n in list(range(40, 66)) + [128, 600]:
        payload = bytes([i & 255 for i in range(n)])
        given = (bytes, bytearray, memoryview)[n % 3](payload)
        peer = Peer(RamFlash(4, 4096), 128)
        for qos in range(3):
            body = b"\x00\x05topic" + (two(qos) if qos else b"") + payload
            size = bytes([len(body)] if len(body) < 128 else [len(body) & 127 | 128, len(body) >> 7])
            if qos:
                eq(peer.publish(given, qos, b"topic"), qos)
            peer.up(1 if qos else 0)
            if not qos:
                peer.publish(given, 0, b"topic")
                eq(peer.sent(), [b"\x30" + size + body])
            peer.session.connection_lost()
            if qos:
                eq(peer.up(1)[-1], bytes([0x38 | qos << 1]) + size + body)
                peer.session.connection_lost()
