# Pico W with RP2040, Pico 2 W with RP2350.

import machine

import wifi
from codes import (
    BROWN_OUT,
    CONNECTING,
    DEEP_SLEEP,
    FAILED,
    IDLE,
    NO_AP,
    ONLINE,
    POWER_ON,
    RESET,
    SOFT,
    WATCHDOG,
    WRONG_KEY,
)
from inflight.compat import const, sleep_ms, ticks_add, ticks_diff, ticks_ms
from wifi import Wifi, rssi, sync_time, wifi_connect, wifi_setup, wifi_status

NAME = "rp2040"

_id = _cause = None


def config_path():
    return "/config.json"


def device_id():
    global _id
    if _id is None:
        wlan = _radio()
        if not wlan.active():
            wlan.active(True)  # the Wi-Fi chip has the address; before that it reads as zeros
        mac = wlan.config("mac")
        _id = (mac if any(mac) else machine.unique_id()[-6:]).hex()
    return _id


def _radio():
    from network import STA_IF, WLAN

    return WLAN(STA_IF)


# --- scratch registers of the watchdog, which survive a reset ---
#
# 0 to 3 contain the remembered data. MicroPython's reset uses 4, and 5 to 7 only to start at an address. 5 contains
# the number of remembered bytes (bits 0-4), why the board stops (5-6), and a checksum of all that (8-31).

_CTRL = const(0)
_SCRATCH = const(0x0C)
_BITTEN = const(0x1C)  # scratch 4, after the watchdog was started
_HEAD = const(0x20)
_CLEAR = const(0x3000)  # writing here clears bits
_CHIP_RESET = const(0x4010002C)  # of the RP2350; the RP2040 does not tell a brown-out from a power-on
_HAD_BOR = const(0x20000)
_HAD_BOR_OR_POR = const(0x30000)
_ENABLE = const(0x40000000)
_ASKED = const(1)
_ASLEEP = const(2)


def _rp2350():
    return machine.mem32[0x40000000] >> 12 & 0xFFFF == 4  # CHIP_ID


def _watchdog():
    return 0x400D8000 if _rp2350() else 0x40058000


def _check(data, head):
    from binascii import crc32

    return crc32(data + bytes([head])) & 0xFFFFFF


def _keep(data, note=0):
    base = _watchdog()
    head = len(data) | note << 5
    data = data + bytes(16 - len(data))
    for i in range(0, 16, 4):
        machine.mem32[base + _SCRATCH + i] = int.from_bytes(data[i : i + 4], "little")
    machine.mem32[base + _HEAD] = _check(data, head) << 8 | head


def _kept():
    # What is remembered, and the note.
    base = _watchdog()
    data = b""
    for i in range(0, 16, 4):
        data += (machine.mem32[base + _SCRATCH + i] & 0xFFFFFFFF).to_bytes(4, "little")
    head = machine.mem32[base + _HEAD] & 0xFFFFFFFF
    if head >> 8 != _check(data, head & 0xFF):
        return b"", 0
    return data[: head & 31], head >> 5 & 3


def remember(data):
    if len(data) > 16:
        raise ValueError("remember: 16 bytes at most")
    _keep(bytes(data))


def recall():
    return _kept()[0] or None


# --- reset, sleep and watchdog ---


def reset_cause():
    global _cause
    if _cause is None:
        data, note = _kept()
        if note:
            _keep(data)
        if machine.reset_cause() == machine.PWRON_RESET:  # the port does not distinguish it from the button any more
            brown_out = _rp2350() and machine.mem32[_CHIP_RESET] & _HAD_BOR_OR_POR == _HAD_BOR
            _cause = BROWN_OUT if brown_out else POWER_ON
        elif note:
            _cause = DEEP_SLEEP if note == _ASLEEP else SOFT
        else:  # every software reset uses the watchdog
            bitten = machine.mem32[_watchdog() + _BITTEN] & 0xFFFFFFFF == 0x6AB73121
            _cause = WATCHDOG if bitten else RESET
    return _cause


