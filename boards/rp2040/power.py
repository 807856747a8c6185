# Why a Pico W started, how it sleeps, what it remembers meanwhile; its watchdog.

import machine

from codes import BROWN_OUT, DEEP_SLEEP, POWER_ON, RESET, SOFT, WATCHDOG
from inflight.compat import const, sleep_ms, ticks_add, ticks_diff, ticks_ms

network = None  # the board's, once it is used
radio = None  # the station, once the Wi-Fi chip is running
_cause = None

# --- scratch registers of the watchdog, which survive a reset ---
#
# 0 to 3, 6 and 7 contain the remembered data. MicroPython's reset uses 4, and 5 to 7 only to start at an address. 5
# contains the number of remembered bytes (bits 0-4), why the board stops (5-6), and a checksum of all that (8-31).

_CTRL = const(0)
_BITTEN = const(0x1C)  # scratch 4, after the watchdog was started
_HEAD = const(0x20)
_WORDS = (0x0C, 0x10, 0x14, 0x18, 0x24, 0x28)
_CLEAR = const(0x3000)  # writing here clears bits
_CHIP_RESET = const(0x4010002C)  # of the RP2350; the RP2040 does not tell a brown-out from a power-on
_HAD_BOR = const(0x20000)
_HAD_BOR_OR_POR = const(0x30000)
_ENABLE = const(0x40000000)
_ASKED = const(1)
_ASLEEP = const(2)


def is_rp2350():
    return machine.mem32[0x40000000] >> 12 & 0xFFFF == 4  # CHIP_ID


def _watchdog():
    return 0x400D8000 if is_rp2350() else 0x40058000


def _check(data, head):
    from binascii import crc32

    return crc32(data + bytes([head])) & 0xFFFFFF


def _keep(data, note=0):
    base = _watchdog()
    head = len(data) | note << 5
    data = data + bytes(4 * len(_WORDS) - len(data))
    for i in range(len(_WORDS)):
        machine.mem32[base + _WORDS[i]] = int.from_bytes(data[4 * i : 4 * i + 4], "little")
    machine.mem32[base + _HEAD] = _check(data, head) << 8 | head


def _kept():
    # What is remembered, and the note.
    base = _watchdog()
    data = b""
    for at in _WORDS:
        data += (machine.mem32[base + at] & 0xFFFFFFFF).to_bytes(4, "little")
    head = machine.mem32[base + _HEAD] & 0xFFFFFFFF
    if head >> 8 != _check(data, head & 0xFF):
        return b"", 0
    return data[: head & 31], head >> 5 & 3


def remember(data):
    if len(data) > 24:
        raise ValueError("remember: 24 bytes at most")
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
            brown_out = is_rp2350() and machine.mem32[_CHIP_RESET] & _HAD_BOR_OR_POR == _HAD_BOR
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
    if network:
        network.off(ms)
    elif radio:
        radio.deinit()
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
