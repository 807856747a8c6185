"""Pico W and Pico 2 W with a fake of their port. Their Wi-Fi: test_board_network; flash: test_board_flash."""

import codes
from codes import ONLINE
from harness import eq
from ports import PWRON_RESET, WDT_RESET, AccessPoint, dials, set_up, stops
from ports_rp2040 import Rp2040

RUNTIMES = "cpython micropython-x86"
KEY = "secret-key"
CHIPS = (False, True)  # RP2040, RP2350


def online(*air, **more):
    """A chip with a Wi-Fi connection."""
    chip = Rp2040(*(air or (AccessPoint(),)), **more)
    eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
    return chip


# --- identity ---


def test_identity_is_the_address_of_the_wifi_chip():
    """Without one it is the chip's own."""
    chip = Rp2040()
    eq(chip.wlan.config("mac"), bytes(6))  # its value while that chip is off
    eq(chip.board.device_id(), "28cdc1123456")
    chip.wlan.active(False)
    chip.mac = b"other!"
    eq(chip.board.device_id(), "28cdc1123456")
    chip = Rp2040()
    chip.mac = bytes(6)
    eq(chip.board.device_id(), "010203040506")


def test_a_network_that_accepts_only_wpa3():
    """Without the hint the Wi-Fi chip tries WPA2."""
    chip = online()
    eq(chip.wlan.security, None)
    set_up(chip, wifi_security="wpa3")
    eq((chip.board.network().join(10_000, "attic", KEY), chip.wlan.security), (ONLINE, 0x1000004))
    set_up(chip, wifi_networks=[{"ssid": "attic", "key": KEY, "security": "wpa3"}])
    eq((chip.board.network().join(60_000, "elsewhere", KEY), chip.wlan.security), (ONLINE, 0x1000004))


def test_the_name_server_of_a_fixed_address_is_set_so_that_its_answers_are_accepted():
    """MicroPython's ifconfig() leaves the kind of its address undefined: no name would be resolved. An older port has
    no ipconfig()."""
    for is_old in (False, True):
        chip = Rp2040(AccessPoint())
        if is_old:
            chip.network.ipconfig = None
        set_up(chip, wifi_ip=["192.168.1.20", "255.255.255.0", "192.168.1.1", "192.168.1.53"])
        eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
        eq(chip.network.name_server, None if is_old else "192.168.1.53")


# --- memory that survives a reset ---


def test_power_cut_clears_remembered_data():
    """Each changed bit is detected. The others of the boot ROM's registers count only if number 4 says so."""
    for rp2350 in CHIPS:
        for word in (0, 0xFFFFFFFF, 0x55AA00FF, 0x00000010):
            chip = Rp2040(rp2350=rp2350)
            chip.board.remember(b"sixteen bytes ok")
            for i in range(8):
                chip.mem32[chip.mem32.scratch(i)] = word
            board = chip.start(PWRON_RESET)
            eq((board.recall(), board.reset_cause()), (None, codes.POWER_ON))
            chip.mem32[chip.mem32.scratch(4)] = 0xB007
            board.remember(b"sixteen bytes ok")
            eq(chip.mem32[chip.mem32.scratch(4)], 0xB007)
    for i in (0, 1, 2, 3, 5, 6, 7):
        for bit in range(32):
            at = chip.mem32.scratch(i)
            chip.mem32[at] ^= 1 << bit
            eq(board.recall(), None)
            chip.mem32[at] ^= 1 << bit
    eq(board.recall(), b"sixteen bytes ok")


# --- reset, sleep and watchdog ---


def test_reset_causes():
    for rp2350 in CHIPS:
        chip = Rp2040(rp2350=rp2350)
        for restart, cause, word in (
            (lambda: None, PWRON_RESET, codes.POWER_ON),
            (lambda: stops(chip, chip.board.sleep, 5, True), WDT_RESET, codes.DEEP_SLEEP),
            (lambda: stops(chip, chip.board.sleep, 0, True), WDT_RESET, codes.SOFT),
            (lambda: stops(chip, chip.reset), WDT_RESET, codes.RESET),
            # new firmware was copied to the boot drive
            (lambda: chip.mem32.__setitem__(chip.mem32.scratch(4), 0xB007C0D3), WDT_RESET, codes.RESET),
            (lambda: hangs(chip, 5_000), WDT_RESET, codes.WATCHDOG),
            (lambda: stops(chip, chip.board.sleep, 5, True), PWRON_RESET, codes.POWER_ON),  # a power cut in the sleep
            (lambda: stops(chip, chip.reset), WDT_RESET, codes.RESET),
        ):
            restart()
            board = chip.start(cause)
            eq((board.reset_cause(), board.reset_cause()), (word, word))


def test_brown_out():
    """Only the RP2350 knows it."""
    chip = Rp2040(rp2350=True)
    for bits, word in ((1 << 17, codes.BROWN_OUT), (1 << 16, codes.POWER_ON), (3 << 16, codes.POWER_ON)):
        chip.mem32.words[0x4010002C] = bits
        eq(chip.start(PWRON_RESET).reset_cause(), word)


