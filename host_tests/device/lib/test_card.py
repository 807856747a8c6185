"""A journal on a memory card that spoils the block in which a power cut meets it."""

import gc
import struct

from account import Account
from harness import CUT_STEP, SkipTest, eq, raises
from inflight import CardFlash, Journal
from inflight.journal.journal import DONE, OUT
from nor import PowerCut, noise
from test_journal import bodies, put
from test_journal_alloc import allocated, exchange

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64 micropython-armhf native-x64 native-x86"

AT = 8  # in data
FRONT = 256
FIRST = FRONT + AT


class Card:
    """`blocks` blocks of 512 bytes, in `data`, behind FRONT blocks of zeros and of those in `front`, {number: bytes},
    which nobody writes. Write `cut` from now is cut short: its block holds noise (a seed), or is as it was
    before ("before") or as it was to be ("after"); by the power, or by `error`, after which the card goes on.
    done: what readblocks() and writeblocks() return."""

    def __init__(self, blocks):
        self.data = bytearray(noise_of(blocks * 512, 7))
        self.front = {}
        self.blocks = FRONT + blocks
        self.cut = -1
        self.spoil = "before"
        self.off = False
        self.error = PowerCut
        self.done = None
        self.writes = 0

    def readblocks(self, block, buf):
        self._check(len(buf))
        if block < FRONT:
            buf[:] = self.front.get(block, bytes(512))
            return self.done
        block -= FRONT
        for i in range(len(buf)):  # a slice would allocate
            buf[i] = self.data[block * 512 + i]
        return self.done

    def writeblocks(self, block, buf):
        self._check(len(buf))
        self.writes += 1
        self.cut -= 1
        ends = self.cut == -1
        self.off = ends and self.error is PowerCut
        assert block >= FRONT
        at = (block - FRONT) * 512
        if not ends or self.spoil == "after":
            for i in range(512):
                self.data[at + i] = buf[i]
        elif self.spoil != "before":
            self.data[at : at + 512] = noise_of(512, self.spoil)
        if ends:
            raise self.error
        return self.done

    def _check(self, n):
        if self.off:
            raise PowerCut()
        eq(n, 512)

    def ioctl(self, op, arg):
        return self.blocks if op == 4 else 512 if op == 5 else None

    def power_on(self):
        self.off = False
        self.cut = -1


def noise_of(n, seed):
    toss = noise(seed)
    return bytes(next(toss) & 0xFF for _ in range(n))


def mounted(card):
    return Journal(CardFlash(card, FIRST, 8, 1024))


def fresh():
    card = Card(32)
    mounted(card)
    return card


def is_cut(card, cut, spoil, act, *args):
    """True if power was cut at this write of act(), False if it had fewer."""
    card.cut, card.spoil = cut, spoil
    try:
        act(*args)
        return False
    except PowerCut:
        return True
    finally:
        card.power_on()


def test_what_was_accepted_survives_a_spoilt_block():
    """Power is cut in each write of a ring that goes around, and in each write of the start that follows."""
    card = Card(32)
    start = Account(CardFlash(card, FIRST, 8, 1024))
    start.work(140)
    image = bytes(card.data)

    def restarted(life, data):
        card.data[:] = data
        other = life.copy()
        other.flash = CardFlash(card, FIRST, 8, 1024)
        other.restart()
        eq(other.journal.skipped, 0)
        return other

    cut = 0
    while True:
        life = restarted(start, image)
        if not is_cut(card, cut, ("before", cut, cut + 1, "after")[cut % 4], life.work, 50):
            break
        left = bytes(card.data)
        for again in [-1] + list(range(cut % 3, 12, 3)):
            card.data[:] = left
            is_cut(card, again, cut + again, mounted, card)
            restarted(life, bytes(card.data))
        cut += 4 * CUT_STEP + 1
    assert life.journal.erases > start.journal.erases + 2 > 10


