"""What a device does after a crash: it restarts, later and later, then in safe mode; the error is told once."""

import gc
import json
import os
import sys

from harness import SkipTest, eq

try:
    import socket  # noqa: F401
except ImportError:
    raise SkipTest("has no sockets") from None
import app
import codes
import health
import start
from inflight import RamFlash

if not hasattr(gc, "mem_free"):
    gc.mem_free = lambda: 150_000


class Restart(BaseException):
    pass


class Board:
    """A board whose file system is a folder, and whose flash is RAM. `end`: what its application raises, or returns;
    `ran`: the application of each start."""

    NAME = "ram"

    def __init__(self, **fields):
        fields.setdefault("host", "nowhere.example")
        self.path = "inflight-test-%s-" % "".join("%02x" % b for b in os.urandom(6))
        self.cause = codes.POWER_ON
        self.flash = RamFlash(8, 4096)
        self.end = 0
        self.ran, self.slept, self.fed = [], [], 0
        self.configure(json.dumps(fields))

    def configure(self, text):
        with open(self.config_path(), "w") as f:
            f.write(text)

    def config_path(self):
        return self.path + "config.json"

    def device_id(self):
        return "dev"

    def reset_cause(self):
        return self.cause

    def journal_flash(self):
        if isinstance(self.flash, Exception):
            raise self.flash
        return self.flash

    def wifi_status(self):
        return codes.IDLE

    def rssi(self):
        return None

    def watchdog(self, ms):
        self.fed += 1

    def sensors(self):
        yield "temperature", "Cel", 21.5

    def sleep(self, ms, deep=False):
        self.slept.append((ms, deep))
        if deep:
            raise Restart

    def __enter__(self):
        self.kept = sys.modules.get("board"), app.App.run, app.App.uptime
        sys.modules["board"] = self
        board = self

        def run(self):
            board.ran.append(self)
            if isinstance(board.end, BaseException):
                raise board.end
            return board.end

        app.App.run = run
        return self

    def __exit__(self, *_):
        sys.modules.pop("board")
        if self.kept[0]:
            sys.modules["board"] = self.kept[0]
        app.App.run, app.App.uptime = self.kept[1:]
        for name in ("config.json", "crash.json"):
            try:
                os.remove(self.path + name)
            except OSError:
                pass

    def starts(self):
        """Starts once. Returns how many seconds it waited before it restarted; None if it ended at its prompt."""
        del self.slept[:]
        try:
            start.main()
        except Restart:
            eq(self.slept.pop(), (0, True))
            return sum(ms for ms, _ in self.slept) // 1000

    @property
    def safe(self):
        """True if the last application was in safe mode."""
        found = self.ran[-1]
        return bool(found.crash and found.crash.get("safe"))

    def report(self):
        return health.report(self.ran[-1])


def test_after_three_crashes_it_starts_in_safe_mode():
    for error in (MemoryError("no memory"), ImportError("no module named 'x'"), OSError(5), KeyError("a bug")):
        with Board() as board:
            board.end = error
            waited, safe = [], []
            for _ in range(3):
                waited.append(board.starts())
                safe.append(board.safe)
            eq((waited, safe), ([1, 11, 61], [False] * 3))
            board.end = 0
            board.starts()
            assert board.safe


def test_after_safe_mode_it_tries_again():
    with Board() as board:
        modes = []
        for _ in range(8):
            board.end = 0 if modes[2:] and not modes[-1] else ValueError("a bug")  # safe mode works
            board.starts()
            modes.append(board.safe)
        eq(modes, [False, False, False, True, False, True, False, True])


def test_safe_mode_that_crashes_stays():
    with Board() as board:
        board.end = ValueError("a bug")
        for _ in range(8):
            board.starts()
        assert board.safe


def test_a_start_that_ends_well_ends_the_row():
    with Board() as board:
        for end in (ValueError("1"), ValueError("2"), 0, ValueError("3"), ValueError("4"), 0):
            board.end = end
            board.starts()
            assert not board.safe
        eq(board.starts(), 0)


