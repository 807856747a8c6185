"""A SESSION record when no sector is erased, and none has space for it: power cuts, or a worn page, have left that."""

from harness import eq
from inflight.journal.journal import DONE, OUT
from inflight.states import PERSISTENT, UNSURE
from nor import NorFlash, PowerCut, after
from session_peer import Peer, ack, mid_of

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"
SIZE = 512


def full(client_id):
    """A connected session with messages of QoS 2 in the oldest sector, and nothing erased; its head takes no SESSION
    record more."""
    flash = NorFlash(4, SIZE, 4)
    peer = again(flash, client_id)
    for _ in range(5):
        peer.publish(b"x" * 30, 2)
    connect(peer, False)
    session = peer.session
    journal = session.journal
    erased, head, off = ring(journal)
    while erased or SIZE - off >= 26 + len(client_id):
        if erased == 1:
            journal._worn = (head + 1) % 4  # then the record goes to the last sector before anything is copied
        write(session)
        erased, head, off = ring(journal)
        assert session.below < 99, "there is space at each round"
    return flash, session


def complete(journal):
    """All messages are done."""
    at = journal.scan(OUT, -1)
    while at >= 0:
        following = journal.scan(OUT, at)
        journal.mark(at, DONE)
        at = following
    journal.commit()


def ring(journal):
    """(sectors that are erased, the head, where its records end)"""
    return journal._erased, journal._head, journal._off


def write(session):
    session.below += 1
    session.write_record(session.most)


def again(flash, client_id):
    Peer.client_id = client_id
    return Peer(flash, max_inflight=4)


def connect(peer, present=True):
    """Returns the packets that the client sends on a new connection. present: the broker has its session."""
    peer.session.connect(peer.now, False, 60, None, None, None)
    peer.sent()
    peer.feed(b"\x20\x02" + bytes([present]) + b"\x00")
    peer.session.resume()
    return peer.sent()


def test_messages_leave_and_make_space():
    """[MQTT-4.4.0-1] What a connection has to record finds no space: it says nothing wrong, and prevents nothing."""
    for n in range(3, 7):
        client_id = b"d" * n
        flash, session = full(client_id)
        before = list(flash.erases)
        write(session)
        eq(flash.erases, before)
        peer = again(flash, client_id)
        session = peer.session
        eq((session.has_session, session.pending), (True, 5))
        done = []
        packets = connect(peer)
        while packets:
            first = packets.pop(0)
            if first[0] >> 4 == 6:
                mid = first[2] << 8 | first[3]
                done.append(mid)
                packets += peer.feed(ack(0x70, mid))
            else:
                assert first[0] & 8, first  # it may have left already
                packets += peer.feed(ack(0x50, mid_of(first)))
        eq((sorted(done), session.pending), ([1, 2, 3, 4, 5], 0))
        session.connection_lost()
        connect(peer)
        session = again(flash, client_id).session
        eq((session.has_session, session.mode, session.pending), (True, PERSISTENT, 0))


def test_a_record_without_space_says_that_everything_can_have_left():
    """Whatever it said before, at each start until there is another one."""
    for n in range(3, 7):
        client_id = b"d" * n
        flash, session = full(client_id)
        write(session)
        for _ in range(3):
            there = again(flash, client_id).session
            eq((there.has_session, there.mode, there.below), (True, UNSURE, there.journal.next_seq))


def test_records_without_space_take_no_number():
    """FORMAT.md: one more, modulo 16, than those of the record before."""
    _, session = full(b"dev")
    number = record_number(session)
    for _ in range(9):
        write(session)
    complete(session.journal)
    write(session)
    eq(record_number(session), (number + 1) % 16)


def record_number(session):
    first = bytearray(1)
    session.journal.read(session.record_at, 0, first)
    return first[0] >> 4


def test_an_oldest_sector_without_messages_makes_space_first():
    """No cut costs the record."""
    client_id = b"dev"
    k = 0
    while True:
        flash, session = full(client_id)
        complete(session.journal)
        before = list(flash.erases)
        flash.cut_at(k, after)
        try:
            write(session)
            break
        except PowerCut:
            pass
        flash.power_on()
        assert again(flash, client_id).session.has_session
        k += 1
    eq([now - then for now, then in zip(flash.erases, before)], [1, 0, 0, 0])
    assert k > 4
