# What the parts of a mount do about damage. Loaded when sectors have been put into order, which needs the most heap.

from binascii import crc32
from struct import unpack_from

from .compat import const
from .pages import CHUNK
from .records import HEAD, HEADER, LOSSES, NEVER, OVERHEAD
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


def make_firm(reader, at):
    """The power may have gone just as the record at `at`, the last one, was finished: what is read is programmed again.
    Returns False if that was no whole record."""
    i = reader.load(at, HEAD)
    n = HEAD + CRC + (reader.buf[i + 1] | reader.buf[i + 2] << 8)
    crc = k = 0
    while k < n:
        part = min(n - k, len(reader.buf))
        if 0 < n - k - part < CRC:
            part -= CRC  # which is read in one piece
        i = reader.load(at + k, part)
        reader.j._clear_bits(at + k, reader.view[i : i + part], part)
        k += part
        crc = crc32(reader.view[i : i + part - (CRC if k == n else 0)], crc)
    return reader.volatile or unpack_from("<I", reader.buf, i + part - CRC)[0] == crc ^ reader.key ^ at - reader.base


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
    """More can not have been given, by a ring with so many erases and losses, nor since the numbers that are known. A
    loss of the newest sectors hides at most as many erases as there are sectors. Whatever a damaged header says, there
    are numbers left."""
    given = j.erases * _most_in_sector(j) + j._identity[LOSSES] * _numbers_of_loss(j)
    return min(max(given, j.next_seq) + j._n * _most_in_sector(j), NEVER - _LEFT)


def count_losses(j):
    """How often most_numbers() was passed over to, as the next number tells: that is beyond what erases explain."""
    beyond = j.next_seq - j.erases * _most_in_sector(j)
    return min(max(j._identity[LOSSES], -(-beyond // _numbers_of_loss(j))), 255)


def _most_in_sector(j):
    return most_records(j._size - HEADER)


def _numbers_of_loss(j):
    # As many are passed over, and as many again may be given before the next erase.
    return 2 * j._n * _most_in_sector(j)
