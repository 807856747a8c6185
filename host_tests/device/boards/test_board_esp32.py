"""The ESP32 board with a fake of its port. Wi-Fi that all boards share: test_board_network; flash: test_board_flash."""

import sys

import codes
from codes import ONLINE
from harness import eq, raises
from ports import (
    DEEPSLEEP_RESET,
    HARD_RESET,
    PWRON_RESET,
    SOFT_RESET,
    WDT_RESET,
    AccessPoint,
    Module,
    dials,
    outcome,
    stops,
    vanish,
)
from ports_esp32 import Esp32, Station, StationWithChannel

RUNTIMES = "cpython micropython-x86"
KEY = "secret-key"


def online(*air, **more):
    """A chip with a Wi-Fi connection."""
    chip = Esp32(*(air or (AccessPoint(),)), **more)
    eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
    return chip


# --- the remembered access point ---


def test_access_point_is_remembered_in_deep_sleep():
    near = AccessPoint()
    others = (
        AccessPoint(bssid=b"\x02\0\0\0\0\x02", rssi=-80),
        AccessPoint(bssid=b"\x02\0\0\0\0\x03", channel=11, rssi=-50),
        AccessPoint("cellar", bssid=b"\x02\0\0\0\0\x04", rssi=-40),
    )
    for station, more in ((Station, {}), (StationWithChannel, {"channel": 6})):
        chip = online(near, *others, station=station)
        more["bssid"] = near.bssid
        stops(chip, chip.board.sleep, 60_000, True)
        chip.start(DEEPSLEEP_RESET)
        eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
        eq(dials(chip), [("connect", "attic", more)])
        assert "scan" not in stops(chip, chip.board.sleep, 60_000, True)  # the access point is remembered
        chip.start(DEEPSLEEP_RESET)
        eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
        eq(dials(chip), [("connect", "attic", more)])


def test_another_access_point_when_the_remembered_one_is_gone():
    for timeout_ms in (0, 20_000):
        near, far = AccessPoint(), AccessPoint(bssid=b"\x02\0\0\0\0\x02", channel=11, rssi=-80)
        chip = online(near, far)
        stops(chip, chip.board.sleep, 60_000, True)
        chip.air.remove(near)
        chip.start(DEEPSLEEP_RESET)
        chip.board.network().join(timeout_ms, "attic", KEY)
        eq((outcome(chip), len(dials(chip)), dials(chip)[1]), (ONLINE, 2, ("connect", "attic", {})))
        chip.start(WDT_RESET)  # the old one is not tried again
        eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
        eq(dials(chip), [("connect", "attic", {})])


def test_a_hidden_network_is_looked_for_once():
    chip = online()
    chip.wlan.scan = lambda: chip.did.append("scan") or []
    assert "scan" in stops(chip, chip.board.sleep, 60_000, True)
    chip.start(DEEPSLEEP_RESET)
    eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
    assert "scan" not in stops(chip, chip.board.sleep, 60_000, True)


# --- memory that survives a reset ---


def test_power_cut_clears_remembered_data():
    """Each changed byte is detected."""
    for left in (b"", b"IF", bytes(41), b"\xff" * 41, bytes((i * 73 + 11) & 255 for i in range(2048)), b"IF" * 30):
        chip = Esp32()
        chip.board.remember(b"sixteen bytes ok")
        chip.kept = left
        board = chip.start(PWRON_RESET)
        eq((board.recall(), board.reset_cause()), (None, codes.POWER_ON))
        board.remember(b"sixteen bytes ok")
    whole = chip.kept
    for i in range(41):
        chip.kept = whole[:i] + bytes([whole[i] ^ 4]) + whole[i + 1 :]
        eq(board.recall(), None)
    chip.kept = whole
    eq(board.recall(), b"sixteen bytes ok")


def test_the_applications_rtc_memory_is_not_changed():
    chip = online()
    chip.board.remember(b"1")
    chip.kept += b"the application's"
    chip.board.remember(b"sixteen bytes ok")
    stops(chip, chip.board.sleep, 1000, True)
    chip.start(DEEPSLEEP_RESET).reset_cause()
    eq((chip.kept[41:], chip.board.recall()), (b"the application's", b"sixteen bytes ok"))


# --- reset, sleep and watchdog ---


def test_reset_causes():
    chip = Esp32()
    for cause, word in (
        (HARD_RESET, codes.RESET),  # machine.reset() by another program: this firmware was not running
        (PWRON_RESET, codes.POWER_ON),
        (HARD_RESET, codes.PANIC),
        (0, codes.RESET),
        (WDT_RESET, codes.WATCHDOG),
        (DEEPSLEEP_RESET, codes.DEEP_SLEEP),
        (SOFT_RESET, codes.SOFT),
    ):
        board = chip.start(cause)
        eq((board.reset_cause(), board.reset_cause()), (word, word))


def test_a_requested_reset_is_reported_once():
    for cause in (HARD_RESET, SOFT_RESET):  # chips report one or the other
        chip = Esp32()
        eq(stops(chip, chip.board.sleep, 0, True)[-1], ("reset",))
        board = chip.start(cause)
        eq((board.reset_cause(), board.reset_cause()), (codes.SOFT, codes.SOFT))
        eq(chip.start(HARD_RESET).reset_cause(), codes.PANIC)


def test_resets_by_a_person_at_the_prompt_are_no_panics():
    """Deploying is Ctrl-C, some files, machine.reset()."""
    chip = Esp32()
    chip.board.reset_cause()
    for _ in range(3):
        chip.board.watchdog(20_000)
        chip.board.stop_watchdog()
        chip.clock.sleep_ms(3_600_000)
        eq(chip.start(HARD_RESET).reset_cause(), codes.SOFT)
    eq(chip.start(HARD_RESET).reset_cause(), codes.PANIC)


