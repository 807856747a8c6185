# Messages that are set aside: one message blocks nothing. And messages that the application discards.

from errno import ECONNRESET, ETIMEDOUT

from harness import eq
from inflight.flash.flash import RamFlash
from inflight.journal.records import ASIDE, OUT
from inflight.session.refused import Disconnected
from session_peer import PING, Peer, ack, message, mid_of
from session_peer5 import Peer5
from tools.reference import wire
from tools.reference.kinds import PINGREQ, PUBLISH, PUBREL

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"

PONG = b"\xd0\x00"
MINUTE = 60_000
MAXIMUM = 0x27


def ends(peer, error=None):
    """The connection ends with this error; None: the broker closes it."""
    peer.session.connection_lost(None, error or OSError(ECONNRESET, "closed"))


class Policy:
    """A broker that ends the connection at the messages whose payloads begin with `bad`, and takes the others."""

    def __init__(self, peer, error=None, bad=b"bad", released=False):
        self.peer = peer
        self.error = error
        self.bad = bad
        self.released = released  # it ends the connection at each PUBREL of message 1, too
        self.taken = []
        self.attempts = []  # Message ID and DUP of the bad ones
        self.connections = 0

    def connect(self):
        self.connections += 1
        peer = self.peer
        peer.session.connect(peer.now, False, 60, None, None, None)
        peer.sent()
        found = peer.feed(bytes([0x20, 2, 1 if self.connections > 1 else 0, 0]))
        peer.session.resume()
        return self.serve(found + peer.sent())

    def serve(self, found):
        """Answers these packets, and those that follow. Returns False if the connection ended."""
        peer = self.peer
        for raw in found:
            if raw == PING:
                found += peer.feed(PONG)
            elif raw[0] >> 4 == 6 and self.released and raw[3] == 1:
                ends(peer, self.error)
                return False
            elif raw[0] >> 4 == 6:
                found += peer.feed(ack(0x70, raw[2] << 8 | raw[3]))
            elif raw[0] >> 4 == 3:
                mid = mid_of(raw)
                payload = raw[6 + raw[3] :]
                if payload.startswith(self.bad):
                    self.attempts.append((mid, raw[0] & 8))
                    ends(peer, self.error)
                    return False
                self.taken.append((mid, raw[0] & 8))
                found += peer.feed(ack(0x40 if raw[0] & 2 else 0x50, mid))
        return True

    def wait(self, ms):
        self.peer.now += ms
        return self.serve(self.peer.sent())


def told(peer):
    return [(e.mid, e.seq, e.topic, e.kept) for e in peer.notices if hasattr(e, "mid")]


def messages(session):
    found = session.next_message(0)
    while found:
        yield found
        found = session.next_message(found[1] + 1)


def states(peer):
    return [(found[0], found[5]) for found in messages(peer.session)]


# --- a message that ends each connection ---


def test_a_message_that_ends_each_connection():
    """[MQTT-4.4.0-1] [MQTT-3.3.1-1] [MQTT-2.3.1-3] Two connections on which it is the oldest, three with it alone:
    then it is set aside, and told; the others arrive, in order. It is tried again at once then, and after a minute,
    two, four: with its Message ID, and DUP."""
    for qos, error in ((1, None), (2, None), (1, OSError(ETIMEDOUT, "no answer"))):  # no network carries it
        peer = Peer(RamFlash(4, 1024), max_inflight=4)
        for payload in (b"a", b"bad", b"b", b"c", b"d", b"e", b"f"):
            peer.publish(payload, qos)
        broker = Policy(peer, error)
        while not broker.connect():
            assert broker.connections < 15
        eq(broker.connections, 6 + qos)  # at QoS 2 the PUBREL of the first message comes too late for one
        eq([mid for mid, _ in broker.taken], [1, 3, 4, 5, 6, 7])
        eq(broker.attempts, [(2, 0)] + [(2, 8)] * (4 + qos))
        eq(told(peer), [(2, 1, "t", True)])
        eq((peer.session.pending, peer.count("set_aside"), peer.count("dropped")), (1, 1, 0))
        eq(states(peer), [(2, "set aside")])
        for minutes in (1, 2, 4):
            peer.publish(b"more", qos)
            eq(broker.wait(minutes * MINUTE - 1), True)
            eq(broker.wait(1), False)
            eq(broker.connect(), True)
        eq(broker.attempts[5 + qos :], [(2, 8)] * 3)
        eq((len(peer.notices), peer.count("set_aside"), peer.session.pending), (1, 1, 1))
        broker.bad = b"nothing"
        eq(broker.wait(8 * MINUTE), True)
        eq((broker.taken[-1], peer.session.pending), ((2, 8), 0))


