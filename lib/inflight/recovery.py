# Mounting a journal: what a power cut interrupted is finished, every record read once, damage retired. The
# theory stands in journal. A device needs this module, and sectors, once and forgets them.

from binascii import crc32
from struct import unpack_from

from .compat import const, unload
from .journal import OutboxFull
from .pages import CHUNK
from .records import CLEARED, DONE, HEAD, HEADER, IN, NEVER, NOTE, NOTES, OUT, OVERHEAD, RELEASED, SESSION

_CRC = const(4)
_UNKEPT_IDS = 256  # Message IDs that requests may have taken in between, of which there is no record
_KINDS = (OUT, IN, SESSION, NOTE)
_MOST_REGIONS = 100  # that are remembered
_LEFT = 1 << 24  # numbers that damage does not use up


def mount(j):
    for left in range(j._n, 0, -1):
        try:
            return _mount(j)
        except OSError:
            # What went to a worn page is a record that was cut short: the next try passes it by.
            if left == 1 or not _is_worn(j):
                raise


def _mount(j):
    reader = _SectorReader(j)
    while not _read_ring(j, reader):
        # Power was cut while a long record was copied: its beginning takes the last sector, for nothing.
        j.erases -= 1
        j._reclaim(j._head)
    _finish(j, reader)


def _is_worn(j):
    # True if the last program failed since its page did not take all of it.
    return j._bad == j._base


def _read_ring(j, reader):
    # Returns False if no sector is erased and the head has nothing to keep: it is to be erased then.
    from .sectors import restore

    reader.begin()
    j._clear_page()
    j.next_seq = j.last_mid = j.used = j.live = j._others = 0
    j.damaged = 2 * reader.erased + reader.gone
    j.skipped = 0
    j._cursor = j._cursor_seq = 0
    j._newest = -1
    j._ordered = True
    for i in range(j._n):
        j._live[i] = 0
    restore(j, reader)
    unload("sectors")
    for k in range(j._erased + 1, j._n):
        _read_sector(j, reader, (j._head + k) % j._n)
    damaged = j.damaged
    _read_sector(j, reader, j._head)
    worn = reader.worn == j._head or j._bad // j._size == j._head  # it would be worn again when it is erased
    if j._erased or worn or j._live[j._head] or j._newest // j._size == j._head:
        return True
    reader.gone += j.damaged - damaged
    reader.passed += reader.lost
    return False


