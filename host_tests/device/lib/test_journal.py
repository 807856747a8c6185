"""The journal on flash of every granularity: what it keeps, in which order, and which flash it does not change."""

import struct
from binascii import crc32

from account import body
from harness import CUT_STEP, EMULATED, eq, raises
from inflight.journal.journal import DONE, IN, OUT, RELEASED, SESSION, Journal, OutboxFull, erase
from inflight.journal.records import ASIDE
from nor import NorFlash

RUNTIMES = "cpython micropython-x64 micropython-x86 native-x86"
MORE_RUNTIMES = "micropython-armhf native-x64"

RINGS = ((1, 512), (4, 512), (64, 512), (256, 1024))


def rings(blocks=4):
    for k in range(0, len(RINGS), 3 if EMULATED else 1):
        page, size = RINGS[k]
        yield NorFlash(blocks, size, page)


def journals(blocks=4):
    for flash in rings(blocks):
        yield flash, Journal(flash)


class RecordOwner(dict):
    """Owns a journal, and knows the addresses of its records."""

    def moved(self, old, new):
        for key in self:
            if self[key] == old:
                self[key] = new

    def can_spare(self, at, anew=False):
        return False


def put(journal, k, n=40, kind=OUT):
    return journal.append(kind, k, body(k, n), n)


def bodies(journal, kind=OUT):
    """[(Message ID, state)] in the order of sequence numbers, or of addresses; compares every body."""
    found = []
    seq = 0
    at = journal.find(OUT, 0) if kind == OUT else journal.scan(kind, -1)
    while at >= 0:
        n = journal.found_len
        buf = bytearray(n + 3)
        start = journal.read(at, 0, buf)
        eq(bytes(buf[start : start + n]), body(journal.found_mid, n))
        found.append((journal.found_mid, journal.found_state))
        seq = journal.found_seq + 1
        at = journal.find(OUT, seq) if kind == OUT else journal.scan(kind, at)
    return found


def fill(journal, k=0):
    """Appends until the journal is full. Returns the addresses."""
    places = []
    while journal.fits(OUT, 40):
        places.append(put(journal, k + len(places)))
    return places


# --- records ---


def test_format_and_round_trip():
    for flash, journal in journals():
        eq(flash.erases, [1] * 4)
        eq((journal.next_seq, journal.live, journal.used, journal.last_mid, journal.erases), (0, 0, 0, 0, 4))
        eq(bodies(journal), [])
        put(journal, 1)
        put(journal, 2, 0)
        journal.append(OUT, 3, b"..." + body(3)[:11] + b"other", 14, body(3)[11:15], body(3)[15:], 3)
        put(journal, 9, 9, SESSION)
        for again in (journal, Journal(flash)):
            eq(bodies(again), [(1, 0), (2, 0), (3, 0)])
            eq(bodies(again, SESSION), [(9, 0)])
            eq(bodies(again, IN), [])
            eq((again.next_seq, again.live, again.last_mid), (3, 3, 3))
            eq((again.epoch, again.used), (journal.epoch, journal.used))
        eq(flash.erases, [1] * 4)


def test_epochs_differ():
    assert len({Journal(flash).epoch for flash in rings()}) > 1


def test_marks():
    for flash, journal in journals():
        places = [put(journal, k) for k in range(5)]
        journal.mark(places[1], RELEASED)
        journal.mark(places[2], DONE)
        journal.mark(places[3], RELEASED)
        journal.mark(places[3], DONE)
        for again in (journal, Journal(flash)):
            eq(bodies(again), [(0, 0), (1, RELEASED), (4, 0)])
            eq(again.live, 3)


def test_read_from_an_offset_and_at_the_end_of_the_device():
    for flash, journal in journals():
        for k in range(200):
            at = put(journal, k, 60)
            for offset in (0, 1, 59, 60):
                buf = bytearray(64)
                start = journal.read(at, offset, buf)
                eq(bytes(buf[start : start + 60 - offset]), body(k, 60)[offset:])
            journal.mark(at, DONE)


def test_largest_record():
    for flash, journal in journals():
        n = journal.largest
        for k in range(9):
            at = put(journal, k, n)
            eq(bodies(Journal(flash)), [(k, 0)])
            journal.mark(at, DONE)
        raises(ValueError, put, journal, 9, n + 1)
        eq(journal.next_seq, 9)


