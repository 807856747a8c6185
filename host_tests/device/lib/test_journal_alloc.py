"""The cost of a record: no heap, and as little flash as the granularity allows."""

import gc
import os
import struct
import sys
from binascii import crc32

from harness import EMULATED, SkipTest, allocated, eq
from inflight import FileFlash, Journal, RamFlash
from inflight.journal.journal import DONE, IN, OUT, RELEASED
from nor import NorFlash

RUNTIMES = "cpython micropython-x64 micropython-x86 native-x86"
MORE_RUNTIMES = "native-x64"

BODY = 95  # a PUBLISH of a topic of 25 bytes and a payload of 64: 2 + 2 + 25 + 2 + 64
MESSAGE = 89  # topic and payload alone

# Bytes that the record takes, and how many a sector of 4 KiB holds: {page: (bytes, records)}
COSTS = {1: (110, 37), 4: (110, 37), 256: (110, 37)}


class Quiet:
    """RAM behind writeblocks(); real flash drivers do not allocate."""

    def __init__(self, page, blocks=4):
        self.page = page
        self.checkpoints = blocks > 4
        self._blocks = blocks
        self.data = bytearray(b"\xff" * (1024 * blocks))

    def readblocks(self, block, buf, offset):
        at = block * 1024 + offset
        for i in range(len(buf)):
            buf[i] = self.data[at + i]

    def writeblocks(self, block, buf, offset):
        at = block * 1024 + offset
        for i in range(len(buf)):
            self.data[at + i] &= buf[i]

    def ioctl(self, op, arg):
        if op == 4:
            return self._blocks
        if op == 5:
            return 1024
        if op == 6:
            for i in range(arg * 1024, arg * 1024 + 1024):
                self.data[i] = 0xFF
        return 0


def exchange(journal, head, tail, times):
    for _ in range(times):
        at = journal.append(OUT, 7, head, 40, tail, head, 3)
        journal.mark(at, RELEASED)
        journal.mark(at, DONE)
        at = journal.append(IN, 7, head, 0)
        journal.mark(at, DONE)
        journal.collect()


def look(journal, buf):
    for seq in range(journal.next_seq - journal.live, journal.next_seq):
        at = journal.find(OUT, seq)
        journal.read(at, 3, buf)
        journal.scan(OUT, at)
        journal.fits(OUT, 95)


def devices():
    for page in (4, 256):
        yield Quiet(page)
    yield RamFlash()
    path = "/tmp/inflight-test-alloc-" + os.urandom(4).hex()
    yield FileFlash(path, 4, 1024)
    os.remove(path)


def test_no_heap():
    if not hasattr(gc, "mem_alloc") or sys.maxsize > 2**31:
        raise SkipTest("measures the heap of 32-bit MicroPython")
    for device in devices():
        journal = Journal(device)
        head = bytearray(100)
        tail = bytearray(58)
        laps = journal.erases
        eq(allocated(exchange, journal, head, tail, 200), 0)
        assert journal.erases > laps + 8  # around the ring, twice
        for k in range(10):
            journal.append(OUT, k, head, 40)
        eq(allocated(look, journal, bytearray(64)), 0)


def look_anew(journals, buf):
    look(journals.pop(), buf)


def test_no_heap_where_a_mount_has_not_read_all():
    """Messages that waited are found, and what was not read is read before it is erased."""
    if not hasattr(gc, "mem_alloc") or sys.maxsize > 2**31:
        raise SkipTest("measures the heap of 32-bit MicroPython")
    device = Quiet(64, 24)
    journal = Journal(device)
    head = bytearray(100)
    exchange(journal, head, head[:58], 200)
    for k in range(90):
        journal.append(OUT, k, head, 40)
    journal.commit()
    journals = [Journal(device), Journal(device)]
    assert min([journal.checkpoints.uncounted for journal in journals])
    eq(allocated(look_anew, journals, bytearray(64)), 0)
    journal = Journal(device)
    while journal.live:
        journal.mark(journal.find(OUT, 0), DONE)
    journal.collect()
    journal = Journal(device)
    unread = journal.unread
    eq(allocated(exchange, journal, head, head[:58], 4), 0)
    assert 0 < journal.unread < unread - 2


def test_heap_of_a_start():
    """Of a message that is done, as most are, a start makes little garbage."""
    device = Quiet(256, 3)
    journal = Journal(device)
    costs = []
    for _ in range(2):
        for k in range(8):
            journal.mark(journal.append(OUT, k, bytes(40), 40), DONE)
        costs.append(allocated(Journal, device))
    assert costs[1] - costs[0] < 8 * 100, costs


class Blank:
    """2,048 sectors of 4 KiB with a journal in which nothing is, and no heap for them."""

    page = 256
    checkpoints = True

    def readblocks(self, block, buf, offset):
        n = len(buf)
        buf[:] = BLANK[:n]
        if offset < 24:
            header = struct.pack("<3sBBBHIII", b"IFJ", 2, 12, 0, 2048, block, 1, 2)
            header += struct.pack("<I", crc32(header))
            buf[: 24 - offset] = header[offset : offset + n]

    def writeblocks(self, block, buf, offset):
        pass  # a header, once more

    def ioctl(self, op, arg):
        return 2048 if op == 4 else 4096 if op == 5 else 0


BLANK = b"\xff" * 4096


def test_heap_of_a_long_ring():
    """4 bytes a sector for good, and 6 more while the whole ring is read."""
    if not hasattr(gc, "mem_alloc") or sys.maxsize > 2**31:
        raise SkipTest("measures the heap of 32-bit MicroPython")
    device = Blank()
    Journal(device).recover()  # what it imports stays
    gc.collect()
    before = gc.mem_alloc()
    journal = Journal(device)
    gc.collect()
    assert gc.mem_alloc() - before < 4 * 2048 + 2000, gc.mem_alloc() - before
    ballast = []
    while True:
        gc.collect()
        left = gc.mem_free() - 6 * 2048 - 4000
        if left < 1000:
            break
        try:
            ballast.append(bytearray(min(left, 100_000)))
        except MemoryError:
            break
    journal.recover()
    eq(journal.next_seq, 0)


def test_flash_used_per_message():
    messages = 300 if EMULATED else 1000
    for page, (span, records) in COSTS.items():
        flash = NorFlash(4, 4096, page)
        journal = Journal(flash)
        start = flash.programmed
        erased = sum(flash.erases)
        record = bytes(range(BODY))
        for k in range(messages):
            at = journal.append(OUT, 1 + k, record, BODY)
            eq(journal.used, span)
            journal.mark(at, DONE)
        programmed = (flash.programmed - start) / messages
        erased = sum(flash.erases) - erased
        often = messages / erased
        print("page %d: %.1f bytes programmed per message, %d messages per erase" % (page, programmed, often))
        # Three sectors were erased when the journal was formatted.
        assert messages // records - 3 <= erased <= messages // records, erased
        assert programmed <= 1.3 * MESSAGE
        assert 4096 / records <= 1.3 * MESSAGE
