"""The sleeping sensor without a network: its journal, and the data that it remembers, on every runtime."""

import ram_board
from codes import DEEP_SLEEP, IDLE, ONLINE
from config import check
from harness import eq, raises
from inflight import Client, Journal, RamFlash
from inflight.compat import ticks_add, ticks_ms
from scratch import Replaced
from sleeping_app import Memory, SleepingApp

RUNTIMES = "cpython micropython-x86"


class Board(ram_board.Board):
    """Without a network."""

    wifi = IDLE
    cause = DEEP_SLEEP
    accepted = None

    def config_path(self):
        return "no-such-folder/config.json"


def wake(board, flash, sources=None, began=None, **fields):
    """Wakes once. Returns (length of the next sleep, its journal)."""
    fields.update({"host": "nowhere.example", "sleep_ms": 60_000})
    config = check(fields, "dev")
    journal = Journal(flash)
    client = Client(config.host, config.device, journal)
    return SleepingApp(board, config, journal, client, flash, sources, began).run(), journal


def test_remembered_data_is_restored():
    """Its counters stay at their highest values; data of another firmware is ignored."""
    for given, counts in (((3, 0, 7, 500), (3, 0, 7, 500)), ((70_000,) * 4, (255, 255, 255, 16383))):
        memory = Memory(None)
        assert memory.fresh and not memory.known and not memory.unsent
        memory.since, memory.sync, memory.full, memory.health = given
        memory.known = memory.unsent = True
        memory.phases = [1200, 5, 2500, 300, 70_000]
        again = Memory(memory.pack())
        eq((again.since, again.sync, again.full, again.health), counts)
        eq((again.fresh, again.known, again.unsent), (False, True, True))
        eq(again.phases, [1200, 5, 2500, 300, 65535])
    for data in (None, b"", b"x", bytes(15), bytes(17)):
        assert Memory(data).fresh, data


def test_a_wake_that_ends_while_it_connects_has_no_known_session():
    """The broker may have a new one, without subscriptions."""

    class PowerCut(BaseException):
        pass

    def cut(client):
        raise PowerCut

    board = Board()
    board.wifi = ONLINE
    memory = Memory(None)
    memory.known = True
    board.memory = memory.pack()
    with Replaced(Client, connect=cut):
        raises(PowerCut, wake, board, RamFlash(16, 1024))
    eq(Memory(board.memory).known, False)


def test_time_awake_is_subtracted_from_the_sleep():
    """A wake that took too long does not shift the later ones."""
    for awake, least, most in ((0, 30_000, 60_000), (50_000, 0, 10_000), (150_000, 10_000, 30_000)):
        left, _ = wake(Board(), RamFlash(16, 1024), began=ticks_add(ticks_ms(), -awake))
        assert least < left <= most, (awake, left)


def test_a_full_journal_is_counted():
    board = Board()
    flash = RamFlash(3, 1024)
    for _ in range(40):
        _, journal = wake(board, flash)
    full = Memory(board.memory).full
    assert full >= 2, full
    eq(journal.live + full, 40)


def test_slow_sensors_are_waited_for():
    class Slow:
        def start(self):
            return 750

        def __call__(self):
            yield "slow", "V", 1

    board = Board()
    _, journal = wake(board, RamFlash(16, 1024), [Slow(), board.sensors])
    eq((board.slept, journal.live), ([(750, False)], 1))
