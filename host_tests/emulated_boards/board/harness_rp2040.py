# Between the emulated Pico W and its tests. The board gets ready for any task first, notes that, and is frozen; its
# copies go on with a task each. What takes the larger part of a short life and is the same in each is done before.
#
# What is below imports nothing of the application until it is needed: main.py notes first which one starts.

import os
import sys
from time import sleep_ms

from machine import mem32
from micropython import const

_TASK = const(0x40070004)
_NOTE = const(0x40070000)
_READY = const(0x3FFFFFFF)
_SETTLE_MS = const(1000)  # the Wi-Fi driver waits several times when it has joined; once for all copies as well

_pinned = None


def note(number):
    mem32[_NOTE] = number


def task():
    return mem32[_TASK]


def prepare(settings):
    global _pinned
    import board
    import inflight
    from inflight import Journal

    if "journal" not in os.listdir("/"):  # the first start of all
        Journal(board.journal_flash())
        note(_READY)
    for module in ("app", "commands", "health", "node", "start", "publisher", "inflight.pinning"):
        __import__(module)
    pin = inflight.pinning.pin

    def spy(*where):
        global _pinned
        _pinned = pin(*where)
        return _pinned

    inflight.pinning.pin = spy
    board.journal_flash()  # which depends on the file system alone, and no copy may change that
    for module in (
        "inflight.sectors",
        "inflight.mount",
        "inflight.sector_order",
        "inflight.contents",
        "inflight.finishing",
    ):
        __import__(module)
    board.network().join(60_000, settings.wifi_ssid, settings.wifi_key)
    sleep_ms(_SETTLE_MS)
    import gc

    gc.collect()  # once for all copies
    note(_READY)
    return True


def join(settings):
    pass  # done


class _Pinning:
    # Stands in for the module in which the blocks were found.
    @staticmethod
    def pin(*where):
        return _pinned


def journal():
    import board
    import inflight
    from inflight import Journal

    sys.modules["inflight.pinning"] = inflight.pinning = _Pinning
    return Journal(board.journal_flash())