def test_more_bytes_than_there_are():
    """Machine code does not look at the end of a buffer."""
    for device, journal in journals():
        used = journal.used
        try:
            journal.append(OUT, 1, b"abc", 4)
        except ValueError as e:
            eq(str(e), "n is 4, but head has 3 bytes")
        else:
            raise AssertionError("more than there is")
        eq((journal.used, journal.live), (used, 0))


def test_one_long_message_leaves_space_for_received_ids():
    for flash, journal in journals():
        at = put(journal, 0, journal.largest)
        for k in range(9):
            journal.mark(journal.append(IN, k + 1, b"", 0), DONE if k % 2 else RELEASED)
        journal.mark(at, DONE)
        eq(len(bodies(Journal(flash), IN)), 5)


def test_a_full_journal_writes_nothing():
    for flash, journal in journals(6):
        places = fill(journal)
        assert len(places) > 5
        assert journal.used <= journal.limit
        before = flash.programs, flash.erases[:], bytes(flash.data)
        raises(OutboxFull, put, journal, 1)
        raises(OutboxFull, put, journal, 1, journal.largest)
        eq((flash.programs, flash.erases, bytes(flash.data)), before)
        eq(journal.fits(OUT, 40), False)
        assert journal.fits(IN, 0)  # received ids still fit
        journal.mark(places[0], DONE)
        put(journal, len(places))
        eq([mid for mid, _ in bodies(Journal(flash))], list(range(1, len(places) + 1)))


# --- the ring ---


def test_many_laps_wear_evenly():
    for flash, journal in journals():
        places = []
        for k in range(400):
            places.append(put(journal, k, k % 40))
            if len(places) > 2:
                journal.mark(places.pop(0), DONE)
            assert max(flash.erases) - min(flash.erases) <= 1
        eq(journal.erases, sum(flash.erases))
        assert min(flash.erases) > 3
        journal = Journal(flash)
        eq(bodies(journal), [(398, 0), (399, 0)])
        eq((journal.next_seq, journal.erases), (400, sum(flash.erases)))


def test_order_after_records_were_copied():
    for flash, journal in journals():
        old = journal.owner = RecordOwner({k: put(journal, k) for k in range(3)})
        journal.mark(old[1], RELEASED)
        for k in range(3, 120):  # the three oldest stay live, and are copied
            at = put(journal, k)
            if k % 20 == 0:
                for again in (journal, Journal(flash)):
                    eq(bodies(again), [(0, 0), (1, RELEASED), (2, 0), (k, 0)])
                eq([journal.find(OUT, seq) for seq in range(3)], [old[k] for k in range(3)])
            if k < 119:
                journal.mark(at, DONE)
        assert min(flash.erases) > 1
        for k in range(3):
            place = journal.find(OUT, 0)
            eq(journal.found_seq, k)
            journal.mark(place, DONE)
        eq(bodies(journal), [(119, 0)])
        assert max(flash.erases) - min(flash.erases) <= 1


def test_the_newest_sequence_number_survives_its_record():
    # The newest message is done. Records without sequence numbers fill the ring, so its sector is erased.
    for flash, journal in journals():
        for k in range(5):
            journal.mark(put(journal, k), DONE)
        for k in range(600):
            journal.mark(put(journal, k, 0, IN), DONE)
            if k % 40 == 0:
                journal.collect()
                again = Journal(flash)
                eq((again.next_seq, again.last_mid, again.live), (5, 4, 0))
        assert min(flash.erases) > 1


def test_the_newest_sequence_number_in_front_of_copies():
    """Messages that waited are done at last: their copies are the last records, and have older numbers."""
    for flash, journal in journals():
        put(journal, 1)
        at = newest = put(journal, 2)
        while newest // flash.block_size == at // flash.block_size:
            newest = put(journal, 3)
            journal.mark(newest, DONE)
        while journal.find(OUT, 1) == at:
            journal.mark(put(journal, 4, 0, IN), DONE)
        while journal.live:
            journal.mark(journal.find(OUT, 0), DONE)
        again = Journal(flash)
        eq((again.next_seq, again.last_mid), (journal.next_seq, 3))


