"""The largest number of pending messages: Message IDs limit it, with some to spare."""

import pytest

from inflight import Journal, OutboxFull, RamFlash
from inflight.journal.journal import DONE, OUT

MOST = 60_000


def test_message_ids_limit_a_large_journal(quick_crc):
    device = RamFlash(48, 65_536)
    journal = Journal(device)
    first = journal.append(OUT, 1, b"", 0)
    for mid in range(2, MOST + 1):
        journal.append(OUT, mid, b"", 0)
    assert journal.live == MOST and journal.used < journal.limit * 0.7  # not for lack of space
    assert not journal.fits(OUT, 0)
    with pytest.raises(OutboxFull):
        journal.append(OUT, MOST + 1, b"", 0)
    journal.mark(first, DONE)
    assert journal.fits(OUT, 0)
    journal.append(OUT, 1, b"", 0)
    assert Journal(device).live == MOST
