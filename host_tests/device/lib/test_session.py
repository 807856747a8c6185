# Durability before sending, requests, unexpected packets, counters.

from harness import eq, raises
from inflight.flash.flash import RamFlash
from inflight.packet import ProtocolError
from nor import NorFlash
from session_peer import Peer, ack, message, mid_of, two
from session_peer5 import Peer5
from tools.reference import wire

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"

# --- durable before sent ---


class Wary(Peer):
    """Checks at each sent packet and each delivery that the flash already contains what it depends on."""

    def __init__(self, device, **options):
        self.device = device
        super().__init__(device, **options)

    def written(self):
        s = self.session
        out = b""
        n = s.data_to_send(self.now)
        while n:
            assert self.device.is_durable(), s.view[s.out_at]
            out += bytes(s.view[s.out_at : s.out_at + n])
            n = s.data_to_send(self.now)
        return out

    def note(self):
        assert self.device.is_durable() or self.session.flags & 6 != 4
        super().note()


def test_nothing_is_sent_before_it_is_durable():
    """[MQTT-4.1.0-1] [MQTT-4.3.3-2] PUBLISH, PUBREL and every answer, at levels 4 and 3, with clean sessions too."""
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


def test_idle_makes_durable():
    """Acknowledged messages are not sent again after a power cut in idle time, or without any idle time before it."""
    device = NorFlash(4, 1024, 16, cache=True)
    peer = Peer.connected(device)
    for mid in (1, 2):
        peer.send(b"x")
    peer.feed(ack(0x40, 1))
    peer.session.collect(False)
    assert not device.is_durable()
    peer.feed(ack(0x40, 2))
    peer.session.collect()
    device.lose_power()
    eq(Peer(device).up(1), [])


def test_qos_0_costs_no_sync():
    """QoS 0 needs no durability."""
    device = NorFlash(4, 1024, 16, cache=True)
    peer = Peer.connected(device)
    peer.session.commit()
    syncs = device.syncs
    for _ in range(5):
        peer.send(b"x", 0)
        peer.feed(message(b"t", b"x"))
        peer.session.collect()
    eq(device.syncs, syncs)


# --- requests ---


def test_subscribe_ids():
    """[MQTT-2.3.1-2] [MQTT-2.3.1-7] [MQTT-3.8.4-2] The id is used by this request only, and only its own answer
    completes it."""
    peer = Peer.connected()
    mid = peer.publish(b"x")
    peer.sent()
    peer.session.subscribe([b"a", b"b"], [1, 2])
    raw = peer.sent()[0]
    assert raw[2:4] != two(mid)
    eq(raw, b"\x82\x0a" + raw[2:4] + b"\x00\x01a\x01\x00\x01b\x02")
    peer.feed(b"\x90\x04" + raw[2:4] + b"\x01\x80")
    eq(peer.session.granted, b"\x01\x80")
    assert peer.session.request is None


def test_answers_without_a_request():
    """[MQTT-3.8.4-2] [MQTT-3.10.4-4] [MQTT31-9] A second answer to a repeated request too: counted, like other
    acknowledgements of unknown ids."""
    for level in (4, 3):
        peer = Peer(protocol_level=level, retry_ms=1000)
        peer.up(0, True)
        peer.feed(b"\x90\x03\x00\x07\x00" + ack(0xB0, 7))
        peer.session.subscribe([b"a"], [1])
        mid = peer.sent()[0][2:4]
        peer.now = 1000
        peer.sent()
        peer.feed(2 * (b"\x90\x03" + mid + b"\x01"))
        eq((peer.session.granted, peer.session.request), (b"\x01", None))
        peer.session.subscribe([b"a"], None)
        mid = peer.sent()[0][2:4]
        peer.feed(b"\x90\x03\x00\x07\x00" + 2 * (b"\xb0\x02" + mid))
        assert peer.session.request is None
        eq(peer.count("unknown_acks"), 5)


