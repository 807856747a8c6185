# Messages that the journal has lost, or that are none. Loaded with the first one, or when the journal was mounted
# again.

from ..compat import const
from ..counters import DAMAGED, DROPPED
from ..errors import OutboxFull
from ..journal.records import DONE, NOTES, OUT
from ..packet import PUBLISH, length
from .refused import MessageDamaged

_MOST_TRAILER = const(131)  # bytes of an OUT record behind its PUBLISH
_MOST_NOTICES = const(16)  # of messages that were damaged


def is_publish(journal, at):
    """True if the record just found is a PUBLISH of QoS 1 or 2, of its Message ID, with a trailer at most."""
    buf = bytearray(7)
    left = journal.found_len
    i = journal.read(at, 0, buf)
    digits = 1
    while digits < 4 and buf[i + digits] & 0x80:
        digits += 1
    if left < 5 + digits or buf[i] >> 4 != PUBLISH or buf[i] & 6 not in (2, 4) or buf[i + digits] & 0x80:
        return False
    topic = buf[i + 1 + digits] << 8 | buf[i + 2 + digits]
    size = length(buf, i)
    if size < 5 + digits + topic or not size <= left <= size + _MOST_TRAILER:
        return False
    i = journal.read(at, 3 + digits + topic, buf)
    return buf[i] << 8 | buf[i + 1] == journal.found_mid


def check(journal):
    """Each live OUT record is a whole PUBLISH, or no use to anybody, since a broker would close each connection: such a
    one is dropped."""
    at = journal.scan(OUT, -1)
    while at >= 0:
        if is_publish(journal, at):
            at = journal.scan(OUT, at)
        else:
            journal.lost.append((journal.found_mid, journal.found_seq))
            _drop(journal, at)
            at = journal.scan(OUT, -1)


class _Place:
    # Where a record is, while others are copied.

    def __init__(self, at):
        self.at = at

    def moved(self, old, new):
        if self.at == old:
            self.at = new

    def can_spare(self, at):
        return False


def _drop(journal, at):
    # The live record at address `at` is whole, and no use: it counts as damaged, durably before it is gone, so that it
    # counts twice rather than never.
    owner = journal.owner
    place = journal.owner = _Place(at)
    journal.damaged += 1
    journal._begin()
    journal._dirty = True
    try:
        journal._make_space(NOTES)
        journal._note()
    except OutboxFull:
        pass  # the next NOTEs tell it
    journal._sync()
    journal._ok = True
    journal.mark(place.at, DONE)
    journal.commit()
    journal.owner = owner


def tell(session, lost):
    """Counts the messages, and tells the application, as far as anything is known of them."""
    session.count[DROPPED] += len(lost)
    session.count[DAMAGED] += len(lost)
    known = [message for message in lost if message][:_MOST_NOTICES]
    for mid, seq in known:
        session.notices += (MessageDamaged(1, mid, seq),)
    if len(lost) > len(known):
        session.notices += (MessageDamaged(len(lost) - len(known)),)
