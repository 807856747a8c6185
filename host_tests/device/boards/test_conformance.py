"""What each board has to be, whatever its hardware; boards/README.md tells the interface. Boards with a chip run with a
fake of their port. A board of one's own is added to BOARDS."""

import sys

import codes
from harness import eq, raises
from ports import DEEPSLEEP_RESET, HARD_RESET, PWRON_RESET, WDT_RESET, AccessPoint, load_trial, stops
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
        return imported("board", ("boards/esp32", "boards/rp2040"))

    BOARDS.append(_linux)


def imported(name, without):
    """The module; the search path has these folders of other boards, too."""
    path = sys.path[:]
    sys.path[:] = [place for place in path if not place.endswith(without)]
    try:
        return __import__(name)
    finally:
        sys.path[:] = path


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


def test_it_has_one_identity_and_one_network_and_the_words_of_all_boards():
    for board in each():
        own = board.device_id()
        eq((board.device_id(), len(own), own.strip("0123456789abcdef")), (own, 12, ""))
        eq(own, {"esp32": "240ac4123456"}.get(board.NAME, own))
        network = board.network()
        assert board.network() is network and network.status() in WORDS
        assert board.reset_cause() in WORDS
        eq(board.reset_cause(), board.reset_cause())
        eq(network.join(10_000, "attic", "secret-key"), codes.ONLINE)
        assert network.rssi() is None or -150 < network.rssi() <= 0
        network.off()


def test_twenty_four_bytes_are_remembered():
    for board in each():
        board.reset_cause()
        for data in (b"x", bytes(range(24))):
            board.remember(data)
            eq(board.recall(), data)
        raises(ValueError, board.remember, bytes(25))
        eq(board.recall(), bytes(range(24)))


def test_readings_have_a_name_a_unit_and_a_value():
    for board in each():
        for name, unit, value in board.sensors():
            eq(name.strip("abcdefghijklmnopqrstuvwxyz-_.:/0123456789"), "")
            assert unit in ("Cel", "V", "B", "s", "/"), unit
            assert isinstance(value, (int, float, str, bool, Exception))


def test_a_pin_ends_the_deep_sleep_or_the_board_says_that_none_does():
    for board in each():
        sys.modules.pop("wake_pin", None)
        wake_pin = imported("wake_pin", () if board.NAME == "esp32" else ("boards/esp32",))
        eq(wake_pin.woke(), False)
        try:
            wake_pin.check(4)
        except ValueError as e:
            eq(str(e), "MicroPython cannot wake this board by a pin: leave it out")
            raises(ValueError, wake_pin.level, 4)
            raises(ValueError, wake_pin.arm, 4, 1)
            continue
        eq(board.NAME, "esp32")
        assert wake_pin.level(4) in (0, 1)
        wake_pin.arm(4, 1)


def test_the_clock_is_told_whether_it_is_set():
    for board in each():
        assert board.sync_time(False) in (True, False)
        assert board.sync_time(False, (0, 1)) in (True, False)


CHIPS = Esp32, Rp2040, lambda: Rp2040(rp2350=True)


def test_a_release_that_is_tried_has_a_watchdog_from_its_start():
    for new in CHIPS:
        chip = new()
        load_trial(chip).watchdog()
        before = chip.clock.now
        eq(stops(chip, chip.clock.sleep_ms, 600_000), ["bite"])
        assert 180_000 <= chip.clock.now - before <= 190_000
        chip.start()
        load_trial(chip).watchdog()
        for _ in range(20):  # the release feeds it
            chip.board.watchdog(60_000)
            chip.clock.sleep_ms(50_000)


def test_a_power_cut_is_no_failure_of_a_release():
    for new in CHIPS:
        for cause in (PWRON_RESET, WDT_RESET, DEEPSLEEP_RESET, HARD_RESET):
            chip = new()
            chip.start(cause)
            eq(load_trial(chip).was_cut(""), cause == PWRON_RESET)
