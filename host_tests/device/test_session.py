# The session without sockets and clocks: its tables, its timers, its ids, what outlives a power cut.

from errno import ENOBUFS

import inflight.packet as packet
from harness import eq, raises
from inflight.compat import ticks_add
from inflight.counters import NAMES as COUNTERS
from inflight.flash import RamFlash
from inflight.inbound import DUPLICATE, NEW, REDELIVERED, Inbound
from inflight.journal import OUT, Journal, OutboxFull
from inflight.outbound import ERROR, FINISH, IGNORED, RELEASE, REPEAT, UNKNOWN, Outbound
from inflight.packet import PUBACK, PUBCOMP, PUBREC, ProtocolError
from inflight.session import Session
from nor import NorFlash


def two(mid):
    return bytes([mid >> 8, mid & 255])


def ack(first, mid):
    return bytes([first, 2]) + two(mid)


def message(topic, payload, qos=0, mid=1, dup=0, retain=0):
    body = two(len(topic)) + topic + (two(mid) if qos else b"") + payload
    assert len(body) < 128
    return bytes([0x30 | dup << 3 | qos << 1 | retain, len(body)]) + body


def split(data):
    """The packets of data."""
    out = []
    i = 0
    while i < len(data):
        n = packet.length(data, i)
        out.append(data[i : i + n])
        i += n
    return out


def mid_of(raw):
    """The Message ID of a short PUBLISH that was sent."""
    at = 4 + (raw[2] << 8 | raw[3])
    return raw[at] << 8 | raw[at + 1]


class Peer:
    """A session, its broker's end in the test's hands, and a clock that the test turns."""

    def __init__(self, device=None, buffer=256, **options):
        self.now = 0
        self.got = []
        journal = Journal(device) if device else Journal(RamFlash())
        self.session = Session(journal, bytearray(buffer), b"dev", **options)

    def written(self):
        """Everything that is due, as one."""
        s = self.session
        out = b""
        n = s.data_to_send(self.now)
        while n:
            out += bytes(s.out.view[s.out.at : s.out.at + n])
            n = s.data_to_send(self.now)
        return out

    def sent(self):
        """The packets that are due."""
        return split(self.written())

    def feed(self, data):
        """Gives data to the session; returns the packets it sends meanwhile."""
        s = self.session
        out = b""
        i = 0
        while i < len(data):
            n = min(s.decoder.space, len(data) - i)
            s.decoder.view[:n] = data[i : i + n]
            s.bytes_received(n, self.now)
            i += n
            kind = s.next_event(self.now)
            while kind:
                if kind == packet.PUBLISH:
                    self.note()
                    s.delivered()
                out += self.written()
                kind = s.next_event(self.now)
        return split(out)

    def note(self):
        s = self.session
        if s.deliver:
            d = s.decoder
            self.got.append((bytes(d.buf[d.at : d.at + d.n]), s.redelivered))

    def up(self, present=0, clean=False):
        """A new connection; returns what is sent behind CONNACK."""
        self.session.connect(self.now, clean, 60, None, None, None)
        eq(self.sent()[0][0], 0x10)
        eq(self.feed(bytes([0x20, 2, present, 0])), [])
        self.session.resume()
        return self.sent()

    def publish(self, payload, qos=1, topic=b"t"):
        return self.session.publish(topic, payload, qos, False)

    def count(self, name):
        return self.session.count[COUNTERS.split().index(name)]


# --- the tables ---

# Rows as in outbound.py: SEND, ACK, REC, REL, COMP; columns PUBACK, PUBREC, PUBCOMP.
OUTBOUND = (
    (IGNORED, IGNORED, IGNORED),
    (FINISH, ERROR, ERROR),
    (ERROR, RELEASE, ERROR),
    (IGNORED, IGNORED, IGNORED),
    (ERROR, REPEAT, FINISH),
)


def test_table_of_the_sender():
    """[MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT-2.3.1-3] Every acknowledgement in every state."""
    for state in range(5):
        for k in range(3):
            journal = Journal(RamFlash())
            outbound = Outbound(journal, 4)
            outbound.accept(7, b"\x34\x05\x00\x01t\x00\x07", 7, None)
            outbound.states[0] = state
            kind = (PUBACK, PUBREC, PUBCOMP)[k]
            want = OUTBOUND[state][k]
            got = outbound.acknowledged(kind, 7)
            if state in (0, 3) and kind == PUBREC and got == REPEAT:
                continue  # answering it at once is as good
            eq((state, kind, got), (state, kind, want))
            eq(journal.live, 0 if want == FINISH else 1)
            eq(outbound.rows, journal.live)
            eq(outbound.acknowledged(kind, 8), UNKNOWN)


def test_table_of_the_receiver():
    """[MQTT-4.3.3-2] Every packet in every state of a received id."""
    inbound = Inbound(Journal(RamFlash()), 4)
    inbound.released(9)
    eq(inbound.received(9), NEW)
    eq(inbound.received(9), REDELIVERED)
    raises(ProtocolError, inbound.released, 9)
    inbound.delivered(9)
    eq(inbound.received(9), DUPLICATE)
    inbound.delivered(9)
    eq(inbound.received(9), DUPLICATE)
    inbound.released(9)
    eq(inbound.received(9), NEW)


def test_receiver_without_a_journal():
    """The same in RAM alone."""
    inbound = Inbound(None, 2)
    eq(inbound.received(1), NEW)
    inbound.delivered(1)
    eq(inbound.received(1), DUPLICATE)
    eq(inbound.received(2), NEW)
    inbound.delivered(2)
    raises(OutboxFull, inbound.received, 3)
    inbound.released(1)
    eq(inbound.received(3), NEW)
    inbound.session_lost()
    eq(inbound.received(2), NEW)


