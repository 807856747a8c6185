# Why an ESP32 started, how it sleeps, what it remembers meanwhile; its watchdog.

import machine

from codes import BROWN_OUT, DEEP_SLEEP, PANIC, POWER_ON, RESET, SOFT, WATCHDOG
from inflight.compat import const, sleep_ms

_DAY_MS = const(86_400_000)

network = None  # the board's, once it is used
_cause = _dog = None

# --- RTC memory, which survives a deep sleep and a reset ---

_MAGIC = b"IF"
_NOTE = const(2)  # what this firmware does
_ASKED = const(1)  # it asked for the reset, or has left the board to a person
_RUNNING = const(2)
_COUNT = const(3)  # number of remembered bytes
_DATA = const(4)
_CHECK = const(37)  # before it, from 28 on: what radio keeps
_SIZE = const(41)  # the application may use the memory after this


def _check(data):
    from binascii import crc32

    return crc32(data).to_bytes(4, "little")


def kept():
    """What is kept, a bytearray."""
    memory = bytearray(machine.RTC().memory()[:_SIZE])
    if memory[:2] != _MAGIC or memory[_CHECK:] != _check(memory[:_CHECK]):
        memory = bytearray(_SIZE)
        memory[:2] = _MAGIC
    return memory


def keep(at, data):
    """Keeps data at the place `at` of that."""
    memory = kept()
    memory[at : at + len(data)] = data
    memory[_CHECK:] = _check(memory[:_CHECK])
    rtc = machine.RTC()
    rtc.memory(bytes(memory) + rtc.memory()[_SIZE:])


def remember(data):
    n = len(data)
    if n > 24:
        raise ValueError("remember: 24 bytes at most")
    keep(_COUNT, bytes([n]) + data)


def recall():
    memory = kept()
    return bytes(memory[_DATA : _DATA + memory[_COUNT]]) or None


# --- reset, sleep and watchdog ---


def reset_cause():
    global _cause
    if _cause is None:
        cause = machine.reset_cause()
        note = kept()[_NOTE]
        keep(_NOTE, bytes([_RUNNING]))
        if cause == machine.PWRON_RESET:  # or a brown-out: the port does not distinguish them
            from supply import failed

            _cause = BROWN_OUT if failed() else POWER_ON
        elif cause == machine.WDT_RESET:
            _cause = WATCHDOG
        elif cause == machine.DEEPSLEEP_RESET:
            _cause = DEEP_SLEEP
        elif note == _ASKED or cause == machine.SOFT_RESET:
            _cause = SOFT
        else:  # the port calls a panic and machine.reset() the same: a panic only happens to what is running
            _cause = PANIC if note == _RUNNING and cause == machine.HARD_RESET else RESET
    return _cause


def sleep(ms, deep=False):
    # The journal is committed already.
    if deep:
        if network:
            network.off(ms)
        if ms:
            machine.deepsleep(ms)
        keep(_NOTE, bytes([_ASKED]))
        machine.reset()
    elif network and network.nic.active():
        sleep_ms(ms)  # lightsleep() would stop the radio and lose the connection
    else:
        machine.lightsleep(ms)


def watchdog(ms):
    global _dog
    if _dog is None:
        _dog = machine.WDT(timeout=ms)
    _dog.feed()


def stop_watchdog():
    keep(_NOTE, bytes([_ASKED]))
    if _dog:
        machine.WDT(timeout=_DAY_MS)  # it cannot be stopped
