"""What a device does when its application ends or crashes: it sleeps, or restarts, later and later, then in safe mode;
the error is told once."""

import json
import os
import socket  # noqa: F401 (where there is none the file is skipped)

import app
import assemble
import codes
import crash
import health
import ram_board
import start
from hardware import With
from harness import EMULATED, eq, raises
from inflight import Journal, RamFlash
from ports import Module
from scratch import Folder, Replaced, read
from sleeping_app import SleepingApp

RUNTIMES = "cpython micropython-x86"


SLEEP_MS = 60_000
commit_of_a_journal = Journal.commit


class Restart(BaseException):
    pass


class Board(ram_board.Board):
    """A board whose file system is a folder, and whose flash is RAM. `end`: what its application raises, or returns;
    `ran`: the application of each start."""

    identity = "dev"
    wifi = codes.IDLE
    end = 0

    def __init__(self, **fields):
        super().__init__()
        fields.setdefault("host", "nowhere.example")
        self.fields = fields
        self.folder = Folder()
        self.flash = RamFlash(8, 4096)
        self.ran = []
        self.events = []  # "run", and each "commit" of a journal

    def config_path(self):
        return self.folder.at("config.json")

    def configure(self, text):
        self.folder.write("config.json", text)

    def crash_file(self):
        return read(self.folder.at("crash.json"))

    def journal_flash(self, kb=64):
        if isinstance(self.flash, Exception):
            raise self.flash
        return self.flash

    def sleep(self, ms, deep=False):
        self.slept.append((ms, deep))
        if deep:
            raise Restart

    def __enter__(self):
        self.folder.__enter__()
        self.configure(json.dumps(self.fields))
        board = self

        def run(self):
            board.ran.append(self)
            board.events.append("run")
            if isinstance(board.end, BaseException):
                raise board.end
            return board.end

        def commit(self):
            board.events.append("commit")
            commit_of_a_journal(self)

        applications = Replaced(app.App, run=run, uptime=app.App.uptime), Replaced(SleepingApp, run=run)
        self.replaced = (With(board=self), Replaced(Journal, commit=commit)) + applications
        for one in self.replaced:
            one.__enter__()
        return self

    def __exit__(self, *_):
        for one in self.replaced:
            one.__exit__()
        self.folder.__exit__()

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


def test_the_application_chooses_how_long_the_device_sleeps():
    """Its journal is committed before. A sleeper that crashed sleeps before it starts again: a bug that occurs at each
    wake must not empty the battery; one that stays awake restarts soon."""
    for sleep_ms, end, slept in (
        (SLEEP_MS, 12_345, [(12_345, True)]),
        (0, 0, [(0, True)]),
        (SLEEP_MS, ValueError("a bug"), [(1000, False), (SLEEP_MS, True)]),
        (0, ValueError("a bug"), [(1000, False), (0, True)]),
        (SLEEP_MS, KeyboardInterrupt(), []),
    ):
        with Board(sleep_ms=sleep_ms) as board:
            board.end = end
            try:
                start.main()
            except Restart:
                pass
            eq((board.slept, board.events[-1]), (slept, "commit" if slept else "run"))


def test_booting_is_part_of_a_wake():
    """Ticks begin with a board; after a soft reset, and in a process, they began long ago."""
    for now, expected in ((2_345, 0), (10_001, 10_001), (5_000_000, 5_000_000)):
        found = []
        noted = Replaced(assemble, assemble=lambda board, began: found.append(began))
        with Board(), noted, Replaced(start, ticks_ms=lambda now=now: now):
            start.main()
        eq(found, [expected])


def test_after_three_crashes_it_starts_in_safe_mode():
    for error in (MemoryError("no memory"), ImportError("no module named 'x'"), OSError(5), KeyError("a bug")):
        with Board() as board:
            board.end = error
            waited, safe = [], []
            for _ in range(3):
                waited.append(board.starts())
                safe.append(board.safe)
            eq((waited, safe), ([1, 11, 61], [False] * 3))
            assert len(board.fed) >= 60  # the watchdog, in the pauses
            modes = []
            for _ in range(5):  # after safe mode, which works, it tries again
                board.end = 0 if not modes or not modes[-1] else error
                board.starts()
                modes.append(board.safe)
            eq(modes, [True, False, True, False, True])