class _SectorReader:
    # Reads a sector in large chunks, since each read costs an RP2040 a fraction of a millisecond; of at most 512
    # bytes, since a client needs the most heap here.

    def __init__(self, j):
        self.j = j
        self.buf = bytearray(min(j._size, 512))
        self.view = memoryview(self.buf)
        self.most = len(self.buf) - OVERHEAD  # index of the last record that could be in buf
        self.volatile = j._volatile
        self.erased = 0  # sectors that were lost with all that was in them
        self.gone = 0  # damaged records in heads that were erased since
        self.passed = 0  # numbers that may have been given in those
        self.unknown = False  # nobody can tell which numbers were given
        self.worn = -1  # the last sector in which a page did not take all that was programmed
        self.begin()

    def begin(self):
        """The ring is read from its beginning."""
        self.first = -1  # address of the first live record,
        self.last = -1  # and of the last one that was taken
        self.closed = False  # the head has no right header: what were added might be taken for another sector's
        self.spoilt = []  # sectors that no live record may stay in, nor come to
        self.lost = 0  # numbers that may have been given behind the newest
        self.renumbered = False  # next_seq is not that of a record any more
        self.notes = 0  # NOTE records with the highest number
        self.damaged = []  # regions, (address, end), that are to become zeros
        self.aim(0)

    def aim(self, sector):
        """Reads that sector from now on."""
        j = self.j
        self.base = sector * j._size
        self.end = self.base + j._size
        self.forget()
        j._low = j._high = 0
        j._lock_crc(self.base)
        self.key = j._high << 16 | j._low  # what the CRC of a record at offset 0 is combined with

    def forget(self):
        """Nothing is in buf."""
        self.at = -len(self.buf)  # address of what is in buf: it ends before all that is asked for

    def load(self, at, n):
        """Returns the index in buf of n bytes from address `at` on. They fit, and are in the sector."""
        if at < self.at or at + n > self.at + len(self.buf):
            self.at = min(at, self.end - len(self.buf))
            self.j._read(self.at, self.buf)
        return at - self.at

    def word(self, at):
        """The four bytes at address `at`, as a number."""
        return unpack_from("<I", self.buf, self.load(at, 4))[0]

    def last_byte(self, at):
        """Address of the last programmed byte at `at` or behind it, -1 if there is none. Looks from the end."""
        start = self.end
        while start > at:
            start = max(self.base, start - len(self.buf))
            self.load(start, len(self.buf))
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
            if not _is_worn(self.j):
                raise
            self.worn = self.j._bad // self.j._size
            self.j._bad = -1
            self.j._clear_page()
            return False
        return True

    def is_used(self, sector):
        """Aims at the sector. Returns True if something is behind its header."""
        self.aim(sector)
        return self.last_byte(self.base + HEADER) >= 0

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
        n += i - 1 - _CRC
        # In this order most numbers that come up are small, and need no heap.
        return crc32(self.view[i:n]) ^ unpack_from("<I", buf, n)[0] ^ self.key == at - self.base

    def _has_long(self, at, n):
        # A record of n bytes is longer than buf.
        crc = k = 0
        n -= 1 + _CRC
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

    def count_records(self):
        """How many whole records are in the sector, and how many of them are live."""
        found = live = 0
        at = self.next_record(self.base + HEADER, self.end)
        while at >= 0:
            found += 1
            behind = at + self.size_in_header(at)
            note = self.buf[self.load(at, 1)] == NOTE
            live += not note and CLEARED[self.buf[self.load(behind - 1, 1)] & 15] < 2
            at = self.next_record(behind, self.end)
        return found, live

    def size_in_header(self, at):
        """The size of the record at address `at` if its header is right, whatever its body is; 0."""
        if at + OVERHEAD > self.end:
            return 0
        i = self.load(at, HEAD)
        size = OVERHEAD + (self.buf[i + 1] | self.buf[i + 2] << 8)
        right = crc32(self.view[i : i + HEAD - 1]) & 0xFF == self.buf[i + HEAD - 1]
        return size if right and at + size <= self.end else 0

    def count_lost(self, at, end):
        """How many records may have been in the region at the end of the ring, beside one that was cut short."""
        size = self.size_in_header(at)
        if not size:
            return _most_records(end - at)
        # The CRC is programmed last: where it is blank the record was never whole.
        return int(self.word(at + size - 1 - _CRC) != 0xFFFFFFFF)


# --- records ---


def _most_records(size):
    # How many may have been in so many bytes, the last one without its state. Below 0: none, as behind a record whose
    # last bytes are FF.
    return max(size + 1, 0) // OVERHEAD


