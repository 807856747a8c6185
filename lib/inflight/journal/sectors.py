# The sectors of a ring, as a mount sees them: how it reads them, programs single pages of them, and what it does about
# damage; and which of them count.

import os
import struct
from array import array
from binascii import crc32
from struct import pack_into, unpack_from

from ..compat import const
from .pages import CHUNK
from .records import CLEARED, HEAD, HEADER, IN, LOSSES, NEVER, NOTE, OUT, OVERHEAD, SESSION

CRC = const(4)  # bytes of a record's CRC
_READS = const(6)  # of the same bytes,
_MORE_READS = const(16)  # and if they differed
_LEFT = const(1 << 24)  # numbers that damage does not use up
_KINDS = (OUT, IN, SESSION, NOTE)
LEAST = const(512)  # bytes that a mount reads at a time
_BLANK = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"


class SectorReader:
    """Reads a sector in chunks of at most `size` bytes: as a whole if there is heap for that, since each read costs an
    RP2040 a fraction of a millisecond. It knows what the parts of a mount tell each other."""

    def __init__(self, j, size):
        self.j = j
        self.buf = bytearray(min(j._size, size))
        self.view = memoryview(self.buf)
        self.most = len(self.buf) - OVERHEAD  # index of the last record that could be in buf
        self.volatile = j._volatile
        self.erased = 0  # sectors that were lost with all that was in them
        self.gone = 0  # damaged records in heads that were erased since
        self.given = 0  # numbers below it were given to records that were whole
        self.passed = 0  # numbers that may have been given in those
        self.unknown = False  # nobody can tell which numbers were given
        self.torn_last = False  # the last record was whole at the first read only, so all is read once more
        self.head_erased = False  # since it contained copies, not all of them
        self.told_of = ()  # addresses of NOTEs that tell of what is in front of them: it is no damage
        self.begin()

    def begin(self):
        """The ring is read from its beginning."""
        self.first = self.last_live = -1  # addresses of the first and the last live record,
        self.last = self.copied = -1  # of the last one that was taken, and of the last one whose number was not new
        # Where no sector is erased: addresses of the live records of the oldest sector and of the head, in it.
        self.originals = array("H")
        self.copies = array("H")
        self.closed = False  # the head has no right header: what were added might be taken for another sector's
        self.spoilt = []  # sectors that no live record may stay in, nor come to
        self.lost = 0  # numbers that may have been given behind the newest
        self.in_head = 0  # damaged records there
        self.renumbered = False  # next_seq is not that of a record any more
        self.notes = 0  # NOTE records with the highest number
        self.told = (0, 0, 0)  # what the last NOTE tells: lost ever, and regions that it counts and are not retired
        self.telling = ()  # addresses of the last NOTEs, if they tell of what is in front of them
        self.before = (-1, 0, 0)  # address of the last checkpoint; bytes in use, and live messages, in front of it
        self.headers = 0  # damaged headers of sectors whose records count
        self.regions = 0  # damaged ones that were found
        self.messages = []  # (Message ID, sequence number) of messages in them, None of what nobody knows
        self.damaged = []  # regions, (address, end), that are to become zeros,
        self.at_end = []  # and those that may be a record cut short: at the end of the head, or in front of NOTEs
        self.aim(0)

    def aim(self, sector):
        """Reads that sector from now on."""
        j = self.j
        self.base = sector * j._size
        self.end = self.base + j._size
        self.forget()
        crc = j._crc
        crc[0] = crc[1] = 0
        j._lock_crc(self.base)
        self.key = crc[1] << 16 | crc[0]  # what the CRC of a record at offset 0 is combined with

    def forget(self):
        """Nothing is in buf."""
        self.at = -len(self.buf)  # address of what is in buf: it ends before all that is asked for

    def load(self, at, n):
        """Returns the index in buf of n bytes from address `at` on. They fit, and are in the sector."""
        if at < self.at or at + n > self.at + len(self.buf):
            self._fill(min(at, self.end - len(self.buf)))
        return at - self.at

    def _look(self, at):
        self.forget()
        self.j._read(at, self.buf)

    def _fill(self, at):
        self.at = at
        # If reads differ, what was being programmed is finished here.
        if decide(self.j, at, self.buf):
            for k in range(0, len(self.buf), LEAST):  # a worn page is none of the others' business
                part = self.view[k : k + LEAST]
                self.has_programmed(self.j._clear_bits, at + k, part, len(part))

    def word(self, at):
        """The four bytes at address `at`, as a number."""
        return unpack_from("<I", self.buf, self.load(at, 4))[0]

    def last_byte(self, at, once=False):
        """Address of the last programmed byte at `at` or behind it, -1 if there is none. Looks from the end."""
        fill = self._look if once else self._fill
        start = self.end
        while start > at:
            start = max(self.base, start - len(self.buf))
            fill(start)
            written = len(self.buf.rstrip(b"\xff"))
            if written:
                last = start + written - 1
                return last if last >= at else -1
        return -1

    def has_programmed(self, operation, *args):
        """Does what programs one page. Returns False if the page did not take all of it. Raises OSError."""
        try:
            operation(*args)
        except OSError:
            if not is_worn(self.j):
                raise
            self.j._bad = -1
            clear_page(self.j)
            return False
        return True

    def is_used(self, sector, once=False):
        """Aims at the sector. Returns True if something is behind its header; once: as it reads the first time."""
        self.aim(sector)
        return self.last_byte(self.base + HEADER, once) >= 0

    def has_records_or_damage(self):
        """True if the sector has more than bytes with a single bit that is 0, as a bit leaves that cannot be set."""
        for at in range(self.base + HEADER, self.end):
            b = ~self.buf[self.load(at, 1)] & 0xFF
            if b & b - 1:
                return True
        return False

    def has_record(self, at):
        """True if a whole record is at address `at`. buf holds all of it then, if that is not longer."""
        # There are thousands of records: what load() would do in vain is not asked for. All in buf is of this sector.
        buf = self.buf
        i = at - self.at
        if not 0 <= i <= self.most:
            if at + OVERHEAD > self.end:
                return False
            i = self.load(at, OVERHEAD)
        if buf[i] not in _KINDS or buf[i + 8] == 0xFF:  # nor so many messages
            return False
        n = OVERHEAD + (buf[i + 1] | buf[i + 2] << 8)
        if at + n > self.end:
            return False
        if i + n > len(buf):
            if n > len(buf):
                return self.volatile or self._has_long(at, n)
            i = self.load(at, n)
        if self.volatile:
            return True
        n += i - 1 - CRC
        # In this order most numbers that come up are small, and need no heap.
        return crc32(self.view[i:n]) ^ unpack_from("<I", buf, n)[0] ^ self.key == at - self.base

    def _has_long(self, at, n):
        # A record of n bytes is longer than buf.
        crc = k = 0
        n -= 1 + CRC
        while k < n:
            part = min(n - k, len(self.buf))
            i = self.load(at + k, part)
            crc = crc32(self.view[i : i + part], crc)
            k += part
        return self.word(at + n) == crc ^ self.key ^ at - self.base

    def next_record(self, at, end):
        """The address of the first whole record from `at` on that begins before `end`, -1 if there is none."""
        while at < end:
            if self.has_record(at):
                return at
            at += 1
        return -1

    def records(self, sector):
        """Yields the address of each whole record of the sector, and whether it is live."""
        self.aim(sector)
        at = self.next_record(self.base + HEADER, self.end)
        while at >= 0:
            i = self.load(at, HEAD)
            note = self.buf[i] == NOTE
            behind = at + OVERHEAD + (self.buf[i + 1] | self.buf[i + 2] << 8)
            yield at, not note and CLEARED[self.buf[self.load(behind - 1, 1)] & 15] < 2
            at = self.next_record(behind, self.end)

    def count_records(self, sector):
        """How many whole records are in the sector, and how many of them are live."""
        found = live = 0
        for _, is_live in self.records(sector):
            found += 1
            live += is_live
        return found, live