def test_a_start_that_ends_well_ends_the_row():
    """So does a long run before a crash."""
    with Board() as board:
        for end in (ValueError("1"), ValueError("2"), 0, ValueError("3"), ValueError("4"), 0):
            board.end = end
            board.starts()
            assert not board.safe
        eq(board.starts(), 0)
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


def test_the_time_goes_on_over_a_crash():
    """Whose pause the device measures itself; not over one that nobody saw, nor where no application started."""
    clock = 1_000_000  # 1/100 s since the boot
    for cause, flash, least in ((codes.SOFT, None, clock), (codes.WATCHDOG, None, 0), (codes.SOFT, OSError(5), 0)):
        with Board() as board:
            board.memory = bytes(6) + clock.to_bytes(8, "little") + bytes(2)
            board.end = ValueError("a bug")
            board.cause = cause
            if flash:
                board.flash, flash = flash, board.flash
                board.starts()
                board.flash = flash
            board.starts()
            board.cause = codes.SOFT
            board.end = 0
            board.starts()
            assert least <= board.ran[-1].moment()[0] < least + 100_000, cause


# --- the last error ---


def test_the_last_error_is_told_once():
    def broken():
        raise ValueError("no such thing")

    with Board() as board:
        with Replaced(app.App, run=lambda self: broken()):
            board.starts()
        for _ in range(3):
            board.starts()  # they end before their first health message
        error = board.report()["error"]
        eq(error["text"], "ValueError: no such thing")
        assert "test_safe_mode.py" in error["at"] and "broken" in error["at"], error
        assert "error" not in board.report()
        board.starts()
        assert "error" not in board.report()


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
        raises(OSError, board.crash_file)


# --- safe mode ---


def test_safe_mode_reads_no_sensors_and_ends_after_an_hour():
    fields = {"sensors": [{"driver": "dht22", "pin": 4}], "wifi_ssid": "net", "wifi_key": "the-wifi-key"}
    with Board(buffer=32768, **fields) as board:
        board.end = MemoryError()
        for _ in range(3):
            board.starts()
        board.end = 0
        board.starts()
        found = board.ran[-1]
        eq((list(found.sources), found.config.buffer, found.config.wifi_key), ([], 1024, "the-wifi-key"))
        board.report()
        assert not found.stopping
        app.App.uptime = lambda self: 3_600
        board.report()
        assert found.stopping


def test_a_wrong_configuration_leads_to_safe_mode_at_once():
    for name, value in (("qos", 7), ("wlan", "x"), ("sensors", 5), ("timeout_ms", "soon"), ("wifi_country", "Germany")):
        with Board(wifi_ssid="net", wifi_key="the-wifi-key", group="attics", **{name: value}) as board:
            eq(board.starts(), 0)
            assert board.safe
            eq(board.ran[-1].config.group, "attics")
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


class Tried:
    """A trial: this start is that of a release."""

    runs, failed = True, False

    @staticmethod
    def begin(board):
        return Tried


def test_a_release_that_waits_for_a_person_has_not_started():
    with Board() as board:
        board.configure("{}")
        board.folder.write("update.0", "")
        with With(trials=Tried):
            assert board.starts() is not None  # it restarts: the launcher counts its starts
            eq(board.stopped, 0)
        assert b"configuration" in board.crash_file()


def test_the_set_up_may_open_in_safe_mode_but_not_while_something_is_tried():
    for more, end, may in (({}, None, 1), ({"qos": 7}, None, 1), ({}, "config.json.new", 0), ({}, "update.0", 0)):
        with Board(wifi_ssid="net", wifi_key="the-wifi-key", setup={"code": "the-set-up-code"}, **more) as board:
            started = []
            offline = Module(
                begin=lambda *args: started.append(args), check=lambda *args: None, keep=lambda app, found: found
            )
            if end:
                given = {"host": "h", "wifi_ssid": "net", "setup": {"code": "the-set-up-code"}}
                board.folder.write(end, json.dumps(given))
            with With(offline=offline, trials=Tried):
                try:
                    board.starts()
                except AttributeError:
                    pass  # the fake of a trial has no more
            eq((more, end, len(started)), (more, end, may))


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


