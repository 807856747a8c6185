"""A SESSION record when no sector is erased, and none has space for it: power cuts, or a worn page, have left that."""

from errno import ENOBUFS

from harness import eq, raises
from inflight.journal.journal import DONE, IN, OUT, SESSION, Journal, OutboxFull
from inflight.session.session import Session
from inflight.states import PERSISTENT
from nor import NorFlash, PowerCut, after
from session_peer import Peer, ack, message, mid_of

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"
SIZE = 512


def full(client_id, done=False):
    """A connected session with messages of QoS 2 in the oldest sector, and nothing erased; its head takes no SESSION
    record more. done: those messages are."""
    Peer.client_id = client_id
    flash = NorFlash(4, SIZE, 4)
    peer = Peer(flash, max_inflight=4)
    session = peer.session
    for _ in range(6):
        peer.publish(b"x" * 30, 2)
    peer.up()
    journal = session.journal
    erased, head, left = ring(flash)
    while erased or left > 26 + len(client_id):
        if erased == 1:
            journal._worn = (head + 1) % 4  # then the record goes to the last sector before anything is copied
        write(session)
        erased, head, left = ring(flash)
    at = journal.scan(OUT, -1)
    while done and at >= 0:
        following = journal.scan(OUT, at)
        journal.mark(at, DONE)
        at = following
    journal.commit()
    return flash, session


def ring(flash):
    """(sectors that are erased, the newest one in use, bytes behind what is programmed there); the first one is the
    oldest."""
    ends = [len(bytes(flash.data[at : at + SIZE]).rstrip(b"\xff")) for at in range(0, len(flash.data), SIZE)]
    erased = sum(end <= 24 for end in ends)
    head = flash.blocks - erased - 1
    return erased, head, SIZE - ends[head]


def write(session):
    session.below += 1
    session.write_record(session.most)


def again(flash, client_id):
    return Session(Journal(flash), bytearray(256), client_id)


def test_it_is_written_to_the_sector_of_those_that_it_replaces():
    for n in range(3, 17):
        client_id = b"d" * n
        flash, session = full(client_id)
        before = list(flash.erases)
        write(session)
        eq(sum(flash.erases) - sum(before), 1)
        assert session.record_at >= 0
        there = again(flash, client_id)
        eq((there.record_at >= 0, there.below, there.pending), (True, session.below, 6))


def test_one_copy_is_not_given_for_the_other():
    """A start that finds one copy writes the second one if there is space."""
    for n in range(3, 17):
        client_id = b"d" * n
        flash, session = full(client_id)
        write(session)
        for _ in range(3):
            there = again(flash, client_id)
            eq((there.record_at >= 0, there.below), (True, session.below))


def test_an_oldest_sector_without_messages_makes_space_first():
    """No cut costs the record."""
    client_id = b"dev"
    k = 0
    while True:
        flash, session = full(client_id, done=True)
        before = list(flash.erases)
        flash.cut_at(k, after)
        try:
            write(session)
            break
        except PowerCut:
            pass
        flash.power_on()
        assert again(flash, client_id).record_at >= 0
        k += 1
    eq([now - then for now, then in zip(flash.erases, before)], [1, 0, 0, 0])
    assert k > 4


def without_space(session):
    """No SESSION record finds space from now on."""
    append = session.journal.append

    def refuse(kind, *arguments):
        if kind == SESSION:
            raise OutboxFull("no sector is erased")
        return append(kind, *arguments)

    session.journal.append = refuse


def first_bytes(packets):
    return [first[0] for first in packets]


