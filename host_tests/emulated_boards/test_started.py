"""The judge of starts after a power cut finds the wrong application, a wrong record, and lost messages."""

import re
from types import SimpleNamespace

import pytest

from host_tests.absent import interpreter
from host_tests.emulated_boards import started
from host_tests.emulated_boards.each_cut import Cut
from host_tests.emulated_boards.fleet import GOOD, Fleet
from host_tests.emulated_boards.started import check_journal, start
from inflight import Journal
from inflight.journal.journal import OUT
from inflight_tools.boards.images.filesystem import BLOCK, build
from nor import NorFlash
from tools.emulators.littlefs_files import unpack
from tools.emulators.pico_w import filesystem
from update_record import FETCH, IDLE, TRIAL, Record

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")


def record(state, starts=0, n=2):
    """Of a device whose slot a has release 1, while it fetches or tries release 2."""
    found = Record()
    found.n, found.slot, found.release = n, 1, 1
    if state != IDLE:
        found.fetch(2, 20)
    if state == TRIAL:
        found.begin_trial()
        for _ in range(starts):
            found.start(False)
    return found


SIZE = 300 * BLOCK  # a Pico has less: the first application gives its space to the second slot there


class Board:
    """The flash of a board, which needs no emulator here."""

    @staticmethod
    def volumes(flash):
        return flash, filesystem.PAGE, None

    @staticmethod
    def unpack(flash):
        return unpack(flash, filesystem.PAGE)


@pytest.fixture(scope="module")
def brought():
    """What a cable has brought, and releases 1 and 2 in the slots: {path: content}."""
    interpreter("micropython-x86")
    fleet = Fleet(SimpleNamespace(BOARD="rp2040", config=lambda *_, **__: b"{}"), 1883)
    return fleet.files() | {"/a.image": fleet.release(1, GOOD).image, "/b.image": fleet.release(2, GOOD).image}


def packed(files):
    """The file system of a board with these files."""
    volume = bytearray(b"\xff") * SIZE
    for at, content in build(files, SIZE, filesystem.PAGE):
        volume[at : at + len(content)] = content
    return bytes(volume)


def begin(files, before, **changed):
    """Judges a start of a board with `files`, and the Record `before`."""
    records = {"/update.0": record(IDLE, n=1).pack(), "/update.1": before.pack()} if before else {}
    flash = packed(files | records | {f"/{name}.image": data for name, data in changed.items()})
    start(Board, Cut("torn", flash, 0, flash, flash, []), [], set())


@pytest.fixture
def no_journal(monkeypatch):
    """These flashes have none yet."""
    monkeypatch.setattr(started, "check_journal", lambda *_: None)


@pytest.mark.parametrize("before", [None, record(IDLE), record(FETCH), record(TRIAL), record(TRIAL, 3)])
def test_the_application_that_the_record_says_starts(brought, no_journal, before):
    begin(brought, before)


@pytest.mark.parametrize(
    "before, changed, what",
    [
        (record(FETCH), {"place": "/b"}, "starts, not /a"),
        (record(TRIAL), {"place": "/a"}, "starts, not /b"),
        (record(TRIAL), {"place": ""}, "starts, not /b"),
        (record(TRIAL), {"modules": ["/b/app.mpy", "/lib/node.mpy"]}, "node.mpy'] are imported"),
        (record(TRIAL), {"update.1": record(TRIAL, n=9).pack().hex()}, "the record says"),  # the start was not counted
        (record(FETCH), {"update.1": record(TRIAL, n=9).pack().hex()}, "the record says"),
    ],
)
def test_the_wrong_application_or_record_is_found(brought, no_journal, monkeypatch, before, changed, what):
    real = started.run
    monkeypatch.setattr(started, "run", lambda *args: real(*args) | changed)
    with pytest.raises(AssertionError, match=re.escape(what)):
        begin(brought, before)


def flash(messages):
    """A flash with a journal of so many messages at its beginning."""
    ring = NorFlash(4, BLOCK)
    journal = Journal(ring)
    for n in range(messages):
        journal.append(OUT, n + 1, b"message", 7)
    journal.commit()
    return bytes(ring.data)


PLACES = [n * BLOCK for n in range(4)]
TWO, THREE = flash(2), flash(3)


def cut(left, notes=()):
    return Cut("program torn", left, 0, TWO, THREE, list(notes))


@pytest.mark.parametrize(
    "left, notes, held, found",
    [
        (flash(1), [], None, r"\[1\] are lost"),
        (TWO, [5 << 2 | 1], None, r"\[5\] are lost"),
        (THREE, [], {0}, r"\[1\] are lost"),
        (TWO, [], {0, 1, 9}, r"\[9\] came from nowhere"),
        (flash(4), [], None, r"\[3\] came from nowhere"),
    ],
)
def test_a_message_that_is_lost_or_invented_is_found(left, notes, held, found):
    with pytest.raises(AssertionError, match=found):
        check_journal(cut(left, notes), PLACES, set(), held)
