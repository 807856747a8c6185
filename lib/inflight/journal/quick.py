# The quick mount of a ring with checkpoints. It trusts only what is as a healthy ring has it, but for bits that have
# flipped in headers, or as a power cut in the head, or in the erase of the oldest sector, leaves it; else it gives up,
# and the mount of the whole ring finds out. Whatever it programs before that, that mount would program, too: as if it
# had been cut short.
#
# Theory of operation
# -------------------
# The numbers of sectors are consecutive: the newest one is found by bisection, which steps around headers that are not
# right. Going back from there, sectors whose first bytes are blank are erased, and the first other one is the head. The
# last checkpoint there, or in a sector before it, tells what was live when it was written. Since then records were only
# added to the sector that it stands in and to those behind it; all others can only have become done. So these sectors
# are read, as the mount of the whole ring reads them: those that the checkpoint names, which have live records other
# than OUT; from the first one with live OUT records on, those up to the first message that still is; and those from the
# checkpoint's own on. Between them only messages that wait can be live. These sectors are counted when somebody gets
# there: see Checkpoints.read(). If messages are not in their order, or few sectors would be left out, none is. In all
# the rest nothing is alive. They are read before they are erased, or when there is time.

from struct import unpack_from

from ..compat import const
from .checkpoint import IN_ORDER, Checkpoints
from .mount import clear, finish, read_sector, settle
from .records import CHECKPOINT, HEAD, HEADER, LOSSES, NEVER, NOTE, OVERHEAD
from .sectors import ALIKE, LEAST, SectorReader, decide, erase, has_flipped, identify, likeness, make_firm

_MOST_BAD = const(4)  # headers at the beginning of the device that are not right
_MOST_BACK = const(8)  # sectors that are searched for a checkpoint
_START = const(16)  # bytes behind a sector's header: some are not FF if it is in use
_FEW = const(4)  # so many sectors are not worth leaving out


def mount_quickly(j):
    """The journal has checkpoints from now on. Mounts what is on the device at a start. If all of it is to be read,
    `failed` stands."""
    j.checkpoints = Checkpoints(j)
    try:
        found = _try(j, j._size)
    except MemoryError:
        found = _try(j, LEAST)
    if found:
        j.checkpoints.ready = True
    else:
        j.failed = True
        j.next_seq = 0  # nobody has used a number yet


def _try(j, size):
    # With a buffer of that size. Returns True if the journal is mounted.
    reader = SectorReader(j, size)
    found = None
    try:
        for leaving_out in (True, True, False):
            if found is None:
                found = _mount(j, reader, leaving_out)
        if found:
            finish(j, reader)
    except OSError:
        found = False  # the mount of the whole ring meets it again, and knows what to do
    return found