def _read_sector(j, reader, sector):
    reader.aim(sector)
    at = reader.base + HEADER
    last = reader.last_byte(at)
    end = at  # of the last record
    while at <= last:
        if reader.has_record(at):
            at = end = _take(j, reader, at)
        elif _is_nothing(reader.buf[reader.load(at, 1)]):
            at += 1  # retired before
        else:
            behind = reader.next_record(at + 1, last)
            if behind < 0 and sector == j._head:
                break
            behind = last + 1 if behind < 0 else behind
            size = reader.size_in_header(at)
            if size and at + size < behind:
                behind = at + size
            j.damaged += 1
            _take_numbers(j, reader, at)
            if len(reader.damaged) < _MOST_REGIONS:
                reader.damaged.append((at, behind))
            else:
                _retire(j, reader, at, behind)
            at = behind
    if sector == j._head:
        if at <= last:
            _count_end(j, reader, at, last + 1)
            # None of the page can be trusted, nor of the next one if the record goes on there: its program may have
            # begun, and read as blank this time.
            behind = max(last + 1, at + (reader.size_in_header(at) or HEAD))
            at = min(-(-behind // j._unit) * j._unit, reader.end)
        # Also what is zero already is retired: the mount that did so may have been cut short.
        j._off = at - reader.base if end == at or _retire(j, reader, end, at) else j._size


def _take_numbers(j, reader, at):
    # Of a damaged record. Those in its header were given if the header is right; else they may have been any.
    if not reader.size_in_header(at):
        reader.unknown = True
    elif _is_number_new(j, reader, at):
        j.last_mid, seq = unpack_from("<HI", reader.buf, reader.load(at, HEAD) + 3)
        j.next_seq = seq + 1
        reader.renumbered = True


def _is_number_new(j, reader, at):
    # True if the header at `at`, which is right, has a number that can have been given and is higher than all known.
    kind, _, _, seq = unpack_from("<BHHI", reader.buf, reader.load(at, HEAD))
    return (kind == OUT or kind == NOTE) and j.next_seq <= seq < _most_numbers(j)


def _most_numbers(j):
    # More can not have been given, by a ring with so many erases, nor since the numbers that are known. Whatever a
    # damaged header says, there are numbers left.
    ring = j._n * _most_records(j._size - HEADER)
    return min(max(j.erases * (ring // j._n), j.next_seq) + ring, NEVER - _LEFT)


def _take(j, reader, at):
    # Counts the record, finishes a state that was half written. Returns the address behind it.
    buf = reader.buf
    i = at - reader.at
    if not 0 <= i <= reader.most:
        i = reader.load(at, OVERHEAD)
    kind = buf[i]
    n = OVERHEAD + (buf[i + 1] | buf[i + 2] << 8)
    behind = at + n
    reader.last = at
    if kind == NOTE or kind == OUT:
        seq = unpack_from("<I", buf, i + 5)[0]
        if seq + 1 >= j.next_seq:
            j.next_seq = seq + 1
            j.last_mid = buf[i + 3] | buf[i + 4] << 8
            j._newest = at
            reader.renumbered = False
            reader.notes = reader.notes + 1 if kind == NOTE else 0
        else:
            j._ordered = False
        if kind == NOTE:
            return behind
    i += n - 1
    if i >= len(buf):
        i = reader.load(behind - 1, 1)
    state = buf[i]
    if not state & 15:
        return behind  # done, as most are
    released = CLEARED[state >> 4]
    done = CLEARED[state & 15]
    if done < 2:
        j._count(at, kind, n)
        if reader.first < 0:
            reader.first = at
    if done > 1 or 1 < released < 4:
        _set_state(j, reader, at, n - OVERHEAD, DONE if done > 1 else RELEASED)
    return behind


def _set_state(j, reader, at, n, state):
    # Of the record with a body of n bytes at `at`. It is set if most of its bits can be cleared.
    if not reader.has_programmed(j._write_state, at, n, state):
        j._load(at)
        if j._state(at) != state:
            j._fail("a record of the journal does not take its state")


def _is_nothing(byte):
    # It has one bit at most, and is passed over: each kind has two.
    return not byte & byte - 1


def _retire(j, reader, at, end):
    # The region becomes zeros: nothing in it is ever taken for a record, whatever its bits read like another time.
    # Returns False if that fails for more than single bits: no live record may stand before or behind those.
    zeros = bytes(CHUNK)
    whole = True
    while at < end:
        n = min(CHUNK - at % CHUNK, end - at)
        if not reader.has_programmed(j._clear_bits, at, zeros, n):
            reader.aim(at // j._size)
            i = reader.load(at, n)
            if not all(map(_is_nothing, reader.view[i : i + n])):
                whole = False
                reader.spoilt.append(at // j._size)
        at += n
    j._sync()
    reader.forget()
    return whole


def _count_end(j, reader, at, end):
    # Behind the last record of the head is one that was cut short, or damaged since: if so, its number and Message
    # ID were given.
    reader.lost = reader.count_lost(at, end)
    size = reader.size_in_header(at)
    if reader.lost and size:
        if _is_number_new(j, reader, at):
            reader.lost = reader.word(at + 5) + 1 - j.next_seq
        reader.lost += _most_records(end - at - size)


# --- the end ---


def _finish(j, reader):
    if reader.last >= 0:
        _refresh(j, reader.last)
        _drop_original(j, reader)
    worn = j._bad // j._size == j._head and j._bad % j._size + j._unit > j._off
    if worn or reader.closed or j._head in reader.spoilt:
        j._off = j._size  # it takes nothing more
    j._bad = -1
    j._cursor = j._oldest()
    _skip_numbers(j, reader)
    unsafe = j.skipped or reader.renumbered or reader.notes == 1 or j._newest // j._size in reader.spoilt
    noted = not unsafe or (j._off + NOTES <= j._size and j._note())
    j._sync()
    for at, end in reader.damaged:  # behind the numbers that it made known, should the power go here
        _retire(j, reader, at, end)
    while not j._erased:
        try:
            j._collect()
        except OutboxFull:
            _rewrite_oldest(j)
            noted = not j.next_seq
    try:
        for sector in reader.spoilt:
            while j._live[sector] and j._erased < 2 and j._off + j._live[sector] > j._size:
                j._collect()
            j._empty(sector)
        if not noted:
            j._note()
    except OutboxFull:
        pass  # the next mount finds the same
    j._sync()
    j._ok = True


def _skip_numbers(j, reader):
    # Numbers and Message IDs that may have been given must not come again.
    lost = reader.lost + reader.passed
    if reader.unknown or reader.erased or (reader.damaged and j._newest < 0):
        j.skipped = max(_most_numbers(j) - j.next_seq, lost)
    else:
        j.skipped = lost
    j.next_seq += j.skipped
    if j.skipped:
        j.last_mid = (j.last_mid + j.skipped + _UNKEPT_IDS) % 65535


def _rewrite_oldest(j):
    # Damage has taken all space there was, so the oldest sector cannot be copied before it is erased: its live records
    # are in RAM meanwhile.
    sector = j._tail()
    kept = []
    at = j._next(j._oldest())
    while 0 <= at and at // j._size == sector:
        state = j._state(at)
        if state != DONE:
            body = bytearray(j.found_len)
            start = j.read(at, 0, body)
            kept.append((j._kind, j.found_mid, j.found_seq, body[start:], state))
            j._count(at, j._kind, -len(body) - OVERHEAD)
        at = j._next(j._behind(at))
    j._reclaim(sector)
    numbers = j.next_seq, j.last_mid
    for kind, mid, seq, body, state in kept:
        if j._off + len(body) + OVERHEAD > j._size:
            j._open_next()
        j.next_seq = seq
        at = j._append(kind, mid, body, len(body), None, 0, 0)
        j._count(at, kind, len(body) + OVERHEAD)
        if state:
            j._write_state(at, len(body), state)
    j._ordered = False
    j.next_seq, j.last_mid = numbers


def _refresh(j, at):
    # The power may have gone just as the last record was finished: its bits are set again.
    if j._write:
        return
    j._load(at)
    end = at + j.found_len + OVERHEAD
    at -= at % j._unit
    while at < end:
        j._seek(at)
        j._read(at, j._page)
        j._k = j._unit
        j._program()
        at += j._unit


def _drop_original(j, reader):
    # The last record may be a copy, made when power was cut before its original was marked done: that is the first
    # live one, in the oldest sector.
    at = reader.last
    other = reader.first
    if other < 0 or other == at or other // j._size != j._tail():
        return
    j._load(at)
    header = bytes(j._h)
    j._load(other)
    if bytes(j._h) != header:
        return
    state = j._state(other)
    n = j.found_len
    kind = j._kind
    if state:  # the last byte of the copy
        _set_state(j, reader, at, n, state)
        j._sync()
    _set_state(j, reader, other, n, DONE)
    j._count(other, kind, -n - OVERHEAD)
