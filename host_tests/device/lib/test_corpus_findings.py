"""One test for each finding of the fuzzers: forged or partly restored flash, brokers that violate the protocol."""

from errno import ENOBUFS

from harness import eq
from inflight.journal.journal import DONE, OUT, Journal
from inflight.packet import PUBACK
from inflight.session.session import Session
from journal_reader import HEADER
from ring import numbers
from worn_flash import EPOCH, SECRET, blank


def forged(seqs, records=()):
    """The flash of a journal of four sectors with these sequence numbers in their headers (-1: no header), and records
    at the beginning of sectors, given as (sector, sequence number)."""
    flash, shape = blank(0)
    for i, seq in enumerate(seqs):
        flash.put(i * shape.size, shape.header(seq, EPOCH, SECRET) if seq >= 0 else bytes(HEADER))
    ends = [HEADER] * 4
    for sector, seq in records:
        lock = shape.lock(SECRET, seqs[sector], ends[sector])
        data = shape.record(lock, OUT, 1 + seq % 65535, seq, b"2\x05\0\1t\0" + bytes([1 + seq % 255]))
        flash.put(sector * shape.size + ends[sector], data)
        ends[sector] += len(data) + 1
    return flash


def put(journal, n=30):
    """Appends and completes n messages, then one that stays. Returns its sequence number."""
    for _ in range(n):
        journal.mark(journal.append(OUT, 9, bytes(90), 90), DONE)
    journal.append(OUT, 9, b"stays", 5)
    return journal.next_seq - 1


def test_sector_with_a_number_too_high():
    """A message accepted after the mount is there after the next mount."""
    flash = forged((8, 0, 2, 3), [(3, 5)])
    journal = Journal(flash)
    for _ in range(4):
        last = put(journal)
        journal = Journal(flash)
        eq(numbers(journal), [5, last])
        journal.mark(journal.find(OUT, last), DONE)


def test_sector_with_an_impossible_number():
    """The number exceeds any flash's endurance: the header is invalid."""
    for seq in (0xFFFFFFFF, 0xFF000000):
        journal = Journal(forged((4, 5, seq, 7), [(0, 5), (1, 6), (2, 7)]))
        eq(sorted(numbers(journal)), [5, 6])
        put(journal)


def test_numbers_are_left_after_damage():
    """Sectors are lost, and the newest one claims 2,147,483,647 erases."""
    flash = forged((-1, -1, -1, 0x7FFFFFFF))
    last = put(Journal(flash))
    eq(numbers(Journal(flash)), [last])


def test_record_with_a_number_that_cannot_be_counted_on():
    flash = forged((4, 5, 6, 7), [(0, 5), (1, 0xFFFFFFFF), (2, 0xFF000000), (2, 9)])
    journal = Journal(flash)
    assert 5 in numbers(journal) and journal.next_seq < 0xFF000000
    last = put(journal)
    assert last in numbers(Journal(flash))


def test_unfinished_copy_beside_a_damaged_sector():
    """Power was cut while records were copied, and another sector is damaged: no message is there twice, and no sector
    is unusable."""
    flash = forged((4, 5, -1, 7), [(0, 5), (0, 6), (1, 7), (3, 5)])
    journal = Journal(flash)
    eq(sorted(numbers(journal)), [5, 6, 7])
    last = put(journal)
    eq(sorted(numbers(Journal(flash))), [5, 6, 7, last])


def test_copies_of_messages_on_partly_restored_flash():
    """Each is sent once, now and after a restart."""
    flash = forged((4, 5, 6, 7), [(0, 5), (0, 6), (1, 5), (1, 6), (2, 7)])
    s = Session(Journal(flash), bytearray(256), b"dev", max_inflight=2)
    sent = []
    while s.next_row() >= 0:
        i = s.next_row()
        sent.append(s.mids[i])
        s.states[i] += 1  # it waits for PUBACK
        s.acknowledged(PUBACK, s.mids[i])
    eq(sent, [6, 7, 8])
    eq(s.queued, 0)
    eq(Journal(flash).live, 0)


def test_copies_are_not_dropped_as_messages():
    flash = forged((4, 5, 6, 7), [(0, 5), (1, 5)])
    s = Session(Journal(flash), bytearray(256), b"dev", max_inflight=1)
    s.below = s.recorded_most = 9
    s.most = s.load_window()
    assert not s.drop_oldest()
    eq((s.rows, s.queued, s.discard_sent()), (1, 0, 1))


def session(flash, inbound):
    s = Session(Journal(flash), bytearray(256), b"dev", 4, 4, inbound)
    s.connect(0, False, 60, None, None, None)
    hear(s, b"\x20\x02\1\0")
    s.resume()
    return s


def hear(s, data):
    while s.data_to_send(0):
        pass
    s.into[: len(data)] = data
    s.bytes_received(len(data), 0)
    kind = s.next_event(0)
    if kind == 3:
        s.delivered()
    eq(s.next_event(0), 0)
    return kind


def qos_2(mid):
    return bytes([0x34, 6, 0, 1, 0x74, mid >> 8, mid & 255, 0x78])


def flood(s, first):
    """Sends messages until the client refuses one. Returns how many it accepted."""
    n = 0
    while True:
        try:
            hear(s, qos_2(first + n))
            s.collect(False)  # where messages to the broker wait, this ends the connection
        except OSError as error:
            eq(error.errno, ENOBUFS)
            return n
        n += 1


def test_qos_2_without_pubrel_over_restarts():
    """Memory does not grow with restarts: at most twice `receive_maximum` ids, those of the last connection."""
    flash, _ = blank(3)
    accepted = [flood(session(flash, 8), 1 + 100 * life) for life in range(12)]
    eq(accepted, [8] + [16] * 11)
    s = session(flash, 8)
    eq(len(s.mids) - s.limit, 16)
    for k in range(16):
        eq(hear(s, bytes([0x62, 2]) + qos_2(1101 + k)[5:7]), 6)
        eq(s.rows_in, 15 - k)


def test_qos_2_and_a_full_journal():
    """There is no space for its id: the connection ends with this error only; all outgoing messages are still there."""
    for shape in range(7):
        flash, _ = blank(shape)
        s = session(flash, 200)
        accepted = 0
        while s.journal.fits(OUT, 100):
            s.publish(b"t", bytes(60), 1, False)
            accepted += 1
        assert 0 < flood(s, 1) < 200
        eq(s.pending, accepted)
        eq(Journal(flash).live, accepted)