def test_several_messages_that_end_each_connection():
    """While nothing is acknowledged, each of the next ones is found with one connection."""
    peer = Peer(RamFlash(4, 1024))
    for payload in (b"bad 1", b"bad 2", b"bad 3", b"a", b"b"):
        peer.publish(payload)
    broker = Policy(peer)
    while not broker.connect():
        assert broker.connections < 15
    eq(broker.connections, 9)
    eq([mid for mid, _ in broker.taken], [4, 5])
    eq([e.mid for e in peer.notices], [1, 2, 3])


def test_lives_with_one_connection_each():
    """[MQTT-3.3.1-1] [MQTT-4.4.0-1] What is known of the message survives each restart, and that it is set aside: the
    others go first then, and it has a try. So does a PUBREL. Once it is told."""
    for qos in (1, 2):
        device = RamFlash(4, 1024)
        for payload in (b"bad", b"a", b"b"):
            Peer(device).publish(payload, qos)
        found = []
        for life in range(1, 9):
            peer = Peer(device)
            broker = Policy(peer, None, b"bad" if qos == 1 else b"-", qos == 2)
            broker.connections = life > 1
            broker.connect()
            found += told(peer)
            eq(states(peer)[0], (1, "set aside" if life > 4 else "in flight"))
            eq((peer.session.pending, peer.count("set_aside")), (1 if life > 5 else 3, life == 5))
        eq(found, [(1, 0, "t", True)])
        peer.session.recover()
        eq(states(peer), [(1, "set aside")])


def test_each_life_tries_another_message():
    """[MQTT-4.4.0-1] Of several that were set aside, also where each life has one connection, with messages before
    them: the refusal of one keeps no other one waiting."""
    device = RamFlash(4, 1024)
    peer = Peer(device)
    for payload in (b"bad 1", b"bad 2", b"bad 3"):
        peer.publish(payload)
    broker = Policy(peer)
    while not broker.connect():
        pass
    tried = []
    for life in range(9):
        peer = Peer(device)
        peer.publish(b"good")
        broker = Policy(peer, None, b"bad" if life < 6 else b"bad 2")
        broker.connections = 1
        broker.connect()
        peer.session.recover()
        tried += [mid for mid, _ in broker.attempts]
    eq((tried, states(peer)), ([2, 3, 1, 2, 3, 1, 2, 2, 2], [(2, "set aside")]))


def test_messages_that_left_beside_one_that_was_set_aside():
    """[MQTT-3.3.1-1] [MQTT-2.3.1-2] The window is behind what is set aside: after a power cut those in it have DUP, and
    those behind it not."""
    device = RamFlash(4, 1024)
    peer = Peer(device, max_inflight=2)
    for k in range(6):
        peer.publish(b"bad" if k < 2 else b"good", 2)
    broker = Policy(peer)
    while peer.count("set_aside") < 2:
        broker.connect()
    left = [mid for mid, _ in broker.attempts + broker.taken]
    broker = Policy(Peer(device, max_inflight=6), None, b"-")
    broker.connections = 1
    broker.connect()
    eq([mid for mid, dup in broker.taken if mid in left and not dup], [])


def test_a_bit_that_rots_hides_no_message_that_left():
    """[MQTT-3.3.1-1] The one that seems to be set aside is in front of the window, and does not count."""
    device = RamFlash(4, 1024)
    peer = Peer(device, max_inflight=1)
    peer.publish_numbers(4)
    journal = peer.session.journal
    journal.mark(journal.find(OUT, 1), ASIDE)
    peer = Peer(device, max_inflight=1)
    eq([mid_of(p) for p in peer.up()], [1])
    eq([mid_of(p) for p in peer.feed(ack(0x40, 1))], [3])
    eq([(mid_of(p), p[0] & 8) for p in Peer(device, max_inflight=1).up(1)], [(3, 8)])


def test_only_connections_with_the_message_alone_count_against_it():
    """[MQTT-4.4.0-1] Those that end before the broker has answered a PINGREQ prove nothing, however many there were."""
    peer = Peer()
    peer.publish(b"a")
    peer.publish(b"b")
    for _ in range(20):
        peer.up(1)
        ends(peer)
    for _ in range(3):
        eq(peer.notices, ())
        peer.up(1)
        ends(peer)
        peer.up(1)
        eq([mid_of(p) for p in peer.feed(PONG)], [1])
        ends(peer)
    eq(told(peer), [(1, 0, "t", True)])


