"""The flash of an ESP32: MicroPython's firmware, a file system in partition `vfs`, the journal in partition `mqtt`.

`mqtt` is at the end of the flash, and `vfs` takes the space between the firmware and it. So the journal keeps its
place if later firmware is larger, and flashing a board again loses no message. The table contains both: newer firmware
creates its own `vfs` after the last partition if there is none.

With `ota` there are two partitions for firmware, so that a device can update it by itself."""

import logging

from mp_image_tool_esp32.image_header import ImageHeader
from mp_image_tool_esp32.partition_table import PART_MAGIC, PartitionEntry, PartitionError, PartitionTable

from .filesystem import BLOCK, build, names
from .release import check_release

TABLE = PartitionTable.PART_TABLE_OFFSET
TABLE_SIZE = PartitionTable.PART_TABLE_SIZE
FLASH_MB = (1, 2, 4, 8, 16, 32, 64, 128)
_JOURNAL = "mqtt"
_FILES = ("vfs", "ffat")  # names of the firmware's own file system
_ROM = "romfs"  # where MicroPython looks for a ROM file system, if it was built with one
_ROM_CODE = b"rom_ioctl\0"  # is among the names of such a build
_DATA = 1
_FOLDER = "journal"  # where boards without partition `mqtt` keep theirs, see boards/common/storage.py
_OTADATA, _UNDEFINED, _FAT = 0, 6, 0x81  # subtypes; MicroPython's vfs says FAT and is a littlefs
_OTA_0 = 0x10  # subtype of the first of two partitions for firmware
_OTADATA_SIZE = 0x2000
_PROG = 32
_LEAST_KB = 64  # of a journal whose size is not configured
_FILES_KB = 576  # that it leaves: two releases, and what is beside them
_MB = 1 << 20
_UNIT = 64 * 1024  # partitions for firmware begin at multiples of this

logging.getLogger("mp_image_tool_esp32").setLevel(logging.ERROR)  # it remarks on each gap in a table


class Esp32Image:
    """The content of the flash of a board `variant`: `firmware` is MicroPython's .bin for it, `files` are {absolute
    path: content}. `flash_mb`: MB of flash, if it differs from the firmware's. `ota`: two partitions for firmware.
    `rom`: content of the ROM file system. `journal_kb`: KiB of the journal, of which whole blocks are used; 0: those of
    the board, as far as two releases of the application fit beside them. ValueError with one line if something does not
    fit."""

    suffix = ".bin"

    def __init__(self, variant, firmware, files, flash_mb=None, ota=False, rom=b"", journal_kb=0):
        self.variant = variant
        self.base = variant.bootloader
        _check_kind(variant, firmware)
        bootloader, header = self._bootloader(firmware[: TABLE - self.base], flash_mb)
        self.flash_size = header.flash_size
        own = read_table(firmware[TABLE - self.base :][:TABLE_SIZE], self.flash_size)
        if ota:
            own = _with_two(own, len(_application(own, firmware, self.base)), self.flash_size)
        self.table = _with_ours(own, self.flash_size, journal_kb, variant.journal_kb)
        self._pieces = [("bootloader", self.base, bootloader), ("partition table", TABLE, self.table.to_bytes())]
        self._pieces += self._from_firmware(firmware)
        check_release(firmware)
        vfs = self.table.by_name("vfs")
        try:
            self._pieces += [("files", vfs.offset + at, part) for at, part in build(files, vfs.size, _PROG)]
        except ValueError as e:
            raise ValueError(f"{e} beside a journal of {self.journal.size // 1024} KiB") from None
        if part := self.table.find(_ROM):  # blank, if there is none: what is there from earlier would be mounted
            self._pieces.append(("ROM file system", part.offset, rom or b"\xff" * BLOCK))
        elif rom:
            raise ValueError("--ota leaves no space for a ROM file system: choose one of them")

    @property
    def journal(self):
        """The journal's partition."""
        return self.table.by_name(_JOURNAL)

    @property
    def journal_kb(self):
        """Its size."""
        return self.journal.size // 1024

    def pieces(self):
        """[(what it is, address, content)] to write; the flash between them stays unchanged: the journal, and the
        radio's settings."""
        return self._pieces

    def file(self):
        """All of it as one file, for the address `base`; parts that flashing keeps are blank."""
        whole = bytearray(b"\xff") * (self.flash_size - self.base)
        for _, address, content in self._pieces:
            whole[address - self.base : address - self.base + len(content)] = content
        return bytes(whole)

    def describe(self):
        """Lines that describe the layout for users."""
        for part in self.table:
            yield f"{part.name:10} 0x{part.offset:06x} {part.size // 1024:6} KiB"

    def _bootloader(self, data, flash_mb):
        header = _verify(data, "bootloader")
        if flash_mb:
            header.flash_size = flash_mb * _MB
            data, _ = header.update_image(data)
        return _trimmed(data), header

    def _from_firmware(self, firmware):
        for part in self.table:
            content = _trimmed(firmware[part.offset - self.base :][: part.size])
            if content and part.type != _DATA or part == self.table.app_part:
                _verify(content, "application")
            elif part.subtype == _OTADATA:
                content = b"\xff" * part.size  # starts the first application
            if content and part.name not in ("vfs", _ROM, _JOURNAL):
                yield part.name, part.offset, content


