# The SESSION record and its two copies: the client id, and what a restart needs to know about the session.


from harness import eq, raises
from inflight.flash.flash import RamFlash
from inflight.journal.journal import OUT, SESSION, Journal
from inflight.session.session import Session
from nor import NorFlash
from session_peer import Peer, ack, message, mid_of


def test_owner():
    """[MQTT-3.1.3-2] A journal with a session belongs to one client id, which has space there."""
    raises(ValueError, Session, Journal(NorFlash(4, 512, 16)), bytearray(256), b"x" * 120)
    device = RamFlash()
    peer = Peer(device)
    assert peer.session.record_at < 0
    peer.up()
    assert Peer(device).session.record_at >= 0
    for other in (b"de", b"devi", b"xyz", b""):
        raises(ValueError, Session, Journal(device), bytearray(256), other)


def test_known_is_written_once():
    """Only the first connection writes to flash."""
    device = NorFlash(4, 1024, 64)
    Peer(device).up()
    before = device.snapshot()
    peer = Peer.connected(device, present=1)
    peer.up(1)
    eq(device.snapshot(), before)


def test_clean_session_discards():
    """[MQTT-3.1.2-6] Messages in flight and received ids, not messages that were never sent; after a restart those that
    were sent belong to the previous session."""
    for restart in (False, True):
        device = RamFlash()
        peer = Peer.connected(device, max_inflight=2)
        peer.publish_numbers(4)
        eq(len(peer.sent()), 2)
        peer.feed(message(b"t", b"x", 2, 5))
        peer.session.connection_lost()
        if restart:
            peer = Peer(device, max_inflight=2)
        peer.publish(b"new")
        eq([(p[0], p[-1:]) for p in peer.up(0, True)], [(0x32, b"2"), (0x32, b"3")])
        eq(peer.count("dropped"), 2)
        peer.feed(message(b"t", b"y", 2, 5))
        eq(peer.got[-1], (b"y", False))
        eq([p[-3:] for p in peer.feed(ack(0x40, 3))], [b"new"])
        eq((peer.session.pending, Peer(device).session.pending), (2, 2))


def test_unsent_messages_survive_a_power_cut_and_a_clean_session():
    """Messages accepted offline are sent with DUP 0, whatever was connected or sent before."""
    for present, clean in ((0, True), (0, False)):
        device = NorFlash(8, 1024, 16)
        peer = Peer(device)
        peer.up(0, clean)
        peer.send(b"done", 1)
        peer.feed(ack(0x40, 1))
        peer.send(b"sent", 2)
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
        eq((peer.count("dropped"), peer.session.pending), (8, 52))  # those in flight had been sent


def test_nothing_is_discarded_before_connack():
    """[MQTT-3.1.2-6] A CONNECT with clean session that is not confirmed ends no session, at levels 4 and 3."""
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
    """[MQTT-3.1.2-6] Neither PUBLISH nor PUBREL, whether the next session is clean or not, at levels 4 and 3; its
    received ids are free."""
    for level in (4, 3):
        for arrived in (True, False):
            for clean in (True, False):
                device = NorFlash(8, 1024, 16, cache=True)
                peer = Peer(device, protocol_level=level)
                peer.up(0, True)
                if arrived:  # otherwise the CONNACK of a later clean session was lost
                    peer.publish(b"a", 2)
                    peer.publish(b"b", 2)
                    peer.send(b"c", 1)
                    eq(peer.feed(ack(0x50, 1)), [ack(0x62, 1)])
                    peer.feed(message(b"t", b"x", 2, 5))
                else:
                    peer.session.connection_lost()
                    peer.up(0)
                    peer.send(b"a", 1)
                    peer.feed(message(b"t", b"x", 2, 5))
                    peer.session.connection_lost()
                    peer.session.connect(0, True, 60, None, None, None)
                    peer.sent()
                device.lose_power()
                if level == 3 and not (arrived or clean):
                    continue  # undecidable: nothing is discarded
                peer = Peer(device, protocol_level=level)
                eq((level, arrived, clean, peer.up(0, clean)), (level, arrived, clean, []))
                eq((peer.session.pending, peer.count("dropped")), (0, 3 if arrived else 1))
                eq(peer.feed(message(b"t", b"new", 2, 5)), [ack(0x50, 5)])
                eq(peer.got, [(b"new", False)])


def test_a_clean_session_costs_no_flash_again():
    """Connecting and sending again in the same way writes no SESSION record. Only the first message ever sent does:
    since then messages may have been sent."""
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
        assert max(used[1:]) < 60, used


