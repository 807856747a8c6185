# Messages whose records are damaged, or are no PUBLISH: told, counted, and in nobody's way, at each level.

import inflight.counters as counters
from harness import eq, raises
from inflight.flash.flash import RamFlash
from inflight.journal.journal import DONE, OUT, Journal
from inflight.session.refused import MessageDamaged
from inflight.session.session import Session
from nor import NorFlash, PowerCut, after, before
from session_peer import Peer, ack
from session_peer5 import Peer5

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"

# Bodies of records with a right CRC that are no PUBLISH of their Message ID (2), by what is wrong.
WRONG = (
    b"",
    b"\x00\x08\x00\x01t\x00\x02abc",  # another type
    b"\x30\x08\x00\x01t\x00\x02abc",  # QoS 0
    b"\x36\x08\x00\x01t\x00\x02abc",  # QoS 3
    b"\x32\x09\x00\x01t\x00\x02abc",  # longer than the record
    b"\x32\xff\xff\xff\xff\xff\xff\x7f\x00",  # no length
)


def peers():
    """(class of a Peer, its level)."""
    return ((Peer, 3), (Peer, 4), (Peer5, 5))


def make(kind, level, device, **options):
    if level < 5:
        options["protocol_level"] = level
    return kind(device, **options)


def told(peer):
    """(Message ID, sequence number) of each message that the application is told of."""
    assert all(isinstance(notice, MessageDamaged) for notice in peer.notices), peer.notices
    return [(notice.mid, notice.seq) for notice in peer.notices]


def payloads(packets):
    found = []
    for packet in packets:
        if not isinstance(packet, bytes):  # of a Peer5
            if packet.topic:
                found.append(packet.payload)
        elif packet[0] >> 4 == 3:
            found.append(packet[-5:])
    return found


def test_a_record_that_is_no_publish():
    """It is told once, counted for good, and those around it are sent."""
    for kind, level in peers():
        for body in WRONG:
            device = NorFlash(4, 1024, 16)
            peer = make(kind, level, device)
            peer.publish(b"first")
            journal = peer.session.journal
            journal.append(OUT, 2, body, len(body))
            peer = make(kind, level, device)
            peer.publish(b"third")
            raises(OSError, peer.up)  # when its turn comes
            peer.session.recover()
            eq(told(peer), [(2, 1)])
            eq((peer.count("damaged"), peer.count("dropped"), peer.session.pending), (1, 1, 2))
            assert not peer.session.is_pending(2)
            eq(payloads(peer.up(1)), [b"first", b"third"])
            again = make(kind, level, device)
            eq((told(again), again.session.journal.damaged, again.session.pending), ([], 1, 2))


def send(peer):
    """What waits, after a recovery where that is needed."""
    try:
        peer.up()
    except OSError:
        peer.session.recover()
        peer.up(1)


def test_a_record_that_is_no_publish_is_counted_wherever_power_is_cut():
    for body in WRONG[:2]:
        device = NorFlash(4, 1024, 16, cache=True)
        peer = Peer(device)
        peer.publish(b"first")
        peer.session.journal.append(OUT, 2, body, len(body))
        peer.session.journal.commit()
        image = device.snapshot()
        k = 0
        while True:
            device.restore(image)
            device.cut_at(k, (before, after)[k % 2], k)
            try:
                send(Peer(device))
                break
            except PowerCut:
                device.power_on()
            peer = Peer(device)
            send(peer)
            journal = peer.session.journal
            assert journal.damaged in (1, 2), (k, journal.damaged)
            eq(journal.live, 1)
            k += 1
        assert k > 3


def test_a_buffer_that_was_changed_is_not_appended():
    """Something came between a message and its record: nothing is written, and the session recovers."""
    for kind, level in peers():
        device = NorFlash(4, 1024, 16)
        peer = make(kind, level, device)
        s = peer.session
        real = s.put_publish
        for i, change in ((0, 0x40), (1, 0x3F)):

            def put_publish(*args):
                n = real(*args)
                s.out[i] = change
                return n

            s.put_publish = put_publish
            image = device.snapshot()
            raises(OSError, peer.publish, b"mixed")
            eq(device.snapshot(), image)
            s.put_publish = real
            s.forget()
            s.recover()
            peer.publish(b"whole")
        eq(payloads(peer.up()), [b"whole", b"whole"])