def test_receiver_recovers():
    """[MQTT-4.1.0-1] Ids come back from the journal with what was known about them, beside `limit` new ones."""
    device = RamFlash()
    inbound = Inbound(Journal(device), 3)
    for mid in (5, 6, 7):
        inbound.received(mid)
    inbound.delivered(5)
    inbound.delivered(6)
    inbound.released(6)
    inbound = Inbound(Journal(device), 3)
    eq(inbound.received(5), DUPLICATE)
    eq(inbound.received(7), REDELIVERED)
    eq(inbound.received(6), NEW)
    eq(inbound.received(8), NEW)
    inbound.session_lost()
    inbound = Inbound(Journal(device), 1)
    eq(inbound.received(5), NEW)


# --- what leaves never runs ahead of what is durable ---


class Wary(Peer):
    """Whenever something leaves or is handed over, flash must hold it: power may go there."""

    def __init__(self, device, **options):
        self.device = device
        super().__init__(device, **options)

    def written(self):
        s = self.session
        out = b""
        n = s.data_to_send(self.now)
        while n:
            assert self.device.is_durable(), s.out.view[s.out.at]
            out += bytes(s.out.view[s.out.at : s.out.at + n])
            n = s.data_to_send(self.now)
        return out

    def note(self):
        assert self.device.is_durable() or self.session.decoder.flags & 6 != 4
        super().note()


def test_nothing_leaves_before_it_is_durable():
    """[MQTT-4.1.0-1] [MQTT-4.3.3-2] PUBLISH, PUBREL and every answer, at level 4 and 3, a clean session as well."""
    for level in (4, 3):
        device = NorFlash(4, 1024, 16, cache=True)
        for clean in (False, True, False):
            peer = Wary(device, protocol_level=level, max_inflight=2)
            peer.publish(b"offline", 2)
            assert device.is_durable()
            packets = peer.up(0, clean)
            for k in range(6):
                peer.publish(b"%d" % k, 1 + k % 2)
                assert device.is_durable()
                packets += peer.sent()
            while packets:
                p = packets.pop(0)
                if p[0] & 0xF0 == 0x30:
                    packets += peer.feed(ack(0x40 if p[0] & 2 else 0x50, mid_of(p)))
                elif p[0] & 0xF0 == 0x60:
                    packets += peer.feed(ack(0x70, p[2] << 8 | p[3]))
            eq(peer.session.pending, 0)
            for mid in (9, 10):
                peer.feed(message(b"t", b"in", 2, mid) + ack(0x62, mid) + message(b"t", b"in", 1, mid))
            peer.session.disconnect()
            peer.sent()
            assert device.is_durable()
            device.lose_power()


def test_power_cut_at_rest_behind_pubcomp():
    """[MQTT-4.3.3-2] The broker may use the id again: its next message is not swallowed, however often that happens."""
    device = NorFlash(4, 1024, 16, cache=True)
    for k in range(40):
        peer = Peer(device, receive_maximum=4)
        peer.up(1 if k else 0)
        eq(peer.feed(message(b"t", b"%d" % k, 2, 1 + k % 7)), [ack(0x50, 1 + k % 7)])
        eq(peer.feed(ack(0x62, 1 + k % 7)), [ack(0x70, 1 + k % 7)])
        eq(peer.got, [(b"%d" % k, False)])
        device.lose_power()


def test_idle_makes_durable():
    """What was acknowledged does not go out again after a power cut in an idle moment, nor after none was ever idle."""
    device = NorFlash(4, 1024, 16, cache=True)
    peer = Peer(device)
    peer.up()
    for mid in (1, 2):
        peer.publish(b"x")
        peer.sent()
    peer.feed(ack(0x40, 1))
    peer.session.collect(False)
    assert not device.is_durable()
    peer.feed(ack(0x40, 2))
    peer.session.collect()
    device.lose_power()
    eq(Peer(device).up(1), [])


def test_handler_is_interrupted_behind_a_cache():
    """[MQTT-4.3.3-2] The application had the message, the power went: it comes again and says so."""
    device = NorFlash(4, 1024, 16, cache=True)
    peer = Peer(device)
    peer.up()
    peer.session.decoder.view[:8] = message(b"t", b"x", 2, 5)
    peer.session.decoder.bytes_received(8)
    eq(peer.session.next_event(0), packet.PUBLISH)
    device.lose_power()
    peer = Peer(device)
    peer.up(1)
    peer.feed(message(b"t", b"x", 2, 5, 1))
    eq(peer.got, [(b"x", True)])


def test_qos_0_costs_no_sync():
    """Nothing is spent where nothing is promised."""
    device = NorFlash(4, 1024, 16, cache=True)
    peer = Peer(device)
    peer.up()
    peer.session.commit()
    syncs = device.syncs
    for _ in range(5):
        peer.publish(b"x", 0)
        peer.sent()
        peer.feed(message(b"t", b"x"))
        peer.session.collect()
    eq(device.syncs, syncs)


# --- ids ---


def test_ids_go_around():
    """[MQTT-2.3.1-1] [MQTT-2.3.1-2] 1 to 65535, then 1 again: never 0, never one in use."""
    outbound = Outbound(Journal(RamFlash()), 4)
    eq(outbound.free_mid(0), 1)
    outbound.last_mid = 65534
    eq(outbound.free_mid(0), 65535)
    eq(outbound.free_mid(0), 65535)
    eq(outbound.free_mid(65535), 1)
    for mid in (65535, 1, 2):
        outbound.accept(mid, b"\x32\x05\x00\x01t" + two(mid), 7, None)
    outbound.last_mid = 65534
    eq(outbound.free_mid(3), 4)