def test_connections_that_end_for_another_reason():
    """The application ends them, or the broker, for a reason that is about no message."""
    peer = Peer()
    peer.publish(b"a")
    for _ in range(6):
        eq([mid_of(p) for p in peer.up(1)], [1])
        peer.session.reset()  # disconnect()
    for code in (0x89, 0x8B, 0x8D, 0x8E, 0x98, 0x9C, 0x9D, 0x9F, 0xA0):
        eq([mid_of(p) for p in peer.up(1)], [1])
        ends(peer, Disconnected(code))
    for _ in range(6):
        eq([mid_of(p) for p in peer.up(1)], [1])
        ends(peer, MemoryError())


def test_a_message_that_is_not_acknowledged_holds_up_nothing():
    """Sent alone after three connections, and the broker answers all but this one."""
    peer = Peer()
    peer.publish(b"a")
    peer.publish(b"b")
    for _ in range(3):
        peer.up(1)
        ends(peer)
    peer.up(1)
    eq([mid_of(p) for p in peer.feed(PONG)], [1])
    peer.now += 19_999
    eq(peer.sent(), [])
    peer.now += 1
    eq([mid_of(p) for p in peer.sent()], [2])


def test_reason_codes_of_level_5():
    """[MQTT5-4.13.2-1] As at level 4; the reason is told."""
    for code in (0x80, 0x82, 0x83, 0x87, 0x90, 0x99, 0x9A, 0x9B):
        peer = Peer5()
        peer.publish(b"bad")
        peer.publish(b"good")
        for k in range(5):
            found = peer.up(min(k, 1))
            if k >= 2:
                eq([p.kind for p in found], [PINGREQ])
                found = peer.feed(wire.pingresp())
            eq([p.mid for p in found], [1] if k >= 2 else [1, 2])
            ends(peer, Disconnected(code))
        peer.up(1)
        found = peer.feed(wire.pingresp())
        eq([p.mid for p in found if p.kind == PUBLISH], [2])
        eq([(e.code, e.mid, e.seq, e.topic, e.kept) for e in peer.notices], [(code, 1, 0, "t", True)])


def test_a_pubrel_that_ends_each_connection():
    """[MQTT-4.3.3-1] [MQTT-2.3.1-2] It is set aside, too, and its Message ID stays in use; the PUBLISH never comes
    again."""
    peer = Peer()
    peer.publish(b"x", 2)
    peer.up()
    eq(peer.feed(ack(0x50, 1)), [ack(0x62, 1)])
    peer.publish(b"y", 1)
    ends(peer)
    eq(peer.up(1)[0], ack(0x62, 1))
    for _ in range(3):
        ends(peer)
        peer.up(1)
        eq(peer.feed(PONG), [ack(0x62, 1)])
    ends(peer)
    peer.up(1)
    eq([mid_of(p) for p in peer.feed(PONG)], [2])
    eq(peer.feed(ack(0x40, 2)), [ack(0x62, 1)])
    ends(peer)
    eq(peer.up(1), [])
    peer.session.last_mid = 65535
    eq(peer.publish(b"z"), 2)
    peer.sent()
    peer.feed(ack(0x40, 2))
    peer.now += MINUTE
    eq(peer.sent(), [ack(0x62, 1)])
    peer.feed(ack(0x70, 1))
    eq((peer.session.pending, peer.count("dropped")), (0, 0))


# --- its end ---


def set_aside(peer, n=1, qos=1):
    """Messages 1 to n are set aside. Returns the broker, with a connection."""
    for _ in range(n):
        peer.publish(b"bad", qos)
    broker = Policy(peer)
    while not broker.connect():
        pass
    eq(peer.count("set_aside"), n)
    peer.session.notices = ()
    return broker


def test_a_full_journal_drops_what_was_set_aside_first():
    """when_full="oldest": counted, and told; of QoS 2 the broker may hold the Message ID, so that one stays."""
    for qos in (1, 2):
        peer = Peer(RamFlash(4, 512), when_full="oldest")
        set_aside(peer, 1, qos)
        ends(peer)
        n = 1
        while not peer.count("dropped"):
            n += 1
            eq(peer.publish(b"good"), n)
        eq(told(peer), [(1, 0, "t", False)] if qos == 1 else [])
        eq(states(peer)[0], (2, "in flight") if qos == 1 else (1, "set aside"))
        eq(len(states(peer)), n - 1)
        for _ in range(100):
            assert peer.publish(b"good")
        eq((states(peer)[0][0] == 1, len(peer.notices)), (qos == 2, 3 - qos))  # and OutboxFull, once


