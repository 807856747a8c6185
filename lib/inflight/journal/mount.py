# Mounting a journal: what a power cut interrupted is finished, every record read once, damage retired. The
# theory stands in journal.

from struct import unpack_from

from ..compat import const
from ..errors import OutboxFull
from .records import (
    AT_END,
    CHECKPOINT,
    CLEARED,
    DONE,
    HEAD,
    HEADER,
    IN,
    LOSSES,
    NOTE,
    NOTE_SIZE,
    NOTES,
    OUT,
    OVERHEAD,
    RELEASED,
    SESSION,
)
from .sectors import (
    LEAST,
    SectorReader,
    clear_page,
    count_losses,
    count_lost,
    is_nothing,
    is_worn,
    likeness,
    make_firm,
    most_numbers,
    most_records,
    retire,
    set_state,
    size_in_header,
)


def recover(j):
    """Journal.recover()."""
    given = j._begun if j._begun >= 0 else j.next_seq
    live = j.live if given else 0
    if j._volatile and j._appending >= 0:
        # Records in RAM have no CRC that tells a whole one from one whose append() was interrupted.
        n = j._size - j._appending % j._size
        j._write(j._appending, b"\xff" * n, 0, n)
    j._appending = -1
    try:
        mount(j, given)
    except BaseException:
        j.next_seq = given
        j.live = live  # so many are pending, as far as is known
        raise
    if hasattr(j, "checkpoints"):
        j.checkpoints.ready = True
    j._dirty = 0
    # Whoever appended it was not told that it is there, and does so again.
    at = j.find(OUT, j._begun) if j._begun >= 0 else -1
    if at >= 0 and j.found_seq == j._begun:
        j.mark(at, DONE)
    j._begun = -1