def test_crashes_after_long_runs_are_not_in_a_row():
    with Board() as board:
        app.App.uptime = lambda self: 400
        board.end = ValueError("after days")
        eq([board.starts() for _ in range(5)], [1] * 5)


def test_resets_by_watchdog_and_panic_are_crashes():
    for cause in (codes.WATCHDOG, codes.PANIC):
        with Board() as board:
            board.end = Restart()  # no exception is seen
            board.cause = cause
            for safe in (False, False, True):
                try:
                    start.main()
                except Restart:
                    pass
                eq(board.safe, safe)
            eq(board.report()["error"]["text"], cause)


def test_the_watchdog_is_fed_in_a_pause():
    with Board() as board:
        board.end = ValueError("a bug")
        for _ in range(3):
            board.starts()
        assert board.fed >= 60


# --- the last error ---


def test_the_last_error_is_told_once():
    def broken():
        raise ValueError("no such thing")

    with Board() as board:
        run = app.App.run
        app.App.run = lambda self: broken()
        board.starts()
        app.App.run = run
        board.starts()
        error = board.report()["error"]
        eq(error["text"], "ValueError: no such thing")
        assert "test_safe_mode.py" in error["at"] and "broken" in error["at"], error
        assert "error" not in board.report()
        board.starts()
        assert "error" not in board.report()


def test_an_error_that_was_not_told_waits():
    with Board() as board:
        board.end = ValueError("a bug")
        board.starts()
        board.end = 0
        for _ in range(3):
            board.starts()  # they end before their first health message
        eq(board.report()["error"]["text"], "ValueError: a bug")


def test_no_file_remains_of_an_error_that_is_over():
    with Board() as board:
        board.end = ValueError("a bug")
        board.starts()
        board.end = 0
        board.starts()
        app.App.uptime = lambda self: 301
        board.ran[-1].crash["told"] = False
        board.report()
        eq(board.ran[-1].crash, None)
        raised = None
        try:
            os.stat(board.path + "crash.json")
        except OSError as e:
            raised = e
        assert raised


# --- safe mode ---


def test_safe_mode_reads_no_sensors_and_ends_after_an_hour():
    with Board(sensors=[{"driver": "dht22", "pin": 4}], buffer=32768, wifi_ssid="net", wifi_key="secret") as board:
        board.end = MemoryError()
        for _ in range(3):
            board.starts()
        board.end = 0
        board.starts()
        found = board.ran[-1]
        eq((list(found._sources), found.config.buffer, found.config.wifi_key), ([], 1024, "secret"))
        board.report()
        assert not found.stopping
        app.App.uptime = lambda self: 3_600
        board.report()
        assert found.stopping


def test_a_wrong_configuration_leads_to_safe_mode_at_once():
    for name, value in (("qos", 7), ("wlan", "x"), ("sensors", 5), ("timeout_ms", "soon"), ("wifi_country", "Germany")):
        with Board(wifi_ssid="net", wifi_key="secret", **{name: value}) as board:
            eq(board.starts(), 0)
            assert board.safe
            eq((board.ran[-1].config.host, board.ran[-1].config.wifi_ssid), ("nowhere.example", "net"))
            assert name in board.report()["error"]["text"]
            board.configure('{"host": "nowhere.example"}')
            board.starts()
            assert not board.safe


def test_a_device_that_cannot_be_reached_waits_for_a_person():
    for text in ("", "{", "[]", '{"port": 1883}', '{"host": "h", "user": 5}', '{"host": "h", "tls_ca": 5}'):
        with Board() as board:
            board.configure(text)
            eq((board.starts(), board.ran), (None, []))


def test_a_journal_that_cannot_be_mounted_is_replaced_by_ram():
    for error in (ValueError("a journal of another size"), OSError(5)):
        with Board() as board:
            board.flash = error
            for _ in range(4):
                if not board.ran:
                    board.starts()
            assert board.safe
            eq(board.ran[-1].journal.live, 0)
            assert board.report()["error"]["text"]


def test_at_the_prompt_no_watchdog_restarts_the_board():
    with Board() as board:
        stopped = []
        board.stop_watchdog = lambda: stopped.append(1)
        board.end = KeyboardInterrupt()
        eq((board.starts(), stopped), (None, [1]))