def sleep(ms, deep=False):
    # The journal is committed already.
    if not deep:
        sleep_ms(ms)  # lightsleep() stops the clocks of Wi-Fi, USB and watchdog, and ends early
        return
    data = _kept()[0]
    _keep(data, _ASLEEP if ms else _ASKED)
    wifi_off()
    machine.mem32[_watchdog() + _CLEAR + _CTRL] = _ENABLE  # the watchdog would end the sleep
    # lightsleep() is limited to an hour and may end early; the clock keeps running.
    end = ticks_add(ticks_ms(), ms)
    left = ms
    while left > 0:
        machine.lightsleep(min(left, 3_600_000))
        left = ticks_diff(end, ticks_ms())
    machine.reset()


def stop_watchdog():
    global _timer
    _keep(_kept()[0], _ASKED)
    if _timer:
        _timer.deinit()
        _timer = None
    machine.mem32[_watchdog() + _CLEAR + _CTRL] = _ENABLE


_BITES_MS = const(8_000)  # the hardware's watchdog: at most 8,388 ms

_dog = _timer = None
_deadline = 0


def _feed(_):
    if ticks_diff(_deadline, ticks_ms()) > 0:
        _dog.feed()


def watchdog(ms):
    global _dog, _timer, _deadline
    _deadline = ticks_add(ticks_ms(), ms)
    if _dog is None:
        _dog = machine.WDT(timeout=min(ms, _BITES_MS))
        if ms > _BITES_MS:
            _timer = machine.Timer(-1, period=_BITES_MS // 4, mode=machine.Timer.PERIODIC, callback=_feed)
    _dog.feed()


# --- network and clock ---


class _Wifi(Wifi):
    def word(self, code):
        if code == 3:
            return ONLINE
        if code in (1, 2):  # joining; has no address yet
            return CONNECTING
        if code == 0:
            return IDLE
        if code == -2:
            return NO_AP
        return WRONG_KEY if code == -3 else FAILED

    def joined(self):
        return self.wlan.status() == 2

    def connect(self):
        # ifconfig() of MicroPython 1.26 leaves open of which kind the name server's address is: it accepts no answer.
        ipconfig = getattr(wifi.network, "ipconfig", None)  # older versions have none
        if self.address and ipconfig:
            ipconfig(dns=self.address[3])
        if self.security:  # only "wpa3": MicroPython before 1.25 refuses its code
            self.wlan.connect(self.ssid, self.key, security=0x1000004)  # type: ignore[call-arg]
        else:
            self.wlan.connect(self.ssid, self.key)


wifi.use(lambda: _Wifi(device_id()))


def wifi_off():
    wifi.wifi_off()
    if _id:  # the Wi-Fi chip is running
        _radio().deinit()


# --- flash ---


def journal_flash():
    import rp2

    from storage import journal_flash

    return journal_flash(raw=rp2.Flash())


# --- sensors ---


def _volts(channel):
    return machine.ADC(channel).read_u16() * 3.3 / 65535


def _temperature():
    return 27 - (_volts(machine.ADC.CORE_TEMP) - 0.706) / 0.001721


def _vsys():
    # Pin 29 has a third of the voltage while the Wi-Fi chip is not selected, as between two transfers. The pin is also
    # that chip's clock: meanwhile it must not be an output, and no transfer may begin.
    if not _id:
        return None  # the Wi-Fi chip is not running
    pad = (0x40038000 if _rp2350() else 0x4001C000) + 0x78
    mask = machine.disable_irq()
    kept = machine.mem32[pad]
    try:
        machine.mem32[pad] = 0x80  # neither output nor input, no pull
        _volts(3)
        return 3 * _volts(3)
    finally:
        machine.mem32[pad] = kept
        machine.enable_irq(mask)


def _memory():
    import gc

    return gc.mem_free()


def sensors():
    from probe import readings

    return readings((("temperature", "Cel", _temperature), ("vsys", "V", _vsys), ("memory", "B", _memory)))