def decide(j, at, buf):
    """Reads buf from address `at`. Bits that were being changed when the power was cut may read differently each time:
    in buf they become 0. Returns True if there are any."""
    j._read(at, buf)
    if j._write:
        return False  # a file is trusted
    first = crc32(buf)
    for _ in range(_READS - 1):
        j._read(at, buf)
        if crc32(buf) != first:
            break
    else:
        return False
    view = memoryview(buf)
    for k in range(0, len(buf), CHUNK):
        part = view[k : k + CHUNK]
        again = bytearray(len(part))
        for _ in range(_MORE_READS):
            j._read(at + k, again)
            for i, b in enumerate(again):
                part[i] &= b
    return True


def clear_page(j):
    """The page is all FF but while it is being filled."""
    for i in range(0, j._unit, 16):
        pack_into("16s", j._page, i, _BLANK)
    j._base = 0  # where it goes,
    j._k = j._from = 0  # how far it is filled, and from where on


def is_worn(j):
    """True if the last program failed since its page did not take all of it."""
    return j._bad == j._base


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


# --- which sectors count, in which order ---
# FORMAT.md, "Which sectors count", tells the rules.

_VERSION = 2
ALIKE = const(12)  # bytes of a damaged header, of 24, that are as they ought to be; a retired or erased one has fewer