def test_a_card_that_fails():
    """It raises, or returns what drivers return for an error: nothing is lost once it works again."""
    for failure in (False, 1, 5):
        card = fresh()
        journal = mounted(card)
        put(journal, 0)
        journal.commit()
        for k in range(1, 5):
            card.done = failure
            raises(OSError, write, journal, k)
            card.done = None
            journal.recover()
            eq([mid for mid, _ in bodies(journal)], [0])
        eq([mid for mid, _ in bodies(mounted(card))], [0])
        card.error = OSError
        for k in range(3):  # each write of one block
            card.cut, card.spoil = k, k
            raises(OSError, write, journal, 7 + k)
            journal.recover()
            journal.commit()
            eq([mid for mid, _ in bodies(journal)], [0])
            eq([mid for mid, _ in bodies(mounted(card))], [0])
        card.done = True  # as others tell that all went well
        put(journal, 6)
        journal.commit()
        eq([mid for mid, _ in bodies(mounted(card))], [0, 6])


def write(journal, k):
    put(journal, k)
    journal.commit()


def test_a_write_that_fails_while_something_is_read():
    """The journal that wrote is told at its commit(): nothing is durable that is not there."""
    for k in range(3):
        card = fresh()
        journal = mounted(card)
        for mid in range(40):
            put(journal, mid)
        journal.commit()
        put(journal, 77)  # in the buffer alone
        card.error, card.cut, card.spoil = OSError, k, k
        raises(OSError, journal.find, OUT, 0)
        card.power_on()
        raises(OSError, journal.commit)
        journal.recover()
        put(journal, 78)
        journal.commit()
        found = [mid for mid, _ in bodies(mounted(card))]
        assert found[:40] == list(range(40)) and found[-1] == 78


def test_it_ends_where_it_was_told_to():
    card = Card(64)
    before = bytes(card.data)
    journal = mounted(card)
    k = 0
    while k < 200:
        journal.mark(put(journal, k), DONE)
        k += 1
    eq(bytes(card.data[: AT * 512]), before[: AT * 512])
    end = (AT + 2 + 16) * 512
    eq(bytes(card.data[end:]), before[end:])


