"""Slot files on this machine's file system, with CPython."""

from inflight.flash.slots import SlotFlash
from inflight.journal.journal import DONE, OUT, Journal


def test_journal_wraps_around_and_is_mounted_again(tmp_path):
    device = SlotFlash(f"{tmp_path}/journal", 5, 512)
    journal = Journal(device)
    for mid in range(1, 301):
        at = journal.append(OUT, mid, b"body of %03d" % mid, 11)
        if mid <= 295:
            journal.mark(at, DONE)
    assert journal.erases > 10
    device.close()
    again = Journal(SlotFlash(f"{tmp_path}/journal", 5, 512))
    body = bytearray(11)
    for mid in range(296, 301):
        again.read(again.find(OUT, mid - 1), 0, body)
        assert (again.found_mid, body) == (mid, b"body of %03d" % mid)
    assert (again.live, again.next_seq, again.damaged) == (5, 300, 0)
