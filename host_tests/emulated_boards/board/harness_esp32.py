# Between the emulated ESP32 and its tests. Each life begins from cold; notes go to the console, and the task lies in
# a partition that the firmware does not use.

from esp32 import Partition
from micropython import const

import board
from inflight import Journal

_JOURNAL = const(998)  # task: to make a journal
_READY = const(0x3FFFFFFF)
_MOUNT = const(0x3FFFFFFE)
_ASLEEP = const(0x3FFFFFFD)


def note(number):
    print("NOTE", number)


def task():
    number = bytearray(4)
    Partition.find(Partition.TYPE_DATA, label="phy_init")[0].readblocks(0, number, 0)
    return int.from_bytes(number, "little")


def prepare(settings):
    # Says which part of its life begins. Returns False if there is nothing more to do.
    journal_flash = board.journal_flash
    sleep = board.sleep

    def noted_journal_flash(*kb):
        note(_MOUNT)
        return journal_flash(*kb)

    def noted_sleep(ms, deep=False):
        if deep and ms:
            note(_ASLEEP)
        sleep(ms, deep)

    board.journal_flash = noted_journal_flash
    board.sleep = noted_sleep
    if task() == _JOURNAL:
        journal()
        note(_READY)
        return False
    return True


def join(settings):
    board.network().join(60_000, settings.wifi_ssid, settings.wifi_key)


def journal():
    return Journal(board.journal_flash())
