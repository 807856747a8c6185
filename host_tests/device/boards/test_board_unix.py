"""The unix board: Linux as a board."""

import os
import sys
from io import StringIO

import board
import codes
from files import exists
from harness import SkipTest, eq, raises
from inflight.compat import ticks_diff, ticks_ms
from inflight.journal.journal import Journal
from scratch import Replaced, read, remove, unused, write
from test_journal import bodies
from test_journal import put as put_record

RUNTIMES = "cpython micropython-x86"

if sys.platform != "linux":
    raise SkipTest("needs Linux")


def put(name, value):
    if hasattr(os, "environ"):
        os.environ[name] = value
    else:
        os.putenv(name, value)


exits = []  # what the board does at an orderly exit
if sys.implementation.name == "cpython":
    sys.atexit = exits.append


def at_exit():
    """Does it."""
    work = exits.pop() if exits else sys.atexit(None)
    work()


class Home:
    """A board with its own home folder, as a new process sees it."""

    def __enter__(self):
        self.folder = (os.getenv("TMPDIR") or "/tmp") + "/" + unused()
        self.path = self.folder + "/a/b"
        put("INFLIGHT_HOME", self.path)
        self.start_again()
        return self

    def start_again(self, orderly=False):
        """In a new process; the old one was killed, or ended orderly."""
        global board
        if orderly:
            at_exit()
        del sys.modules["board"]
        board = __import__("board")

    def __exit__(self, *_):
        self.start_again()
        remove(self.folder)
        put("INFLIGHT_HOME", "")
        put("INFLIGHT_ACCEPTED_LOG", "")


def test_identity_comes_from_the_environment():
    put("INFLIGHT_DEVICE_ID", "sensor-07")
    eq(board.device_id(), "sensor-07")
    put("INFLIGHT_DEVICE_ID", "")


def test_home_is_created_when_needed():
    with Home() as home:
        eq(board.config_path(), home.path + "/config.json")
        assert exists(home.path)
        eq((board.reset_cause(), board.reset_cause()), (codes.POWER_ON, codes.POWER_ON))


def test_a_start_after_a_kill_has_its_own_reset_cause():
    """And one with an incomplete state file; after an orderly exit it is a power-on."""
    with Home() as home:
        board.reset_cause()
        for _ in range(2):
            home.start_again()
            eq(board.reset_cause(), codes.POWER_CUT)
        home.start_again(orderly=True)
        eq(board.reset_cause(), codes.POWER_ON)
        home.start_again(orderly=True)
        write(home.path + "/next-start", "")
        eq(board.reset_cause(), codes.POWER_CUT)


def test_deep_sleep_ends_the_process_and_is_remembered():
    for ms, cause in ((1, codes.DEEP_SLEEP), (0, codes.SOFT)):
        with Home() as home:
            board.reset_cause()
            eq(raises(SystemExit, board.sleep, ms, True).args[0], board.AGAIN)
            home.start_again(orderly=True)
            eq(board.reset_cause(), cause)


def test_remembered_data_survives_deep_sleep_and_reboot_only():
    with Home() as home:
        eq(board.recall(), None)
        board.remember(b"sixteen bytes ok")
        for ms in (1, 0):
            eq(board.recall(), b"sixteen bytes ok")
            raises(SystemExit, board.sleep, ms, True)
            home.start_again(orderly=True)
        eq(board.recall(), b"sixteen bytes ok")
        home.start_again()  # killed
        eq(board.recall(), None)
        raises(SystemExit, board.sleep, 1, True)
        home.start_again(orderly=True)
        eq(board.recall(), None)
        raises(ValueError, board.remember, bytes(25))


def test_a_light_sleep_has_its_length_and_is_no_reset():
    with Home():
        board.remember(b"kept")
        start = ticks_ms()
        board.sleep(20)
        assert ticks_diff(ticks_ms(), start) >= 20
        eq(board.recall(), b"kept")


def test_the_journals_size_is_that_of_its_first_start():
    with Home():
        raises(ValueError, board.journal_flash, 0)
        for kb in (100, 64, 0):
            flash = board.journal_flash(kb)
            eq((flash.ioctl(4, 0), flash.ioctl(5, 0)), (25, 4096))
            flash.close()


def grown(n):
    """As at a start: (flash, journal)."""
    flash = board.journal_flash()
    return flash.grow(Journal(flash), n)


def used():
    """The messages in the journal of an earlier start."""
    flash = board.journal_flash(16)
    journal = Journal(flash)
    put_record(journal, 1, journal.largest)
    journal.commit()
    found = bodies(journal)
    flash.close()
    return found


def check(flash, journal, n, expected):
    eq((flash.ioctl(4, 0), bodies(journal)), (n, expected))
    flash.close()
    eq([name for name in sorted(os.listdir(board.home())) if "journal" in name], ["journal.bin"])


def test_the_journal_grows():
    """What is in it stays, also what was left of an earlier attempt does not last."""
    with Home():
        expected = used()
        for n in (4, 3, 6, 9):
            for name in ("journal.larger", "journal.larger.new"):
                write(board.home() + "/" + name, "cut short")
            check(*grown(n), max(4, n), expected)
        for wrong in (256, "20", 20.0, None):
            flash = board.journal_flash()
            raises(ValueError, flash.grow, Journal(flash), wrong)
            flash.close()


class FullDisk:
    """In place of os: `free` bytes are left."""

    def __init__(self, free):
        self.free = free

    def __getattr__(self, name):
        return getattr(os, name)

    def statvfs(self, path):
        return 512, 512, 1 << 20, self.free // 512, self.free // 512, 0, 0, 0, 0, 255


def test_the_journal_stays_where_the_disk_is_full():
    with Home():
        expected = used()
        board.os = FullDisk(9 * 4096 - 512)
        check(*grown(9), 4, expected)
        check(*grown(8), 8, expected)


def test_a_failing_sensor_does_not_affect_others():
    """One that is missing is omitted."""
    readings = {name: (unit, value) for name, unit, value in board.sensors()}
    for name, unit, least in (("load", "/", 0), ("memory", "B", 1 << 20), ("uptime", "s", 0)):
        assert readings[name][0] == unit and readings[name][1] >= least, (name, readings[name])
    with Replaced(board, open=lambda path: StringIO("garbage") if "loadavg" in path else open(path)):
        readings = {name: value for name, _, value in board.sensors()}
    assert isinstance(readings["load"], Exception)
    assert readings["uptime"] >= 0
    with Replaced(board, open=lambda path: open("/no-such-file" if "thermal" in path else path)):
        names = [name for name, _, _ in board.sensors()]
    assert "temperature" not in names and "load" in names


def test_accepted_messages_are_logged_at_once():
    with Home() as home:
        board.accepted(1, 1, "telemetry")  # no log is configured
        path = board.home() + "/accepted"
        assert not exists(path)
        put("INFLIGHT_ACCEPTED_LOG", path)
        board.accepted(5, 1, "telemetry")
        board.accepted(6, 2, "reply/ping")
        eq(read(path), b"5 1 telemetry\n6 2 reply/ping\n")
        eq(path, home.path + "/accepted")
