"""Damaged flash costs only the records that are damaged; they are counted, and no sequence number or id is reused."""

from harness import CUT_STEP, eq, raises
from inflight.journal.journal import DONE, IN, NOTE, OUT, RELEASED, SESSION, Journal
from inflight.journal.records import ASIDE
from nor import NorFlash, PowerCut, after, before, noise, scattered, suffix, torn
from ring import end, erased, head, numbers
from test_journal import RecordOwner, bodies, fill, journals, put, rings

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"


def filled(page=64, blocks=6, size=512):
    """A flash with live records of all kinds in each state, with done ones between them, and their addresses:
    {address: (kind, Message ID, state)}."""
    flash = NorFlash(blocks, size, page)
    journal = Journal(flash)
    live = {}
    for k in range(24):
        kind = (OUT, OUT, IN, OUT, SESSION)[k % 5]
        n = {OUT: 9 + k % 7, IN: 0, SESSION: 5}[kind]
        if not journal.fits(kind, n):
            break
        at = put(journal, k, n, kind)
        state = (0, 0, RELEASED, DONE, 0, RELEASED)[k % 6]
        if state:
            journal.mark(at, state)
        if state != DONE:
            live[at] = kind, k, state
    return flash, journal, live


def snapshots_of(flash, work):
    """[(address, snapshot before it)] of each operation of work()."""
    found = []
    flash.watch = lambda name, at, old, new: found.append((at, flash.snapshot()))
    work()
    flash.watch = None
    return found


def found_in(journal):
    found = set()
    for kind in (OUT, IN, SESSION):
        for mid, state in bodies(journal, kind):
            found.add((kind, mid, state & ~ASIDE))  # one bit may set a message aside
    return found


def test_one_bit_anywhere():
    """A flipped bit costs at most its record, and a lost record is counted. A second mount agrees."""
    flash, journal, live = filled()
    image = flash.snapshot()
    everything = set(live.values())
    next_seq, last_mid = journal.next_seq, journal.last_mid
    size = flash.block_size
    used = max(live) // size * size + size
    for bit in range(0, used * 8, 7 * CUT_STEP):
        flash.restore(image)
        at = bit // 8
        flash.data[at] ^= 1 << bit % 8
        again = Journal(flash)
        touched = {r for a, r in live.items() if a <= at < a + 15 + {OUT: 9 + r[1] % 7, IN: 0, SESSION: 5}[r[0]]}
        found = found_in(again)
        assert everything - found <= touched and found <= everything, (at, everything ^ found)
        if found != everything:
            assert again.damaged or again.skipped, at
        assert again.next_seq >= next_seq and again.last_mid >= last_mid, (at, again.next_seq, again.last_mid)
        if bit % 7 == 0:
            told = again.next_seq, again.last_mid
            again = Journal(flash)
            eq(found_in(again), found)
            eq((again.next_seq, again.last_mid), told)