def test_at_the_prompt_the_watchdog_stops():
    for rp2350 in CHIPS:
        for ms in (5_000, 60_000):
            chip = Rp2040(rp2350=rp2350)
            chip.board.watchdog(ms)
            chip.board.stop_watchdog()
            chip.clock.sleep_ms(600_000)
            stops(chip, chip.reset)
            eq(chip.start(WDT_RESET).reset_cause(), codes.SOFT)


def hangs(chip, ms):
    """Waits for the watchdog's reset. Returns how long that took."""
    chip.board.watchdog(ms)
    before = chip.clock.now
    eq(stops(chip, chip.clock.sleep_ms, 600_000), ["bite"])
    return chip.clock.now - before


def test_watchdog_time_out_longer_than_the_hardwares():
    for ms in (1_000, 8_000, 9_000, 60_000, 300_000):
        chip = Rp2040()
        for _ in range(4):
            chip.board.watchdog(ms)
            chip.clock.sleep_ms(ms - 1)
        chip.start()
        took = hangs(chip, ms)
        assert ms <= took <= (ms if ms <= 8_000 else ms + 8_000), took


def test_a_wake_joins_the_access_point_of_the_last_one():
    near, far = AccessPoint(), AccessPoint(bssid=b"\x02\0\0\0\0\x02", channel=11, rssi=-80)
    chip = online(near, far)
    eq(dials(chip), [("connect", "attic", {})])
    stops(chip, chip.board.sleep, 60_000, True)
    for _ in range(2):
        chip.start(WDT_RESET)
        eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
        eq(dials(chip), [("connect", "attic", {"bssid": near.bssid, "channel": 6})])
        assert "scan" not in stops(chip, chip.board.sleep, 60_000, True)
    chip.start(WDT_RESET)
    chip.air.remove(near)
    eq(chip.board.network().join(20_000, "attic", KEY), ONLINE)
    eq(dials(chip), [("connect", "attic", {"bssid": near.bssid, "channel": 6}), ("connect", "attic", {})])
    assert "scan" in stops(chip, chip.board.sleep, 60_000, True)
    chip.start(WDT_RESET)
    eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
    eq(dials(chip), [("connect", "attic", {"bssid": far.bssid, "channel": 11})])


def test_what_is_no_access_point_is_not_used():
    for kept in (b"", b"12345", bytes(9), b"x" * 9, b"x" * 20):
        chip = Rp2040(AccessPoint())
        chip.kept = kept
        eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
        eq(dials(chip), [("connect", "attic", {})])


def test_wifi_and_watchdog_are_off_before_the_board_sleeps():
    for rp2350 in CHIPS:
        chip = online(rp2350=rp2350)
        chip.board.watchdog(20_000)
        before = chip.clock.now
        eq(
            stops(chip, chip.board.sleep, 60_000, True),
            ["scan", "disconnect", "inactive", "deinit", ("lightsleep", 60_000), "reset"],
        )
        eq(chip.clock.now - before, 60_000)
    chip = online()
    eq(stops(chip, chip.board.sleep, 0, True), ["disconnect", "inactive", "deinit", "reset"])
    eq(chip.kept, None)  # a reboot looks for no access point
    chip = Rp2040()
    eq(stops(chip, chip.board.sleep, 5, True), [("lightsleep", 5), "reset"])
    chip = Rp2040()  # a light sleep that ends early is continued
    chip.nap = 3_000_000
    before = chip.clock.now
    stops(chip, chip.board.sleep, 7_300_000, True)
    eq(chip.clock.now - before, 7_300_000)


def test_a_sleep_keeps_connection_and_watchdog():
    chip = online()
    chip.board.watchdog(20_000)
    before = chip.clock.now
    del chip.did[:]
    chip.board.sleep(12_000)
    eq((chip.board.network().status(), chip.clock.now - before, chip.did), (ONLINE, 12_000, []))


# --- sensors ---


def test_sensors():
    for rp2350 in CHIPS:
        chip = Rp2040(rp2350=rp2350)
        eq([name for name, _, _ in chip.board.sensors()], ["temperature", "memory"])  # Wi-Fi is off
        chip.board.device_id()
        readings = {name: (unit, value) for name, unit, value in chip.board.sensors()}
        eq((readings["temperature"][0], round(readings["temperature"][1])), ("Cel", 27))
        eq((readings["vsys"][0], round(readings["vsys"][1], 2)), ("V", 5.0))
        assert readings["memory"][0] == "B" and readings["memory"][1] > 10_000
        eq((chip.irq, chip.mem32[chip.mem32.pad]), (True, 0x56))  # restored: Wi-Fi needs that pin


def test_a_failing_sensor_does_not_affect_others():
    chip = online()
    for channel, name, other in ((3, "vsys", "temperature"), (4, "temperature", "vsys")):
        before = chip.volts[channel]
        chip.volts[channel] = OSError("broken")
        readings = {name: value for name, _, value in chip.board.sensors()}
        assert isinstance(readings[name], OSError)
        assert readings[other] > 1 and readings["memory"] > 10_000
        eq((chip.irq, chip.mem32[chip.mem32.pad]), (True, 0x56))
        chip.volts[channel] = before