def test_ids_go_on_after_a_restart():
    """[MQTT-2.3.1-2] Behind those of the last life."""
    device = RamFlash()
    peer = Peer(device)
    eq([peer.publish(b"x") for _ in range(3)], [1, 2, 3])
    eq(Peer(device).publish(b"x"), 4)


# --- out ---


def test_pipeline_and_window():
    """[MQTT-4.6.0-1] The window is filled in order, and again when its first message is done."""
    peer = Peer(max_inflight=3)
    peer.up()
    for k in range(5):
        peer.publish(b"%d" % k)
    eq([p[-1:] for p in peer.sent()], [b"0", b"1", b"2"])
    eq(peer.session.pending, 5)
    assert peer.session.window_full
    eq(peer.feed(ack(0x40, 2))[0][-1:], b"3")
    eq(peer.feed(ack(0x40, 1) + ack(0x40, 3))[0][-1:], b"4")
    eq(peer.feed(ack(0x40, 4) + ack(0x40, 5)), [])
    eq(peer.session.pending, 0)


def test_first_attempt_has_no_dup():
    """[MQTT-3.3.1-1] [MQTT-4.3.2-1] Accepted before or after the connection: DUP is 0 the first time, then 1."""
    peer = Peer()
    peer.publish(b"a")
    out = peer.up()
    eq([p[0] for p in out], [0x32])
    peer.publish(b"b", 2)
    eq([p[0] for p in peer.sent()], [0x34])
    peer.session.connection_lost()
    eq([p[0] for p in peer.up(1)], [0x3A, 0x3C])


def test_recovered_has_dup():
    """[MQTT-3.3.1-1] [MQTT-4.4.0-1] After a restart it is known what can have been sent: that has DUP, the rest has
    not."""
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


def test_released_is_recovered_as_released():
    """[MQTT-4.3.3-1] PUBREL, never the PUBLISH again."""
    device = RamFlash()
    peer = Peer(device)
    peer.up()
    peer.publish(b"a", 2)
    peer.sent()
    eq(peer.feed(ack(0x50, 1)), [ack(0x62, 1)])
    peer = Peer(device)
    eq(peer.up(1), [ack(0x62, 1)])
    eq(peer.feed(ack(0x50, 1)), [ack(0x62, 1)])
    peer.feed(ack(0x70, 1))
    eq(peer.session.pending, 0)
    eq(Peer(device).session.pending, 0)


def test_released_behind_a_smaller_window():
    """[MQTT-4.3.3-1] [MQTT-4.6.0-4] A later life with a smaller window releases the rest in its turn."""
    device = RamFlash()
    peer = Peer(device, max_inflight=6)
    peer.up()
    for k in range(6):
        peer.publish(b"%d" % k, 2)
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


def test_retain_is_kept():
    """RETAIN is part of the message: also when it is sent again."""
    peer = Peer()
    peer.up()
    peer.session.publish(b"t", b"x", 1, True)
    peer.session.publish(b"t", b"x", 2, True)
    eq([p[0] for p in peer.sent()], [0x33, 0x35])
    peer.session.connection_lost()
    eq([p[0] for p in peer.up(1)], [0x3B, 0x3D])


def test_ids_of_an_earlier_larger_window():
    """[MQTT-2.3.1-2] What a larger window left out of order, behind a smaller one, keeps its id to itself."""
    device = NorFlash(8, 1024, 16)
    peer = Peer(device, max_inflight=8)
    peer.up()
    for _ in range(8):
        peer.publish(b"x")
    peer.sent()
    for mid in (2, 3, 4, 6, 8):
        peer.feed(ack(0x40, mid))
    peer = Peer(device, max_inflight=1)
    outbound = peer.session._outbound
    outbound.last_mid = 65534
    mids = []
    for _ in range(8):
        mids.append(peer.publish(b"y"))
    eq(mids, [65535, 2, 3, 4, 6, 8, 9, 10])
    eq(Peer(device, max_inflight=1).publish(b"z"), 11)


def test_redelivery_in_order_across_lives():
    """[MQTT-4.6.0-1] [MQTT-2.3.1-3] Ten lives with a message each: the same ids, the same order."""
    device = RamFlash()
    for k in range(10):
        Peer(device, max_inflight=4).publish(b"%d" % k, 1 + k % 2)
    peer = Peer(device, max_inflight=4)
    sent = peer.up()
    order = []
    while sent:
        p = sent.pop(0)
        if p[0] == 0x62:
            sent += peer.feed(ack(0x70, p[3]))
        elif p[0] & 6 == 2:
            order.append((mid_of(p), p[-1:]))
            sent += peer.feed(ack(0x40, mid_of(p)))
        else:
            order.append((mid_of(p), p[-1:]))
            sent += peer.feed(ack(0x50, mid_of(p)))
    eq(order, [(k + 1, b"%d" % k) for k in range(10)])


def test_pubrel_in_the_order_of_pubrec():
    """[MQTT-4.6.0-4] Whatever the order of the messages was."""
    peer = Peer()
    peer.up()
    for _ in range(3):
        peer.publish(b"x", 2)
    peer.sent()
    eq(peer.feed(ack(0x50, 3) + ack(0x50, 1) + ack(0x50, 2)), [ack(0x62, 3), ack(0x62, 1), ack(0x62, 2)])


def test_wrong_acks():
    """[MQTT-4.8.0-1] Of the wrong kind for a known id: a violation; the message stays."""
    for qos, first in ((1, 0x50), (1, 0x70), (2, 0x40), (2, 0x70)):
        peer = Peer()
        peer.up()
        peer.publish(b"x", qos)
        peer.sent()
        raises(ProtocolError, peer.feed, ack(first, 1))
        eq(peer.session.pending, 1)


