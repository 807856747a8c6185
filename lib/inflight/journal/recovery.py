# Mounting a journal: what a power cut interrupted is finished, every record read once, damage retired. The
# theory stands in journal. A device needs this once and forgets it; the parts are loaded one after the other,
# since a client needs the most heap here.

from .records import DONE, OUT
from .sector_reader import SectorReader, clear_page, is_worn


def recover(j):
    """Journal.recover()."""
    given = j._begun if j._begun >= 0 else j.next_seq
    try:
        mount(j, given)
    except BaseException:
        j.next_seq = given
        raise
    j._dirty = False
    # Whoever appended it was not told that it is there, and does so again.
    at = j.find(OUT, j._begun) if j._begun >= 0 else -1
    if at >= 0 and j.found_seq == j._begun:
        j.mark(at, DONE)
    j._begun = -1


def mount(j, given=0):
    """Mounts what is on the device. OUT records with a sequence number below `given` were whole there."""
    for left in range(j._n, 0, -1):
        try:
            return _mount(j, given)
        except OSError:
            # What went to a worn page is a record that was cut short: the next try passes it by.
            if left == 1 or not is_worn(j):
                raise


def _mount(j, given):
    reader = SectorReader(j)
    reader.given = given
    whole = False
    while not whole:
        _reset(j, reader)
        _restore_sectors(j, reader)
        whole = _read_contents(j, reader)
    _finish(j, reader)


def _reset(j, reader):
    reader.begin()
    clear_page(j)
    j.next_seq = j.last_mid = j.used = j.live = j._others = 0
    j.damaged = 2 * reader.erased + reader.gone
    j.skipped = 0
    j._cursor = j._cursor_seq = 0
    j._newest = j._noted = -1
    j._ordered = True
    for i in range(j._n):
        j._live[i] = 0


def _restore_sectors(j, reader):
    # A function of its own, as the others: what it imports is given back at its end.
    from .sectors import restore

    restore(j, reader)


def _read_contents(j, reader):
    from .contents import read, settle

    return read(j, reader) and settle(j, reader)


def _finish(j, reader):
    from .finishing import finish

    finish(j, reader)