def test_one_bit_of_any_header():
    """It costs nothing, whatever was under way when the power was cut: a message copied, a sector erased ahead."""
    flash = NorFlash(4, 512, 64)
    journal = Journal(flash)
    put(journal, 0)

    def work():
        for k in range(1, 40):
            at = put(journal, k)
            if k % 20:
                journal.mark(at, DONE)

    for i, (_, image) in enumerate(snapshots_of(flash, work)[:: 4 * CUT_STEP]):
        flash.restore(image)
        plain = Journal(flash)
        expected, numbers = bodies(plain), (plain.next_seq, plain.last_mid)
        for bit in range(i % 11, 4 * 24 * 8, 11 * CUT_STEP):
            flash.restore(image)
            flash.data[bit // 192 * 512 + bit % 192 // 8] ^= 1 << bit % 8
            again = Journal(flash)
            eq(bodies(again), expected)
            eq((again.next_seq, again.last_mid), numbers)
            eq(again.skipped, 0)


def test_a_lost_sector():
    """The sector reads blank, as noise, or as it was long ago. Its records are lost and counted; ids and sequence
    numbers are not reused."""
    for flash, journal in journals(5):
        early = flash.snapshot()
        for k in range(40):
            journal.mark(put(journal, k), DONE)
        places = fill(journal, 40)
        size = flash.block_size
        image = flash.snapshot()
        toss = noise(5)
        garbage = bytes(next(toss) & 255 for _ in range(size))
        oldest = journal.erases % 5
        for sector in {at // size for at in places} - {oldest}:
            for content in (b"\xff" * size, garbage, early[sector * size : (sector + 1) * size]):
                if content[:24] == image[sector * size : sector * size + 24]:
                    continue  # as it was after its last erase: not detectable
                flash.restore(image)
                flash.data[sector * size : (sector + 1) * size] = content
                again = Journal(flash)
                eq(bodies(again), [(40 + k, 0) for k, at in enumerate(places) if at // size != sector])
                eq(again.damaged, 2)  # it may have contained more than one record
                assert again.skipped > 0
                assert again.next_seq >= 40 + len(places) and again.last_mid >= 40 + len(places) - 1
                told = again.next_seq, again.last_mid
                counted = again.damaged, again.skipped
                again = Journal(flash)
                eq((again.found_damaged, again.found_skipped), (0, 0))
                eq((again.damaged, again.skipped), counted)
                eq((again.next_seq, again.last_mid), told)


def test_the_only_copy_of_a_record_in_a_full_ring():
    """Its loss is counted, though the head that it was copied to is erased again."""
    flash = NorFlash(5, 512, 64)
    journal = Journal(flash)
    put(journal, 0, 150)

    def work():
        for k in range(1, 40):
            journal.mark(put(journal, k, 100), DONE)

    for at, image in snapshots_of(flash, work):
        flash.restore(image)
        newest = head(flash)
        if at % 512 == 0 and at // 512 != newest and Journal(flash).live:
            flash.restore(image)
            flash.data[newest * 512 + 40] ^= 1
            if newest != 2:
                flash.data[2 * 512 + 40] ^= 1  # a record that stays where it is, and is done
            again = Journal(flash)
            assert again.live or again.damaged or again.skipped
            assert again.damaged + again.skipped <= 2  # each counts once


def test_a_header_of_a_journal_without_messages():
    """Its damage lets no number be passed over."""
    for sector in range(4):
        flash = NorFlash(4, 512, 64)
        journal = Journal(flash)
        put(journal, 0, 12, SESSION)
        flash.data[sector * 512 + 16] ^= 1
        again = Journal(flash)
        eq((again.next_seq, again.skipped, len(bodies(again, SESSION))), (0, 0, 1))


def with_torn_record(page):
    """Flash of a journal with one record, and behind it one that was cut short."""
    flash = NorFlash(4, 512, page)
    journal = Journal(flash)
    put(journal, 0)
    flash.cut_at(1, torn(30, 255))
    raises(PowerCut, put, journal, 1, 100)
    flash.power_on()
    return flash


def test_a_retired_end_stays_retired():
    """The mount that retires it is cut short, and the bits in question read as retired at the next mount."""
    flash = with_torn_record(4)
    before = flash.snapshot()
    flash.cut_at(1, after)
    raises(PowerCut, Journal, flash)
    undecided = {i: before[i] & ~flash.data[i] for i in range(len(before)) if before[i] & ~flash.data[i]}
    flash.power_on()
    flash.unstable.update(undecided)  # they read as 0 this time
    again = Journal(flash)
    put(again, 2)
    for i, mask in flash.unstable.items():
        flash.data[i] |= mask
    last = Journal(flash)
    eq((bodies(last), last.damaged, last.skipped), ([(0, 0), (2, 0)], 0, 0))


def test_what_a_cut_left_is_passed_in_few_reads():
    """A long message was cut short, and is zeros now: who looks for messages does not read each byte of
    them by itself."""
    flash = NorFlash(6, 4096)
    journal = Journal(flash)
    put(journal, 0)
    flash.cut_at(10, torn(30, 255))
    raises(PowerCut, put, journal, 1, 3000)
    flash.power_on()
    journal = Journal(flash)
    put(journal, 2)
    flash.reads = 0
    journal.find(OUT, 1)
    assert flash.reads < 400, flash.reads
    eq(journal.found_mid, 2)


def test_a_head_whose_header_is_lost_gets_no_more_records():
    """It passes for a sector whose erase was cut short as soon as it is the oldest."""
    for kind in (OUT, IN):
        for flash, journal in journals(5):
            journal.mark(put(journal, 0), DONE)
            flash.data[:24] = bytes(24)
            again = Journal(flash)
            put(again, 1, 20, kind)
            for k in range(2, 32):
                again.mark(put(again, k, 20, kind), DONE)
            last = Journal(flash)
            eq((bodies(last, kind), last.damaged), ([(1, 0)], 0))
            eq(last.next_seq, again.next_seq)


def test_the_newest_headers_are_damaged():
    """All of them but the oldest one's: each has the number behind the one before."""
    for flash, journal in journals(5):
        k = at = 0
        while at < 3 * flash.block_size:
            at = put(journal, k)
            if k % 8:
                journal.mark(at, DONE)
            k += 1
        for sector in range(1, flash.blocks):
            flash.data[sector * flash.block_size + 11] ^= 0x80
        again = Journal(flash)
        eq(bodies(again), bodies(journal))
        eq(again.next_seq, k)


def test_zeros_left_of_the_header_of_the_newest_sector():
    """No sector is erased, and it was to be begun again. In the first lap zeros are alike the number that it had."""
    for flash in rings(4):
        size = flash.block_size
        journal = Journal(flash)
        k = 0
        while flash.erases[0] < 2 or head(flash) != 3:
            journal.mark(put(journal, k), DONE)
            k += 1
        put(journal, k)
        while head(flash):
            oldest = flash.data[size : 2 * size]
            journal.mark(put(journal, k, 0, IN), DONE)
        flash.data[size : 2 * size] = oldest
        image = flash.snapshot()
        ways = [way(i, 0xFF) for i in range(24) for way in (suffix, torn)]
        for way in ways + [scattered(i) for i in range(32 // CUT_STEP)]:
            flash.restore(image)
            flash.data[:24] = way(image[:24], bytes(24))
            again = Journal(flash)
            eq((bodies(again), again.damaged, again.next_seq, again.last_mid), ([(k, 0)], 0, k + 1, k))
            eq(bodies(Journal(flash)), [(k, 0)])


def test_damaged_body_loses_one_record():
    for flash, journal in journals(6):
        places = [put(journal, k) for k in range(6)]
        flash.data[places[2] + 20] ^= 0x10
        again = Journal(flash)
        eq(bodies(again), [(k, 0) for k in range(6) if k != 2])
        eq((again.next_seq, again.damaged, again.skipped), (6, 1, 0))
        again = Journal(flash)
        eq((again.damaged, again.found_damaged), (1, 0))  # counted once, for good


def test_two_neighbours_count_as_two():
    for flash, journal in journals(6):
        places = [put(journal, k) for k in range(6)]
        for k in (2, 3):
            flash.data[places[k] + 20] ^= 0x10
        again = Journal(flash)
        eq(bodies(again), [(k, 0) for k in (0, 1, 4, 5)])
        eq(again.damaged, 2)


def test_a_long_record_that_is_damaged_is_none():
    """It is longer than what a journal reads at once while it runs."""
    flash = NorFlash(8, 4096, 256)
    journal = Journal(flash)
    places = [put(journal, k, 700) for k in range(3)]
    journal.commit()
    flash.data[places[1] + 400] ^= 0x10
    journal.recover()
    eq((bodies(journal), journal.damaged), ([(0, 0), (2, 0)], 1))


def test_a_payload_is_never_a_record():
    """The payload contains the image of a whole record, and the header of its own record is damaged."""
    for flash, journal in journals():
        at = put(journal, 1)
        image = bytes(flash.data[at : at + 55])
        for shift in range(12):
            payload = b"x" * shift + image + b"y"
            places = [journal.append(OUT, 2, payload, len(payload)), put(journal, 3)]
            kept = flash.snapshot()
            flash.data[places[0]] ^= 1
            again = Journal(flash)
            eq(bodies(again), [(1, 0), (3, 0)])
            eq(again.damaged, 1)
            flash.restore(kept)
            for place in places:
                journal.mark(place, DONE)


def test_a_bit_of_what_was_retired():
    """It costs nothing, whether records stand behind it or not."""
    for behind in range(2):
        flash = with_torn_record(64)
        journal = Journal(flash)
        retired = range(24 + 55, end(flash), CUT_STEP)
        if behind:
            put(journal, 2)
        image = flash.snapshot()
        for at in retired:
            flash.restore(image)
            flash.data[at] ^= 1 << at % 8
            for _ in range(2):
                again = Journal(flash)
                eq((bodies(again), again.damaged, again.skipped), ([(0, 0), (2, 0)][: 1 + behind], 0, 0))


def test_a_mark_that_reads_differently_at_each_read():
    """The power was cut while the first of some records was marked: it is marked or not, the others stay, and each
    mount agrees with the one before."""
    for page in (4, 64):
        for seed in range(0, 96, CUT_STEP):
            flash = NorFlash(4, 512, page, seed=seed)
            journal = Journal(flash)
            places = [put(journal, k) for k in range(3)]
            flash.undecided[places[0] + 54] = (0x0F, 0xF0, 0x07, 0xE0, 0x0E, 0x03)[seed % 6]
            flash.power_on()
            again = Journal(flash)
            found = bodies(again)
            assert [mid for mid, _ in found] in ([0, 1, 2], [1, 2]), found
            assert found[-2:] == [(1, 0), (2, 0)], found
            eq((again.live, again.damaged, again.skipped), (len(found), 0, 0))
            for _ in range(4):
                eq(bodies(Journal(flash)), found)
                eq(bodies(again), found)


def test_a_program_that_reads_as_blank():
    """The last program of a record was cut short: its bits read as blank at the next mount, as 0 at a later one."""
    for flash, journal in journals(6):
        put(journal, 0)
        begun = []
        flash.watch = lambda name, at, old, new: begun.append((flash.snapshot(), at, old, new))
        put(journal, 1, flash.page + 40)
        flash.watch = None
        for image, at, old, new in begun[1:]:  # the first leaves no trace at all
            flash.restore(image)
            put(Journal(flash), 2)
            for i, b in enumerate(new):
                flash.data[at + i] &= ~(old[i] ^ b)
            eq(bodies(Journal(flash)), [(0, 0), (2, 0)])
        assert len(begun) > 1


def test_records_are_checked_before_they_are_copied():
    """A live record damaged while the device runs is neither copied nor skipped: it fails, and is counted."""
    for flash, journal in journals():
        old = journal.owner = RecordOwner({k: put(journal, k) for k in range(3)})
        flash.data[old[1] + 15] ^= 4
        k = failures = 3
        while len(set(flash.erases)) == 1 or min(flash.erases) < 2:
            try:
                journal.mark(put(journal, k), DONE)
                k += 1
            except OSError:
                assert journal.failed
                journal.recover()
                eq(journal.damaged, 1)
                failures += 1
        eq(failures, 4)
        eq([mid for mid, _ in bodies(journal)][:2], [0, 2])


def test_a_damaged_newest_record_whose_crc_ends_like_blank_flash():
    """Its number is not given again."""
    flash = NorFlash(4, 1024, 64)
    journal = Journal(flash)
    at = put(journal, 1)
    while flash.data[at + 53] != 0xFF:  # the last byte of its CRC
        journal.mark(at, DONE)
        at = put(journal, 1)
    given = journal.next_seq
    flash.data[at + 12] ^= 4
    assert Journal(flash).next_seq >= given


def test_numbers_after_a_second_damage():
    """After damage that hid earlier sequence numbers, the numbers used since then are still known."""
    for part in (0, 12):  # of the header, of the body
        flash = NorFlash(4, 1024, 16)
        journal = Journal(flash)
        places = [put(journal, k) for k in range(6)]
        flash.data[places[2]] ^= 1
        journal = Journal(flash)
        given = journal.next_seq
        assert given >= 6
        places = [put(journal, k) for k in range(3)]
        flash.data[places[1] + part] ^= 1
        flash.data[places[2] + 12] ^= 1
        journal = Journal(flash)
        assert journal.next_seq >= given + 3, (given, journal.next_seq)


def test_numbers_after_the_newest_sector_is_lost_again_and_again():
    """Each loss may take all that the mount before wrote down: no number is given twice in the life of the journal."""
    for flash in rings(5):
        for which in ("head", "blank", "each"):
            flash.data[:] = b"\xff" * len(flash.data)
            journal = Journal(flash)
            given = -1
            for lap in range(6):
                for k in range(3 + 30 * (lap % 2)):
                    assert journal.next_seq > given, (which, lap, journal.next_seq, given)
                    given = journal.next_seq
                    at = put(journal, k, 0)
                    journal.mark(at, DONE)
                sector = at // flash.block_size
                if which == "blank" or (which == "each" and lap % 2):
                    sector = (journal.erases - 1) % 5
                flash.data[sector * flash.block_size : (sector + 1) * flash.block_size] = b"\x5a" * flash.block_size
                journal = Journal(flash)


def test_sequence_notes_are_written_in_pairs():
    """Power was cut between the two notes of the sequence numbers: the next mount writes a pair, of which one may be
    lost."""
    flash = NorFlash(4, 1024, 16)
    journal = Journal(flash)
    for k in range(4 * 1024 // 20):
        journal.mark(put(journal, k), DONE)
    given, mid = journal.next_seq, journal.last_mid
    journal.append(NOTE, mid, b"", 0)
    journal.commit()
    journal = Journal(flash)
    last = end(flash)  # the state of the second one, which is FF
    for i in range(15):
        image = flash.snapshot()
        flash.data[last - i] ^= 1
        journal = Journal(flash)
        assert journal.next_seq >= given, i
        flash.restore(image)


def test_two_bits_of_the_next_sector_double_nothing():
    """They make it look as if records had been there, while the copy of one is the last record of the sector before."""
    flash = NorFlash(12, 512, 4)
    damaged = NorFlash(12, 512, 4)
    journal = Journal(flash)
    copied = 0

    def damage(name, at, old, new):
        nonlocal copied
        damaged.restore(flash.snapshot())
        damaged.data[(head(flash) + 1) % 12 * 512 + 100] &= 0xFC
        found = numbers(Journal(damaged))
        eq(len(found), len(set(found)))
        copied += found != sorted(found)

    kept = []
    for k in range(150):
        if k == 110:
            flash.watch = damage
        kept.append(put(journal, k))
        if k % 4:
            journal.mark(kept.pop(), DONE)
        journal.commit()
    assert copied


def test_the_newest_number_in_a_ring_of_three():
    """It stands in one record, all sectors but the head have been erased since those before it: damage to its header
    does not make a number come twice."""
    flash = NorFlash(3, 512, 4)
    journal = Journal(flash)
    newest = k = 0
    while newest % 512 != 24 or k < 40:
        newest = put(journal, k)
        journal.mark(newest, DONE)
        k += 1
    while journal.collect():
        pass
    eq(erased(flash), 2)
    journal.commit()
    flash.data[newest + 6] ^= 1
    assert Journal(flash).next_seq >= k


def worn_page(first, aligned):
    """(flash, live numbers): a page of the head takes nothing any more, and a message has met it. aligned: its record
    would have begun there."""
    flash = NorFlash(4, 512, 64)
    journal = Journal(flash)
    journal.owner = owner = RecordOwner()
    for k in range(first):
        owner[k] = put(journal, k, 12)
        if k % 7 or k < first - 20:
            journal.mark(owner.pop(k), DONE)
        elif k > first - 12:
            put(journal, k, 0, IN)
        journal.commit()
    gap = -end(flash) % 64
    if aligned and gap:
        put(journal, 0, gap + 49, IN)
        journal.commit()
    page = -(-end(flash) // 64) * 64
    if page % 512 == 0:
        return None
    for at in range(page, page + 64):
        flash.stuck[at] = 0xFF
    live = numbers(journal)
    try:
        while journal.fits(OUT, 12):
            put(journal, journal.next_seq, 12)
            journal.commit()
            live.append(journal.next_seq - 1)
    except OSError:
        return flash, live
    return None  # the journal is full before that


def test_a_page_that_takes_nothing_doubles_nothing():
    """Nor loses it, if power is cut while what stands around it is copied elsewhere."""
    met = 0
    for first in range(60, 96, 5 * CUT_STEP):
        for aligned in (False, True):
            k = done = 0
            while not done and (made := worn_page(first, aligned)):
                flash, live = made
                flash.cut_at(k, before)
                try:
                    Journal(flash)
                    done = True
                except PowerCut:
                    met += 1
                flash.power_on()
                journal = Journal(flash)
                eq(sorted(numbers(journal)), live)
                received = [mid for mid, _ in bodies(journal, IN)]
                eq(len(received), len(set(received)))
                k += 1
    assert met


def test_power_cuts_in_a_ring_of_three_pass_over_few_numbers():
    """Also where a record cut short has no right header: numbers in front of it are known."""
    flash = NorFlash(3, 1024, 256)
    journal = Journal(flash)
    k = 0
    while k < 100 or end(flash) % 1024 > 400:
        journal.mark(put(journal, k, 12), DONE)
        journal.commit()
        while journal.collect():
            pass
        k += 1
    for _ in range(3):
        flash.cut_at(0, suffix(end(flash) % 256 + 4, 0xFF))
        raises(PowerCut, put, journal, k, 30)
        flash.power_on()
        given = journal.next_seq
        journal = Journal(flash)
        assert given <= journal.next_seq <= given + 5
        eq(journal.damaged, 0)