def test_packets_out_of_place():
    """[MQTT-3.2.0-1] [MQTT-4.8.0-1] Nothing before CONNACK, no second CONNACK, nothing on a session that is not
    connected."""
    for data in (ack(0x40, 1), message(b"t", b"x"), b"\xd0\x00"):
        peer = Peer()
        peer.session.connect(0, False, 60, None, None, None)
        peer.sent()
        raises(ProtocolError, peer.feed, data)
    peer = Peer()
    peer.up()
    raises(ProtocolError, peer.feed, b"\x20\x02\x00\x00")


def test_nothing_before_connack():
    """[MQTT-3.1.0-1] [MQTT31-24] Not even what waits."""
    peer = Peer(keepalive=1000)
    peer.publish(b"x")
    eq(peer.sent(), [])
    peer.session.connect(0, False, 60, None, None, None)
    eq(len(peer.sent()), 1)
    peer.now = 5000
    eq(peer.sent(), [])


def test_dropped_when_full():
    """The oldest behind the window gives way, or the newest; without a policy OutboxFull, and nothing changes."""
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
    for p in peer.up()[:2]:  # one makes up for what the session itself has noted
        peer.feed(ack(0x40, mid_of(p)))
    peer.publish(b"%060d" % n)


def test_dropped_after_a_restart_as_before_it():
    """The oldest that can never have left gives way, one by one; what may have left stays, in a smaller window too."""
    for window in (2, 8, 12):
        device = NorFlash(8, 1024, 16)
        peer = Peer(device, max_inflight=8)
        peer.up()
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


def test_message_that_would_not_fit_drops_nobody():
    """[MQTT-3.3.1-1] Dropping all that can be dropped would not make room for it: it is the one that goes."""
    peer = Peer(NorFlash(5, 2048, 16), max_inflight=20, when_full="oldest")
    while peer.publish(b"%040d" % 0):
        if peer.session._outbound.queued == 3:
            break
    assert not peer.publish(bytes(900))
    eq((peer.count("dropped"), peer.session.pending), (1, 23))


def test_held_message_outlives_the_ring():
    """[MQTT-2.3.1-3] [MQTT-4.4.0-1] A message that stays unacknowledged is moved as the ring goes around; it is sent
    again, whole."""
    device = RamFlash()
    peer = Peer(device, max_inflight=4)
    peer.up()
    held = (peer.publish(b"held 1", 1), peer.publish(b"held 2", 2))
    peer.sent()
    peer.feed(ack(0x50, held[1]))
    for k in range(300):
        mid = peer.publish(b"%050d" % k)
        eq(len(peer.sent()), 1)
        peer.feed(ack(0x40, mid))
    eq(peer.session.pending, 2)
    peer.session.connection_lost()
    want = [b"\x3a" + message(b"t", b"held 1", 1, held[0])[1:], ack(0x62, held[1])]
    eq(peer.up(1), want)
    eq(Peer(device, max_inflight=4).up(1), want)


def test_received_ids_outlive_the_ring():
    """[MQTT-4.3.3-2] The same for the ids of received messages."""
    device = RamFlash()
    peer = Peer(device)
    peer.up()
    peer.feed(message(b"t", b"once", 2, 77))
    for k in range(300):
        mid = peer.publish(b"%050d" % k)
        peer.sent()
        peer.feed(ack(0x40, mid))
    eq(peer.feed(message(b"t", b"once", 2, 77, 1)), [ack(0x50, 77)])
    peer = Peer(device)
    peer.up(1)
    eq(peer.feed(message(b"t", b"once", 2, 77, 1)), [ack(0x50, 77)])
    eq(peer.got, [])


def test_buffer_longer_than_the_journal():
    """Messages are read from flash into half of the buffer."""
    Peer(RamFlash(4, 1024), 8192)
    raises(ValueError, Peer, RamFlash(4, 1024), 8194)


def test_long_messages_stream_from_flash():
    """A payload longer than the buffer goes into flash whole, and out of it in pieces, again and again."""
    payload = bytes([i & 255 for i in range(600)])
    peer = Peer(RamFlash(4, 4096), 128)
    for qos in (1, 2):
        mid = peer.publish(payload, qos, b"topic")
        head = bytes([0x32 if qos == 1 else 0x34, 0xE1, 0x04]) + b"\x00\x05topic" + two(mid)
        eq(peer.up(qos - 1)[-1], head + payload)
        peer.session.connection_lost()
        eq(peer.up(1)[-1], bytes([head[0] | 8]) + head[1:] + payload)
        peer.session.connection_lost()


def test_long_message_of_qos_0():
    payload = bytes([i & 255 for i in range(600)])
    peer = Peer(None, 128)
    peer.up()
    peer.publish(payload, 0, b"topic")
    eq(peer.sent(), [b"\x30\xdf\x04\x00\x05topic" + payload])


# --- in ---


def test_answers():
    """[MQTT-3.3.4-1] [MQTT-4.6.0-2] [MQTT-4.6.0-3] None, PUBACK, PUBREC; in the order of arrival."""
    peer = Peer()
    peer.up()
    data = message(b"t", b"0") + message(b"t", b"1", 1, 5) + message(b"t", b"2", 2, 6) + message(b"t", b"3", 1, 4)
    eq(peer.feed(data), [ack(0x40, 5), ack(0x50, 6), ack(0x40, 4)])
    eq([g[0] for g in peer.got], [b"0", b"1", b"2", b"3"])


