"""lib/inflight/FORMAT.md: its example is what the code writes, and its rules are enough to read a journal."""

import os
import re
import struct
import zlib
from pathlib import Path

import pytest

import inflight.journal
from inflight.journal import DONE, IN, OUT, RELEASED, SESSION, Journal
from nor import NorFlash
from test_journal import Places

PAGE = Path(inflight.journal.__file__).with_name("FORMAT.md").read_text()


def test_worked_example(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda n: b"\x78\x56\x34\x12")
    flash = NorFlash(4, 512, 4)
    journal = Journal(flash)
    publish = b"\x34\x07\0\1a\0\x0ahi"
    first = journal.append(OUT, 10, publish, len(publish))
    second = journal.append(IN, 7, b"", 0)
    journal.mark(first, RELEASED)
    journal.mark(second, DONE)
    rows = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?){16})$", PAGE, re.M)
    assert len(rows) == 4
    for place, row in rows:
        at = int(place, 16)
        assert flash.data[at : at + 16].hex(" ") == row
    assert not flash.data[64:512].strip(b"\xff")


def decode(image, n):
    """Reads an image by the rules of the page alone. Returns {(kind, id): (sequence, body, state)}, next number."""
    size = len(image) // n
    sectors = [image[i * size : i * size + size] for i in range(n)]
    valid = {}
    for i, sector in enumerate(sectors):
        if sector[:3] == b"IFJ" and struct.unpack_from("<I", sector, 16)[0] == zlib.crc32(sector[:16]):
            valid[struct.unpack_from("<I", sector, 8)[0]] = i
    newest = valid[max(valid)]
    unit, once = 1 << (sectors[newest][4] & 0x7F), sectors[newest][4] & 0x80
    first = -(-20 // unit) * unit + unit if once else 20
    doomed = set(range(n)) - set(valid.values())
    if once and sectors[newest][first - unit : first].strip(b"\xff"):
        doomed.add((newest + 1) % n)
    elif not doomed and sectors[newest][first:].strip(b"\xff"):
        doomed.add(newest)
    found, highest = {}, -1
    for k in range(1, n + 1):
        i = (newest + k) % n
        if i in doomed:
            continue
        sector, at = sectors[i], first
        while at + 10 <= size:
            b, mid, seq, kind, check = struct.unpack_from("<HHIBB", sector, at)
            end = at + 10 + b + 4
            mark = first + -(-(end - first) // unit) * unit if once else end
            behind = mark + 2 * unit if once else mark + 1
            if not (1 <= kind <= 4 and zlib.crc32(sector[at : at + 9]) & 0xFF == check and behind <= size):
                at = (at // unit + 1) * unit
                continue
            good = struct.unpack_from("<I", sector, end - 4)[0] == zlib.crc32(sector[at : end - 4])
            if once:
                done = sector[mark + unit : mark + 2 * unit].strip(b"\xff")
                released = sector[mark : mark + unit].strip(b"\xff")
            else:
                done, released = sector[mark] & 0x0F != 0x0F, sector[mark] != 0xFF
            if good and kind in (1, 4):
                highest = max(highest, seq)
            if good and not done and kind != 4:
                assert (kind, mid) not in found
                found[kind, mid] = seq, sector[at + 10 : end - 4], RELEASED if released else 0
            at = behind
    return found, highest + 1


@pytest.mark.parametrize("page, once", [(4, False), (16, True), (256, False)])
def test_rules_are_enough(page, once):
    flash = NorFlash(5, 512, page, once)
    flash.watch = lambda name, at, old, new: snapshots.append((bytes(flash.data), dict(expected), pending[:]))
    snapshots, expected, pending = [], {}, []
    journal = Journal(flash)
    del snapshots[:]
    places = journal.owner = Places()
    for k in range(150):
        key = ((OUT, IN, SESSION)[k % 3], k)
        body = bytes((k + i) & 0xFF for i in range(0 if key[0] == IN else k % 70))
        pending[:] = [key]
        seq = journal.next_seq
        places[key] = journal.append(*key, body, len(body))
        expected[key] = seq, body, 0
        pending[:] = []
        for old, state in ((k - 4, RELEASED), (k - 9, DONE)):
            key = ((OUT, IN, SESSION)[old % 3], old)
            if old >= 0 and old % 25:
                pending[:] = [key]
                journal.mark(places[key], state)
                expected[key] = *expected[key][:2], state
                if state == DONE:
                    del expected[key]
                pending[:] = []
    assert min(flash.erases) > 1
    for image, promised, open_ones in snapshots:
        found, _ = decode(image, 5)
        for key in open_ones:  # under way
            found.pop(key, None)
            promised.pop(key, None)
        assert found == promised
    assert decode(bytes(flash.data), 5) == (expected, journal.next_seq)
