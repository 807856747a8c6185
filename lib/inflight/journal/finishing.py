# The end of mounting a journal: what a power cut interrupted is finished, and damage is retired.

from ..compat import const
from ..errors import OutboxFull
from .records import AT_END, HEADER, LOSSES, NOTES
from .sector_reader import count_losses, most_numbers, retire

_UNKEPT_IDS = const(256)  # Message IDs that requests may have taken in between, of which there is no record


def finish(j, reader):
    worn = j._bad // j._size == j._head and j._bad % j._size + j._unit > j._off
    if worn or reader.closed or j._head in reader.spoilt:
        j._off = j._size  # it takes nothing more
    j._bad = -1
    j._cursor = j._oldest()
    _skip_numbers(j, reader)
    unsafe = _count(j, reader) or reader.renumbered or reader.notes == 1 or j._newest // j._size in reader.spoilt
    if j._off + NOTES > j._size:  # without NOTEs behind it a record that was cut short would pass for damage
        for at, end in reader.at_end:
            retire(reader, at, end)
        reader.at_end = []
    regions = reader.damaged + reader.at_end
    noted = not unsafe or (_has_space(j) and j._note(len(reader.damaged) | (AT_END if reader.at_end else 0)))
    j._sync()
    for at, end in regions:  # behind the numbers that it made known, should the power go here
        retire(reader, at, end)
    if j._head in reader.spoilt:
        j._off = j._size
    if not j._erased and not j._live[j._head] and j._off + j._live[j._tail()] + NOTES > j._size:
        _begin_head_again(j)
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
    j._ok = True


def _begin_head_again(j):
    # Power cuts have left nothing in the head that lives, and no space for a copy of the oldest sector: what is left
    # there are numbers, and NOTEs tell those as soon as it is erased.
    j.erases -= 1
    j._reclaim(j._head)
    j._erased -= 1
    j._off = HEADER
    j._note()


def _count(j, reader):
    # What was lost ever. Returns True if NOTEs have to tell that.
    damaged, skipped, regions = reader.told
    j.lost = reader.messages + [None] * (2 * reader.erased + reader.gone)
    j.found_damaged = j.damaged - min(regions & ~AT_END, reader.regions)  # what NOTEs count already was not retired yet
    j.found_skipped = j.skipped
    j.damaged = damaged + j.found_damaged - reader.headers
    j.skipped += skipped
    told = j.damaged == damaged and j.skipped == skipped and not regions
    return not told and j.next_seq > 0


def _has_space(j):
    # True if NOTEs can go to the head now, or to another sector that is not needed for copies of the oldest one.
    space = j._size - HEADER - NOTES
    needed = j._live[j._tail()] > space and not j._is_last_worn()
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
    known = j._mark[0] >= j._identity[LOSSES]
    if j._erased and not (known and j._write):
        reader.has_programmed(j._erase, newest, j.erases - 1, known)
