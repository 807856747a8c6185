"""Sectors of several blocks, for messages that are longer than a block."""

import gc

from harness import CUT_STEP, SkipTest, eq, raises
from inflight import JoinedFlash, RamFlash
from inflight.journal.journal import DONE, Journal
from nor import NorFlash, PowerCut, mixed, suffix, torn
from test_journal import RINGS, RecordOwner, bodies, put
from test_journal_alloc import allocated, exchange

RUNTIMES = "cpython micropython-x64 micropython-x86"
MORE_RUNTIMES = "micropython-armhf native-x86"


def devices(n=11):
    for page, size in RINGS:
        yield NorFlash(n, size, page)
    yield RamFlash(n, 1024)


def test_the_longest_message():
    """It takes more than a block, and comes around the ring."""
    for device in devices():
        flash = JoinedFlash(device, 2)
        size = device.ioctl(5, 0)
        journal = Journal(flash)
        eq((flash.ioctl(4, 0), flash.ioctl(5, 0), journal.largest), (5, 2 * size, 2 * size - 24 - 15))
        for k in range(12):
            at = put(journal, k, journal.largest)
            journal.commit()
            eq(bodies(Journal(flash)), [(k, 0)])
            journal.mark(at, DONE)
        eq(journal.damaged, 0)


def test_power_cuts_within_an_erase():
    """Of one block, or of a part of them."""
    for way in (part(torn), part(suffix), mixed(5)):
        device = NorFlash(27, 512, 64)
        flash = JoinedFlash(device, 3)
        Journal(flash)
        image, k, cuts = device.snapshot(), 0, 0
        while True:
            device.restore(image)
            kept = {}
            device.cut_at(k, way)
            try:
                work(Journal(flash), kept)
                break
            except PowerCut:
                device.power_on()
            cuts += 1
            found = dict(bodies(Journal(flash)))
            assert all(mid in found for mid in kept) and len(set(found) - set(kept)) <= 1
            eq(Journal(flash).damaged, 0)
            k += CUT_STEP
        assert cuts * CUT_STEP > 60


def part(outcome):
    """Three fifths of an operation, or so."""
    return lambda old, new: outcome(len(old) * 3 // 5, 0x5A)(old, new)


def work(journal, kept):
    """The first message stays, and is copied around the ring."""
    places = journal.owner = RecordOwner()
    for k in range(24):
        places[k] = put(journal, k, 200 + k * 61 % 400)
        journal.commit()
        kept[k] = 0
        if k > 1:
            del kept[k - 1]
            journal.mark(places.pop(k - 1), DONE)
            journal.commit()


def test_no_heap():
    if not hasattr(gc, "mem_alloc"):
        raise SkipTest("CPython does not tell")
    head = bytearray(b"h" * 40)
    eq(allocated(exchange, Journal(JoinedFlash(RamFlash(9, 1024), 3)), head, b"t" * 40, 5), 0)


def test_arguments():
    for k in (0, 65, 2.0, "2"):
        raises(ValueError, JoinedFlash, RamFlash(9, 1024), k)
    raises(ValueError, Journal, JoinedFlash(RamFlash(5, 1024), 2))  # two sectors