def test_qos_2_once():
    """[MQTT-4.3.3-2] Repeats are answered and not delivered, across connections and lives, until PUBREL."""
    device = RamFlash()
    peer = Peer(device)
    peer.up()
    eq(peer.feed(message(b"t", b"x", 2, 5)), [ack(0x50, 5)])
    eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
    peer.session.connection_lost()
    peer.up(1)
    eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
    eq(len(peer.got), 1)
    peer = Peer(device)
    peer.up(1)
    eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
    eq(peer.got, [])
    eq(peer.feed(ack(0x62, 5)), [ack(0x70, 5)])
    eq(peer.feed(ack(0x62, 5)), [ack(0x70, 5)])
    eq(peer.feed(message(b"t", b"y", 2, 5, 1)), [ack(0x50, 5)])
    eq(peer.got, [(b"y", False)])


def test_interrupted_handler():
    """[MQTT-4.3.3-2] Power is cut before taken(): delivered again, marked; then never again."""
    device = RamFlash()
    peer = Peer(device)
    peer.up()
    peer.session.decoder.view[:8] = message(b"t", b"x", 2, 5)
    peer.session.decoder.bytes_received(8)
    eq(peer.session.next_event(0), packet.PUBLISH)
    assert peer.session.deliver and not peer.session.redelivered
    for k in range(2):
        peer = Peer(device)
        peer.up(1)
        eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
        eq(peer.got, [(b"x", True)] if k == 0 else [])


def test_broker_that_forgot():
    """[MQTT-3.2.2-3] Session present 0: received ids are forgotten, what was sent is sent again."""
    peer = Peer()
    peer.up()
    peer.feed(message(b"t", b"x", 2, 5))
    peer.publish(b"out")
    peer.sent()
    peer.session.connection_lost()
    eq([p[0] for p in peer.up(0)], [0x3A])
    peer.feed(message(b"t", b"y", 2, 5))
    eq([g[0] for g in peer.got], [b"x", b"y"])


def test_level_3_ignores_the_reserved_byte():
    """[MQTT31-5] Received ids are kept, whatever byte 1 says."""
    for reserved in (0, 1, 255):
        peer = Peer(protocol_level=3)
        peer.up(reserved)
        peer.feed(message(b"t", b"x", 2, 5))
        peer.session.connection_lost()
        peer.up(reserved)
        eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
        eq(len(peer.got), 1)


def test_limit_of_received_ids():
    """Nothing the peer sends can grow memory."""
    peer = Peer(receive_maximum=2)
    peer.up()
    peer.feed(message(b"t", b"x", 2, 1) + message(b"t", b"x", 2, 2))
    error = raises(OSError, peer.feed, message(b"t", b"x", 2, 3))
    eq(error.errno, ENOBUFS)
    assert not peer.session.busy  # the journal is well


def test_unknown_acks():
    """[MQTT-4.3.3-1] [MQTT-4.3.3-2] Answered or counted, never an error."""
    peer = Peer()
    peer.up()
    eq(peer.feed(ack(0x40, 9) + ack(0x70, 9)), [])
    eq(peer.feed(ack(0x50, 9) + ack(0x62, 8)), [ack(0x62, 9), ack(0x70, 8)])
    eq(peer.count("unknown_acks"), 3)


# --- whose session ---


def test_owner():
    """[MQTT-3.1.3-2] A journal that has met a broker serves one client id."""
    device = RamFlash()
    peer = Peer(device)
    assert not peer.session.has_session
    peer.up()
    assert Peer(device).session.has_session
    for other in (b"de", b"devi", b"xyz", b""):
        raises(ValueError, Session, Journal(device), bytearray(256), other)


def test_known_is_written_once():
    """Connecting costs no flash, but for the first time."""
    device = NorFlash(4, 1024, 64)
    Peer(device).up()
    before = device.snapshot()
    peer = Peer(device)
    peer.up(1)
    peer.up(1)
    eq(device.snapshot(), before)


def test_clean_session_gives_up():
    """[MQTT-3.1.2-6] What was in flight, and received ids; not what never left."""
    peer = Peer(max_inflight=2)
    peer.up()
    for k in range(4):
        peer.publish(b"%d" % k)
    eq(len(peer.sent()), 2)
    peer.feed(message(b"t", b"x", 2, 5))
    peer.session.connection_lost()
    out = peer.up(0, True)
    eq([(p[0], p[-1:]) for p in out], [(0x32, b"2"), (0x32, b"3")])
    eq(peer.count("dropped"), 2)
    peer.feed(message(b"t", b"y", 2, 5))
    eq(len(peer.got), 2)


def test_recovered_messages_are_given_up_by_a_clean_session():
    """[MQTT-3.1.2-6] After a restart they belong to the session before."""
    device = RamFlash()
    peer = Peer(device, max_inflight=2)
    peer.up()
    for k in range(4):
        peer.publish(b"%d" % k)
    peer.sent()
    peer = Peer(device, max_inflight=2)
    peer.publish(b"new")
    eq([(p[0], p[-1:]) for p in peer.up(0, True)], [(0x32, b"2"), (0x32, b"3")])  # behind the window
    eq(peer.count("dropped"), 2)
    eq([p[-3:] for p in peer.feed(ack(0x40, 3))], [b"new"])
    eq(peer.session.pending, 2)
    eq(Peer(device).session.pending, 2)


def test_what_never_left_survives_a_power_cut_and_a_clean_session():
    """Accepted offline, it goes out, DUP 0, whatever was connected or sent before."""
    for present, clean in ((0, True), (0, False)):
        device = NorFlash(8, 1024, 16)
        peer = Peer(device)
        peer.up(0, clean)
        peer.publish(b"done", 1)
        peer.sent()
        peer.feed(ack(0x40, 1))
        peer.publish(b"sent", 2)
        peer.sent()
        peer.session.connection_lost()
        for k in range(30):
            peer.publish(b"%02d" % k)
        peer = Peer(device)
        for k in range(30, 60):
            peer.publish(b"%02d" % k)
        for k in range(2):
            peer = Peer(device)
            sent = peer.up(present, True)
            if not k:
                eq(peer.count("dropped"), 1)
                eq([(p[0], p[-2:]) for p in sent], [(0x32, b"%02d" % k) for k in range(8)])
        eq((peer.count("dropped"), peer.session.pending), (8, 52))  # the window had left


