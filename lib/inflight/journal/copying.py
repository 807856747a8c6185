# A journal on another device: a larger one, or one of another kind.

from .journal import OUT, Journal
from .records import HEADER, IN, LOSSES, NOTES, SESSION


def copy_journal(journal, device):
    """Copies all that `journal` keeps to the block device `device`, and returns the Journal there once that is durable:
    messages with their Message IDs, sequence numbers and states, received ids, the session, what was lost ever.
    `device` is blank, or was erased with erase(), and has as many sectors as `journal` or more, of its sectors' length
    or more. Both are the same journal then, so one of them has to be erased before a client uses the other one; if
    power is cut earlier, `device` has a part. `journal` is only read, and no client may use it meanwhile. Takes as much
    RAM as the longest message.
    Raises ValueError if `device` is not blank, or too small; OSError, also where a record of `journal` is damaged:
    recover() it then, and erase(device)."""
    new = Journal(device)
    _begin(journal, new)
    _copy(journal, new)
    return new


def _begin(journal, new):
    # The ring of `new` begins anew, as that of `journal`: with its epoch and secret, and as many erases at least, which
    # tell how many numbers can have been given. They tell more on longer sectors, not on shorter ones.
    n = new._n
    if new.erases > n or new._erased < n - 1 or new._off > HEADER:
        raise ValueError("device: is not blank, erase(device) first")
    if n < journal._n or new._size < journal._size or new.limit < journal.limit:
        raise ValueError(
            "device: has %d sectors of %d bytes, and the journal %d of %d: as many are needed, as long"
            % (n, new._size, journal._n, journal._size)
        )
    new._identity[LOSSES] = journal._identity[LOSSES]
    new._identity[8:] = journal._identity[8:]
    first = -(-journal.erases // n) * n
    for i in range(n):
        new._erase(i, first + i)
    new.recover()


def _copy(journal, new):
    new.damaged, new.skipped = journal.damaged, journal.skipped
    # In this order each record is accepted that the bounds of `journal` have accepted.
    for kind in (OUT, IN, SESSION):
        # Messages in the order of their numbers: it is as if `new` had accepted those alone.
        body = bytearray()
        at = journal.find(OUT, 0) if kind == OUT else journal.scan(kind, -1)
        while at >= 0:
            seq, size, mid, state = journal.found_seq, journal.found_len, journal.found_mid, journal.found_state
            journal.check(at)
            if size > len(body):
                body = bytearray(size)
            start = journal.read(at, 0, body)
            if kind == OUT:
                new.next_seq = seq
            copy = new.append(kind, mid, body, start + size, b"", b"", start)
            if state:
                new.mark(copy, state)
            at = journal.find(OUT, seq + 1) if kind == OUT else journal.scan(kind, at)
        if kind == OUT:
            new.next_seq, new.last_mid = journal.next_seq, journal.last_mid
    if new.next_seq:
        new._make_space(NOTES)
        new._note()
    new.commit()
    new.found_damaged, new.found_skipped, new.lost = journal.found_damaged, journal.found_skipped, journal.lost