def restore(j, reader):
    """Finds the head of `j` and how many sectors are erased. Finishes erases, or the format, and gives lost sectors a
    header again. Raises ValueError."""
    headers = _read_headers(j)
    newest = headers.elect()
    secrets = os.urandom(8) if newest < 0 else headers.secrets[headers.elected]
    _identify(j, secrets)
    j._identity[LOSSES] = headers.most_losses()
    _begin_at(j, newest)
    for i in range(j._n):
        if headers.is_undecided(i) and headers.has(i, _number(j, newest, i)):
            _make_header_firm(j, reader, i, headers)
    while newest >= 0 and _includes_damaged(j, reader, newest + 1, headers):
        newest += 1
    for k in range(1, j._n + 1):
        i = (newest + k) % j._n
        seq = _number(j, newest, i)
        if headers.has(i, seq):
            continue
        # A right header with another number is that of another time: the sector was lost, never half erased.
        wrong = headers.numbers[i] == NEVER
        alike = wrong and likeness(j, i, seq) >= ALIKE
        if seq < 0 or (k == 1 and wrong and _is_erase_unfinished(j, reader, i, alike)):
            erase(j, reader, i, j.erases)
            _begin_at(j, j.erases)
        elif reader.is_used(i) or not alike:
            _read_headless(j, reader, seq, k, alike)
    _find_head(j, reader)
    reader.closed = likeness(j, j._head, _number(j, j.erases - 1, j._head)) < HEADER


def _identify(j, secrets):
    j._identity = bytearray(_geometry(j) + secrets)
    j.epoch = _word(secrets, 0)
    j._salt_low, j._salt_high = struct.unpack("<HH", secrets[4:])


def identify(j, h):
    """The journal has the geometry and the secrets of the header h from now on. Returns False if it has another
    geometry."""
    _identify(j, bytes(h[12:20]))
    j._identity[LOSSES] = h[LOSSES]
    return h[:8] == j._identity[:8]


def _begin_at(j, newest):
    # The ring ends with the sector of that number, until its head is found.
    j.erases = newest + 1
    j._head = newest % j._n
    j._erased = 0


def _make_header_firm(j, reader, i, headers):
    # Power was cut while it was programmed, and after another cut its bits may not read as what they read as now. So
    # this comes before anything that relies on it.
    losses = j._identity[LOSSES]
    j._identity[LOSSES] = headers.losses[i]
    reader.has_programmed(j._erase, i, headers.numbers[i], True)
    j._identity[LOSSES] = losses


def _includes_damaged(j, reader, seq, headers):
    # True if the next sector of the ring has the number `seq`, and a damaged header: the ring ends with it then. Its
    # records tell: zeros that are left of a header may be alike the number before. Without records the header does.
    i = seq % j._n
    if headers.numbers[i] != NEVER:
        return False
    likely = likeness(j, i, seq)
    before = likeness(j, i, seq - j._n)
    if max(likely, before) < ALIKE or reader.count_records(i)[0]:
        return False
    _begin_at(j, seq)
    if reader.count_records(i)[0]:
        return True
    if likely <= before:
        _begin_at(j, seq - 1)
        return False
    erase(j, reader, i, seq)  # blank, or its erase or its header was cut short
    headers.correct(i, seq)
    return True


def _is_erase_unfinished(j, reader, i, alike):
    # The oldest sector, i, has a damaged header. One that is alike is left by no erase, but it may be that of a sector
    # that was erased ahead. And a sector is erased only while another one is in use.
    if alike:
        return not reader.is_used(i)
    return any(reader.is_used(other) for other in range(j._n) if other != i)


class _Headers:
    # Of each sector whose header is right: its sequence number (of others NEVER), the place of its epoch and salt in
    # `secrets`, losses, has it undecided bits. elected: the place of those of the journal. Six bytes a sector: a ring
    # of 8 MiB has 2,048.

    def __init__(self, n):
        self.numbers = array("I", bytes(4 * n))
        self.losses = bytearray(n)
        self._marks = bytearray(n)  # twice the place in `secrets`, one more: it has undecided bits
        self.secrets = []
        self.elected = -1
        for i in range(n):
            self.numbers[i] = NEVER

    def add(self, i, number, secrets, losses, undecided):
        """Sector i has this header."""
        if secrets not in self.secrets:
            if len(self.secrets) > 127:
                return  # whatever these are
            self.secrets.append(secrets)
        self.numbers[i] = number
        self.losses[i] = losses
        self._marks[i] = 2 * self.secrets.index(secrets) + undecided

    def is_undecided(self, i):
        """True if bits of its header read differently each time."""
        return self._marks[i] & 1

    def correct(self, i, number):
        """Sector i has the header of that number since."""
        self.numbers[i] = number
        self._marks[i] = 2 * self.elected

    def has(self, i, number):
        """True if sector i has the header of that number."""
        return self.numbers[i] == number and self._marks[i] >> 1 == self.elected

    def elect(self):
        """Returns the number of the newest sector, -1 if there is none: that with which most sectors agree. Those do
        that have its secrets, and a number that is lower by less than a ring."""
        best = 0
        newest = -1
        for owner in range(len(self.secrets)):
            votes, number = self._vote(owner)
            if votes > best or (votes == best and number > newest):
                best = votes
                newest = number
                self.elected = owner
        return newest

    def _of(self, owner):
        for i, number in enumerate(self.numbers):
            if self._marks[i] >> 1 == owner and number != NEVER:
                yield number

    def _vote(self, owner):
        # (with how many of those with these secrets most agree, the number with which they do)
        n = len(self.numbers)
        highest = max(self._of(owner), default=-1)
        every = sum(1 for _ in self._of(owner))
        if sum(1 for number in self._of(owner) if number + n > highest) == every:
            return every, highest  # without a list of them
        best = newest = first = 0
        ring = sorted(self._of(owner))
        for last, number in enumerate(ring):
            while ring[first] + n <= number:
                first += 1
            if last - first + 1 >= best:
                best = last - first + 1
                newest = number
        return best, newest

    def most_losses(self):
        """What any sector of the journal tells."""
        return max((self.losses[i] for i, mark in enumerate(self._marks) if mark >> 1 == self.elected), default=0)