def test_nothing_is_given_up_before_connack():
    """[MQTT-3.1.2-6] A CONNECT with clean session that never arrives ends nothing, at level 4 and 3."""
    for level in (4, 3):
        device = NorFlash(8, 1024, 16)
        peer = Peer(device, protocol_level=level)
        peer.up(0, True)
        peer.session.connection_lost()
        peer.up(0)
        two_left = [peer.publish(b"a", 1), peer.publish(b"b", 2)]
        peer.sent()
        peer.feed(message(b"t", b"x", 2, 5))
        peer = Peer(device, protocol_level=level)
        peer.session.connect(0, True, 60, None, None, None)
        eq(peer.sent()[0][0], 0x10)
        peer = Peer(device, protocol_level=level)
        eq([(p[0], mid_of(p)) for p in peer.up(1)], [(0x3A, two_left[0]), (0x3C, two_left[1])])
        eq(peer.feed(message(b"t", b"x", 2, 5, 1)), [ack(0x50, 5)])
        eq((peer.got, peer.count("dropped")), ([], 0))


def test_a_session_that_ended_sends_nothing_again():
    """[MQTT-3.1.2-6] Neither PUBLISH nor PUBREL, whether the next session is clean or not, at level 4 and 3; the ids
    that were received in it are free."""
    for level in (4, 3):
        for arrived in (True, False):
            for clean in (True, False):
                device = NorFlash(8, 1024, 16, cache=True)
                peer = Peer(device, protocol_level=level)
                peer.up(0, True)
                if arrived:  # else CONNACK of a later clean session never came
                    peer.publish(b"a", 2)
                    peer.publish(b"b", 2)
                    peer.publish(b"c", 1)
                    peer.sent()
                    eq(peer.feed(ack(0x50, 1)), [ack(0x62, 1)])
                    peer.feed(message(b"t", b"x", 2, 5))
                else:
                    peer.session.connection_lost()
                    peer.up(0)
                    peer.publish(b"a", 1)
                    peer.sent()
                    peer.feed(message(b"t", b"x", 2, 5))
                    peer.session.connection_lost()
                    peer.session.connect(0, True, 60, None, None, None)
                    peer.sent()
                device.lose_power()
                if level == 3 and not (arrived or clean):
                    continue  # nobody can tell: nothing is lost, then
                peer = Peer(device, protocol_level=level)
                eq((level, arrived, clean, peer.up(0, clean)), (level, arrived, clean, []))
                eq((peer.session.pending, peer.count("dropped")), (0, 3 if arrived else 1))
                eq(peer.feed(message(b"t", b"new", 2, 5)), [ack(0x50, 5)])
                eq(peer.got, [(b"new", False)])


def test_a_clean_session_costs_no_flash_again():
    """Connecting anew in the same way, and sending on that connection, writes no SESSION record."""
    for clean in (True, False):
        device = NorFlash(4, 1024, 16)
        used = []
        for _ in range(3):
            peer = Peer(device)
            peer.up(0, clean)
            before = device.programmed
            mid = peer.publish(b"x" * 20)
            peer.sent()
            peer.feed(ack(0x40, mid))
            peer.publish(b"y" * 20, 0)
            used.append(device.programmed - before)
            peer.session.connection_lost()
        assert max(used) < 60, used


def spoil(device, copies):
    """Bits flip in the SESSION record, in so many of its copies."""
    at = len(device.data)
    for _ in range(copies):
        at = bytes(device.data).rindex(b"dev", 0, at)
        device.data[at] &= 0xFE
        device.data[at + 1] &= 0xFE


def test_a_copy_of_the_session_record_that_was_spoilt():
    """The other one tells all, and there are two again before anything else may happen to it."""
    device = NorFlash(4, 1024, 16)
    peer = Peer(device)
    peer.up()
    peer.publish(b"sent")
    peer.sent()
    for life in range(3):
        spoil(device, 1)
        peer = Peer(device)
        eq([p[0] & 8 for p in peer.up(1)], [8] * (life + 1))
        peer.publish(b"new", 2)
        eq([p[0] for p in peer.sent()], [0x34])  # no id needs to be proven free


def test_session_record_that_was_spoilt():
    """[MQTT-4.4.0-1] Both copies: what can have left goes out again, with DUP, also into a clean session; nothing is
    given up, and the new record says so to the lives behind."""
    for clean in (False, True):
        device = NorFlash(4, 1024, 16)
        peer = Peer(device)
        peer.up()
        for k in range(3):
            peer.publish(b"%d" % k)
        peer.sent()
        spoil(device, 2)
        Peer(device)
        peer = Peer(device)
        eq([(p[0], p[-1:]) for p in peer.up(0, clean)], [(0x3A, b"%d" % k) for k in range(3)])
        eq(peer.count("dropped"), 0)


# --- a session that this journal does not know ---


def probed(packets, first):
    """True if these are PUBRELs for ids from `first` on."""
    return packets == [ack(0x62, first + k) for k in range(16)]


def test_ids_are_freed_in_a_session_of_somebody_else():
    """[MQTT-4.3.3-2] [MQTT-2.3.1-2] PUBREL and its PUBCOMP before the first use of an id at QoS 2; QoS 1 needs none."""
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
        # The next fifteen ids were freed with the first.
        eq([p[0] for p in peer.sent()], [0x34] * 5)
        for mid in range(1, 4):
            peer.feed(ack(0x40, mid) if mid != 2 else ack(0x50, mid) + ack(0x70, mid))
        assert peer.session.pending == 14


