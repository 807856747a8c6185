"""Which flash the boards choose for the journal, with fakes of the ports and a real littlefs."""

import os

from harness import eq
from littlefs_model import ROOT, Board, at_root, vfs
from nor import NorFlash
from ports_esp32 import Esp32, Partition
from ports_rp2040 import Rp2040
from test_storage import serves

RUNTIMES = "cpython micropython-x86"


def picks(chip):
    """The flash that the board chooses."""
    with at_root():
        return chip.board.journal_flash(8)


def running(page=32):
    stock = Board(50, 512, page)
    stock.boot()
    return stock.supply


def test_esp32_with_a_journal_partition():
    for encrypted in (True, False):  # the file system is
        flash = NorFlash(16, 4096, 64)
        Partition.parts = {"vfs": Partition(running(), encrypted), "mqtt": Partition(flash)}
        device = picks(Esp32())
        eq((device.where, device.repaired, device.page), ("partition", 0, 64))
    serves(device)
    assert flash.programs > 60 and os.listdir(ROOT) == []


def test_esp32_without_a_journal_partition():
    Partition.parts = {"vfs": Partition(running())}
    device = picks(Esp32())
    eq((device.where, device.repaired, device.page, device.ioctl(4, 0)), ("pinned files", 0, 64, 16))
    serves(device)
    eq(os.listdir(ROOT), ["journal"])


def test_esp32_whose_flash_is_encrypted():
    for own in (False, True):
        flash = NorFlash(16, 4096, 64)
        stock = running()
        Partition.parts = {"vfs": Partition(stock, True)}
        if own:
            Partition.parts["mqtt"] = Partition(flash, True)
        device = picks(Esp32())
        eq((device.where, device.repaired), ("slot files", 0))
        serves(device)
        device.close()
        eq((flash.programs, sum(flash.erases), os.listdir(ROOT)), (0, 0, ["journal"]))


def test_esp32_with_another_file_system():
    fat = {"vfs": Partition(NorFlash(8, 512, 32))}  # not littlefs: stands for FAT
    running()
    for Partition.parts in (fat, {}):
        device = picks(Esp32())
        eq(device.where, "slot files")
        device.close()


def test_rp2040():
    chip = Rp2040()
    chip.flash = running(256)
    device = picks(chip)
    eq((device.where, device.repaired, device.page), ("pinned files", 0, 256))
    serves(device)
    os.remove(ROOT + "/journal/" + os.listdir(ROOT + "/journal")[3])
    eq((picks(chip).repaired, picks(chip).repaired), (1, 0))
    vfs.umount(ROOT)
    Board.supply = None
