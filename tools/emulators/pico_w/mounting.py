"""How long a Pico W takes to mount its journal: guest time around Journal(), with the ring in pinned files.

Neither reading the flash through its cache nor programming it takes emulated time, so this is the processor's share."""

import tempfile
from pathlib import Path

from inflight import FileFlash, Journal
from inflight.journal.journal import DONE, IN, OUT
from inflight_tools.boards.build.bundle import files
from tools.emulators.pico_w import copies, filesystem, sensor
from tools.emulators.pico_w.board import Board
from tools.emulators.pico_w.filesystem import BLOCK

_SECTORS = 16
_S = 900
_MAKE = "import board; board.journal_flash()"
_READY = "import board, gc, time; from inflight import Journal; flash = board.journal_flash(); gc.collect()"
_MOUNT = "t = time.ticks_ms(); journal = Journal(flash); print(time.ticks_diff(time.ticks_ms(), t))"


def _turn(journal, kind, size, live):
    """Goes once around the ring and more with bodies of `size` bytes, of which the last `live` wait."""
    waiting = []
    erases = journal.erases
    while journal.erases < erases + 2 * _SECTORS:
        waiting.append(journal.append(kind, 1, bytes(size), size))
        if len(waiting) > live:
            journal.mark(waiting.pop(0), DONE)


def _typical(journal):
    _turn(journal, OUT, 40, 8)


def _full(journal):
    _turn(journal, OUT, 40, 8)
    while journal.fits(OUT, 40):
        journal.append(OUT, 1, bytes(40), 40)


def _smallest(journal):
    _turn(journal, IN, 0, 8)


RINGS = {
    "16 sectors of messages of 40 bytes, 8 of them live": _typical,
    "the same with as many live as it takes": _full,
    "16 sectors of the smallest records there are, 15 bytes each": _smallest,
}


def _ring(fill):
    """The bytes of a ring that fill(journal) has filled here."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ring"
        flash = FileFlash(str(path), _SECTORS, BLOCK)
        fill(Journal(flash))
        flash.close()
        return path.read_bytes()


def _places(flash):
    """Addresses of the journal's pinned files, whose names tell their blocks."""
    names = sorted(path.rpartition("/")[2] for path in filesystem.unpack(flash) if path.startswith("/journal/"))
    return [filesystem.START + int(name.split("-")[1], 16) * BLOCK for name in names]


def times():
    """Yields (what the ring holds, ms of emulated time to mount it)."""
    deployed = {path: data for path, data in files(sensor.BOARD).items() if path.startswith("/lib/")}

    async def make(board):
        await board.run(_MAKE, _S)

    async def mount(board):
        await board.run(_READY, _S)
        return int(await board.run(_MOUNT, _S))

    board = Board(filesystem.pack(deployed))
    copies.staged(make, board, board.switch_on)
    made = board.snapshot()
    for what, fill in RINGS.items():
        ring = _ring(fill)
        sectors = {at: ring[i * BLOCK : (i + 1) * BLOCK] for i, at in enumerate(_places(made))}
        board = Board({0: made} | sectors)
        yield what, copies.staged(mount, board, board.switch_on)
