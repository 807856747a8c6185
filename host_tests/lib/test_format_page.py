"""journal/FORMAT.md of the library: its example is what the code writes, and its rules are sufficient to read a
journal."""

import itertools
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


def decode(image, n):
    """Reads an image by the rules of the page alone. Returns {(kind, id): (sequence number, body, state)}, next
    number."""
    found = Image(Shape(n, len(image) // n), image)
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
        body = bytes((k + i) & 0xFF for i in range((k % 60, 0, k % 20)[k % 3]))
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


RING = Shape(5, 512)
NEWEST, EPOCH, SECRET = 13, 0x12345678, 0x9ABCDEF0
OF_TABLE = {
    "place": {"behind the newest": NEWEST - 4, "elsewhere": NEWEST - 2},
    "header": ("valid, own", "valid, another", "alike next", "alike own", "not alike"),
    "another sector in use": ("yes", "no"),
    "records": ("own", "next", "blank", "none"),
}
# Where the sector's message is then, how often it was erased, damaged records, and how many erases the ring tells more.
BECOMES = {
    "stands": ("there", 0, 0, 0),
    "is the newest": ("there", 0, 0, 1),
    "is erased": ("gone", 1, 0, 1),
    "is moved": ("elsewhere", 0, 0, 0),
    "is lost": ("gone", 1, 2, 0),
}


def rows_of_table():
    """[({column: the values that it has in this row}, what becomes of the sector)]"""
    lines = PAGE[PAGE.index("| place | header |") :].split("\n\n")[0].splitlines()
    names = [cell.strip() for cell in lines[0].strip("|").split("|")]
    for line in lines[2:]:
        *cells, becomes = [cell.strip() for cell in line.strip("|").split("|")]
        assert becomes in BECOMES
        row = {}
        for name, cell in zip(names, cells, strict=False):
            known = [*OF_TABLE[name]]
            row[name] = (
                known if cell == "any" else [value for value in known if value in cell.split(", ") or value == cell]
            )
            assert row[name], line
        yield row, becomes


COMBINATIONS = [dict(zip(OF_TABLE, values, strict=True)) for values in itertools.product(*OF_TABLE.values())]


def of_sector(number, first_record=None):
    """A sector of the ring, with a live message."""
    data = bytearray(b"\xff" * RING.size)
    data[:24] = RING.header(number, EPOCH, SECRET)
    if first_record is not None:
        record = RING.record(RING.lock(SECRET, first_record, 24), OUT, number, number, b"\x32\x05\0\1a\0\1")
        data[24 : 24 + len(record)] = record
    return data


@pytest.mark.parametrize("one", COMBINATIONS, ids=lambda one: "-".join(one.values()))
def test_each_sector_is_in_one_row_of_the_table(one):
    """Each combination matches exactly one row, and is what that tells."""
    [becomes] = [becomes for row, becomes in rows_of_table() if all(one[name] in row[name] for name in one)]
    number = OF_TABLE["place"][one["place"]]
    sector = of_sector(number, {"own": number, "next": number + RING.n}.get(one["records"]))
    if one["records"] == "none":
        sector[24:100] = b"\xa5" * 76
    if one["header"] != "valid, own":
        wanted = {"valid, another": number - RING.n, "alike next": number + RING.n}.get(one["header"], number)
        sector[:24] = RING.header(wanted, EPOCH, SECRET)
        if one["header"].startswith("alike"):
            sector[12:14] = bytes(b ^ 0x55 for b in sector[12:14])
        if one["header"] == "not alike":
            sector[:24] = bytes(24)
    flash = NorFlash(RING.n, RING.size, 64)
    for k in range(RING.n):
        other = NEWEST - k
        at = other % RING.n * RING.size
        used = one["another sector in use"] == "yes" and k
        flash.data[at : at + RING.size] = sector if other == number else of_sector(other, other if used else None)
    journal = Journal(flash)
    at = journal.scan(OUT, -1)
    while at >= 0 and journal.found_mid != number:
        at = journal.scan(OUT, at)
    i = number % RING.n
    place = "gone" if at < 0 else "there" if at // RING.size == i else "elsewhere"
    found = place, flash.erases[i], journal.damaged, journal.erases - NEWEST - 1
    if becomes == "stands" and one["records"] != "own":
        assert found in (("gone", 0, 0, 0), ("gone", 0, 1, 0))  # what is no record of it is damage
    elif becomes == "is the newest":
        assert found[:3] == BECOMES[becomes][:3] and found[3] >= 1  # a mount may erase the oldest one then
    else:
        assert found == BECOMES[becomes]
