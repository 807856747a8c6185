# The quick mount of a ring with checkpoints. It trusts only what is exactly as a healthy ring has it, or as a power cut
# in the head, or in the erase of the oldest sector, leaves it; else it gives up, and the mount of the whole ring finds
# out. Whatever it programs before that, that mount would program, too: as if it had been cut short.
#
# Theory of operation
# -------------------
# The numbers of sectors are consecutive: the newest one is found by bisection. Going back from there, sectors whose
# first bytes are blank are erased, and the first other one is the head. The last checkpoint there, or in a sector
# before it, tells what was live when it was written. Since then records were only added to the sector that it stands in
# and to those behind it; all others can only have become done. So three kinds of sectors are read, as the mount of the
# whole ring reads them: those with live OUT records, from the first one on; those that the checkpoint names, which have
# others; and those from the checkpoint's own on. In all the rest nothing is alive. They are read before they are
# erased, or when there is time: see Checkpoints.check().

from struct import unpack_from

from ..compat import const
from .mount import finish, read_sector, reset, settle
from .records import CHECKPOINT, HEAD, HEADER, LOSSES, NEVER, NOTE, OVERHEAD
from .sectors import SectorReader, decide, erase_again, identify, likeness, make_firm

_MOST_BACK = const(8)  # sectors that are searched for a checkpoint
_START = const(16)  # bytes behind a sector's header: some are not FF if it is in use


def mount_quickly(j):
    """Mounts what is on the device at a start. Returns False if all of it is to be read."""
    reader = SectorReader(j)
    reset(j, reader)
    try:
        if not _read(j, reader):
            return False
        finish(j, reader)
    except OSError:
        return False  # the mount of the whole ring meets it again, and knows what to do
    j._checkpoints.ready = True
    return True


def _read(j, reader):
    if not _find_newest(j, reader):
        return False
    at = _find_checkpoint(j, reader)
    if at == -2:
        return False
    n = j._n
    oldest = j.erases - n
    head = j.erases - 1 - j._erased
    sectors, first, told = _sectors_to_read(j, reader, at)
    for number in sectors:
        read_sector(j, reader, number % n)
    for number in range(first, head + 1):
        read_sector(j, reader, number % n)
    if j.damaged or reader.unknown or reader.renumbered or reader.spoilt or reader.telling or reader.told[2]:
        return False
    if at >= 0 and not _take_numbers(j, reader, told):
        return False
    j.unread = first - oldest
    j._checkpoints.has_read(first)
    if reader.last >= 0 and not j._write:
        reader.aim(reader.last // j._size)
        if not make_firm(reader, reader.last):
            return False
    return settle(j, reader)


# --- the head ---


def _find_newest(j, reader):
    # Sets head, erased and erases. An erase that was cut short is finished.
    n = j._n
    h = bytearray(HEADER)
    j._read(0, h)
    if not identify(j, h):
        return False
    first = _number_in(j, h, 0)
    if first < 0:
        return False
    low = 0  # has the number first + low
    high = n  # has not, if it is a sector
    bad = []  # those whose header is not right
    while high - low > 1:
        i = (low + high) // 2
        j._read(i * j._size, h)
        number = _number_in(j, h, i)
        if number == first + i:
            low = i
        elif number == first + i - n or number < 0:
            high = i
            if number < 0:
                bad.append(i)
        else:
            return False
    newest = first + low
    oldest = (low + 1) % n
    # The newest header was the last one to be programmed, that of the oldest sector may have been about to go.
    if decide(j, low * j._size, h) or _number_in(j, h, low) != newest or bad not in ([], [oldest]):
        return False
    j._identity[LOSSES] = h[LOSSES]
    if not _find_head(j, reader, newest):
        return False
    undecided = decide(j, oldest * j._size, h)
    number = _number_in(j, h, oldest)
    if undecided or number >= 0:
        return number == newest + 1 - n and not undecided
    return _finish_erase(j, reader, oldest)


def _number_in(j, h, i):
    # The number in the header h of sector i, -1 if it is not right.
    number = unpack_from("<I", h, 8)[0]
    right = number % j._n == i and number < NEVER and likeness(j, i, number, h) == HEADER
    return number if right else -1


def _find_head(j, reader, newest):
    n = j._n
    start = bytearray(_START)
    j.erases = newest + 1
    j._erased = 0
    j._head = newest % n
    while j._erased < n - 1:
        j._read(j._head * j._size + HEADER, start)
        if start.count(b"\xff") < _START:
            break
        j._erased += 1
        j._head = (newest - j._erased) % n
    # In the sector behind the head a record may have been cut short.
    if not j._erased or reader.is_used((j._head + 1) % n):
        return False
    h = bytearray(HEADER)
    j._read(j._head * j._size, h)
    return _number_in(j, h, j._head) == newest - j._erased


def _finish_erase(j, reader, sector):
    # The header of the oldest sector is not right: if that of the next one is, and the head is in use, it was erased.
    n = j._n
    seq = j.erases
    h = bytearray(HEADER)
    j._read((sector + 1) % n * j._size, h)
    if _number_in(j, h, (sector + 1) % n) != seq + 1 - n or j._erased > n - 3:
        return False
    if not erase_again(j, reader, sector, seq):
        return False
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


def _sectors_to_read(j, reader, at):
    # The numbers of those that the checkpoint at address `at` names, that of the first one from which on all are to be
    # read, and (lost to damage, passed over, sector of the newest number, of the last NOTE that tells of losses).
    n = j._n
    oldest = j.erases - n
    if at < 0:
        return (), oldest, None
    j._load(at)
    body = bytearray(j.found_len)
    j._read(at + HEAD, body)
    damaged, skipped, _, newest, noted, first = unpack_from("<IIBHHH", body)
    here = _number_of(j, at // j._size)
    first = max(oldest, here - (here - first) % n)
    sectors = []
    for i in range(CHECKPOINT, len(body) - 1, 2):
        number = here - (here - unpack_from("<H", body, i)[0]) % n
        if oldest <= number < first:
            sectors.append(number)
    return sectors, first, (damaged, skipped, newest, noted)


def _number_of(j, sector):
    return j.erases - 1 - (j.erases - 1 - sector) % j._n


def _take_numbers(j, reader, told):
    # What the records tell that were not read: the checkpoint knew.
    damaged, skipped, newest, noted = told
    if j._newest >= 0:
        j._load(j._newest)
        if j._kind == NOTE and j.found_len >= CHECKPOINT:
            if newest >= j._n:
                return False
            j._newest = newest * j._size
            reader.notes = 0
    if noted < j._n and (j._noted < 0 or _number_of(j, noted) > _number_of(j, j._noted // j._size)):
        j._noted = noted * j._size
    reader.told = max(damaged, reader.told[0]), max(skipped, reader.told[1]), 0
    return True