def test_freed_ids_are_known_after_a_power_cut():
    """[MQTT-4.3.3-1] A message that was sent is not released before its PUBREC, whatever is to be freed."""
    device = NorFlash(8, 1024, 16, cache=True)
    peer = Peer(device)
    peer.up(1)
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


def test_a_new_session_has_no_ids_to_be_freed():
    """[MQTT-3.2.2-3] Session present 0: all ids are free, also in the lives behind."""
    device = NorFlash(8, 1024, 16, cache=True)
    peer = Peer(device)
    peer.up(1)
    peer.publish(b"x", 2)
    assert probed(peer.sent(), 1)
    peer.session.connection_lost()
    eq([p[0] for p in peer.up(0)], [0x34])
    device.lose_power()
    eq([p[0] for p in Peer(device).up(1)], [0x3C])


def test_a_broker_that_does_not_answer_for_free_ids():
    """It has had the PUBRELs when it answers a PINGREQ behind them: nobody waits for ever."""
    peer = Peer(keepalive=1000)
    peer.up(1)
    peer.publish(b"x", 2)
    assert probed(peer.sent(), 1)
    peer.now = 1000
    eq(peer.sent(), [PING])
    eq([p[0] for p in peer.feed(b"\xd0\x00")], [0x34])


def test_probes_are_repeated_at_level_3():
    """[MQTT31-12] As everything else that is not answered."""
    peer = Peer(protocol_level=3, retry_ms=1000)
    peer.up()
    peer.publish(b"x", 2)
    assert probed(peer.sent(), 1)
    peer.feed(ack(0x70, 1))
    peer.now = 2000
    assert probed(peer.sent(), 1)
    eq([p[0] for p in peer.feed(b"".join([ack(0x70, k) for k in range(1, 17)]))], [0x34])


# --- timers ---

PING = b"\xc0\x00"
STARTS = (0, 12345, -500, -1)


def test_keep_alive():
    """[MQTT-3.1.2-23] PINGREQ after the silence asked for, not before, once; around the end of the clock too."""
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
        assert peer.session.keep_alive.pinging
        assert not peer.session.keep_alive.overdue(ticks_add(t, 1999))
        assert peer.session.keep_alive.overdue(ticks_add(t, 2000))
        peer.feed(b"\xd0\x00")
        assert not peer.session.keep_alive.pinging
        assert not peer.session.keep_alive.overdue(ticks_add(t, 9999))
        peer.now = ticks_add(t, 2000)
        eq(peer.sent(), [PING])


def test_pubrel_that_nobody_answers():
    """A broker without the session owes no PUBCOMP: asked twice in vain, the message is done with."""
    peer = Peer(max_inflight=1)
    peer.up()
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
    """drop="oldest" gives up what the broker has certainly never seen, nothing else."""
    device = NorFlash(4, 1024, 64)
    peer = Peer(device, max_inflight=4)
    peer.up()
    for k in range(4):
        peer.publish(b"%d" % k, 2)
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
    """[MQTT-3.12.4-1] However much we send: a broker that says nothing is asked, and missed."""
    peer = Peer(keepalive=1000, timeout_ms=250)
    peer.up()
    peer.now = 600
    peer.publish(b"x", 0)
    eq([p[0] for p in peer.sent()], [0x30])
    peer.now = 1000
    eq(peer.sent(), [PING])
    assert not peer.session.keep_alive.overdue(1200)
    assert peer.session.keep_alive.overdue(1250)


def test_any_byte_is_life():
    """[MQTT-3.12.4-1] A broker that sends slowly is not missed, however late its PINGRESP is; but it is some time."""
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
            assert not s.keep_alive.overdue(ticks_add(peer.now, 499))
            eq(s.keep_alive.left(ticks_add(peer.now, 499), ticks_add(t, 1000)), 1)
        assert s.keep_alive.overdue(ticks_add(peer.now, 500))
        peer.feed(data[-1:])
        eq(len(peer.got), 1)
        for k in range(20):
            peer.now = ticks_add(t, 1000 + 400 * (k + 10))
            peer.feed(b"\x40\x02\x00\x09")
            eq((k, s.keep_alive.overdue(peer.now)), (k, k >= 3))


def test_a_slow_long_packet_is_life():
    """A message longer than the buffer may take its time, if enough of it comes at all."""
    for piece, alive in ((30, True), (20, False)):
        peer = Peer(keepalive=1000, timeout_ms=500)
        peer.up()
        peer.now = 1000
        eq(peer.sent(), [PING])
        peer.feed(b"\x30\xff\xff\xff\x7f\0\1t")
        for k in range(60):
            peer.now += 400
            peer.feed(bytes(piece))
            if not alive and peer.session.keep_alive.overdue(peer.now):
                break
            assert not peer.session.keep_alive.overdue(peer.now)
        eq(k == 59, alive)


def test_a_week_without_a_look():
    """Half a period of the clock and more: keep alive, its time-out and the repetition of level 3 go on."""
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
        assert peer.session.keep_alive.overdue((t + later) % (1 << 30))


def test_keep_alive_counts_what_is_sent():
    """[MQTT-3.1.2-23] Packets of ours put it off; packets of the broker do not."""
    peer = Peer(keepalive=1000)
    peer.up()
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


def test_no_keep_alive():
    peer = Peer(keepalive=0)
    peer.up()
    peer.now = 500000
    eq(peer.sent(), [])