def damage(device, payload):
    at = bytes(device.data).rindex(payload)
    device.data[at] ^= 0x11


def test_damage_while_the_client_runs():
    """It is found when the message is to be sent; the newest one is no other than those before it."""
    for kind, level in peers():
        for victim in (0, 1, 2):
            device = NorFlash(8, 1024, 16)
            peer = make(kind, level, device)
            texts = [b"one  ", b"two  ", b"three"]
            mids = [peer.publish(text) for text in texts]
            peer.session.clear()
            damage(device, texts[victim])
            raises(OSError, peer.up)
            peer.session.connection_lost()
            peer.session.recover()
            eq(told(peer), [(mids[victim], victim)])
            eq((peer.count("damaged"), peer.count("dropped")), (1, 1))
            eq([peer.session.is_pending(mid) for mid in mids], [k != victim for k in range(3)])
            eq(payloads(peer.up()), texts[:victim] + texts[victim + 1 :])
            journal = peer.session.journal
            eq((journal.damaged, journal.skipped), (1, 0))
            again = make(kind, level, device)
            eq((told(again), again.session.journal.damaged), ([], 1))


def test_a_record_that_was_done_is_no_lost_message():
    device = NorFlash(8, 1024, 16)
    peer = Peer.connected(device)
    peer.send(b"done ")
    peer.feed(ack(0x40, 1))
    peer.publish(b"next ")
    damage(device, b"done ")
    again = Peer(device)
    eq((told(again), again.count("dropped"), again.session.journal.damaged), ([], 0, 1))


def test_counts_survive_restarts_recoveries_and_laps():
    """They only grow, while the ring turns and its sectors are erased."""
    device = NorFlash(4, 512, 16)
    journal = Journal(device)
    for k in range(6):
        at = journal.append(OUT, k, b"message", 7)
    damage(device, b"message")  # the newest
    journal = Journal(device)
    skipped = journal.skipped
    assert skipped > 0
    for lap in range(3):
        at = journal.append(OUT, 9, b"victim!", 7)
        journal.append(OUT, 10, b"message", 7)
        device.data[at + 12] ^= 4
        if lap == 1:
            journal = Journal(device)
        else:
            journal.recover()
        eq((journal.damaged, journal.skipped), (lap + 1, skipped))
        erases = journal.erases
        while journal.erases < erases + 9:
            at = journal.scan(OUT, -1)
            if at >= 0:
                journal.mark(at, DONE)
            journal.append(OUT, 11, b"message", 7)
        journal.recover()
        eq((journal.damaged, journal.skipped), (lap + 1, skipped))
        journal = Journal(device)
        eq((journal.damaged, journal.skipped), (lap + 1, skipped))
    journal.commit()


def images_of_damage():
    """(name, image, damaged records, least skipped numbers) of flash that a mount has to count."""
    device = NorFlash(5, 512, 16, cache=True)
    for full in (False, True):
        for name, victims in (("one", (2,)), ("two", (1, 3)), ("newest", (5,)), ("old and newest", (1, 5))):
            device.restore(b"\xff" * len(device.data))
            journal = Journal(device)
            places = [journal.append(OUT, 1 + k, b"message", 7) for k in range(6)]
            if full:  # no space in the head for anything else
                while places[-1] + 16 + 40 < 512:
                    places.append(journal.append(OUT, 99, b"m", 1))
                if 5 in victims:
                    places[5] = places[-1]
            journal.commit()
            for k in victims:
                device.data[places[k] + 11] ^= 4
            # With a full head the newest record is the documented exception: nothing can stand behind it first.
            yield name, device, device.snapshot(), len([k for k in victims if k < 5]), int(5 in victims and not full)


