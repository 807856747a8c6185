# What launch needs of a board while a release is tried; see boards/README.md.

import time

import machine

_MS = 180_000
_BITES_MS = 8_000  # the hardware's watchdog: at most 8,388 ms


def was_cut(folder):
    return machine.reset_cause() == machine.PWRON_RESET


def watchdog():
    # Afterwards the application feeds it, or the board restarts.
    dog = machine.WDT(timeout=_BITES_MS)
    end = time.ticks_add(time.ticks_ms(), _MS)

    def feed(timer):
        if time.ticks_diff(end, time.ticks_ms()) > 0:
            dog.feed()
        else:
            timer.deinit()

    machine.Timer(-1, period=_BITES_MS // 4, mode=machine.Timer.PERIODIC, callback=feed)
