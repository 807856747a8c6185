"""The journal on flash of every granularity: what it keeps, in which order, and what it does not touch."""

import struct
from binascii import crc32

import inflight.journal
from harness import CUT_STEP, eq, raises
from inflight import RamFlash
from inflight.journal import DONE, IN, OUT, RELEASED, SESSION, Journal, OutboxFull
from nor import NorFlash, PowerCut, torn

TIMEOUT_S = 300

RINGS = ((1, False, 512), (4, False, 512), (16, True, 512), (8, True, 512), (256, False, 1024))


def rings(blocks=4):
    for k in range(0, len(RINGS), 1 if CUT_STEP == 1 else 2):
        page, once, size = RINGS[k]
        yield NorFlash(blocks, size, page, once)


def body(k, n=40):
    return bytes([(k * 7 + i) & 0xFF for i in range(n)])


class Places(dict):
    """Where records are, for a journal that it owns."""

    def moved(self, old, new):
        for key in self:
            if self[key] == old:
                self[key] = new


def put(journal, k, n=40, kind=OUT):
    return journal.append(kind, k, body(k, n), n)


def bodies(journal, kind=OUT):
    """[(Message ID, state)] in the order of their numbers, or of their places; every body is compared."""
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
    """Appends until it is full; returns the places."""
    places = []
    while journal.fits(OUT, 40):
        places.append(put(journal, k + len(places)))
    return places


# --- what every journal does ---


def test_format_and_round_trip():
    for flash in rings():
        journal = Journal(flash)
        eq(flash.erases, [1] * 4)
        eq((journal.next_seq, journal.live, journal.used, journal.last_mid, journal.erases), (0, 0, 0, 0, 4))
        eq(bodies(journal), [])
        put(journal, 1)
        put(journal, 2, 0)
        journal.append(OUT, 3, body(3)[:11] + b"other", 11, b"..." + body(3)[11:], 3)
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
    for flash in rings():
        journal = Journal(flash)
        places = [put(journal, k) for k in range(5)]
        journal.mark(places[1], RELEASED)
        journal.mark(places[2], DONE)
        journal.mark(places[3], RELEASED)
        journal.mark(places[3], DONE)
        for again in (journal, Journal(flash)):
            eq(bodies(again), [(0, 0), (1, RELEASED), (4, 0)])
            eq(again.live, 3)


def test_read_from_an_offset_and_at_the_end_of_the_device():
    for flash in rings():
        journal = Journal(flash)
        for k in range(200):
            at = put(journal, k, 60)
            for offset in (0, 1, 59, 60):
                buf = bytearray(64)
                start = journal.read(at, offset, buf)
                eq(bytes(buf[start : start + 60 - offset]), body(k, 60)[offset:])
            journal.mark(at, DONE)


def test_find_by_number():
    for flash in rings():
        journal = Journal(flash)
        places = [put(journal, k, 10) for k in range(10)]
        for k in (3, 4, 7):
            journal.mark(places[k], DONE)
        for seq, mid in ((0, 0), (3, 5), (8, 8), (2, 2), (5, 5), (4, 5), (9, 9)):
            assert journal.find(OUT, seq) == places[mid]
            eq((journal.found_seq, journal.found_mid, journal.found_len, journal.found_state), (mid, mid, 10, 0))
        eq(journal.find(OUT, 10), -1)
        eq(journal.find(OUT, 0), places[0])


def test_largest_record():
    for flash in rings():
        journal = Journal(flash)
        n = journal.largest
        for k in range(9):
            at = put(journal, k, n)
            eq(bodies(Journal(flash)), [(k, 0)])
            journal.mark(at, DONE)
        raises(ValueError, put, journal, 9, n + 1)
        eq(journal.next_seq, 9)


def test_full_costs_no_write():
    for flash in rings():
        journal = Journal(flash)
        places = fill(journal)
        assert len(places) > 5
        assert journal.used <= journal.limit
        before = flash.programs, flash.erases[:], bytes(flash.data)
        raises(OutboxFull, put, journal, 1)
        raises(OutboxFull, put, journal, 1, journal.largest)
        eq((flash.programs, flash.erases, bytes(flash.data)), before)
        eq(journal.fits(OUT, 40), False)
        assert journal.fits(IN, 0)  # what is received still has room
        journal.mark(places[0], DONE)
        put(journal, len(places))
        eq([mid for mid, _ in bodies(Journal(flash))], list(range(1, len(places) + 1)))


