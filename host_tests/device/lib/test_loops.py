"""The loops over bytes: as bytecode and as machine code they do the same, for ranges of all lengths and offsets."""

import gc
import random
from array import array
from binascii import crc32

from harness import EMULATED, SkipTest, eq
from inflight.journal.pages import add_to_crc, copy_bytes, has_taken

RUNTIMES = "cpython micropython-x64 micropython-x86 micropython-armhf micropython-wasm native-x86"
MORE_RUNTIMES = "native-x64"
LONGEST = 40 if EMULATED else 120
MARGIN = 5  # bytes on both sides that must stay
# The CRCs of the low and the high nibbles, from what the standard's CRC of one byte is.
NIBBLES = [i if i < 16 else i - 16 << 4 for i in range(32)]
TABLE = [crc32(bytes([nibble ^ 0xFF])) ^ 0xFF000000 for nibble in NIBBLES]
LOW = array("H", [crc & 0xFFFF for crc in TABLE])
HIGH = array("H", [crc >> 16 for crc in TABLE])


def content(n):
    return bytearray(random.getrandbits(8) for _ in range(n))


def ranges(data):
    # Of all lengths, at changing offsets; the empty one at each, also behind the last byte.
    for i in range(len(data) + 1):
        yield i, i
    for n in range(1, len(data) + 1):
        i = random.randrange(len(data) - n + 1)
        yield i, i + n


def views(data):
    # What a caller's payload may be.
    return data, bytes(data), memoryview(data)


def crc_of(data, i, end, start=0xFFFFFFFF):
    crc = array("H", [start & 0xFFFF, start >> 16])
    add_to_crc(crc, data, i, end, LOW, HIGH)
    return crc[0] | crc[1] << 16


def test_the_crc_is_that_of_the_standard():
    data = content(LONGEST)
    for i, end in ranges(data):
        for view in views(data):
            eq(crc_of(view, i, end) ^ 0xFFFFFFFF, crc32(data[i:end]))
        k = (i + end) // 2
        eq(crc_of(data, k, end, crc_of(data, i, k)), crc_of(data, i, end))


def test_a_copy_touches_nothing_else():
    data = content(LONGEST)
    for i, end in ranges(data):
        for view in views(data):
            k = random.randrange(MARGIN)
            page = content(LONGEST + 2 * MARGIN)
            wanted = page[:k] + data[i:end] + page[k + end - i :]
            copy_bytes(page, k, view, i, end)
            eq(page, wanted)


def test_what_flash_has_taken():
    page = content(LONGEST + MARGIN)
    for i, end in ranges(page[MARGIN:]):
        k = random.randrange(MARGIN)
        chunk = content(LONGEST)
        chunk[i:end] = page[k + i : k + end]
        for exact in (False, True):
            eq(has_taken(chunk, i, end, page, k + i, exact), True)
        if i == end:
            continue
        at = random.randrange(i, end)
        wanted = page[k + at]
        for bit in range(8):  # each at a random place, the first and the last byte included
            chunk[at] = wanted ^ 1 << bit
            eq(has_taken(chunk, i, end, page, k + i, True), False)
            # A bit that is 0 instead of 1 may have been 0 before.
            eq(has_taken(chunk, i, end, page, k + i, False), bool(wanted & 1 << bit))
            chunk[at] = wanted
            at = random.choice((i, end - 1, at))
            wanted = page[k + at]


def test_no_heap():
    if not hasattr(gc, "mem_alloc"):
        raise SkipTest("has no gc.mem_alloc()")
    data = content(LONGEST)
    page = content(LONGEST)
    crc = array("H", [0xFFFF, 0xFFFF])
    gc.collect()
    gc.disable()
    try:
        before = gc.mem_alloc()
        add_to_crc(crc, data, 0, LONGEST, LOW, HIGH)
        copy_bytes(page, 0, data, 0, LONGEST)
        taken = has_taken(data, 0, LONGEST, page, 0, True)
        eq(gc.mem_alloc() - before, 0)
    finally:
        gc.enable()
    assert taken