def _read_headers(j):
    found = _Headers(j._n)
    h = bytearray(HEADER)
    geometry = _geometry(j)
    for i in range(j._n):
        undecided = decide(j, i * j._size, h)
        _refuse_others(h)
        right = h[:3] == b"IFJ" and (j._volatile or crc32(memoryview(h)[:20]) == _word(h, 20))
        losses = h[LOSSES]
        h[LOSSES] = 0
        if right and h[:8] != geometry:
            raise ValueError("a journal of another size is here: give that size, or inflight.erase(device)")
        seq = _word(h, 8)
        if right and seq < NEVER and seq % j._n == i:
            found.add(i, seq, bytes(h[12:20]), losses, undecided)
    return found


def _refuse_others(h):
    # The format before this one had a header of 16 bytes and their CRC.
    if h[:3] == b"IFJ" and h[3] != _VERSION and _word(h, 16) == crc32(memoryview(h)[:16]):
        raise ValueError("a journal of format %d is here: erase it with inflight.erase(device)" % h[3])


def _geometry(j):
    size = 0
    while j._size >> size + 1:
        size += 1
    return struct.pack("<3sBBBH", b"IFJ", _VERSION, size, 0, j._n)


def _number(j, newest, i):
    # The sequence number that sector i has in a ring whose newest sector has the number `newest`.
    return newest - (newest - i) % j._n


def _read_headless(j, reader, seq, k, alike):
    # The sector with the number `seq`, the k-th oldest, was in use, and its header is not right.
    found, live = reader.count_records(seq % j._n)
    if not found and not alike:
        reader.erased += 1
        j.damaged += 2  # more than one record may have been in it
        erase(j, reader, seq % j._n, seq)
        return
    if live or k > 1:  # else it may have been retired in part
        j.damaged += 1
        reader.headers += 1
    if not alike:
        reader.spoilt.append(seq % j._n)


def erase(j, reader, i, seq):
    # A header with bits that cannot be cleared is as good as one with bits that flipped.
    if not reader.has_programmed(j._erase, i, seq) and likeness(j, i, seq) < ALIKE:
        j._fail("a sector of the journal does not take its header")


def likeness(j, i, seq, h=None):
    """How many bytes of sector i's header, or of h, are as the number `seq` wants them; HEADER: it is right."""
    if h is None:
        h = bytearray(HEADER)
        decide(j, i * j._size, h)
    right = j._identity[:8] + struct.pack("<I", seq & 0xFFFFFFFF) + j._identity[8:]
    right[LOSSES] = h[LOSSES]
    right += struct.pack("<I", 0 if j._volatile else crc32(right))
    return sum(a == b for a, b in zip(h, right))


def has_flipped(j, seq, h):
    """True if h is the header of the number `seq` but for bits that have flipped, and no right one of another."""
    return likeness(j, seq % j._n, seq, h) >= ALIKE and crc32(memoryview(h)[:20]) != _word(h, 20)


def _find_head(j, reader):
    # The newest sector with more behind its header than bits that cannot be set, the oldest if there is none.
    newest = j._head
    has_bits = False
    while j._erased < j._n - 1:
        used = reader.is_used(j._head, True)
        if used and reader.has_records_or_damage():
            break
        has_bits = used
        j._erased += 1
        j._head = (newest - j._erased) % j._n
    # Such bits in the sector behind it may be all of a record that was cut short, unless it was just erased. Or that
    # reads as blank at times.
    if j._erased and not reader.head_erased and (has_bits or reader.is_used((j._head + 1) % j._n)):
        j._erased -= 1
        j._head = (j._head + 1) % j._n


def _word(buf, i):
    return unpack_from("<I", buf, i)[0]