# --- the ring ---


def test_many_laps_wear_evenly():
    for flash in rings():
        journal = Journal(flash)
        places = []
        for k in range(400):
            places.append(put(journal, k, k % 50))
            if len(places) > 2:
                journal.mark(places.pop(0), DONE)
            assert max(flash.erases) - min(flash.erases) <= 1
        eq(journal.erases, sum(flash.erases))
        assert min(flash.erases) > 3
        journal = Journal(flash)
        eq(bodies(journal), [(398, 0), (399, 0)])
        eq((journal.next_seq, journal.erases), (400, sum(flash.erases)))


def test_order_after_evacuation():
    for flash in rings():
        journal = Journal(flash)
        old = journal.owner = Places({k: put(journal, k) for k in range(3)})
        journal.mark(old[1], RELEASED)
        for k in range(3, 120):  # the three oldest stay, and travel
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


def test_the_newest_number_outlives_its_record():
    # The newest message is long done; the ring turns under records that take no number, so its sector is erased.
    for flash in rings():
        journal = Journal(flash)
        for k in range(5):
            journal.mark(put(journal, k), DONE)
        for k in range(600):
            journal.mark(put(journal, k, 0, IN), DONE)
            if k % 40 == 0:
                journal.tidy()
                again = Journal(flash)
                eq((again.next_seq, again.last_mid, again.live), (5, 4, 0))
        assert min(flash.erases) > 1


def test_tidy_erases_ahead():
    for flash in rings():
        journal = Journal(flash)
        while flash.erases == [1] * 4:
            journal.mark(put(journal, 1), DONE)
        erased = sum(flash.erases)
        eq(journal.tidy(), True)
        eq(journal.tidy(), False)
        eq(sum(flash.erases), erased + 1)
        eq(Journal(flash).next_seq, journal.next_seq)


# --- what a mount finds ---


def test_blank_and_garbage():
    for value in (0xFF, 0x00, 0xA5):
        for flash in rings():
            flash.data[:] = bytes([value]) * len(flash.data)
            flash.written[:] = bytes([value != 0xFF]) * len(flash.written)
            journal = Journal(flash)
            eq((journal.live, journal.next_seq), (0, 0))
            put(journal, 1)
            eq(bodies(Journal(flash)), [(1, 0)])


