# Properties of messages that leave, and their expiry: from publish() through the journal to the wire.

from harness import eq, raises
from inflight.flash.flash import RamFlash
from inflight.journal.journal import OUT, OutboxFull
from inflight.level5.properties5 import properties
from session_peer import Peer, message
from session_peer5 import NONE, Peer5
from tools.reference.kinds import PUBLISH, PUBREL
from tools.reference.wire import puback, pubcomp, pubrec

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"

DAY = 86400
WHOLE = properties(
    content_type="application/senml+json", response_topic="r", correlation=b"\0\xff", text=True, user=(("a", "b"),)
)
VALUES = [(1, 1), (3, "application/senml+json"), (8, "r"), (9, b"\0\xff"), (0x26, ("a", "b"))]
LONGEST = properties(correlation=bytes(124))


def of(p):
    return (p.payload, p.qos, p.properties)


def messages(packets):
    return [of(p) for p in packets if p.kind == PUBLISH]


def expiry_of(p):
    return dict(p.properties)[2]


def all_done(peer):
    """The broker completes what is in flight."""
    for i in range(peer.session.rows):
        peer.feed(puback(peer.session.mids[0]))


def restarted(device, slept=0, **options):
    peer = Peer5(device, **options)
    if peer.session.clock:
        peer.session.clock.value += slept
    return peer


def test_they_arrive():
    """[MQTT5-1.5.4-1] [MQTT5-2.2.2-1] [MQTT5-3.2.2-17] [MQTT5-3.2.2-18] [MQTT5-3.3.2-7] [MQTT5-3.3.2-9]
    [MQTT5-3.3.2-13] [MQTT5-3.3.2-19] [MQTT5-3.3.4-6] At each QoS, with payloads around those where the remaining
    length takes another byte, and longer than the buffer; also after a message without any, or with others."""
    peer = Peer5.connected(RamFlash(16, 4096), 512)
    for qos in (0, 1, 2):
        for n in (0, 1, 60, 75, 76, 77, 100, 121, 122, 123, 124, 500):
            for p, wanted in ((WHOLE, VALUES), (None, []), (LONGEST, [(9, bytes(124))]), (WHOLE, VALUES)):
                mid = peer.publish(bytes(n), qos, properties=p)
                eq(messages(peer.sent()), [(bytes(n), qos, wanted)])
                if qos:
                    peer.feed(puback(mid) if qos == 1 else pubrec(mid) + pubcomp(mid))
                eq(peer.session.pending, 0)


def test_from_the_journal():
    """Accepted without a connection, and sent by a later life; once more after a connection that broke."""
    for buffer in (290, 512, 2048):
        device = RamFlash(16, 4096)
        peer = Peer5(device, buffer)
        wanted = []
        for k, n in enumerate((0, 40, 75, 76, 77, 122, 123, 300, 700)):
            p, values = ((WHOLE, VALUES), (None, []), (LONGEST, [(9, bytes(124))]))[k % 3]
            if p is LONGEST and buffer == 290:
                p, values = WHOLE, VALUES
            payload = bytes([65 + k]) * n
            peer.publish(payload, 1 + k % 2, properties=p)
            wanted.append((payload, 1 + k % 2, values))
        peer = Peer5(device, buffer, max_inflight=20)
        sent = peer.up()
        eq(messages(sent), wanted)
        assert not any(p.dup for p in sent)
        peer.lose()
        sent = peer.up(1)
        eq(messages(sent), wanted)
        assert all(p.dup for p in sent)


def test_a_message_that_waits_while_others_fail():
    """What is accepted and not yet sent keeps its properties, whatever is refused meanwhile, before it is stored."""
    peer = Peer5(buffer=250)
    peer.publish(b"first", 1, properties=WHOLE)
    raises(ValueError, peer.publish, bytes(70000), 1, b"t", False, properties(correlation=b"x"))
    for wrong in (LONGEST, properties(will_delay=1), {3: "text"}, "text"):  # half of the buffer is shorter
        raises(ValueError, peer.publish, b"x", 1, b"t", False, wrong)
    eq(peer.session.journal.live, 1)
    peer.session.forget()
    eq(messages(peer.up()), [(b"first", 1, VALUES)])


def test_no_memory_while_they_are_taken():
    """The next publish() with the same ones takes all of them."""

    class Short:
        block = properties(expiry=DAY).block
        will = False
        left = 1

        @property
        def expiry(self):
            self.left -= 1
            if self.left == 0:
                raise MemoryError
            return DAY

    p = Short()
    peer = Peer5()
    raises(MemoryError, peer.publish, b"lost", 1, b"t", False, p)
    peer.publish(b"x", properties=p)
    eq([of(s) for s in peer.up()], [(b"x", 1, [(2, DAY)])])