def test_reads_and_writes_anywhere():
    """Also over blocks, and behind what is not on the card yet."""
    card = Card(32)
    flash = CardFlash(card, FIRST, 4, 1024)
    for sector in range(4):
        flash.ioctl(6, sector)
    eq((flash.ioctl(4, 0), flash.ioctl(5, 0), flash.ioctl(3, 0)), (4, 1024, 0))
    expected = bytearray(b"\xff" * 4096)
    data = noise_of(700, 3)
    for at, off, n in ((0, 0, 700), (1000, 5, 600), (2047, 0, 2), (4095, 1, 1), (512, 0, 512)):
        flash.program(at, data, off, n)
        expected[at : at + n] = data[off : off + n]
        for start, size in ((at, n), (max(0, at - 9), 24), (0, 512), (1536, 512), (3000, 1096)):
            buf = bytearray(min(size, 4096 - start))
            flash.readblocks(start // 1024, buf, start % 1024)
            eq(bytes(buf), bytes(expected[start : start + len(buf)]))
    flash.ioctl(3, 0)
    buf = bytearray(4096)
    CardFlash(card, FIRST, 4, 1024).readblocks(0, buf)
    eq(buf, expected)


def test_what_is_said_twice_is_not_said_to_another_place():
    """A copy of a sector that was erased since, or of a region that ended elsewhere, is written nowhere."""
    card = Card(64)
    flash = CardFlash(card, FIRST, 8, 1024)
    flash.ioctl(6, 7)
    flash.program(7 * 1024, b"told", 0, 4)
    flash.ioctl(3, 0)
    buf = bytearray(4)
    image = bytes(card.data)
    before = card.data[(AT + 16) * 512 :] = noise_of(len(card.data) - (AT + 16) * 512, 9)
    CardFlash(card, FIRST, 4, 1024)
    eq(bytes(card.data[(AT + 16) * 512 :]), before)
    card.data[:] = image
    flash.ioctl(6, 7)
    CardFlash(card, FIRST, 8, 1024).readblocks(7, buf)
    eq(bytes(buf), b"\xff" * 4)


def boot_record(*fields):
    """Block 0: fields are (offset, format, values)."""
    record = bytearray(512)
    record[510:] = b"\x55\xaa"
    for offset, form, *values in fields:
        struct.pack_into(form, record, offset, *values)
    return bytes(record)


def partition(k, kind, begin, size):
    return 446 + 16 * k, "<BBBBBBBBII", 0x80 if k else 0, 0, 0, 0, kind, 0, 0, 0, begin, size


FAT = (11, "<HBHB", 512, 8, 1, 2)
EXFAT = (3, "5s", b"EXFAT")
NTFS = (3, "4s", b"NTFS")
TEXT = (440, "70s", b"Remove disks or other media. Press any key to restart. NTLDR is missing. Bad.")


def test_files_are_not_touched():
    """Files in blocks 20 to 299 as a boot record or a table tells, or both: one of them may be of an earlier time."""
    card = Card(128)
    image = bytes(card.data)
    table = partition(1, 0x0C, 200, 100)
    for record in (
        boot_record(FAT, (19, "<H", 300)),
        boot_record(FAT, (32, "<I", 300), TEXT),
        boot_record(EXFAT, (72, "<Q", 300)),
        boot_record(NTFS, (40, "<Q", 299), TEXT),
        boot_record(partition(0, 0x0B, 20, 30), table),
        boot_record(FAT, (19, "<H", 290), table),
        boot_record(FAT, (32, "<I", 300), partition(0, 0x0B, 20, 30)),
    ):
        card.front = {0: record}
        for first in (FRONT, 290, 299):
            error = raises(ValueError, CardFlash, card, first, 4, 1024)
            assert "first" in str(error) and "partition" in str(error)
            eq(bytes(card.data), image)
        CardFlash(card, 300, 4, 1024)
        card.data[:] = image
    card.front = {0: boot_record(partition(0, 0x83, 300, 50), partition(3, 0x0C, 63, 150))}
    CardFlash(card, 290, 4, 1024)
    raises(ValueError, CardFlash, card, 291, 4, 1024)
    card.front = {0: boot_record(partition(0, 0xEE, 1, 0xFFFFFFFF))}  # GPT, which is behind that
    raises(ValueError, CardFlash, card, 350, 4, 1024)


def test_a_card_that_tells_nothing():
    """ext4, littlefs and their kin have no boot record. Where there may be files, nothing is touched."""
    card = Card(128)
    image = bytes(card.data)
    some = bytes(300) + b"\x53\xef" + bytes(210)
    stale = boot_record(partition(0, 0x0C, 300, 50))
    fronts = [{0: stale, 2: some}, {0: boot_record(TEXT)}, {0: boot_record((3, "8s", b"whatever")), 1: some}]
    for front in [{block: some} for block in (0, 1, 2, 64, 128)] + fronts:
        card.front = front
        assert "zeros" in str(raises(ValueError, CardFlash, card, 360, 4, 1024))
        eq(bytes(card.data), image)
    card.front = {block: b"\xff" * 512 for block in range(200)}
    CardFlash(card, 360, 4, 1024)


def test_a_card_that_ends_earlier_and_other_wrong_arguments():
    card = Card(64)
    for blocks in (None, 0, -1, FIRST + 9):
        card.blocks = blocks
        assert "blocks" in str(raises(ValueError, CardFlash, card, FIRST, 4, 1024))
    card.blocks = FIRST + 10
    CardFlash(card, FIRST, 4, 1024)
    for wrong in ((FRONT - 1, 4, 1024), (FIRST, 2, 1024), (FIRST, 4, 1000), (FIRST, 4, 131072), (FIRST, 4.0, 1024)):
        raises(ValueError, CardFlash, card, *wrong)


def test_a_message_takes_no_heap():
    if not hasattr(gc, "mem_alloc"):
        raise SkipTest("CPython does not tell")
    head = bytearray(b"h" * 40)
    eq(allocated(exchange, mounted(fresh()), head, b"t" * 40, 5), 0)


def test_a_message_takes_six_writes():
    """Three for its record, three for what ends it; each block is written twice, and told of in between."""
    card = fresh()
    journal = mounted(card)
    at = put(journal, 0)
    card.writes = 0
    journal.commit()
    eq(card.writes, 3)
    journal.mark(at, DONE)
    journal.commit()
    eq(card.writes, 6)