def test_messages_leave_though_it_finds_no_space_beside_others():
    """Until there is another record each of them may have left: with DUP after a power cut [MQTT-3.3.1-1], under the
    Message ID that it had, and nothing else changes."""
    Peer.client_id = b"dev"
    flash = NorFlash(4, SIZE, 4)
    peer = Peer.connected(flash)
    peer.session.connection_lost()
    for qos in (1, 2, 1):
        peer.publish(b"x", qos)
    without_space(peer.session)
    eq(first_bytes(peer.up(1)), [0x32, 0x34, 0x32])
    for _ in range(3):  # at each start until a record is written
        peer = Peer(flash)
        session = peer.session
        eq((session.record_at >= 0, session.mode, session.unproven), (True, PERSISTENT, 0))
        without_space(session)
        packets = peer.up(1)
        eq((first_bytes(packets), [mid_of(first) for first in packets]), ([0x3A, 0x3C, 0x3A], [1, 2, 3]))
    eq(peer.feed(ack(0x40, 1) + ack(0x50, 2) + ack(0x70, 2) + ack(0x40, 3)), [ack(0x62, 2)])
    Peer(flash).up(1)
    peer = Peer(flash)
    peer.publish(b"y")
    peer = Peer(flash)
    eq(first_bytes(peer.up(1)), [0x32])


def test_another_change_waits_for_space():
    """A clean session, and Message IDs that are not proven free: nothing leaves before the journal knows of it."""
    Peer.client_id = b"dev"
    peer = Peer.connected(NorFlash(4, SIZE, 4))
    peer.session.connection_lost()
    peer.publish(b"x", 2)
    without_space(peer.session)
    eq(raises(OSError, peer.up, 0, True).errno, ENOBUFS)
    peer = Peer(NorFlash(4, SIZE, 4))
    peer.publish(b"x", 2)
    without_space(peer.session)
    for present in (0, 1):
        eq(raises(OSError, peer.up, present).errno, ENOBUFS)
        peer.session.recover()
    eq(peer.session.pending, 1)


def test_there_is_space_when_all_messages_are_completed():
    """The record is in the oldest sector, the newest one has a message, and nothing is erased."""
    Peer.client_id = b"dev"
    flash = NorFlash(5, SIZE, 4)
    peer = Peer(flash)
    session = peer.session
    for _ in range(5):
        peer.publish(b"x" * 30, 2)
    peer.up()
    session.connection_lost()
    journal = session.journal
    journal._make_space = lambda size, first=False: None if size < ring(flash)[2] else journal._open_next(size)
    erased, _, left = ring(flash)
    while erased or left > 28:
        if not erased and journal.live == 5:
            peer.publish(b"y" * 30, 2)
        else:
            journal.mark(journal.append(IN, 99, b"", 0), DONE)
        erased, _, left = ring(flash)
    del journal._make_space
    packets = peer.up(1)
    while packets:
        first = packets.pop(0)
        packets += peer.feed(ack(0x70, first[2] << 8 | first[3]) if first[0] == 0x62 else ack(0x50, mid_of(first)))
    eq(session.pending, 0)
    session.connection_lost()
    peer.up(1)
    peer.publish(b"new")
    eq(session.pending, 1)


def test_a_message_that_worn_flash_does_not_copy_leaves_first():
    """Two bits cannot be cleared where its record is copied to. It needs no space, and then there is some for the ID of
    the broker's message."""
    Peer.client_id = b"dev"
    for page, places in ((64, (2632, 2637)), (256, (2589, 3023)), (4, (2598, 2654))):
        flash = NorFlash(3, 1024, page)
        flash.stuck = {place: 1 << bit for place, bit in zip(places, (1, 2))}
        peer = Peer.connected(flash)
        peer.publish(bytes(585))
        peer.sent()
        ends = 0
        for mid in range(100, 200):
            packet = message(b"t", b"x", 2, mid)
            while peer.session.row(mid, peer.session.limit) < 0:
                try:
                    eq(peer.feed(packet), [ack(0x50, mid)])
                except OSError as error:
                    ends += 1
                    assert ends < 4, repr(error)
                    peer.session.connection_lost(None, error)
                    if peer.session.busy:
                        peer.session.recover()
                    if peer.up(1):
                        peer.feed(packet + ack(0x40, 1))
            eq(peer.feed(ack(0x62, mid)), [ack(0x70, mid)])
            if ends:
                break
        eq((ends > 0, peer.session.pending), (True, 0))
        Journal(flash)