def test_lower_levels_send_them_without():
    """The level may change while messages wait."""
    device = RamFlash()
    Peer5(device).publish(b"x", 1, properties=WHOLE)
    for level in (3, 4):
        peer = Peer(device, protocol_level=level)
        eq(peer.up()[-1:], [message(b"t", b"x", 1, 1, peer.session.states[0] >> 3 & 1)])
        peer.session.connection_lost()
    eq([of(p) for p in Peer5(device).up(1)], [(b"x", 1, VALUES)])


def test_a_smaller_buffer_than_before():
    """A record whose properties do not fit the buffer stays; the error says so, and the others are not sent out of
    order."""
    device = RamFlash()
    Peer5(device, 512).publish(b"x", 1, properties=LONGEST)
    peer = Peer5(device, 128)
    raises(OSError, peer.up)
    eq(peer.session.journal.live, 1)
    eq([of(p) for p in Peer5(device, 512).up()], [(b"x", 1, [(9, bytes(124))])])


def test_whatever_is_accepted_is_sent():
    """As long a topic as fits beside the properties, whatever the messages before needed: fresh, from the journal, and
    by a later life at another level."""
    kinds = {
        None: [],
        WHOLE: [1, 3, 8, 9, 0x26],
        properties(expiry=DAY): [2],
        properties(expiry=DAY, content_type="c" * 20): [2, 3],
        properties(text=True): [1],
    }
    for p in kinds:
        longest = 80 - 9 - (len(p.block) if p else 1)
        for n in (0, 900):
            device = RamFlash(16, 4096)
            peer = Peer5(device, 160, max_inflight=20)
            raises(ValueError, peer.publish, bytes(n), 1, b"t" * (longest + 1), False, p)
            wanted = []
            for other in kinds:
                for length, q in ((longest, p), (1, other)):
                    peer.publish(bytes(n), 1, b"t" * length, properties=q)
                    wanted.append((length, n, kinds[q]))
            sent = peer.up()
            for later in (peer, Peer5(device, 160, max_inflight=20)):
                eq([(len(s.topic), len(s.payload), [kind for kind, _ in s.properties]) for s in sent], wanted)
                peer.lose()
                sent = later.up(1)


def test_maximum_packet_size_counts_them():
    """[MQTT5-3.2.2-15] Exactly: one byte less is refused before the journal, or is set aside when it is there."""
    for p in (WHOLE, None, properties(expiry=60), LONGEST):
        for n in (0, 75, 80, 122, 123, 124, 128):
            length = len(p.block) if p else 1
            remaining = 1 + 4 + length + n
            whole = 1 + (1 if remaining < 128 else 2) + remaining
            for maximum, fits in ((whole, True), (whole - 1, False)):
                peer = Peer5(buffer=1024)
                peer.up(0, False, (0x27, maximum))
                if fits:
                    peer.publish(bytes(n), 1, properties=p)
                    eq([len(s.raw) for s in peer.sent()], [maximum])
                else:
                    raises(ValueError, peer.publish, bytes(n), 1, b"t", False, p)
                peer = Peer5(buffer=1024)
                peer.publish(bytes(n), 1, properties=p)
                sent = peer.up(0, False, (0x27, maximum))
                eq((len(sent), peer.count("set_aside")), (1, 0) if fits else (0, 1))


def test_expiry_counts_down():
    """What is left of the interval is sent, in this life and after a power cut; a message that left before that has an
    interval of 1 s when it is sent again after that time. [MQTT5-4.4.0-1]"""
    device = RamFlash()
    peer = Peer5(device)
    p = properties(expiry=100, content_type="t")
    peer.publish(b"a", properties=p)
    peer.now = 30_000
    peer.publish(b"b", properties=p)
    peer.publish(b"c", properties=WHOLE)
    peer.now = 40_500
    sent = peer.up()
    eq([(s.payload, dict(s.properties).get(2)) for s in sent], [(b"a", 60), (b"b", 90), (b"c", None)])
    eq(dict(sent[0].properties)[3], "t")
    peer.lose()
    peer.now = 131_000
    sent = peer.up(1)
    eq([(s.payload, s.dup, dict(s.properties).get(2)) for s in sent], [(b"a", 1, 1), (b"b", 1, 1), (b"c", 1, None)])
    # The power is cut: the seconds go on from the newest message, as far as the device knows how long it slept.
    for slept, left in ((0, [70, 100, None]), (20, [50, 80, None])):
        eq([dict(s.properties).get(2) for s in restarted(device, slept).up(1)], left)


def test_sent_at_once():
    """A message that leaves in the second in which it was accepted has its whole interval, again and again."""
    peer = Peer5.connected(buffer=512, max_inflight=1)
    p = properties(expiry=10)
    for qos in (0, 1, 1, 0, 1):
        peer.now += 7_000
        peer.publish(b"x", qos, properties=p)
        eq([expiry_of(s) for s in peer.sent()], [10])
        all_done(peer)


