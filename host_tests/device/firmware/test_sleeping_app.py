"""The sleeping sensor without a network: its journal, and the data that it remembers, on every runtime."""

import sys

from codes import DEEP_SLEEP, IDLE, ONLINE
from config import check
from harness import SkipTest, eq, raises

try:
    import socket  # noqa: F401
except ImportError:
    raise SkipTest("has no sockets") from None
from inflight import Client, Journal, RamFlash
from inflight.compat import ticks_add, ticks_ms
from sleeping_app import Memory, SleepingApp

RUNTIMES = "cpython micropython-x86"


class Board:
    wifi = IDLE

    def __init__(self):
        self.memory = None
        self.slept = []

    def recall(self):
        return self.memory

    def remember(self, data):
        assert len(data) <= 24, "no board keeps more"
        self.memory = data

    def reset_cause(self):
        return DEEP_SLEEP

    def network(self, fields=None):
        return self

    def status(self):
        return self.wifi

    def sleep(self, ms, deep=False):
        self.slept.append((ms, deep))

    def watchdog(self, ms):
        pass

    def sensors(self):
        yield "temperature", "Cel", 21.5


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


def test_each_wake_leaves_its_reading_in_the_journal():
    board = Board()
    flash = RamFlash(16, 1024)
    for n in range(1, 5):
        left, journal = wake(board, flash)
        eq((journal.live, journal.next_seq), (n, n))
        assert 0 < left <= 60_000, left
    memory = Memory(board.memory)
    eq((memory.missed, memory.full, memory.fresh), (4, 0, False))


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
        eq(tuple(live), messages)


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
    board.sync_time = lambda *_: True
    board.config_path = lambda: "no-such-folder/config.json"
    memory = Memory(None)
    memory.known = True
    board.memory = memory.pack()
    kept, Client.connect = Client.connect, cut
    try:
        raises(PowerCut, wake, board, RamFlash(16, 1024))
    finally:
        Client.connect = kept
    eq(Memory(board.memory).known, False)


def test_time_awake_is_subtracted_from_the_sleep():
    left, _ = wake(Board(), RamFlash(16, 1024), began=ticks_add(ticks_ms(), -50_000))
    assert 0 < left <= 10_000, left


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
