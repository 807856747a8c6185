# A journal on another device: a larger one, or one of another kind.

from .journal import DONE, Journal
from .records import LOSSES


def copy_journal(journal, device):
    """Copies all that `journal` keeps to the blank block device `device`, and returns the Journal there once that is
    durable: messages with their Message IDs, sequence numbers and states, received ids, the session, what was lost
    ever. Both are the same journal then, so one of them has to be erased before a client uses the other one; if power
    is cut earlier, `device` has a part. `journal` is only read, and no client may use it meanwhile. Takes as much RAM
    as the longest message.
    Raises ValueError if a journal is on `device`, or it is too small; OSError, also where a record of `journal` is
    damaged: recover() it then, and erase(device)."""
    new = Journal(device)
    _copy(journal, new)
    return new


def _copy(journal, new):
    if new.next_seq or new.used:
        raise ValueError("device: a journal is there already, erase(device) first")
    longest = used = 0
    for _ in _live(journal):
        longest = max(longest, journal.found_len)
        used += new.cost(journal.found_len)
    if used > new.limit or longest > new.largest:
        raise ValueError("device: takes %d bytes of messages, and %d of one" % (new.limit, new.largest))
    # The same epoch and secret; and as many erases at least, which tell how many numbers can have been given.
    new._identity[LOSSES] = journal._identity[LOSSES]
    new._identity[8:] = journal._identity[8:]
    new.epoch, new._salt_low, new._salt_high = journal.epoch, journal._salt_low, journal._salt_high
    n = new._n
    first = -(-journal.erases // n) * n
    new.erases = first + n
    for i in range(n):
        new._erase(i, first + i)
    body = bytearray(longest)
    for at in _live(journal):
        kind, size, mid, state = journal._kind, journal.found_len, journal.found_mid, journal.found_state
        new.next_seq = journal.found_seq
        journal.check(at)
        start = journal.read(at, 0, body)
        copy = new.append(kind, mid, body, start + size, b"", b"", start)
        if state:
            new.mark(copy, state)
    new.next_seq = journal.next_seq
    new.last_mid = journal.last_mid
    new.damaged, new.skipped = journal.damaged, journal.skipped
    new.found_damaged, new.found_skipped, new.lost = journal.found_damaged, journal.found_skipped, journal.lost
    if new.next_seq:
        new._note()
    new._ordered = False
    new._dirty = True
    new.commit()


def _live(journal):
    # Yields the addresses of the live records, in the order of the ring; found_* tell of each.
    at = journal._next(journal._oldest())
    while at >= 0:
        journal.found_state = journal._state(at)
        if journal.found_state != DONE:
            yield at
            journal._load(at)
        at = journal._next(journal._behind(at))
