"""How many messages may wait at once: as many as Message IDs can tell apart, with some to spare."""

import pytest

from inflight import Journal, OutboxFull, RamFlash
from inflight.journal import DONE, OUT

MOST = 60_000


def test_a_large_journal_takes_no_more_messages_than_there_are_ids(quick_crc):
    device = RamFlash(48, 65_536)
    journal = Journal(device)
    first = journal.append(OUT, 1, b"", 0)
    for mid in range(2, MOST + 1):
        journal.append(OUT, mid, b"", 0)
    assert journal.live == MOST and journal.used < journal.limit * 0.7  # there is room for bytes
    assert not journal.fits(OUT, 0)
    with pytest.raises(OutboxFull):
        journal.append(OUT, MOST + 1, b"", 0)
    journal.mark(first, DONE)
    assert journal.fits(OUT, 0)
    journal.append(OUT, 1, b"", 0)
    assert Journal(device).live == MOST