def test_a_clean_session_ends_what_left():
    """[MQTT-3.1.2-6] What never left stays."""
    device = RamFlash(4, 1024)
    peer = Peer5(device)
    peer.publish(bytes(200))
    peer.up(0, False, (MAXIMUM, 100))
    ends(peer)
    peer.publish(b"x")
    eq([p.mid for p in peer.up(1)], [2])
    peer.feed(wire.puback(2))
    peer.sent()
    ends(peer)
    eq(states(peer), [(1, "set aside")])
    peer = Peer(RamFlash(4, 1024))
    set_aside(peer, 2, 2)
    ends(peer)
    peer.up(0, True)
    eq((peer.session.pending, peer.count("dropped")), (0, 2))


def test_discard():
    """[MQTT-2.3.1-2] [MQTT-4.3.3-1] In each state, durably; what is behind it goes on. What the broker may hold ends
    with a PUBREL, once a PUBREC has come if it may come."""
    for restart in (False, True):
        for qos in (1, 2):
            device = RamFlash(4, 1024)
            peer = Peer(device, max_inflight=2)
            eq((peer.session.discard_message(1), peer.session.discard_message(0)), (False, False))
            for k in range(4):
                peer.publish(b"%d" % k, qos)
            eq(peer.session.discard_message(1), True)  # never sent
            eq((peer.session.pending, peer.session.discard_message(1)), (3, False))
            eq([mid_of(p) for p in peer.up()], [2, 3])
            eq(peer.session.discard_message(2), True)  # in flight
            eq(peer.session.discard_message(4), True)  # waits
            found = peer.sent()
            eq(found, [])
            if restart:
                peer = Peer(device, max_inflight=2)
                found = peer.up(1)
                eq(found, ([] if qos == 1 else [ack(0x62, 2)]) + [message(b"t", b"2", qos, 3, 1)])
            else:
                found = peer.feed(ack(0x40 if qos == 1 else 0x50, 2))
                eq(found, [] if qos == 1 else [ack(0x62, 2)])
                eq(peer.feed(ack(0x70, 2)) if qos == 2 else [], [])
                eq((peer.count("completed"), peer.session.completed, peer.count("dropped")), (0, 0, 3))
            eq([found[0] for found in messages(peer.session)], [3] if qos == 1 or not restart else [2, 3])


def test_discard_by_the_number():
    """Another message than that of the number stays."""
    peer = Peer(max_inflight=2)
    peer.publish_numbers(4)
    session = peer.session
    numbers = {found[0]: found[1] for found in messages(session)}
    eq((session.discard_message(4, numbers[3]), session.discard_message(4, numbers[4] + 1)), (False, False))
    for left, mid in ((3, 4), (2, 1), (1, 3), (0, 2)):
        eq((session.discard_message(mid, numbers[mid]), session.pending), (True, left))
    eq(session.discard_message(2, numbers[2]), False)


def test_discard_past_pubrec():
    """[MQTT-4.3.3-1] Its PUBREL goes, and its end is not told as completed."""
    peer = Peer.connected()
    peer.send(b"x", 2)
    peer.feed(ack(0x50, 1))
    eq((peer.session.discard_message(1), peer.session.discard_message(1)), (True, False))
    ends(peer)
    eq(peer.up(1), [ack(0x62, 1)])
    peer.feed(ack(0x70, 1))
    eq((peer.session.pending, peer.count("completed"), peer.count("dropped")), (0, 0, 1))


def test_discard_before_the_broker_loses_the_session():
    """[MQTT-3.2.2-3] [MQTT5-3.2.2-5] It is not sent anew, in whichever state it was."""
    for kind in (Peer, Peer5):
        for offline in (False, True):
            peer = kind.connected()
            peer.send(b"x", 2)
            if offline:
                ends(peer)
            eq(peer.session.discard_message(1), True)
            if not offline:
                ends(peer)
            found = peer.up(0)
            eq((found, peer.session.pending, peer.count("completed"), peer.count("dropped")), ([], 0, 0, 1))