def test_ping_begins_anew_with_a_connection():
    """A PINGREQ of the last connection is not waited for on the next."""
    peer = Peer(keepalive=1000)
    peer.up()
    peer.now = 1000
    eq(peer.sent(), [PING])
    peer.session.connection_lost()
    assert not peer.session.keep_alive.pinging
    peer.up(1)
    assert not peer.session.keep_alive.overdue(9000)


def test_retry_of_level_3():
    """[MQTT31-9] [MQTT31-12] Repeated with DUP after the time-out, which doubles; an answer sets it back."""
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
    peer = Peer(protocol_level=3, retry_ms=1000)
    peer.up()
    peer.session.subscribe([b"a"], [1])
    first = peer.sent()
    eq(first[0][0], 0x82)
    peer.now = 1000
    eq(peer.sent(), [b"\x8a" + first[0][1:]])
    peer.feed(b"\x90\x03" + first[0][2:4] + b"\x01")
    assert not peer.session.requesting
    peer.now = 90000
    eq(peer.sent(), [])


def test_first_subscribe_after_a_pause():
    """[MQTT31-9] However long the session was idle, the first SUBSCRIBE has no DUP."""
    peer = Peer(protocol_level=3, retry_ms=1000)
    peer.now = 50000
    peer.up()
    peer.now = 100000
    peer.session.subscribe([b"a"], [1])
    eq([p[0] for p in peer.sent()], [0x82])


def test_publish_after_a_pause_is_not_repeated_early():
    """[MQTT31-12] The time-out begins when the message leaves."""
    peer = Peer(protocol_level=3, retry_ms=1000)
    peer.now = 50000
    peer.up()
    peer.now = 100000
    peer.publish(b"x")
    eq([p[0] for p in peer.sent()], [0x32])
    peer.now = 100999
    eq(peer.sent(), [])
    peer.now = 101000
    eq([p[0] for p in peer.sent()], [0x3A])


def test_no_retry_at_level_4():
    """[MQTT31-12] [MQTT-4.4.0-1] The next connection is the only occasion."""
    peer = Peer()
    peer.up()
    peer.publish(b"x")
    eq(len(peer.sent()), 1)
    peer.now = 900000
    eq(peer.sent(), [])


# --- requests ---


def test_subscribe_ids():
    """[MQTT-2.3.1-2] [MQTT-2.3.1-7] [MQTT-3.8.4-2] Its id is its own, and only its own answer ends it."""
    peer = Peer()
    peer.up()
    mid = peer.publish(b"x")
    peer.sent()
    peer.session.subscribe([b"a", b"b"], [1, 2])
    raw = peer.sent()[0]
    assert raw[2:4] != two(mid)
    eq(raw, b"\x82\x0a" + raw[2:4] + b"\x00\x01a\x01\x00\x01b\x02")
    peer.feed(b"\x90\x04" + raw[2:4] + b"\x01\x80")
    eq(peer.session.granted, b"\x01\x80")
    assert not peer.session.requesting


def test_answers_to_requests_that_nobody_made():
    """[MQTT-3.8.4-2] [MQTT-3.10.4-4] [MQTT31-9] Also a second answer, to a request that was repeated: counted, like
    other acknowledgements of unknown ids."""
    for level in (4, 3):
        peer = Peer(protocol_level=level, retry_ms=1000)
        peer.up(0, True)
        peer.feed(b"\x90\x03\x00\x07\x00" + ack(0xB0, 7))
        peer.session.subscribe([b"a"], [1])
        mid = peer.sent()[0][2:4]
        peer.now = 1000
        peer.sent()
        peer.feed(2 * (b"\x90\x03" + mid + b"\x01"))
        eq((peer.session.granted, peer.session.requesting), (b"\x01", False))
        peer.session.subscribe([b"a"], None)
        mid = peer.sent()[0][2:4]
        peer.feed(b"\x90\x03\x00\x07\x00" + 2 * (b"\xb0\x02" + mid))
        assert not peer.session.requesting
        eq(peer.count("unknown_acks"), 5)


def test_bad_answers_to_subscribe():
    """[MQTT-3.8.4-5] [MQTT-3.9.3-1] [MQTT-3.9.3-2] Count, codes and kind."""
    for first, mid, codes in (
        (0x90, 1, b"\x00"),
        (0x90, 1, b"\x00\x00\x00"),
        (0x90, 1, b"\x00\x03"),
        (0x90, 1, b"\x7f\x00"),
        (0x90, 1, b"\x81\x00"),
        (0xB0, 1, b""),
    ):
        peer = Peer()
        peer.up()
        peer.session.subscribe([b"a", b"b"], [0, 0])
        peer.sent()
        raises(ProtocolError, peer.feed, bytes([first, 2 + len(codes)]) + two(mid) + codes)


def test_disconnect_is_the_last():
    """[MQTT-3.14.1-1] [MQTT-3.14.4-2] Nothing behind it."""
    peer = Peer(keepalive=1000)
    peer.up()
    peer.session.disconnect()
    eq(peer.sent(), [b"\xe0\x00"])
    peer.publish(b"x")
    peer.now = 99999
    eq(peer.sent(), [])


def test_counters():
    """Nothing is hidden."""
    peer = Peer()
    peer.up()
    peer.publish(b"0", 0)
    peer.sent()
    peer.publish(b"1", 1)
    peer.publish(b"2", 2)
    peer.sent()
    peer.session.connection_lost()
    peer.up(1)
    peer.feed(ack(0x40, 1) + ack(0x50, 2) + ack(0x70, 2) + message(b"t", b"x", 2, 1) + message(b"t", b"x", 2, 1, 1))
    want = {"accepted": 2, "sent": 3, "resent": 2, "completed": 2, "received": 1, "duplicates": 1, "connects": 2}
    for name in want:
        eq((name, peer.count(name)), (name, want[name]))
    eq(peer.count("outages"), 1)
