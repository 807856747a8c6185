"""Copies of one sensor on the emulated Pico W: it has booted, imported everything and joined Wi-Fi; each copy then goes
on with a task of its own, and with the journal as an earlier copy left it."""

import subprocess
import sys
from contextlib import contextmanager

from host_tests.emulated_boards.judge import READY
from tools.emulators.pico_w import copies, figures, filesystem, image, sensor
from tools.emulators.pico_w.board import FLASH_SIZE, Board
from tools.emulators.pico_w.filesystem import BLOCK

VARIANT, FIRMWARE, SENSOR = "pico_w", image.FIRMWARE, sensor
WHERE = "pinned files"  # the journal of an image is
BOOTS = True  # within two seconds: states that power cuts leave are booted, too
HEAP, BOOT_HEAP = 120_000, 195_000  # bytes that a connected sensor leaves at least, and the firmware itself


def run_image(folder, content, work):
    """Runs coroutine work(board) with a board that got the bytes `content` of `inflight board image`. Returns what work
    returns, and the files in the flash before and then."""
    (folder / "pico_w.uf2").write_bytes(content)
    board = Board(uf2=folder / "pico_w.uf2")
    before = filesystem.unpack(board.snapshot())
    return copies.staged(work, board, board.switch_on), before, filesystem.unpack(board.snapshot())


def installed(files):
    """The flash of a board with these files, which has not started yet."""
    return Board(filesystem.pack(files)).snapshot()


def cold(flash, work):
    """Runs coroutine work(board) with a board that starts from cold with `flash`. Returns (what work returns, the flash
    then)."""
    board = Board({0: flash})
    return copies.staged(work, board, board.switch_on), board.snapshot()


unpack = filesystem.unpack


def volumes(flash):
    """(file system, bytes of a page, partition for the journal or None) in the flash."""
    return flash[filesystem.START : filesystem.START + filesystem.SIZE], filesystem.PAGE, None


@contextmanager
def bare(uf2=None):
    """The port of a board with nothing but its firmware, MicroPython's own or that in the file `uf2`."""
    command = [sys.executable, "-m", "tools.emulators.pico_w.serve", *(["--uf2", str(uf2)] if uf2 else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().removeprefix("ready:").strip()
        finally:
            process.kill()


def library_heap():
    """Bytes of heap that are free after boot, and after the library was imported from .mpy files."""
    return figures.at_the_prompt()


async def _stop_when_ready(board):
    board.stop_at = READY
    await board.until(lambda: board.power.cut or READY in board.notes, 600, "the board is ready")
    board.notes.clear()
    board.stop_at = None


class Bench:
    """brokers: those that the configurations name. flash: of the board, when it was made ready."""

    LIVES = 32  # of a publisher
    PACE = PARTS = 1
    JOURNAL_FILES = 16

    def __init__(self, brokers):
        self.brokers = brokers
        self.files = brokers.application()
        first = Board(filesystem.pack(self.files))
        copies.staged(_stop_when_ready, first, first.switch_on)  # it makes its journal
        self.flash = first.snapshot()
        self._blocks = [self.flash[at : at + BLOCK] for at in range(0, FLASH_SIZE, BLOCK)]
        self._board = Board({0: self.flash})
        copies.staged(_stop_when_ready, self._board, self._board.switch_on)
        if self._board.snapshot() != self.flash:
            raise RuntimeError("getting ready changes the flash: then no copy may go on with another")

    def copy(self, work, task, seconds, flash=None):
        """Runs coroutine work(board) with a copy that does `task`, and whose journal is as in `flash`. Returns what
        work returns; raises what copies.forked() raises."""
        flash = flash or self.flash
        if self._outside_journal(flash) != self._outside_journal(self.flash):
            raise RuntimeError("the file system is another now: this board must boot from cold")

        def start():
            self._board.console.clear()
            self._board.give_task(task)
            self._board.write({0: flash})
            self._board.thaw()

        return copies.forked(work, self._board, seconds, start)

    def _outside_journal(self, flash):
        blocks = [flash[at : at + BLOCK] for at in range(0, FLASH_SIZE, BLOCK)]
        return [block for block, then in zip(blocks, self._blocks, strict=True) if not then.startswith(b"IFJ")]

    @staticmethod
    def phase(notes):
        """What a copy was about when its notes ended."""
        return "publish"

    def first_start(self, plan, flash=None):
        """Starts a board with the application and no journal, or `flash`, from cold, until its power goes as
        plan(power) wants it, or it is ready. Returns (flash, how the power went or None)."""
        board = Board({0: flash} if flash else filesystem.pack(self.files))
        plan(board.power)
        copies.staged(_stop_when_ready, board, board.switch_on)
        return board.snapshot(), board.power.cut

    unpack = staticmethod(unpack)
