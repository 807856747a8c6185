# Messages that their journal lost to damage. Loaded when one is found.

import inflight.counters as counters

from .errors import OutboxFull
from .journal import DONE
from .records import NOTES
from .refused import MessageDamaged

_MOST_NOTICES = 16


class _Place:
    # Where a record is, while others are copied.

    def __init__(self, at):
        self.at = at

    def moved(self, old, new):
        if self.at == old:
            self.at = new


def drop(journal, at):
    """The live record at address `at` is whole, and no use: it counts as damaged, durably before it is gone, so that it
    counts twice rather than never. Raises OSError."""
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
    session.count[counters.DROPPED] += len(lost)
    session.count[counters.DAMAGED] += len(lost)
    known = [message for message in lost if message][:_MOST_NOTICES]
    for mid, seq in known:
        session.notices += (MessageDamaged(1, mid, seq),)
    if len(lost) > len(known):
        session.notices += (MessageDamaged(len(lost) - len(known)),)
