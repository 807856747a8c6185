"""The sleeping sensor without a network: its journal, and the data that it remembers, on every runtime."""

import sys

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
    memory = Memory(None)
    assert memory.fresh
    memory.since = 3
    memory.sync = 0
    memory.full = memory.missed = 7
    memory.health = 500
    memory.known = memory.unsent = True
    memory.phases = [1200, 5, 2500, 300, 65535]
    again = Memory(memory.pack())
    eq((again.fresh, again.since, again.sync, again.full, again.missed, again.health), (False, 3, 0, 7, 7, 500))
    eq((again.known, again.unsent, Memory(None).known, Memory(None).unsent), (True, True, False, False))
    eq(again.phases, [1200, 5, 2500, 300, 65535])


def test_counters_saturate():
    memory = Memory(None)
    memory.since = memory.sync = memory.full = memory.missed = 70_000
    memory.health = 70_000
    memory.phases = [70_000] * 5
    again = Memory(memory.pack())
    eq((again.since, again.sync, again.full, again.missed, again.health), (255, 255, 255, 255, 16383))
    eq(again.known, False)
    eq(again.phases, [65535] * 5)


def test_data_of_another_firmware_is_ignored():
    for data in (None, b"", b"x", bytes(15), bytes(17)):
        assert Memory(data).fresh, data


def test_readings_of_wakes_without_a_connection_are_gathered():
    """Each in flash at once; a wake that is to report writes its own message, unless the last one could not."""
    for every, messages in ((1, (1, 2, 2, 2)), (3, (1, 2, 2, 3, 4, 4))):
        board = Board()
        flash = RamFlash(16, 4096)
        live = []
        for n in range(1, 1 + len(messages)):
            _, journal = wake(board, flash, report_every=every)
            eq(journal.next_seq, n)
            live.append(journal.live)
        eq((tuple(live), Memory(board.memory).fresh), (messages, False))


def test_wakes_between_reports_are_counted():
    board = Board()
    flash = RamFlash(16, 1024)
    since = []
    for _ in range(5):
        wake(board, flash, report_every=3)
        since.append(Memory(board.memory).since)
    eq(since, [0, 1, 2, 0, 1])
    eq(Memory(board.memory).missed, 2)


def test_a_wake_that_does_not_report_subscribes_to_nothing():
    board = Board()
    flash = RamFlash(16, 1024)
    wake(board, flash, report_every=2)
    sys.modules.pop("inflight.session.subscribe", None)
    wake(board, flash, report_every=2)
    eq(Memory(board.memory).since, 1)
    assert "inflight.session.subscribe" not in sys.modules, "it was loaded"


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