def test_collection_erases_ahead():
    for flash, journal in journals():
        while flash.erases == [1] * 4:
            journal.mark(put(journal, 1), DONE)
        erased = sum(flash.erases)
        eq(journal.collect(), True)
        eq(journal.collect(), False)
        eq(sum(flash.erases), erased + 1)
        eq(Journal(flash).next_seq, journal.next_seq)


# --- mounting ---


def test_blank_and_garbage():
    for value in (0xFF, 0x00, 0xA5):
        for flash in rings():
            flash.data[:] = bytes([value]) * len(flash.data)
            journal = Journal(flash)
            eq((journal.live, journal.next_seq), (0, 0))
            put(journal, 1)
            eq(bodies(Journal(flash)), [(1, 0)])


def test_half_cleared_marks_are_finished():
    """A cut can leave some of a mark's four bits cleared: at two DONE is finished, and RELEASED at three, since one of
    them alone is another mark. One more bit may be bit rot, and is ignored."""
    for page, size in RINGS:
        for state in range(0, 256, CUT_STEP):
            zeros = [bin(nibble).count("0") - 1 for nibble in (16 | state >> 4, 16 | state & 15)]
            flash = NorFlash(4, size, page)
            journal = Journal(flash)
            at = put(journal, 1)
            put(journal, 2)
            flash.data[at + 10 + 40 + 4] = state
            found = bodies(Journal(flash))
            mark = flash.data[at + 10 + 40 + 4]
            released = zeros[0] > 2
            if zeros[1] > 1 + released:
                eq((found, mark & 0x0F), ([(2, 0)], 0))
            else:
                aside = 0 if state & (8 if released else 0x80) else ASIDE
                eq((found, released and mark & 0xF0), ([(1, aside | released), (2, 0)], 0))
            eq(bodies(Journal(flash)), found)


def test_mounting_an_intact_journal_programs_little():
    for flash, journal in journals():
        for k in range(30):
            journal.mark(put(journal, k), DONE)
        programs = flash.programs
        Journal(flash)
        assert flash.programs - programs <= 3  # the last record, and the newest header, once more


def test_sectors_without_live_records_are_not_read():
    """A starting client searches live records of each kind."""
    for flash, journal in journals():
        while min(flash.erases) < 2:
            journal.mark(put(journal, 1), DONE)
        journal = Journal(flash)
        reads = []
        read = flash.readblocks
        flash.readblocks = lambda *of: reads.append(of) or read(*of)
        for kind in (OUT, IN, SESSION):
            eq(journal.scan(kind, -1), -1)
        eq(reads, [])


def test_another_geometry_or_version_is_not_changed():
    flash = NorFlash(8, 1024, 256)
    put(Journal(flash), 1)
    for other in (NorFlash(4, 2048, 256), NorFlash(4, 1024, 256), NorFlash(8, 512, 256)):
        other.data[:] = flash.data[: len(other.data)]
        image = bytes(other.data)
        raises(ValueError, Journal, other)
        eq(bytes(other.data), image)
    # The previous version of the format.
    old = b"IFJ\x01\x08\x0a\x08\0\0\0\0\0epoc"
    flash.data[:20] = old + struct.pack("<I", crc32(old))
    assert "format 1" in str(raises(ValueError, Journal, flash))
    erase(flash)
    eq(Journal(flash).next_seq, 0)


def test_unusable_devices():
    class Device:
        def __init__(self, blocks, size, page):
            self.page = page
            self.answers = {4: blocks, 5: size}

        def ioctl(self, op, arg):
            return self.answers[op]

    for blocks, size, page in ((2, 512, 64), (4, 512, 512), (4, 64, 64), (4, 4000, 256), (4, 131072, 256)):
        raises(ValueError, Journal, Device(blocks, size, page))


def test_every_record_has_the_crc_of_the_standard():
    flash = NorFlash(4, 4096, 256)
    journal = Journal(flash)
    secret = struct.unpack("<I", bytes(flash.data[16:20]))[0]
    for n in (0, 1, 2, 63, 64, 65, 300, 1000):
        at = put(journal, n, n)
        record = bytes(flash.data[at : at + 10 + n])
        eq(crc32(record[:9]) & 0xFF, record[9])
        lock = secret ^ at // 4096 << 16 ^ at % 4096
        eq(struct.unpack("<I", bytes(flash.data[at + 10 + n : at + 14 + n]))[0], crc32(record) ^ lock)
