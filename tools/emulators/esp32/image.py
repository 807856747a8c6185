"""What the flash of the emulated ESP32 holds when it is switched on for the first time."""

from inflight_tools.boards.images.esp32 import TABLE, TABLE_SIZE, Esp32Image, read_table
from inflight_tools.boards.images.filesystem import build
from inflight_tools.boards.images.variants import variant
from tools.emulators.esp32.chip import CHIP, FIRMWARE
from tools.emulators.littlefs_files import unpack as unpack_volume

FLASH_SIZE = 4 * 1024 * 1024
UNUSED = 0xF000  # a partition, phy_init, that the firmware brings and does not use
_PROG = 32


def bare(firmware=None):
    """The flash with nothing but the firmware."""
    flash = bytearray(b"\xff") * FLASH_SIZE
    firmware = firmware or FIRMWARE.find().read_bytes()
    base = CHIP.bootloader
    flash[base : base + len(firmware)] = firmware
    return flash


def finished(files, ota=False):
    """The flash with what `inflight board image` writes; with `ota` it has two partitions for firmware."""
    whole = Esp32Image(variant(CHIP.name), FIRMWARE.find().read_bytes(), files, ota=ota).file()
    return bytearray(b"\xff") * CHIP.bootloader + whole


def stock(files):
    """The flash with the firmware's own partitions, none of which is the journal's, and `files`."""
    flash = bare()
    start, end = _file_system(flash)
    for at, content in build(files, end - start, _PROG):
        flash[start + at : start + at + len(content)] = content
    return flash


def unpack(flash):
    """{absolute path: bytes} of all files in the flash."""
    start, end = _file_system(flash)
    return unpack_volume(flash[start:end], _PROG)


def volumes(flash):
    """(file system, bytes of a page, partition for the journal or None) in the flash."""
    start, end = _file_system(flash)
    own = _table(flash).find("mqtt")
    return flash[start:end], _PROG, flash[own.offset : own.offset + own.size] if own else None


def _table(flash):
    return read_table(bytes(flash[TABLE : TABLE + TABLE_SIZE]), FLASH_SIZE)


def _file_system(flash):
    """Where it begins and ends: the firmware has it behind all partitions if none is for it."""
    table = _table(flash)
    own = table.find("vfs")
    return (own.offset, own.offset + own.size) if own else (table.next_part_offset(), FLASH_SIZE)