def mount(j, given=0):
    """Mounts what is on the device. OUT records with a sequence number below `given` were whole there."""
    size = LEAST if given else j._size  # bytes that are read at a time: at a start there is heap
    for left in range(j._n + j._size // j._unit, 0, -1):
        try:
            return _mount(j, given, size)
        except MemoryError:
            if size == LEAST:
                raise
            size = LEAST
        except OSError:
            # What went to a worn page is a record that was cut short: the next try passes it by.
            if left == 1 or not is_worn(j):
                raise


def _mount(j, given, size):
    reader = SectorReader(j, size)
    reader.given = given
    whole = False
    while not whole:
        clear(j, reader)
        _restore_sectors(j, reader)
        whole = _read_contents(j, reader)
    _finish(j, reader)


def clear(j, reader):
    """Nothing is known of what is on the device."""
    reader.begin()
    clear_page(j)
    j.next_seq = j.last_mid = j.used = j.live = j._others = 0
    j.damaged = 2 * reader.erased + reader.gone
    j.skipped = 0
    j._cursor = j._cursor_seq = 0
    j._newest = j._noted = j.watched = -1
    j._ordered = True
    for i in range(j._n):
        j._live[i] = 0
    if hasattr(j, "checkpoints"):
        j.checkpoints.begin()


def _restore_sectors(j, reader):
    # A function of its own, as the others: what it imports is given back at its end.
    from .sectors import restore

    restore(j, reader)


def _read_contents(j, reader):
    return read(j, reader) and settle(j, reader)


def _finish(j, reader):
    finish(j, reader)


# --- what is in the sectors ---
# Every record is read once. Then copies that a power cut left beside their originals: both are live, and one of them is
# given up. A copy is the last record, its original in the oldest sector, which is another one.

_MOST_REGIONS = const(100)  # that are remembered


def read(j, reader):
    """Reads the sectors in use, the oldest first. Returns False if all is to be read again."""
    unknown = reader.unknown
    for k in range(j._erased + 1, j._n):
        read_sector(j, reader, (j._head + k) % j._n)
    damaged = j.damaged
    read_sector(j, reader, j._head)
    reader.in_head = j.damaged - damaged
    if reader.telling and not reader.told_of:
        # What is in front of these NOTEs was no damage when they were written, and is none now.
        reader.told_of = reader.telling
        reader.unknown = unknown
        return False
    if j._write or reader.last < 0:
        return True
    reader.aim(reader.last // j._size)
    whole = make_firm(reader, reader.last) or reader.torn_last
    reader.torn_last = not whole
    return whole


def read_sector(j, reader, sector):
    """Counts its records; finds the end of those of the head."""
    reader.aim(sector)
    at = reader.base + HEADER
    last = reader.last_byte(at)
    end = at  # of the last record
    while at <= last:
        if reader.has_record(at):
            at = end = _take(j, reader, at)
        elif is_nothing(reader.buf[reader.load(at, 1)]):
            at += 1  # retired before
        else:
            behind = reader.next_record(at + 1, last)
            if behind < 0 and sector == j._head:
                break
            if behind in reader.told_of:
                reader.at_end.append((at, behind))
                at = behind
                continue
            behind = last + 1 if behind < 0 else behind
            size = size_in_header(reader, at)
            if size and at + size < behind:
                behind = at + size
            _count_damaged(j, reader, at, size)
            if len(reader.damaged) < _MOST_REGIONS:
                reader.damaged.append((at, behind))
            else:
                retire(reader, at, behind)
            at = behind
    if sector == j._head:
        damaged = j.damaged
        begin = at
        if at <= last:
            _count_end(j, reader, at, last + 1)
            # None of the page can be trusted, nor of the next one if the record goes on there: its program may have
            # begun, and read as blank this time: not behind a page that did not take all of it.
            behind = max(last + 1, at + (size_in_header(reader, at) or HEAD))
            if last - last % j._unit <= j._bad < behind:
                behind = j._bad + 1
            at = min(-(-behind // j._unit) * j._unit, reader.end)
        j._off = at - reader.base
        if reader.lost or j.damaged > damaged:
            # Behind the numbers that it made known, should the power go here: NOTEs go behind it first.
            left = begin + size_in_header(reader, begin)
            if left > begin and not retire(reader, left, at):
                j._off = j._size
            (reader.damaged if j.damaged > damaged else reader.at_end).append((end, at))
        # Also what is zero already is retired: the mount that did so may have been cut short.
        elif end < at and not retire(reader, end, at):
            j._off = j._size


def _count_damaged(j, reader, at, size):
    # A record of that size if its header is right (else 0). Its numbers were given then; else they may have been any.
    j.damaged += 1
    reader.regions += 1
    if size and _is_message(reader, at, size):
        reader.messages.append(unpack_from("<HI", reader.buf, reader.load(at, HEAD) + 3))
    if not size:
        reader.messages.append(None)
        reader.unknown = True
    elif _is_number_new(j, reader, at):
        j.last_mid, seq = unpack_from("<HI", reader.buf, reader.load(at, HEAD) + 3)
        j.next_seq = seq + 1
        reader.renumbered = True


def _is_message(reader, at, size):
    # True if it was a live OUT record.
    i = reader.load(at + size - 1, 1)
    return CLEARED[reader.buf[i] & 15] < 2 and reader.buf[reader.load(at, HEAD)] == OUT


def _is_number_new(j, reader, at):
    # True if the header at `at`, which is right, has a number that can have been given and is higher than all known.
    kind, _, _, seq = unpack_from("<BHHI", reader.buf, reader.load(at, HEAD))
    return (kind == OUT or kind == NOTE) and j.next_seq <= seq < most_numbers(j)


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
        if n >= OVERHEAD + CHECKPOINT and kind == NOTE:
            reader.before = at, j.used, j.live
            if seq < j.next_seq:
                return behind  # other records tell the number
        if kind == OUT and seq < j.next_seq:
            reader.copied = at
        if seq + 1 >= j.next_seq:
            j.next_seq = seq + 1
            j.last_mid = buf[i + 3] | buf[i + 4] << 8
            j._newest = at
            reader.renumbered = False
            reader.notes = reader.notes + 1 if kind == NOTE else 0
        else:
            j._ordered = False
        if kind == NOTE:
            if n == OVERHEAD + NOTE_SIZE:
                reader.told = unpack_from("<IIB", buf, reader.load(at, n) + HEAD)
                j._noted = at
                reader.telling = reader.telling + (at,) if reader.told[2] & AT_END else ()
            return behind
    i += n - 1
    if i >= len(buf):
        i = reader.load(behind - 1, 1)
    state = buf[i]
    if not state & 15:
        return behind  # done, as most are
    released = CLEARED[state >> 4]
    done = CLEARED[state & 15] > (2 if released > 2 else 1)
    if not done:
        j._count(at, kind, n)
        if reader.first < 0:
            reader.first = at
        reader.last_live = at
        if not j._erased:
            _note_place(j, reader, at)
    if done or released == 3:
        set_state(reader, at, n - OVERHEAD, DONE if done else RELEASED)
    return behind


def _note_place(j, reader, at):
    sector = at // j._size
    if sector == j._tail():
        reader.originals.append(at % j._size)
    elif sector == j._head:
        reader.copies.append(at % j._size)


def _count_end(j, reader, at, end):
    # Behind the last record of the head is one that was cut short, or damaged since: if so, its number and Message
    # ID were given.
    size = size_in_header(reader, at)
    if size and _is_number_new(j, reader, at) and reader.word(at + 5) < reader.given:
        # It was whole before this mount, which is no start: damaged for sure. (A lower number: that of a copy.)
        _count_damaged(j, reader, at, size)
        reader.lost = most_records(end - at - size)
        return
    reader.lost = count_lost(reader, at, end)
    if reader.lost and not size and j._newest // j._size != j._head and j._erased == j._n - 1 and j.erases > j._n:
        reader.unknown = True  # this record alone told the newest number
    if reader.lost and size:
        if _is_number_new(j, reader, at):
            reader.lost = reader.word(at + 5) + 1 - j.next_seq
        reader.lost += most_records(end - at - size)


def settle(j, reader):
    """Originals of which there are copies become done. Only if the last erased sector takes all of them, though: else
    the copies become done instead, nothing lives in the head then, and it is erased, or begun again where NOTEs are.
    No other sector is erased in that case, so nothing but copies and NOTEs went there. Returns False if the head was
    erased: all is to be read again."""
    sector, copies, originals = _find_copies(j, reader)
    unfinished = not j._erased and _is_head_unfinished(j, reader, copies, originals)
    for copy, original in _pairs(j, sector, copies, originals):
        if unfinished:
            _drop(j, reader, copy)
        else:
            _drop(j, reader, original, copy)
    if not unfinished or _is_noted(j, originals):
        return True
    # An erase that is cut short may leave its header half retired. No record cut short is behind that one then.
    for at, end in reader.at_end:
        retire(reader, at, end)
    reader.at_end = []
    reader.gone += reader.in_head
    if not copies:  # else what follows them is one, cut short
        reader.passed += reader.lost
    reader.head_erased = True
    left = j._live[j._tail()]
    j.erases -= 1
    reader.has_programmed(j._reclaim, j._head)  # if not, what is left of the header is that of an erase cut short
    if j._worn == j._head:
        j._refused = left
    return False


def _is_noted(j, originals):
    # True if NOTEs stand in the head, or a record whose number no other one tells.
    noted = j._noted // j._size == j._head
    if noted or j._newest // j._size != j._head:
        return noted
    number = bytearray(4)
    for at in originals:
        j._read(j._tail() * j._size + at + 5, number)
        if unpack_from("<I", number)[0] + 1 == j.next_seq:
            return False
    return True


def _find_copies(j, reader):
    # Where in which sector records stand that can be copies, and where in the oldest one records of which they can be.
    if not j._erased:
        return j._head, reader.copies, reader.originals
    size = j._size
    last = reader.last  # in the head, unless damage alone is there
    if last // size != j._tail() == reader.first // size and last == reader.last_live:
        return last // size, (last % size,), (reader.first % size,)
    return j._head, (), ()


def _is_head_unfinished(j, reader, copies, originals):
    # True if the head, the last erased sector, has not all copies, or no space for what follows them.
    if reader.head_erased:
        return False
    found = sum(1 for _ in _pairs(j, j._head, copies, originals))
    if found < len(copies):
        return False
    left = j._live[j._tail()] - j._live[j._head]
    if j._worn == j._head and j._off + min(j.reserve, left + NOTES) <= j._size:
        return False  # behind the page that is worn there is space for what messages need to leave, or for the copies
    no_space = j._newest // j._size == j._tail() and j._off + NOTES > j._size
    return not found or no_space or found < len(originals)


def _pairs(j, sector, copies, originals):
    # Yields the address of each copy with that of its original. They are in the same order.
    header = bytearray(HEAD)
    base = sector * j._size
    tail = j._tail() * j._size
    k = 0
    for original in originals:
        j._read(tail + original, header)
        for i in range(k, len(copies)):
            j._read(base + copies[i], j._h)
            if j._h == header:
                yield base + copies[i], tail + original
                k = i + 1
                break


def _drop(j, reader, at, copy=-1):
    # The record at `at` is done, in favour of its copy if there is one.
    j._load(at)
    kind = j._kind
    n = j.found_len
    state = j._state(at)
    if copy >= 0 and state:  # the last byte of the copy
        set_state(reader, copy, n, state & RELEASED or state)
        j._sync()
    set_state(reader, at, n, DONE)
    j._count(at, kind, -n - OVERHEAD)


# --- what a power cut interrupted is finished, and damage is retired ---

_UNKEPT_IDS = const(256)  # Message IDs that requests may have taken in between, of which there is no record


def finish(j, reader):
    if reader.closed or j._head in reader.spoilt:
        j._off = j._size  # it takes nothing more
    end = j._bad % j._size + j._unit
    if j._bad // j._size == j._head and end > j._off:
        # Nothing of what the page did not take is there. It is passed by if it takes zeros.
        base = j._head * j._size
        j._off = end if _retire_blank(j, reader, base + j._off, base + end) else j._size
    j._bad = -1
    j._cursor = j._oldest()
    _skip_numbers(j, reader)
    untold = j._told[2:] if j._told[:2] == reader.told[:2] else ()
    if untold:
        number, mid, damaged, skipped, messages = untold
        j.damaged += damaged
        j.skipped += skipped
        reader.messages = messages + reader.messages
        if number > j.next_seq:
            j.next_seq = number
            j.last_mid = mid
            reader.renumbered = True
    unsafe = _count(j, reader) or reader.renumbered or reader.notes == 1 or j._newest // j._size in reader.spoilt
    if j._off + NOTES > j._size:  # without NOTEs behind it a record that was cut short would pass for damage
        for at, end in reader.at_end:
            retire(reader, at, end)
        reader.at_end = []
    regions = reader.damaged + reader.at_end
    noted = not unsafe or (_has_space(j) and j._note(len(reader.damaged) | (AT_END if reader.at_end else 0)))
    j._sync()
    if not noted and (regions or untold):
        # NOTEs find space only when a sector is collected. If a worn page ends that, the next try finds zeros here.
        damaged, skipped = j._told
        j._told = damaged, skipped, j.next_seq, j.last_mid, j.damaged - damaged, j.skipped - skipped, reader.messages
    for at, end in regions:  # behind the numbers that it made known, should the power go here
        retire(reader, at, end)
    _settle_last(j, reader)
    if j._head in reader.spoilt:
        j._off = j._size
    # Not where a worn page is: the copies would meet it again. Messages need no space to be completed, and make some.
    no_space = not (j._erased or j._live[j._head]) and j._off + j._live[j._tail()] + NOTES > j._size
    if no_space and j._worn != j._head:
        _begin_head_again(j, reader)
    try:
        while not j._erased:
            j._collect()
        for sector in reader.spoilt:
            _make_space(j, j._live[sector])
            j._empty(sector, False)
        if not noted or (unsafe and regions):
            _make_space(j, NOTES)
            j._note()
    except OutboxFull:
        pass  # nothing is appended until the broker has completed messages; the next mount finds the same
    j._sync()
    _tell_losses(j, reader)
    j.failed = False


def _settle_last(j, reader):
    # The last live record can be the copy of one in a sector that damage made unfit for live records, which is not the
    # oldest. A message's number tells, which is not new then; of received ids there is one each. Of SESSION records the
    # owner takes the newest.
    last = reader.last_live
    kind = j._parse(last) if last >= 0 else 0
    if kind != IN and not (kind == OUT and reader.copied == last):
        return
    header = kind, j.found_len, j.found_mid, j.found_seq
    for sector in range(j._n if j._state(last) != DONE else 0):
        if 0 < j._live[sector] < 0xFFFF:
            for at, live in reader.records(sector):
                if live and at != last and unpack_from("<BHHI", reader.buf, reader.load(at, HEAD)) == header:
                    _drop(j, reader, at, last)
                    return


def _retire_blank(j, reader, at, end):
    # A blank region that is left so is the end of the sector's records: only then nothing has to leave the sector.
    spoilt = len(reader.spoilt)
    if retire(reader, at, end):
        return True
    reader.aim(at // j._size)
    if reader.last_byte(at) < 0:
        del reader.spoilt[spoilt:]
    return False


def _begin_head_again(j, reader=None):
    # Power cuts have left nothing in the head that lives, and no space for a copy of the oldest sector: what is left
    # there are numbers, and NOTEs tell those as soon as it is erased.
    j.erases -= 1
    j._reclaim(j._head)
    j._erased -= 1
    j._off = HEADER
    regions = 0
    while True:
        try:
            j._note(regions)
            break
        except OSError:
            # What a worn page did not take is a record that was cut short: they follow it. Without a reader the caller
            # is not the mount, but one follows.
            off = j._bad % j._size + j._unit
            if not reader or not is_worn(j) or off + NOTES > j._size:
                raise
            regions = AT_END
            j._off = off
            j._bad = -1
            clear_page(j)
    base = j._head * j._size
    if regions and not retire(reader, base + HEADER, base + j._off - NOTES):
        j._off = j._size


def begin_head_for_session(j, size):
    """A SESSION record of `size` bytes is about to be appended, and nothing is erased: power cuts, or a worn page, have
    left no space for what lives in the oldest sector. If the head has none for the record, and nothing lives there but
    SESSION records that it replaces, the head is erased: without the record no message is completed, which makes space
    again. Should power be cut before it is written, it is as if both its copies were damaged."""
    left = j._live[j._head]
    oldest = j._live[j._tail()]
    if not oldest or j._off + size <= j._size or j._off + oldest + NOTES <= j._size:
        return
    sessions = []
    at = j.scan(SESSION, -1)
    while at >= 0:
        if at // j._size == j._head:
            left -= j.found_len + OVERHEAD
            sessions.append(at)
        at = j.scan(SESSION, at)
    if left or not (j.owner and all(j.owner.can_spare(at, True) for at in sessions)):
        return
    for at in sessions:
        j._load(at)
        j._count(at, SESSION, -j.found_len - OVERHEAD)
        j.owner.moved(at, -1)
    _begin_head_again(j)


def _count(j, reader):
    # What was lost ever. Returns True if NOTEs have to tell that.
    damaged, skipped, regions = reader.told
    if j._told[:2] == (
        damaged,
        skipped,
    ):  # what the mount before this one found, which a worn page ended, is found again
        j.found_damaged = j.found_skipped = 0
        j.lost = []
    j._told = damaged, skipped
    found = j.damaged - min(regions & ~AT_END, reader.regions)  # what NOTEs count already was not retired yet
    j.lost = j.lost + reader.messages + [None] * (2 * reader.erased + reader.gone)
    j.found_damaged += found
    j.found_skipped += j.skipped
    j.damaged = damaged + found - reader.headers
    j.skipped += skipped
    told = j.damaged == damaged and j.skipped == skipped and not regions
    return not told and j.next_seq > 0


def _has_space(j):
    # True if NOTEs can go to the head now, or to another sector that is not needed for copies of the oldest one.
    left = j._live[j._tail()]
    if not j._erased:
        return j._off + NOTES + left <= j._size
    needed = left > j._size - HEADER - NOTES and not j._is_last_worn()
    return j._off + NOTES <= j._size or j._erased > (1 if needed else 0)


def _make_space(j, size):
    # So many bytes fit the head, or a sector that is not the last erased one, which the copies of a sector may take.
    for _ in range(j._n):
        if j._off + size <= j._size or j._erased > 1 or (j._erased and j._is_last_worn()):
            break
        j._collect()


def _skip_numbers(j, reader):
    # Numbers and Message IDs that may have been given must not come again.
    lost = reader.lost + reader.passed
    if reader.unknown or reader.erased or (reader.damaged and j._newest < 0):
        j.skipped = max(most_numbers(j) - j.next_seq, lost)
    else:
        j.skipped = lost
    j.next_seq += j.skipped
    j._identity[LOSSES] = count_losses(j)
    if j.skipped:
        j.last_mid = (j.last_mid + j.skipped + _UNKEPT_IDS) % 65535


def _tell_losses(j, reader):
    # The head with its NOTEs may be lost, too: the newest sector, which is blank, tells the losses as well. Or the
    # power went just as its header was finished, which is programmed again then.
    newest = (j.erases - 1) % j._n
    j._read(newest * j._size + LOSSES, j._mark)
    known = j._mark[0] >= j._identity[LOSSES] and likeness(j, newest, j.erases - 1) == HEADER
    if j._erased and not (known and j._write):
        reader.has_programmed(j._erase, newest, j.erases - 1, known)