def test_counts_with_a_power_cut_in_the_mount():
    """At every program and erase of the mount, with each outcome of those that were not synced: damage is counted once,
    numbers that were given do not come again, and those passed over are counted."""
    for name, device, image, damaged, skipped in images_of_damage():
        k = 0
        while True:
            device.restore(image)
            device.cut_at(k, (before, after)[k % 2], k)
            try:
                Journal(device)
                break
            except PowerCut:
                device.power_on()
            journal = Journal(device)
            assert journal.damaged == damaged, (name, k, journal.damaged, journal.skipped)
            assert journal.skipped >= skipped, (name, k, journal.damaged, journal.skipped)
            last = Journal(device)
            eq((last.damaged, last.skipped, last.found_damaged), (damaged, journal.skipped, 0))
            k += 1
        assert k > 3, name


def test_one_session_at_a_time():
    """A second one is refused until the connection, or the attempt, of the first has ended."""
    journal = Journal(RamFlash())
    first = Session(journal, bytearray(256), b"dev")
    first.publish(b"t", b"one", 1, False)
    first.connect(0, False, 60, None, None, None)
    assert "disconnect() it first" in str(raises(ValueError, Session, journal, bytearray(256), b"dev"))
    first.reset()
    second = Session(journal, bytearray(256), b"dev")
    eq(second.pending, 1)
    for operation in (
        lambda: first.publish(b"t", b"two", 1, False),
        lambda: first.connect(0, False, 60, None, None, None),
        lambda: first.data_to_send(0),
    ):
        first.recover()
        assert "make a new one" in str(raises(ValueError, operation))
    eq((second.publish(b"t", b"three", 1, False), second.pending, journal.live), (2, 2, 2))
    eq(second.count[counters.ACCEPTED], 1)


def test_it_is_told_though_a_start_meets_a_worn_page():
    """Wherever that page is: what was found before is told, and no Message ID of it is given before it is free."""
    tried = 0
    for page in range(4096 // 16):
        device = NorFlash(4, 1024, 16)
        peer = Peer.connected(device)
        peer.publish_numbers(3, 2)
        device.data[peer.session.journal.find(OUT, 1) + 1] ^= 1  # its header: nobody knows which it was
        if device.data[16 * page] == 0xFF:
            tried += 1
            device.stuck[16 * page] = 0xFF
            again = Peer(device)
            eq((len(told(again)), again.session.pending, again.session.unproven > 0), (1, 2, True))
    assert tried > 9


def test_what_two_mounts_have_found_is_told():
    """Also if the first one found it without a client, or for one that was refused [MQTT-3.1.3-2]."""
    device = NorFlash(4, 1024, 16)
    peer = Peer.connected(device)
    peer.publish_numbers(4)
    places = [peer.session.journal.find(OUT, k) + 12 for k in (0, 1)]
    device.data[places[0]] ^= 1
    journal = Journal(device)
    raises(ValueError, Session, journal, bytearray(256), b"other")
    device.data[places[1]] ^= 1
    journal.recover()
    eq((journal.lost, journal.found_damaged, journal.damaged), ([(1, 0), (2, 1)], 2, 2))
    session = Session(journal, bytearray(256), b"dev")
    eq([(notice.mid, notice.seq) for notice in session.notices], [(1, 0), (2, 1)])
    eq((journal.lost, journal.found_damaged), ([], 0))


def test_flash_that_fails_while_a_record_is_dropped():
    """The session has its journal back, and goes on when the flash does."""
    failed = 0
    for k in range(6):
        device = NorFlash(4, 1024, 16)
        peer = Peer(device)
        session = peer.session
        peer.publish(b"first")
        session.journal.append(OUT, 2, WRONG[1], len(WRONG[1]))
        session.journal.commit()
        device.fail_at(k, "program")
        try:
            session.recover()
        except OSError:
            failed += 1
            session.recover()
        eq((session.journal.owner is session, session.pending, len(told(peer))), (True, 1, 1))
        peer.publish(b"third")
        eq(len(peer.up()), 2)
    assert failed > 1