def test_bad_answers_to_subscribe():
    """[MQTT-3.8.4-5] [MQTT-3.9.3-1] [MQTT-3.9.3-2] Wrong number of codes, wrong codes, wrong kind of packet."""
    for first, mid, codes in (
        (0x90, 1, b"\x00"),
        (0x90, 1, b"\x00\x00\x00"),
        (0x90, 1, b"\x00\x03"),
        (0x90, 1, b"\x7f\x00"),
        (0x90, 1, b"\x81\x00"),
        (0xB0, 1, b""),
    ):
        peer = Peer.connected()
        peer.session.subscribe([b"a", b"b"], [0, 0])
        peer.sent()
        raises(ProtocolError, peer.feed, bytes([first, 2 + len(codes)]) + two(mid) + codes)


def test_counters():
    """All counters."""
    peer = Peer.connected()
    peer.send(b"0", 0)
    peer.publish(b"1", 1)
    peer.send(b"2", 2)
    peer.session.connection_lost()
    peer.up(1)
    peer.feed(ack(0x40, 1) + ack(0x50, 2) + ack(0x70, 2) + message(b"t", b"x", 2, 1) + message(b"t", b"x", 2, 1, 1))
    want = {"accepted": 2, "sent": 3, "resent": 2, "completed": 2, "received": 1, "duplicates": 1, "connects": 2}
    for name in want:
        eq((name, peer.count(name)), (name, want[name]))
    eq(peer.count("outages"), 1)


def test_counters_wrap():
    """At 2**32, on every runtime: counting never fails, so what was sent or accepted is not reported as an error."""
    for kind in (Peer, Peer5):
        peer = kind.connected()
        count = peer.session.count
        for i in range(len(count)):
            count[i] = 0xFFFFFFFF
        for qos in range(3):
            mid = peer.publish(b"x", qos)
            assert (mid > 0) == (qos > 0), mid
            eq(len(peer.sent()), 1)
        peer.feed(ack(0x40, 1))
        eq([peer.count(name) for name in ("accepted", "sent", "completed", "pings")], [1, 2, 0, 0xFFFFFFFF])


# --- is a message pending ---


def test_a_message_behind_the_window_is_looked_for_once():
    """drain(ms, mid) asks at each step."""
    device = NorFlash(12, 1024, 16)
    peer = Peer(device, max_inflight=2)
    mids = [peer.publish(b"x" * 20) for _ in range(60)]
    session = peer.session
    assert session.is_pending(mids[-1])
    device.reads = 0
    assert all(session.is_pending(mids[-1]) for _ in range(50))
    eq(device.reads, 0)
    peer.up()
    for mid in mids:
        assert session.is_pending(mids[-1])
        assert mid != mids[-3] or session.row(mids[-1]) < 0  # until now it was behind the window
        peer.feed(ack(0x40, mid))
        assert not session.is_pending(mid)
    eq(session.pending, 0)
    mids = [peer.publish(b"x") for _ in range(5)]
    assert session.is_pending(mids[3])
    session.discard_message(mids[3])  # what was found does not count any more
    assert not session.is_pending(mids[3]) and session.is_pending(mids[4])


def test_what_the_broker_is_through_with_is_not_pending():
    """Behind the window of this life stands a message past its PUBREC, and the broker lost the session."""
    device = RamFlash()
    peer = Peer5.connected(device, max_inflight=4)
    mids = [peer.publish(b"x", 2) for _ in range(3)]
    peer.sent()
    peer.feed(wire.pubrec(mids[1]))
    peer = Peer5(device, max_inflight=1)
    assert peer.session.is_pending(mids[1])
    peer.up(0)
    eq(peer.session.ended, [mids[1]])
    assert not peer.session.is_pending(mids[1])


def test_errors_name_packets():
    """[MQTT-4.8.0-1] And tell what to do about a broker without QoS 2, which answers it by PUBACK."""
    for feed, text in (
        (ack(0x40, 1), "unexpected PUBACK for Message ID 1: the broker has no QoS 2, publish with qos=1"),
        (ack(0x70, 1), "unexpected PUBCOMP for Message ID 1"),
    ):
        peer = Peer()
        peer.up()
        peer.publish(b"x", 2)
        peer.sent()
        eq(str(raises(ProtocolError, peer.feed, feed)), text)