def test_expired_and_never_sent():
    """It is dropped and counted, also after a restart; the others go, in order."""
    device = RamFlash()
    Peer5(device).publish(b"x", properties=properties(expiry=60))
    peer = restarted(device, slept=60)
    eq((peer.up(), peer.count("expired"), peer.session.journal.live), ([], 1, 0))
    peer = Peer5(max_inflight=2)
    short, long = properties(expiry=5), properties(expiry=50)
    for payload, p in ((b"a", short), (b"b", long), (b"c", short), (b"d", None), (b"e", short)):
        peer.publish(payload, properties=p)
    peer.now = 5_000
    eq([p.payload for p in peer.up()], [b"b", b"d"])
    eq((peer.count("expired"), peer.count("dropped")), (2, 2))  # the third waits behind the window
    all_done(peer)
    eq((peer.session.pending, peer.count("expired"), peer.count("completed")), (0, 3, 2))
    peer.now = 20_000
    peer.publish(b"f", properties=short)
    eq([p.payload for p in peer.sent()], [b"f"])


def test_a_long_message_that_expired():
    """Nothing of a payload that would have been sent in pieces is left."""
    peer = Peer5(RamFlash(8, 4096))
    peer.publish(b"first")
    peer.publish(bytes(500), properties=properties(expiry=5))
    peer.now = 5_000
    eq([p.payload for p in peer.up()], [b"first"])
    eq((peer.count("expired"), peer.session.pending), (1, 1))
    peer.publish(b"next")
    eq([p.payload for p in peer.sent()], [b"next"])


def test_expired_in_front_of_a_pubrel():
    """The broker's quota keeps a message waiting, and the next one is past PUBREC: that PUBREL is whole."""
    peer = Peer5(RamFlash(8, 1024))
    peer.publish(b"a", 2, properties=properties(expiry=5))
    peer.publish(b"b", 2)
    peer.publish(b"c", 1, properties=WHOLE)
    a, b, c = [p.mid for p in peer.up()]
    peer.feed(puback(c))
    peer.feed(pubrec(a, 0x97, NONE))
    peer.feed(pubrec(b))
    peer.lose()
    peer.now = 6_000
    eq([(p.kind, p.mid) for p in peer.up(1)], [(PUBREL, b)])


def test_expired_and_perhaps_sent():
    """[MQTT5-4.3.3-7] Accepted with a connection: after a power cut nobody knows whether it was sent, so it is."""
    device = RamFlash()
    peer = Peer5.connected(device)
    peer.publish(b"x", 2, properties=properties(expiry=5))
    peer.send(b"y", 2, properties=WHOLE)
    sent = restarted(device, slept=60).up(1)
    eq([(s.payload, s.dup) for s in sent], [(b"x", 1), (b"y", 1)])
    eq(expiry_of(sent[0]), 1)


def test_expired_messages_make_space():
    """A full journal has space when those in it have expired, in whatever order they do; not for one that is sent."""
    device = RamFlash(8, 1024)
    peer = Peer5.connected(device, max_inflight=2)
    peer.publish(bytes(100), properties=properties(expiry=5))
    eq(len(peer.sent()), 1)
    peer.lose()
    accepted = 1
    while True:
        try:
            peer.publish(bytes(100), properties=properties(expiry=10 if accepted % 2 else 20))
        except OutboxFull:
            break
        accepted += 1
    assert accepted > 5
    peer.now = 9_000
    raises(OutboxFull, peer.publish, bytes(120))
    peer.now = 10_000
    peer.publish(b"new")
    eq(peer.count("expired"), accepted // 2)
    eq(peer.session.pending, accepted - accepted // 2 + 1)
    sent = peer.up(1)
    eq([s.dup for s in sent], [1, 0])
    for _ in range(accepted):
        all_done(peer)
    eq((peer.session.pending, peer.session.journal.live), (0, 0))


def test_ticks_that_wrap():
    """Ticks that went on by more than half their period count as no time at all: a message may live too long, never too
    short."""
    from inflight.compat import ticks_add

    peer = Peer5()
    peer.now = ticks_add(0, -500)
    peer.publish(b"x", properties=properties(expiry=100))
    peer.now = ticks_add(0, 1_500)
    peer.publish(b"y", properties=properties(expiry=100))
    peer.now = ticks_add(peer.now, -60_000)
    sent = peer.up()
    eq([expiry_of(s) for s in sent], [98, 100])


def test_the_record():
    """FORMAT.md: the PUBLISH of level 4, the properties, and the seconds."""
    device = RamFlash()
    peer = Peer5(device)
    peer.publish(b"first", properties=properties(expiry=258))
    peer.now = 70_000
    peer.publish(b"x", properties=properties(expiry=258, text=True))
    journal = peer.session.journal
    at = journal.scan(OUT, journal.scan(OUT, -1))
    body = bytearray(journal.found_len)
    journal.read(at, 0, body)
    eq(bytes(body), message(b"t", b"x", 1, 2) + b"\x02\x00\x00\x01\x02\x01\x01" + b"\x00\x00\x00\x46")