# --- a person at the prompt ---


def interrupted_by(error):
    def call(*_):
        raise error

    return call


interrupt = interrupted_by(KeyboardInterrupt())


def test_at_the_prompt_no_watchdog_restarts_the_board():
    with Board() as board:
        board.end = KeyboardInterrupt()
        eq((board.starts(), board.stopped), (None, 1))
        board.end = ValueError("a bug")
        board.sleep = interrupt  # in the pause after a crash
        eq((board.starts(), board.stopped), (None, 2))
        board.journal_flash = interrupt
        eq((board.starts(), board.stopped), (None, 3))
        board.configure("")
        eq((board.starts(), board.stopped, board.safe), (None, 4, False))


# --- power cuts, and file systems that fail ---


def test_a_damaged_record_of_crashes_is_none():
    """Nor one that was not written whole: MicroPython reads some of these without an error."""
    whole = '{"count": 2, "error": "ValueError: a bug", "at": null, "told": false}'
    for n in range(0, len(whole), 7 if EMULATED else 1):
        with Board() as board:
            board.folder.write("crash.json", whole[:n])
            eq((board.starts(), board.safe), (0, False))
            board.report()
            eq(board.starts(), 0)
    for text in ("null", "5", "[]", '"x"', "{}", '{"count": "x", "error": "e"}', '{"count": 9}', "\0" * 64, "\x80"):
        with Board() as board:
            board.folder.write("crash.json", text)
            eq((board.starts(), board.safe), (0, False))
            app.App.uptime = lambda self: 301
            assert "error" not in board.report()
            board.end = ValueError("a bug")
            eq(board.starts(), 1)


def test_a_device_starts_without_a_file_system_to_write_to():
    with Board() as board:
        os.mkdir(board.folder.at("crash.json"))  # neither to be written nor removed
        for cause, uptime in ((codes.WATCHDOG, 1), (codes.PANIC, 301), (codes.POWER_ON, 301)):
            board.cause = cause
            app.App.uptime = lambda self, uptime=uptime: uptime
            eq(board.starts(), 0)
            told = board.report()["error"]["text"]
        assert told.startswith("crash.json: "), told  # nor to be read
    with Board() as board, Replaced(crash, crashed=interrupted_by(OSError(5))):
        board.end = ValueError("a bug")
        eq(board.starts(), 1)


def test_flash_is_not_worn_by_starts_without_a_crash():
    """Neither while an earlier error waits for a connection."""
    with Board() as board:
        board.starts()
        raises(OSError, board.crash_file)
        board.end = ValueError("a bug")
        board.starts()
        board.end = 0
        board.starts()
        marked = board.crash_file() + b" "
        board.folder.write("crash.json", marked)
        board.starts()
        eq(board.crash_file(), marked)


def test_tried_settings_with_an_error_are_rolled_back():
    """At once: an hour in safe mode would cost its readings; or when they have ended a start. The reason is told."""
    text = '{"host": "h", "user": "%s"}'
    for text, end, cause, reason in (
        ("", None, None, "not JSON"),
        (text % "a\\u0001", None, None, "control characters"),
        (text % "me", MemoryError("no space"), codes.SOFT, "MemoryError: no space"),
        (text % "me", Restart(), codes.WATCHDOG, codes.WATCHDOG),
        (text % "me", Restart(), codes.POWER_ON, "no connection"),
    ):
        with Board() as board:
            board.folder.write("config.json.new", text)
            board.end = end
            try:
                start.main()
            except Restart:
                pass
            eq([one.config.user for one in board.ran], ["me"] if end else [])
            assert end or board.slept == [(0, True)]
            board.ran, board.end, board.cause = [], 0, cause
            eq((board.starts(), board.safe, board.ran[0].config.host), (0, False, "nowhere.example"))
            told = board.report()["error"]["text"]
            assert told.startswith("set: ") and reason in told and told.endswith("the old ones are back"), told
