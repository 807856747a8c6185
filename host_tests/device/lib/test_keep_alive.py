# Timers: keep alive, time-outs, and retransmission at level 3.


from harness import eq
from inflight.compat import ticks_add
from nor import NorFlash
from session_peer import PING, Peer, ack, message, mid_of

RUNTIMES = "cpython micropython-x64"
MORE_RUNTIMES = "micropython-x86"
STARTS = (0, 12345, -500, -1)


def test_keep_alive():
    """[MQTT-3.1.2-23] One PINGREQ, after the keep alive and not before; also when the ticks wrap around."""
    for start in STARTS:
        peer = Peer(keepalive=1000, timeout_ms=1000)
        peer.now = t = ticks_add(0, start)
        peer.up()
        peer.now = ticks_add(t, 999)
        eq(peer.sent(), [])
        peer.now = ticks_add(t, 1000)
        eq(peer.sent(), [PING])
        eq(peer.sent(), [])
        peer.now = ticks_add(t, 1400)
        eq(peer.sent(), [])
        assert peer.session.pinging
        assert not peer.session.overdue(ticks_add(t, 1999))
        assert peer.session.overdue(ticks_add(t, 2000))
        peer.feed(b"\xd0\x00")
        assert not peer.session.pinging
        assert not peer.session.overdue(ticks_add(t, 9999))
        peer.now = ticks_add(t, 2000)
        eq(peer.sent(), [PING])


def test_pubrel_without_pubcomp():
    """A broker without the session need not answer: after two PUBRELs the message is completed."""
    peer = Peer.connected(max_inflight=1)
    mid = peer.publish(b"one", 2)
    peer.sent()
    peer.feed(ack(0x50, mid))
    for _ in range(2):
        peer.session.connection_lost()
        out = peer.up(0)
    eq(peer.session.pending, 0)
    eq(out, [])
    other = peer.publish(b"two", 2)
    eq([p[0] for p in peer.sent()], [0x34])
    assert other != mid


def test_half_a_handshake_is_not_dropped():
    """when_full="oldest" drops only messages that were certainly never sent."""
    device = NorFlash(4, 1024, 64)
    peer = Peer.connected(device, max_inflight=4)
    peer.publish_numbers(4, 2)
    for p in peer.sent():
        peer.feed(ack(0x50, mid_of(p)))
    peer = Peer(device, max_inflight=1, when_full="oldest")
    for k in range(200):
        peer.publish(b"new %d" % k, 1)
    out = peer.up(1)
    eq(out[0][0], 0x62)
    assert peer.count("dropped") > 0
    done = 0
    while out and out[0][0] == 0x62:
        done += 1
        out = peer.feed(ack(0x70, out[0][2] << 8 | out[0][3]))
    eq(done, 4)


def test_silence_of_the_broker_is_noticed():
    """[MQTT-3.12.4-1] Even while the client sends packets, it sends PINGREQ to a silent broker and detects a missing
    answer."""
    peer = Peer.connected(keepalive=1000, timeout_ms=250)
    peer.now = 600
    peer.publish(b"x", 0)
    eq([p[0] for p in peer.sent()], [0x30])
    peer.now = 1000
    eq(peer.sent(), [PING])
    assert not peer.session.overdue(1200)
    assert peer.session.overdue(1250)


def test_any_received_byte_counts():
    """[MQTT-3.12.4-1] A broker that sends slowly may delay its PINGRESP, but not without limit."""
    for start in STARTS:
        peer = Peer(keepalive=1000, timeout_ms=500)
        peer.now = t = ticks_add(0, start)
        peer.up()
        s = peer.session
        peer.now = ticks_add(t, 1000)
        eq(peer.sent(), [PING])
        data = message(b"t", b"1234567")
        for k in range(len(data) - 1):
            peer.now = ticks_add(t, 1000 + 400 * k)
            eq(peer.feed(data[k : k + 1]), [])
            assert not s.overdue(ticks_add(peer.now, 499))
            eq(s.time_left(ticks_add(peer.now, 499), ticks_add(t, 1000)), 1)
        assert s.overdue(ticks_add(peer.now, 500))
        peer.feed(data[-1:])
        eq(len(peer.got), 1)
        for k in range(20):
            peer.now = ticks_add(t, 1000 + 400 * (k + 10))
            peer.feed(b"\x40\x02\x00\x09")
            eq((k, s.overdue(peer.now)), (k, k >= 3))


def test_a_slow_long_packet_counts():
    """A message longer than the buffer may be slow, above a minimum rate."""
    for piece, alive in ((30, True), (20, False)):
        peer = Peer.connected(keepalive=1000, timeout_ms=500)
        peer.now = 1000
        eq(peer.sent(), [PING])
        peer.feed(b"\x30\xff\xff\xff\x7f\0\1t")
        for k in range(60):
            peer.now += 400
            peer.feed(bytes(piece))
            if not alive and peer.session.overdue(peer.now):
                break
            assert not peer.session.overdue(peer.now)
        eq(k == 59, alive)