def after_sending(messages, qos=1):
    """The flash of a peer that has sent b"0", b"1" and so on, without an answer."""
    device = NorFlash(4, 1024, 16)
    peer = Peer.connected(device)
    for k in range(messages):
        peer.publish(b"%d" % k, qos)
    peer.sent()
    return device


def damage(device, copies):
    """Flips bits in so many copies of the SESSION record."""
    at = len(device.data)
    for _ in range(copies):
        at = bytes(device.data).rindex(b"dev", 0, at)
        device.data[at] &= 0xFE
        device.data[at + 1] &= 0xFE


def test_one_damaged_copy_of_the_session_record():
    """The other copy is used, and a second one is written before anything else."""
    device = after_sending(1)
    for life in range(3):
        damage(device, 1)
        peer = Peer(device)
        eq([p[0] & 8 for p in peer.up(1)], [8] * (life + 1))
        peer.publish(b"new", 2)
        eq([p[0] for p in peer.sent()], [0x34])  # no id needs to be freed


def test_damaged_session_record():
    """[MQTT-4.4.0-1] Both copies: messages that may have been sent are sent with DUP, into a clean session too;
    nothing is discarded, and the new record, which is written once, keeps that for later restarts."""
    for clean in (False, True):
        device = after_sending(3)
        damage(device, 2)
        Peer(device)
        before = device.snapshot()
        for _ in range(5):
            peer = Peer(device)
        eq(device.snapshot(), before)  # until a broker answers: no id counts as freed
        eq([(p[0], p[-1:]) for p in peer.up(0, clean)], [(0x3A, b"%d" % k) for k in range(3)])
        eq(peer.count("dropped"), 0)


def test_a_lost_record_costs_no_message_of_later():
    """What is accepted after both copies were damaged, and never left, survives the end of a clean session."""
    device = after_sending(3)
    damage(device, 2)
    peer = Peer(device, max_inflight=1)
    for k in range(4):
        peer.publish(b"new%d" % k)
    peer.up(0, True)
    for mid in range(1, 4):
        peer.feed(ack(0x40, mid))
        peer.sent()
    peer = Peer(device, max_inflight=1)
    eq([(p[0], p[-4:]) for p in peer.up(0, True)], [(0x32, b"new1")])
    eq((peer.count("dropped"), peer.session.pending), (1, 3))  # new0 had been sent


def test_a_copy_damaged_while_the_record_changes():
    """Wherever power is cut, one copy that is damaged later does not end the session."""
    device = NorFlash(4, 1024, 64)
    Peer(device).up()
    images = []
    device.watch = lambda name, at, old, new: images.append(device.snapshot())
    Peer(device).up(0, True)
    device.watch = None
    assert len(images) > 8
    for image in images:
        device.restore(image)
        journal = Journal(device)
        image = device.snapshot()
        at = journal.scan(SESSION, -1)
        while at >= 0:
            device.restore(image)
            device.data[at + 12] ^= 4
            assert Session(Journal(device), bytearray(256), b"dev").record_at >= 0
            device.restore(image)
            at = Journal(device).scan(SESSION, at)


def test_both_copies_lost_with_their_page():
    """Messages accepted while connected may have been sent: they have DUP, and no PUBREL ends their handshake."""
    device = after_sending(3, 2)
    at = bytes(device.data).index(b"dev") - 21
    device.data[at : at + 58] = bytes(range(1, 59))
    peer = Peer(device)
    eq([(p[0], p[-1:]) for p in peer.up(1)], [(0x3C, b"%d" % k) for k in range(3)])


def test_a_full_journal_has_space_for_the_record():
    """A journal filled before the first connection is delivered."""
    for sectors, size in ((4, 512), (4, 1024), (3, 1024)):
        device = NorFlash(sectors, size, 16)
        peer = Peer(device, max_inflight=4)
        n = 0
        while peer.session.journal.fits(OUT, 40):
            peer.publish(b"%d" % n)
            n += 1
        for k in range(n):
            if k % 4 == 0:
                peer = Peer(device, max_inflight=4)
                peer.up(1 if k else 0)
            peer.feed(ack(0x40, 1 + k))
        eq(peer.session.pending, 0)


def test_a_start_that_writes_the_record_to_a_worn_page():
    """It mounts the journal again, and the record goes elsewhere."""
    device = after_sending(1)
    damage(device, 1)
    image = device.snapshot()
    Peer(device)
    new = device.snapshot()
    cleared = [(at, image[at] & ~new[at]) for at in range(len(image)) if image[at] == 0xFF != new[at]]
    assert len(cleared) > 30
    for at, bits in cleared:
        device.restore(image)
        device.stuck = {at: bits & -bits}
        peer = Peer(device)
        assert peer.session.record_at >= 0
        eq([p[0] & 8 for p in peer.up(1)], [8])