def look(variant, firmware):
    """(the application in MicroPython's .bin for a board, bytes of its ROM file system: 0 if it has none). ValueError
    with one line."""
    code = application(variant, firmware)
    part = read_table(firmware[TABLE - variant.bootloader :][:TABLE_SIZE], None).find(_ROM)
    return code, part.size if part and _ROM_CODE in code else 0


def application(variant, firmware):
    """What of MicroPython's .bin for a board a partition for firmware holds. ValueError with one line."""
    _check_kind(variant, firmware)
    check_release(firmware)
    table = read_table(firmware[TABLE - variant.bootloader :][:TABLE_SIZE], None)
    found = _application(table, firmware, variant.bootloader)
    _verify(found, "application")
    return found


def _application(table, firmware, base):
    part = table.app_part
    return _trimmed(firmware[part.offset - base :][: part.size])


def _check_kind(variant, firmware):
    if len(firmware) < TABLE or firmware[0] != ImageHeader.APP_IMAGE_MAGIC:
        raise ValueError("this is not firmware: --firmware takes MicroPython's .bin file for the board")
    if (chip := ImageHeader.from_bytes(firmware).chip_name) != variant.name:
        raise ValueError(f"the firmware is for chip {chip}, not for {variant.name}")
    if not firmware[TABLE - variant.bootloader :].startswith(PART_MAGIC):
        raise ValueError("the firmware has no partition table: --firmware takes the whole one, not the .app-bin")


def read_table(data, flash_size):
    """The PartitionTable in `data`; None if it is blank, ValueError if it is invalid."""
    if not data.strip(b"\xff"):
        return None
    try:
        return PartitionTable.from_bytes(data, flash_size)
    except PartitionError as e:
        raise ValueError(f"the partition table cannot be read: {str(e).splitlines()[0]}") from None


def files_hold_journal(table, read):
    """True if a board with PartitionTable `table` keeps its journal in its file system; read(address, size) reads its
    flash. Newer firmware has its file system after the last partition if the table has none."""
    part = next((part for part in table if part.name in _FILES), None)
    start = part.offset if part else table.next_part_offset()
    return _FOLDER in names(lambda block: read(start + block * BLOCK, BLOCK))


def _with_two(own, size, flash_size):
    """The firmware's own table with two partitions for firmware, which has `size` bytes now, in place of one. What the
    bootloader notes about them takes the end of the radio's settings."""
    app = own.app_part
    if app.subtype >= _OTA_0:
        return own
    if not own.find("nvs"):
        raise ValueError("the firmware's partition table has no space for --ota: use a firmware of MicroPython's")
    each = max(-(-size // _UNIT) * _UNIT, min(2 * _MB, flash_size // 4))  # future firmware is larger
    table = PartitionTable(flash_size)
    for part in own:
        if part.name == "nvs":
            end = part.offset + part.size - _OTADATA_SIZE
            table.append(part._replace(size=part.size - _OTADATA_SIZE))
            table.append(PartitionEntry(PART_MAGIC, _DATA, _OTADATA, end, _OTADATA_SIZE, _label("otadata"), 0))
        elif part.offset < app.offset:
            table.append(part)
    for k in (0, 1):
        place = app.offset + k * each
        table.append(PartitionEntry(PART_MAGIC, app.type, _OTA_0 + k, place, each, _label(f"ota_{k}"), 0))
    return table


def _with_ours(own, flash_size, kb, usual_kb):
    """The firmware's own table with our `vfs` and `mqtt` in place of its file system. kb, usual_kb: of the journal, see
    Esp32Image."""
    table = PartitionTable(flash_size)
    table.extend(part for part in own if part.name not in (*_FILES, _JOURNAL))
    start = table.next_part_offset()
    kb = kb or max(_LEAST_KB, min(usual_kb, (flash_size - start) // 1024 - _FILES_KB))
    size = kb * 1024 // BLOCK * BLOCK
    end = flash_size - size
    if end - start < 2 * BLOCK:
        raise ValueError(
            f"the firmware takes {start // 1024} KiB of {flash_size // 1024} KiB of flash, the journal {size // 1024}: "
            "no space for a file system"
        )
    table.append(PartitionEntry(PART_MAGIC, _DATA, _FAT, start, end - start, _label("vfs"), 0))
    table.append(PartitionEntry(PART_MAGIC, _DATA, _UNDEFINED, end, size, _label(_JOURNAL), 0))
    try:
        table.check()
    except PartitionError as e:
        raise ValueError(f"the partitions do not fit: {str(e).splitlines()[0]}") from None
    return table


def _label(name):
    return name.encode().ljust(16, b"\0")


def _verify(data, what):
    """Checks that `data` begins with a complete, unchanged bootloader or application. Returns its header, or raises
    ValueError."""
    try:
        header = ImageHeader.from_bytes(data).validate()
        _, made, stored = header.check_image_hash(data)
    except ValueError:  # also if it is too short for a header
        header = None
    if not header or (header.hash_appended and made != stored):
        raise ValueError(f"the firmware's {what} is damaged or cut short")
    return header


def _trimmed(data):
    """`data` without blank groups of 16 bytes at its end."""
    kept = bytes(data).rstrip(b"\xff")
    return kept.ljust((len(kept) + 15) // 16 * 16, b"\xff")