def test_a_week_without_polling():
    """More than half a period of the ticks: keep alive, its time-out and the retry of level 3 still work."""
    for days in (7, 12, 20):
        later = days * 86_400_000
        peer = Peer(protocol_level=3, keepalive=60_000, retry_ms=20_000)
        peer.up(0, True)
        peer.publish(b"x")
        eq([p[0] for p in peer.sent()], [0x32])
        t = peer.now = later % (1 << 30)
        eq([p[0] for p in peer.sent()], [0x3A, 0xC0])
        peer.feed(ack(0x40, 1) + b"\xd0\x00")
        peer.now = t = (t + later) % (1 << 30)
        eq(peer.sent(), [PING])
        assert peer.session.overdue((t + later) % (1 << 30))


def test_keep_alive_counts_what_is_sent():
    """[MQTT-3.1.2-23] Packets of the client postpone PINGREQ; packets of the broker do not."""
    peer = Peer.connected(keepalive=1000)
    for t in range(600, 3000, 600):
        peer.now = t
        peer.feed(message(b"t", b"x"))
        peer.publish(b"x", 0)
        eq([p[0] for p in peer.sent()], [0x30])
    for t in range(2500, 3400, 100):
        peer.now = t
        eq(peer.feed(message(b"t", b"x")), [])
    peer.now = 3400
    eq(peer.sent(), [PING])


def test_ping_ends_with_its_connection():
    """The answer to a PINGREQ of the previous connection is not expected. A keep alive of 0 sends none."""
    peer = Peer.connected(keepalive=1000)
    peer.now = 1000
    eq(peer.sent(), [PING])
    peer.session.connection_lost()
    assert not peer.session.pinging
    peer.up(1)
    assert not peer.session.overdue(9000)
    peer = Peer.connected(keepalive=0)
    peer.now = 500000
    eq(peer.sent(), [])


def test_retry_of_level_3():
    """[MQTT31-9] [MQTT31-12] Repeated with DUP after the time-out, which doubles; an answer resets it."""
    for start in STARTS:
        peer = Peer(protocol_level=3, retry_ms=1000)
        peer.now = t = ticks_add(0, start)
        peer.up(0, True)
        mid = peer.publish(b"x", 2)
        eq([p[0] for p in peer.sent()], [0x34])
        for at, want in ((999, []), (1000, [0x3C]), (2999, []), (3000, [0x3C]), (6999, []), (7000, [0x3C])):
            peer.now = ticks_add(t, at)
            eq((at, [p[0] for p in peer.sent()]), (at, want))
        eq(peer.feed(ack(0x50, mid)), [ack(0x62, mid)])
        for at, want in ((7999, []), (8000, [ack(0x6A, mid)]), (9999, []), (10000, [ack(0x6A, mid)])):
            peer.now = ticks_add(t, at)
            eq((at, peer.sent()), (at, want))
        peer.feed(ack(0x70, mid))
        peer.now = ticks_add(t, 90000)
        eq(peer.sent(), [])


def test_repeated_pubrec():
    """[MQTT31-9] [MQTT-3.6.1-1] Its PUBREL is a repetition: 6A at level 3, 62 at level 4."""
    for level, first in ((3, 0x6A), (4, 0x62)):
        peer = Peer(protocol_level=level)
        peer.up(0, True)
        mid = peer.publish(b"x", 2)
        peer.sent()
        eq(peer.feed(ack(0x50, mid)), [ack(0x62, mid)])
        eq(peer.feed(ack(0x50, mid)), [ack(first, mid)])


def test_retry_of_subscribe_at_level_3():
    """[MQTT31-9] [MQTT31-12] 82, then 8A under the same id."""
    peer = Peer.connected(protocol_level=3, retry_ms=1000)
    peer.session.subscribe([b"a"], [1])
    first = peer.sent()
    eq(first[0][0], 0x82)
    peer.now = 1000
    eq(peer.sent(), [b"\x8a" + first[0][1:]])
    peer.feed(b"\x90\x03" + first[0][2:4] + b"\x01")
    assert peer.session.request is None
    peer.now = 90000
    eq(peer.sent(), [])


def test_no_repetition_early_after_a_pause():
    """[MQTT31-9] [MQTT31-12] The time-out begins when a packet is sent, however long nothing was."""
    peer = Peer(protocol_level=3, retry_ms=1000)
    peer.now = 50000
    peer.up()
    peer.now = 100000
    peer.session.subscribe([b"a"], [1])
    eq([p[0] for p in peer.sent()], [0x82])
    peer.feed(b"\x90\x03\0\1\1")
    peer.now = 200000
    peer.publish(b"x")
    eq([p[0] for p in peer.sent()], [0x32])
    peer.now = 200999
    eq(peer.sent(), [])
    peer.now = 201000
    eq([p[0] for p in peer.sent()], [0x3A])
