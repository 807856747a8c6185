# What a device does when its application ends or crashes: it sleeps, and starts again. Several crashes: test_safe_mode.


import start
from hardware import With
from harness import eq
from inflight import Journal, RamFlash
from ram_board import Board
from scratch import Folder, Replaced

RUNTIMES = "cpython micropython-x86"
SLEEP_MS = 60_000


class Config:
    def __init__(self, sleep_ms):
        self.sleep_ms = sleep_ms
        self.watchdog_ms = 0


class Application:
    """Ends by returning or raising `end`."""

    crash = None

    def uptime(self):
        return 0

    def __init__(self, sleep_ms, end, began):
        Application.began = began
        self.config = Config(sleep_ms)
        Application.committed = 0
        self.journal = Journal(RamFlash())
        self.journal.commit = self.commit
        self.end = end

    def commit(self):
        Application.committed += 1

    def run(self):
        if isinstance(self.end, int):
            return self.end
        raise self.end


class Assemble:
    """The module."""

    def __init__(self, sleep_ms, end):
        self.assemble = lambda board, began: Application(sleep_ms, end, began)


def slept(sleep_ms, end):
    """[(ms, deep)] of the device's sleeps if its application ends like this."""
    with Folder() as folder:
        board = Board(folder.at("config.json"))
        with With(board=board, assemble=Assemble(sleep_ms, end)):
            start.main()
    return board.slept


def test_the_application_chooses_how_long_the_device_sleeps():
    eq((slept(SLEEP_MS, 12_345), Application.committed), ([(12_345, True)], 1))
    eq(slept(0, 0), [(0, True)])


def test_a_sleeper_that_crashed_sleeps_before_it_starts_again():
    """A bug that occurs at each wake must not empty the battery."""
    eq(slept(SLEEP_MS, ValueError("a bug")), [(1000, False), (SLEEP_MS, True)])
    eq(slept(0, ValueError("a bug")), [(1000, False), (0, True)])  # one that stays awake restarts soon
    eq(slept(SLEEP_MS, KeyboardInterrupt()), [])


def test_booting_is_part_of_a_wake():
    """Ticks begin with a board; after a soft reset, and in a process, they began long ago."""
    for now, expected in ((2_345, 0), (10_001, 10_001), (5_000_000, 5_000_000)):
        with Replaced(start, ticks_ms=lambda now=now: now):
            slept(0, 0)
        eq(Application.began, expected)
