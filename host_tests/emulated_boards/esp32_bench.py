"""One sensor on the emulated ESP32. Each life boots from cold."""

import asyncio
from contextlib import contextmanager

from host_tests.emulated_boards.judge import ASLEEP, MOUNT, READY
from inflight_tools.boards.build.bundle import files
from tools.emulators.esp32 import image, sensor
from tools.emulators.esp32.board import Board
from tools.emulators.esp32.chip import CHIP

_MAKE_JOURNAL = 998  # a task
VARIANT, FIRMWARE, SENSOR = CHIP.name, image.FIRMWARE, sensor
WHERE = "partition"  # the journal of an image is
BOOTS = False
HEAP, BOOT_HEAP = 70_000, 160_000  # bytes that a connected sensor leaves at least, and the firmware itself
_S = 300
_FREE = "import gc; gc.collect(); print('NOTE', gc.mem_free())"


def run_image(folder, content, work):
    """Runs coroutine work(board) with a board that got the bytes `content` of `inflight board image`. Returns what work
    returns, and the files in the flash before and then."""
    with Board(flash := image.bare(content)) as board:
        board.switch_on()
        result = asyncio.run(work(board))
        board.switch_off()
        return result, image.unpack(flash), image.unpack(board.snapshot())


def installed(files):
    """The flash of a board with these files, which has not started yet."""
    return bytes(image.finished(files))


def cold(flash, work):
    """Runs coroutine work(board) with a board that starts from cold with `flash`. Returns (what work returns, the flash
    then)."""
    with Board(flash) as board:
        board.switch_on(watched=True)
        result = asyncio.run(work(board))
        board.switch_off()
        return result, board.snapshot()


unpack, volumes = image.unpack, image.volumes


@contextmanager
def bare():
    """The port of a board with nothing but its firmware."""
    with Board(image.bare()) as board:
        board.switch_on()
        asyncio.run(board.prompt(_S))
        yield board.port


def library_heap():
    """Bytes of heap that are free after boot, and after the library was imported from .mpy files."""

    async def live():
        for line in (_FREE, "from inflight import Client, Journal", _FREE):
            await board.execute(line, _S)

    library = {path: data for path, data in files("esp32").items() if path.startswith("/lib/inflight/")}
    with Board(image.stock(library)) as board:
        board.switch_on()
        asyncio.run(live())
        return board.notes


class Bench:
    """brokers: those that the configurations name. flash: of the board, when it has its journal. The journal has a
    partition, unless it is `pinned` in files."""

    LIVES = 40  # of a publisher
    PACE, PARTS = 10, 6  # it programs 64 bytes at a time

    def __init__(self, brokers, pinned=False):
        self.JOURNAL_FILES = 16 if pinned else 0
        self.brokers = brokers
        self.files = brokers.application()
        self._bare = bytes((image.stock if pinned else image.finished)(self.files))
        self.flash, _ = self.first_start(lambda power: None)

    def copy(self, work, task, seconds, flash=None, **how):
        """Runs coroutine work(board) with a board that does `task` and begins with `flash`. how: as for Board. Returns
        what work returns. seconds: for a board whose time is emulated; here each wait of `work` has its own end."""
        with Board(flash or self.flash, **how) as board:
            board.write({image.UNUSED: task.to_bytes(4, "little")})
            board.switch_on(watched=True)
            return asyncio.run(work(board))

    @staticmethod
    def phase(notes):
        """What a board was about when its notes ended."""
        return {None: "boot", MOUNT: "mount", ASLEEP: "deep sleep"}.get(notes[-1] if notes else None, "publish")

    def first_start(self, plan, flash=None):
        """Starts a board with the application and no journal, or `flash`, until its power goes as plan(power) wants it,
        or it has its journal. Returns (flash, how the power went or None)."""

        async def start(board):
            plan(board.power)
            await board.until(lambda: board.power.cut or READY in board.notes, _S, "a cut, or the journal")
            cut = board.power.cut
            board.switch_off()
            return board.snapshot(), cut

        return self.copy(start, _MAKE_JOURNAL, _S, flash or self._bare)

    unpack = staticmethod(unpack)