def test_discard_and_the_quota():
    """[MQTT5-3.3.4-7] A message that was given up counts until its PUBACK."""
    peer = Peer5()
    for _ in range(3):
        peer.publish(b"x")
    eq([p.mid for p in peer.up(0, False, (0x21, 1))], [1])
    peer.session.discard_message(1)
    eq(peer.sent(), [])
    eq([p.mid for p in peer.feed(wire.puback(1))], [2])
    eq([p.mid for p in peer.feed(wire.puback(2))], [3])


def test_discard_not_while_it_is_written():
    peer = Peer(RamFlash(4, 4096), 128)
    peer.publish(bytes(600))
    peer.session.connect(0, False, 60, None, None, None)
    peer.sent()
    peer.feed(bytes([0x20, 2, 0, 0]))
    peer.session.resume()
    assert peer.session.data_to_send(0)
    eq((peer.session.discard_message(1), peer.session.pending), (None, 1))
    peer.written()
    eq((peer.session.discard_message(1), peer.session.pending), (True, 0))


def test_pending_messages():
    peer = Peer(RamFlash(4, 1024), max_inflight=1)
    peer.publish(b"x", 1, b"a")
    peer.publish(b"yy", 2, b"b/c")
    eq(list(messages(peer.session)), [(1, 0, "a", 8, 1, "in flight"), (2, 1, "b/c", 11, 2, "waiting")])
    peer = Peer5(RamFlash(4, 1024))
    peer.publish(b"x", 1, b"a")
    eq(list(messages(peer.session)), [(1, 0, "a", 9, 1, "in flight")])


# --- quotas ---


def test_a_quota_and_a_restart():
    """[MQTT5-4.4.0-2] [MQTT5-3.3.1-1] [MQTT5-4.3.2-2] What the broker refused for now goes out as a new message,
    without DUP, also on the next connection. After a restart nobody knows that: it may be sent again, with DUP."""
    for qos, code, offline in ((q, c, o) for q in (1, 2) for c in (0x93, 0x97) for o in (False, True)):
        device = RamFlash(4, 1024)
        peer = Peer5(device)
        if offline:
            peer.publish(b"x", qos)
        peer.up()
        if not offline:
            peer.send(b"x", qos)
        peer.feed(wire.puback(1, code) if qos == 1 else wire.pubrec(1, code))
        ends(peer)
        eq([(p.mid, p.dup) for p in Peer5(device).up(1)], [(1, True)])
        eq([(p.mid, p.dup) for p in peer.up(1)], [(1, False)])
        eq([(p.mid, p.dup) for p in Peer5(device).up(1)], [(1, True)])


# --- level 5: the broker loses the session, or takes less than a message ---


def taken(peer, packets):
    """Answers these packets, and those that follow, until a message b"bad". Returns whether one left."""
    for p in packets:
        if p.kind == PUBLISH and p.payload == b"bad":
            return True
        if p.kind == PUBLISH:
            packets += peer.feed(wire.puback(p.mid))
        elif p.kind == PINGREQ:
            packets += peer.feed(PONG)
    return False


def test_the_pause_outlives_the_sessions_of_the_broker():
    """A broker that has no session at any connection: the message is tried again when its pause has passed, as at
    level 4."""
    peer = Peer5()
    peer.publish(b"bad")
    tries = []
    for k in range(60):
        peer.publish(b"ok")
        if taken(peer, peer.up(0)) or taken(peer, peer.sent()):
            tries.append(peer.now)
        ends(peer)
        peer.now += 2000
    assert len(tries) <= 12, tries
    assert max(tries[k + 1] - tries[k] for k in range(len(tries) - 1)) >= MINUTE, tries
    eq(peer.session.pending, 1)


def test_a_released_message_behind_the_window_is_not_too_long():
    """[MQTT5-3.2.2-15] [MQTT5-4.3.3-6] Its PUBREL leaves, and no message behind it that is longer than the broker
    takes."""
    device = RamFlash(8)
    peer = Peer5(device, buffer=1024)
    peer.up()
    peer.publish(b"first", 1)
    for _ in range(2):
        peer.publish(bytes(150), 2)
    peer.sent()
    peer.feed(wire.pubrec(2))
    peer = Peer5(device, buffer=1024, max_inflight=1)
    found = peer.up(1, False, (MAXIMUM, 100))
    found += peer.feed(wire.puback(1))
    eq([(p.kind, p.mid) for p in found], [(PUBLISH, 1), (PUBREL, 2)])
    eq(peer.feed(wire.pubcomp(2)), [])
    eq((peer.count("set_aside"), peer.session.pending), (1, 1))
