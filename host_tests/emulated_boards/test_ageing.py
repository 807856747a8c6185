"""A chain of power cuts may begin with a journal that was filled on this machine."""

from host_tests.emulated_boards.ageing import aged, ring_of, with_ring
from inflight import Client, Journal
from inflight.journal.journal import OUT
from nor import NorFlash


def test_the_ring_erases_soon_and_keeps_what_waits():
    ring = NorFlash(16, 4096)
    Journal(ring)
    order = (5, 4, *range(6, 20))  # pinned files lie anywhere
    blank = with_ring(b"\xff" * (2 << 20), [block * 4096 for block in order], ring)
    flash, accepted = aged(blank, "old", "t")
    assert accepted == {0: 1, 1: 2}
    _, ring = ring_of(flash)
    journal = Journal(ring)
    client = Client("nowhere", "old", journal)
    for _ in range(2):
        client.publish("t", 300 * "x", 1)
    assert sum(ring.erases) == 1
    assert [journal.find(OUT, seq) >= 0 for seq in accepted] == [True, True]