def test_damaged_sector_loses_only_what_it_held():
    for flash in rings(5):
        journal = Journal(flash)
        places = fill(journal)
        size = flash.block_size
        used = sorted({at // size for at in places})
        image = flash.snapshot()
        for sector in used:
            flash.restore(image)
            flash.data[sector * size : sector * size + 20] = b"\x5a" * 20
            kept = [(k, 0) for k, at in enumerate(places) if at // size != sector]
            again = Journal(flash)
            eq(bodies(again), kept)
            assert again.next_seq >= len(places)
            number = again.next_seq
            eq(Journal(flash).next_seq, number)  # also after a second start
            again = Journal(flash)
            again.mark(again.find(OUT, 0), DONE)
            put(again, 99)
            eq(bodies(Journal(flash)), kept[1:] + [(99, 0)])


def test_damaged_body_loses_one_record():
    for flash in rings():
        journal = Journal(flash)
        places = [put(journal, k) for k in range(6)]
        flash.data[places[2] + 20] ^= 0x10
        again = Journal(flash)
        eq(bodies(again), [(k, 0) for k in range(6) if k != 2])
        eq(again.next_seq, 6)
        eq(again.damaged, 1)
        eq(Journal(flash).damaged, 0)  # told once


def test_half_cleared_marks_are_finished():
    for page, once, size in RINGS:
        if once:
            continue
        for state in range(0, 256, CUT_STEP):
            if state & 0x0F != 0x0F and state >> 4 not in (0, 15):
                continue  # no cut leaves that
            flash = NorFlash(4, size, page)
            journal = Journal(flash)
            at = put(journal, 1)
            put(journal, 2)
            flash.data[at + 10 + 40 + 4] = state
            found = bodies(Journal(flash))
            mark = flash.data[at + 10 + 40 + 4]
            if state & 0x0F != 0x0F:
                eq(found, [(2, 0)])
                assert mark in (0xF0, 0x00), mark
            else:
                eq(found, [(1, RELEASED if state != 0xFF else 0), (2, 0)])
                assert mark in (0xFF, 0x0F), mark


def test_a_mount_of_a_sound_journal_programs_little():
    for flash in rings():
        journal = Journal(flash)
        for k in range(30):
            journal.mark(put(journal, k), DONE)
        programs = flash.programs
        Journal(flash)
        assert flash.programs - programs <= 2  # the last record again


def test_another_geometry_is_not_touched():
    flash = NorFlash(8, 1024, 256)
    put(Journal(flash), 1)
    others = (
        NorFlash(4, 2048, 256),
        NorFlash(8, 1024, 4),
        NorFlash(8, 1024, 16, True),
        NorFlash(4, 1024, 256),
        NorFlash(8, 512, 256),
    )
    for other in others:
        other.data[:] = flash.data[: len(other.data)]
        image = bytes(other.data)
        raises(ValueError, Journal, other)
        eq(bytes(other.data), image)
    # A later version of the format, with a header that is right.
    header = bytearray(flash.data[:20])
    header[3] = 2
    struct.pack_into("<I", header, 16, crc32(bytes(header[:16])))
    flash.data[:20] = header
    raises(ValueError, Journal, flash)
    inflight.journal.erase(flash)
    eq(Journal(flash).next_seq, 0)


def test_impossible_devices():
    class Device:
        def __init__(self, blocks, size, page):
            self.page = page
            self.answers = {4: blocks, 5: size}

        def ioctl(self, op, arg):
            return self.answers[op]

    for blocks, size, page in ((2, 512, 64), (4, 512, 512), (4, 64, 64), (4, 4000, 256), (4, 131072, 256)):
        raises(ValueError, Journal, Device(blocks, size, page))


# --- power and other misfortunes ---


def test_torn_records_leave_no_gap():
    for flash in rings():
        accepted = 0
        for b in range(0, 54, 3):
            journal = Journal(flash)
            flash.cut_at(0, torn(b % flash.page if flash.page > 1 else b, 0xA5))
            raises(PowerCut, put, journal, 77)
            flash.power_on()
            journal = Journal(flash)
            if journal.live > accepted - max(0, accepted - 4):
                accepted += 1  # it was complete after all
            eq(journal.next_seq, accepted)
            put(journal, accepted)
            accepted += 1
            if accepted > 4:
                journal.mark(journal.find(OUT, 0), DONE)


def test_a_device_that_fails():
    class Failing(NorFlash):
        broken = False

        def writeblocks(self, block, buf, offset=0):
            if self.broken:
                raise OSError(5)
            super().writeblocks(block, buf, offset)

    for page, once, size in RINGS:
        flash = Failing(4, size, page, once)
        journal = Journal(flash)
        at = put(journal, 1)
        put(journal, 2)
        flash.broken = True
        raises(OSError, put, journal, 3)
        raises(OSError, journal.mark, at, DONE)
        eq(bodies(journal), [(1, 0), (2, 0)])
        flash.broken = False
        raises(OSError, put, journal, 3)  # the journal does not know what the device holds now
        eq(journal.tidy(), False)
        journal.mark(at, DONE)
        journal = Journal(flash)
        put(journal, 3)
        eq(bodies(Journal(flash)), [(2, 0), (3, 0)])
        eq(journal.next_seq, 3)


def test_every_record_has_the_crc_of_the_standard():
    flash = NorFlash(4, 4096, 256)
    journal = Journal(flash)
    for n in (0, 1, 2, 63, 64, 65, 300, 1000):
        at = put(journal, n, n)
        record = bytes(flash.data[at : at + 10 + n])
        eq(crc32(record[:9]) & 0xFF, record[9])
        eq(struct.unpack("<I", bytes(flash.data[at + 10 + n : at + 14 + n]))[0], crc32(record))


def test_ram():
    flash = RamFlash()
    journal = Journal(flash)
    for k in range(100):
        at = put(journal, k)
        journal.mark(at, RELEASED)
        journal.mark(at, DONE)
    put(journal, 100)
    journal.append(OUT, 101, body(101)[:11] + b"other", 11, b"..." + body(101)[11:], 3)
    for again in (journal, Journal(flash)):
        eq(bodies(again), [(100, 0), (101, 0)])
        eq(again.next_seq, 102)