def _mount(j, reader, leaving_out):
    # leaving_out: sectors in which messages wait are not counted. Returns None if they have to be.
    clear(j, reader)
    if not _find_newest(j, reader):
        return False
    at = _find_checkpoint(j, reader)
    if at == -2:
        return False
    named, first, told = _what_it_tells(j, at)
    leaving_out = leaving_out and at >= 0 and told[4] & IN_ORDER and _number_of(j, at // j._size) - first > _FEW
    if not _read_sectors(j, reader, named, first, _number_of(j, at // j._size) if leaving_out else 0):
        return False
    if j.damaged or reader.unknown or reader.renumbered or reader.telling or reader.told[2]:
        return False
    j.damaged = reader.headers
    if at >= 0:
        _take_numbers(j, reader, told)
    j.unread = first - j.erases + j._n
    j.checkpoints.has_read(first, _number_of(j, at // j._size) if at >= 0 else 0)
    if j.checkpoints.uncounted:
        checkpoint, used, live = reader.before
        if checkpoint != at or not j._ordered:
            return None  # the last one may have been cut short, and read differently before
        if told[5] < used or told[6] < live:
            return False
        j.unread = _number_of(j, at // j._size) - j.erases + j._n
        j.checkpoints.may_have(told[5] - used, told[6] - live)
    if reader.last >= 0 and not j._write:
        reader.aim(reader.last // j._size)
        if not make_firm(reader, reader.last):
            return False
    return settle(j, reader)


def _read_sectors(j, reader, named, first, end):
    # Those that are named, and from `first` on all others; but of those before `end`, from the first one on in which a
    # message is live, none that is not named. Returns False if one of them was lost.
    for number in named:
        if number < first and not _read_whole(j, reader, number):
            return False
    for number in range(first, j.erases - j._erased):
        if j.live and number < end and number not in named:
            j.checkpoints.leave_out(number % j._n)
        elif not _read_whole(j, reader, number):
            return False
    return True


def _read_whole(j, reader, number):
    sector = number % j._n
    h = bytearray(HEADER)
    j._read(sector * j._size, h)
    if not _is_header(j, h, number):
        return False
    read_sector(j, reader, sector)
    if _number_in(j, h, sector) < 0 and (j._live[sector] or number > j.erases - j._n):
        reader.headers += 1
    return True


# --- the head ---


def _find_newest(j, reader):
    # Sets head, erased and erases. An erase that was cut short is finished.
    n = j._n
    h = bytearray(HEADER)
    for low in range(_MOST_BAD):
        j._read(low * j._size, h)
        first = _number_in(j, h, low) - low if low < n and identify(j, h) else -1
        if first >= 0:
            break
    else:
        return False
    high = n  # low has the number first + low; high has not, if it is a sector
    while high - low > 1:
        i = middle = (low + high) // 2
        number = -1
        while number < 0 and i < high:
            j._read(i * j._size, h)
            number = _number_in(j, h, i)
            i += 1
        i -= 1
        if number == first + i:
            low = i
        elif number < 0 or number == first + i - n:
            high = middle
        else:
            return False
    newest = first + low
    oldest = (low + 1) % n
    # The newest header was the last one to be programmed, that of the oldest sector may have been about to go.
    if decide(j, low * j._size, h) or _number_in(j, h, low) != newest:
        return False
    j._identity[LOSSES] = h[LOSSES]
    if not _find_head(j, reader, newest):
        return False
    undecided = decide(j, oldest * j._size, h)
    number = _number_in(j, h, oldest)
    if undecided or number >= 0:
        return number == newest + 1 - n and not undecided
    if max(likeness(j, oldest, newest + 1), likeness(j, oldest, newest + 1 - n)) >= ALIKE:
        return reader.count_records(oldest)[0] > 0  # no erase has left it: it may be the newest one if it has none
    return _finish_erase(j, reader, oldest)


def _number_in(j, h, i):
    # The number in the header h of sector i, -1 if it is not right.
    number = unpack_from("<I", h, 8)[0]
    right = number % j._n == i and number < NEVER and likeness(j, i, number, h) == HEADER
    return number if right else -1


def _find_head(j, reader, newest):
    n = j._n
    start = bytearray(HEADER + _START)
    j.erases = newest + 1
    j._erased = 0
    while True:
        j._head = (newest - j._erased) % n
        j._read(j._head * j._size, start)
        if not _is_header(j, start, newest - j._erased):
            return False  # a sector that was lost reads as an erased one
        if j._erased == n - 1 or start[HEADER:].count(b"\xff") < _START:
            break
        j._erased += 1
    # In the sector behind the head a record may have been cut short. A header that is damaged takes no more records.
    reader.closed = likeness(j, j._head, newest - j._erased) < HEADER
    return j._erased and not reader.is_used((j._head + 1) % n)


def _is_header(j, h, number):
    # True if h begins with the header of that number, though bits of it may have flipped.
    right = h[:LOSSES] == j._identity[:LOSSES] and h[LOSSES + 1 : 8] == j._identity[LOSSES + 1 : 8]
    if right and unpack_from("<I", h, 8)[0] == number and h[12:20] == j._identity[8:]:
        return True
    return has_flipped(j, number, h)


def _finish_erase(j, reader, sector):
    # The header of the oldest sector is not even alike one: if that of the next one is right, and the head is in use,
    # its erase was cut short.
    n = j._n
    seq = j.erases
    h = bytearray(HEADER)
    j._read((sector + 1) % n * j._size, h)
    if _number_in(j, h, (sector + 1) % n) != seq + 1 - n or j._erased > n - 3:
        return False
    erase(j, reader, sector, seq)
    j.erases += 1
    j._erased += 1
    return True


# --- what is live ---


def _find_checkpoint(j, reader):
    # The address of the last one, -1 if there is none in the whole ring, -2 if it is not found soon.
    number = j.erases - 1 - j._erased
    for _ in range(_MOST_BACK):
        at = _checkpoint_in(j, reader, number % j._n)
        if at >= 0 or number == j.erases - j._n:
            return at
        number -= 1
    return -2


def _checkpoint_in(j, reader, sector):
    reader.aim(sector)
    at = reader.base + HEADER
    last = reader.last_byte(at)
    found = -1
    while at <= last:
        if reader.has_record(at):
            i = reader.load(at, HEAD)
            kind, n = unpack_from("<BH", reader.buf, i)
            if kind == NOTE and n >= CHECKPOINT:
                found = at
            at += n + OVERHEAD
        else:
            at += 1
    return found


def _what_it_tells(j, at):
    # The numbers of the sectors that the checkpoint at address `at` names, that of the first one with live OUT records,
    # and (lost to damage, passed over, sector of the newest number, of the last NOTE that tells of losses, flags, bytes
    # in use, live messages).
    n = j._n
    oldest = j.erases - n
    if at < 0:
        return (), oldest, ()
    j._load(at)
    body = bytearray(j.found_len)
    j._read(at + HEAD, body)
    damaged, skipped, _, newest, noted, first = unpack_from("<IIBHHH", body)
    here = _number_of(j, at // j._size)
    if here - (here - noted) % n < oldest:
        noted = n  # erased since: the NOTEs stand behind the checkpoint
    told = (damaged, skipped, newest, noted) + unpack_from("<BIH", body, 15)
    named = []
    for i in range(CHECKPOINT, len(body) - 1, 2):
        number = here - (here - unpack_from("<H", body, i)[0]) % n
        if number >= oldest:  # else it was erased since
            named.append(number)
    return named, max(oldest, here - (here - first) % n), told


def _number_of(j, sector):
    return j.erases - 1 - (j.erases - 1 - sector) % j._n


def _take_numbers(j, reader, told):
    # What the records tell that were not read: the checkpoint knew.
    damaged, skipped, newest, noted = told[:4]
    if j._newest >= 0:
        j._load(j._newest)
        if j._kind == NOTE and j.found_len >= CHECKPOINT:
            j._newest = newest * j._size
            reader.notes = 0
    if noted < j._n and (j._noted < 0 or _number_of(j, noted) > _number_of(j, j._noted // j._size)):
        j._noted = noted * j._size
    reader.told = max(damaged, reader.told[0]), max(skipped, reader.told[1]), 0
