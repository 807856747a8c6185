# What the parts of a mount do about damage. Loaded when sectors have been put into order, which needs the most heap.

from binascii import crc32

from .compat import const
from .pages import CHUNK
from .records import HEAD, HEADER, NEVER, OVERHEAD
from .sector_reader import CRC

_LEFT = const(1 << 24)  # numbers that damage does not use up


def size_in_header(reader, at):
    """The size of the record at address `at` if its header is right, whatever its body is; 0."""
    if at + OVERHEAD > reader.end:
        return 0
    i = reader.load(at, HEAD)
    size = OVERHEAD + (reader.buf[i + 1] | reader.buf[i + 2] << 8)
    right = crc32(reader.view[i : i + HEAD - 1]) & 0xFF == reader.buf[i + HEAD - 1]
    return size if right and at + size <= reader.end else 0


def count_lost(reader, at, end):
    """How many records may have been in the region at the end of the ring, beside one that was cut short."""
    size = size_in_header(reader, at)
    if not size:
        return most_records(end - at)
    # The CRC is programmed last: where it is blank the record was never whole.
    return int(reader.word(at + size - 1 - CRC) != 0xFFFFFFFF)


def set_state(reader, at, n, state):
    """Sets that of the record with a body of n bytes at `at`: it is set if most of its bits can be cleared."""
    if not reader.has_programmed(reader.j._write_state, at, n, state):
        reader.j._load(at)
        if reader.j._state(at) != state:
            reader.j._fail("a record of the journal does not take its state")


def retire(reader, at, end):
    """The region becomes zeros: nothing in it is ever taken for a record, whatever its bits read like another time.
    Returns False if that fails for more than single bits: no live record may stand before or behind those."""
    zeros = bytes(CHUNK)
    whole = True
    while at < end:
        n = min(CHUNK - at % CHUNK, end - at)
        if not reader.has_programmed(reader.j._clear_bits, at, zeros, n):
            reader.aim(at // reader.j._size)
            i = reader.load(at, n)
            if not all(map(is_nothing, reader.view[i : i + n])):
                whole = False
                reader.spoilt.append(at // reader.j._size)
        at += n
    reader.j._sync()
    reader.forget()
    return whole


def is_nothing(byte):
    """It has one bit at most, and is passed over: each kind has two."""
    return not byte & byte - 1


def most_records(size):
    # How many may have been in so many bytes, the last one without its state. Below 0: none, as behind a record whose
    # last bytes are FF.
    return max(size + 1, 0) // OVERHEAD


def most_numbers(j):
    """More can not have been given, by a ring with so many erases, nor since the numbers that are known. Whatever a
    damaged header says, there are numbers left."""
    ring = j._n * most_records(j._size - HEADER)
    return min(max(j.erases * (ring // j._n), j.next_seq) + ring, NEVER - _LEFT)
