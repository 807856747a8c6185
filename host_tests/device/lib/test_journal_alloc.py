"""The cost of a record: no heap, and as little flash as the granularity allows."""

import gc
import os
import sys

from harness import EMULATED, SkipTest, eq
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

    def __init__(self, page):
        self.page = page
        self._data = bytearray(b"\xff" * 4096)

    def readblocks(self, block, buf, offset):
        at = block * 1024 + offset
        for i in range(len(buf)):
            buf[i] = self._data[at + i]

    def writeblocks(self, block, buf, offset):
        at = block * 1024 + offset
        for i in range(len(buf)):
            self._data[at + i] &= buf[i]

    def ioctl(self, op, arg):
        if op == 4:
            return 4
        if op == 5:
            return 1024
        if op == 6:
            for i in range(arg * 1024, arg * 1024 + 1024):
                self._data[i] = 0xFF
        return 0


def allocated(fn, *args):
    fn(*args)  # warm-up
    gc.collect()
    gc.disable()
    try:
        before = gc.mem_alloc()
        fn(*args)
        return gc.mem_alloc() - before
    finally:
        gc.enable()


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