def test_brown_out():
    """The port calls it a power-on; the chip's register differs."""
    for name, register, reason, word in (
        ("Generic ESP32 module with ESP32", 0x3FF48034, 1, codes.POWER_ON),
        ("Generic ESP32 module with ESP32", 0x3FF48034, 12, codes.BROWN_OUT),
        ("Generic ESP32 module with ESP32", 0x3FF48034, 3, codes.BROWN_OUT),
        ("Generic ESP32S3 module with ESP32S3", 0x60008038, 15, codes.BROWN_OUT),
        ("LOLIN_S2_MINI with ESP32-S2FN4R2", 0x3F408038, 15, codes.BROWN_OUT),
        ("ESP32C3 module with ESP32C3", 0x60008038, 1, codes.POWER_ON),
        ("ESP32C3 module with ESP32C3", 0x60008038, 20, codes.POWER_ON),  # its fuses were read again
        ("ESP32C6 module with ESP32C6", 0x600B0410, 15, codes.BROWN_OUT),
        ("a chip to come with ESP32P4", None, None, codes.POWER_ON),
    ):
        chip = Esp32()
        if register:
            chip.mem32[register] = 0xFF00 | reason  # and that of the other core
        board = chip.start(PWRON_RESET)
        supply = __import__("supply")
        supply.sys = Module(implementation=Module(_machine=name), modules=sys.modules)
        eq((name, board.reset_cause()), (name, word))


def _wake_pin(name, woken=0):
    chip = Esp32()
    chip.woken = woken
    wake_pin = __import__("wake_pin")
    wake_pin.sys = Module(implementation=Module(_machine=name))
    return chip, wake_pin


def test_a_pin_ends_the_deep_sleep():
    for name, ext, pins in (
        ("Generic ESP32 module with ESP32", "ext0", 33),
        ("LOLIN_S2_MINI with ESP32-S2FN4R2", "ext0", 14),
        ("an early board with ESP32-PICO-D4", "ext0", 0),
        ("ESP32C6 module with ESP32C6", "ext1", 4),
    ):
        chip, wake_pin = _wake_pin(name)
        wake_pin.check(pins)
        eq((chip.ext0, chip.ext1), (None, None))  # a check changes nothing
        for level in (0, 1):
            wake_pin.arm(pins, level)
            eq(getattr(chip, ext), ([pins] if ext == "ext1" else pins, level == 1))
            eq(chip.ext0 is None, ext == "ext1")
    for reason, woke in ((0, False), (4, False), (2, True), (3, True)):
        eq(_wake_pin("Generic ESP32 module with ESP32", reason)[1].woke(), woke)


def test_a_pin_that_cannot_end_the_deep_sleep():
    for name, number, text in (
        ("Generic ESP32 module with ESP32", 5, "pin 5 cannot wake this board: the pins that can are 0, 2, 4, 12-15,"),
        ("Generic ESP32 module with ESP32", 48, "pin 48 cannot wake this board"),
        ("ESP32C6 module with ESP32C6", 12, "pin 12 cannot wake this board"),  # the port takes it
        ("ESP32C3 module with ESP32C3", 4, "MicroPython cannot wake this board by a pin: leave it out"),  # likewise
    ):
        chip, wake_pin = _wake_pin(name)
        problem = str(raises(ValueError, wake_pin.check, number))
        assert problem.startswith(text), problem
        eq((chip.ext0, chip.ext1), (None, None))


def test_wifi_is_off_before_the_board_sleeps():
    """It sleeps despite errors of the driver, and where the access point is gone."""
    chip = online()
    did = stops(chip, chip.board.sleep, 60_000, True)
    eq(did, ["scan", "disconnect", "inactive", ("deepsleep", 60_000)])
    chip = online()
    eq(stops(chip, chip.board.sleep, 0, True), ["disconnect", "inactive", ("reset",)])
    chip = Esp32()
    eq(stops(chip, chip.board.sleep, 5, True), [("deepsleep", 5)])
    chip = online()
    chip.wlan.broken = True
    eq(stops(chip, chip.board.sleep, 5, True)[-1], ("deepsleep", 5))
    chip = online()
    vanish(chip, chip.air[0])
    chip.clock.sleep_ms(6_000)
    eq(stops(chip, chip.board.sleep, 5, True)[-1], ("deepsleep", 5))


def test_a_light_sleep_keeps_the_connection():
    chip = online()
    before = chip.clock.now
    del chip.did[:]
    chip.board.sleep(2_000)
    eq((chip.board.network().status(), chip.clock.now - before, chip.did), (ONLINE, 2_000, []))
    chip = Esp32()
    chip.board.sleep(2_000)
    eq(chip.did, [("lightsleep", 2_000)])


# --- sensors ---


def test_sensors():
    chip = Esp32()
    readings = {name: (unit, value) for name, unit, value in chip.board.sensors()}
    eq((readings["temperature"], readings["memory"][0], len(readings)), (("Cel", 31), "B", 2))
    chip.inside = Module(raw_temperature=lambda: 122)
    board = chip.start()
    eq([(name, unit, round(value)) for name, unit, value in board.sensors()][0], ("temperature", "Cel", 50))

    def broken():
        raise OSError("no sensor")

    for names in ({"mcu_temperature": broken}, {"raw_temperature": broken}, {}):
        chip.inside = Module(**names)
        readings = {name: value for name, _, value in chip.start().sensors()}
        assert isinstance(readings["temperature"], Exception) and readings["memory"] > 10_000
