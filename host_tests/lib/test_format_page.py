"""journal/FORMAT.md of the library: its example is what the code writes, and its rules are sufficient to read a
journal."""

import os
import re
from pathlib import Path

import pytest

import inflight.journal.journal
from inflight.journal.journal import DONE, IN, OUT, RELEASED, SESSION, Journal
from journal_reader import Image, Shape
from nor import NorFlash
from test_journal import RecordOwner

PAGE = Path(inflight.journal.journal.__file__).with_name("FORMAT.md").read_text()


def test_worked_example(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda n: b"\x78\x56\x34\x12\xf0\xde\xbc\x9a")
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


def decode(image, n, page):
    """Reads an image by the rules of the page alone. Returns {(kind, id): (sequence number, body, state)}, next
    number."""
    found = Image(Shape(n, len(image) // n, page), image)
    return {(r.kind, r.mid): (r.seq, r.body, r.state) for r in found.records}, found.next_seq


@pytest.mark.parametrize("page", [4, 64, 256])
def test_rules_are_sufficient(page):
    flash = NorFlash(5, 512, page)
    flash.watch = lambda name, at, old, new: snapshots.append((bytes(flash.data), dict(expected), pending[:]))
    snapshots, expected, pending = [], {}, []
    journal = Journal(flash)
    del snapshots[:]
    places = journal.owner = RecordOwner()
    for k in range(150):
        key = ((OUT, IN, SESSION)[k % 3], k)
        body = bytes((k + i) & 0xFF for i in range(0 if key[0] == IN else k % 40))
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
        found, _ = decode(image, 5, page)
        for key in open_ones:  # under way
            found.pop(key, None)
            promised.pop(key, None)
        assert found == promised
    assert decode(bytes(flash.data), 5, page) == (expected, journal.next_seq)
