"""What each board has to be, whatever its hardware; boards/README.md tells the interface. Boards with a chip run with a
fake of their port. A board of one's own is added to BOARDS."""

import sys

import codes
from harness import eq, raises
from ports import AccessPoint
from ports_esp32 import Esp32
from ports_rp2040 import Rp2040

RUNTIMES = "cpython micropython-x86"
BOARD = (
    "device_id config_path network journal_flash sensors sync_time"
    " reset_cause sleep watchdog stop_watchdog remember recall"
)
NETWORK = "setup join status rssi off"
WORDS = [getattr(codes, name) for name in dir(codes) if name[0] != "_"]
BOARDS = [lambda: Esp32(AccessPoint()).board, lambda: Rp2040(AccessPoint()).board]
if sys.platform == "linux":

    def _linux():
        for name in ("board", "power"):
            sys.modules.pop(name, None)
        path = sys.path[:]
        sys.path[:] = [place for place in path if not place.endswith(("boards/esp32", "boards/rp2040"))]
        try:
            import board
        finally:
            sys.path[:] = path
        return board

    BOARDS.append(_linux)


def each():
    for new in BOARDS:
        yield new()


def test_the_interface_is_complete():
    for board in each():
        for name in BOARD.split():
            assert callable(getattr(board, name)), (board.NAME, name)
        for name in NETWORK.split():
            assert callable(getattr(board.network(), name)), (board.NAME, name)
        assert isinstance(board.NAME, str) and board.ATTENDED in (True, False)
        assert board.config_path().endswith("/config.json")


def test_an_identity_is_twelve_digits_and_stays():
    for board in each():
        own = board.device_id()
        eq(board.device_id(), own)
        eq((len(own), own.strip("0123456789abcdef")), (12, ""))


def test_a_board_has_one_network():
    for board in each():
        network = board.network()
        assert board.network() is network
        assert network.status() in WORDS


def test_words_are_those_of_all_boards():
    for board in each():
        assert board.reset_cause() in WORDS
        eq(board.reset_cause(), board.reset_cause())
        eq(board.network().join(10_000, "attic", "secret-key"), codes.ONLINE)
        assert board.network().rssi() is None or -150 < board.network().rssi() <= 0
        board.network().off()


def test_sixteen_bytes_are_remembered():
    for board in each():
        board.reset_cause()
        for data in (b"x", bytes(range(16))):
            board.remember(data)
            eq(board.recall(), data)
        raises(ValueError, board.remember, bytes(17))
        eq(board.recall(), bytes(range(16)))


def test_readings_have_a_name_a_unit_and_a_value():
    for board in each():
        for name, unit, value in board.sensors():
            eq(name.strip("abcdefghijklmnopqrstuvwxyz-_.:/0123456789"), "")
            assert unit in ("Cel", "V", "B", "s", "/"), unit
            assert isinstance(value, (int, float, str, bool, Exception))


def test_the_clock_is_told_whether_it_is_set():
    for board in each():
        assert board.sync_time(False) in (True, False)
        assert board.sync_time(False, (0, 1)) in (True, False)
