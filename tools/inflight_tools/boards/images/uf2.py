"""UF2 for a Pico W or Pico 2 W: MicroPython's firmware followed by a file system, in one file."""

import struct

from .filesystem import BLOCK, build
from .release import check_release

_HEAD = struct.Struct("<8I")  # two magic numbers, flags, address, bytes, number, of how many, family
_SIZE = 512
_PAGE = 256
_MAGIC = (0x0A324655, 0x9E5D5157)
_END = struct.pack("<I", 0x0AB16F30)
_HAS_FAMILY = 0x2000
_FAMILIES = {0xE48BFF56: "RP2040", 0xE48BFF59: "RP2350", 0xE48BFF5A: "RP2350 (RISC-V)"}
_INFO = struct.pack("<I", 0x7188EBF2)  # begins the binary information of a firmware: start and end of a list
_BLOCK_DEVICE = 7  # an entry of that list: type, tag, name, address, bytes
_FILES, _ROM = b"MicroPython", b"ROMFS"  # names of such entries


class Uf2Image:
    """What goes into the flash of a board `variant`: `firmware` is MicroPython's .uf2 for it, `files` are
    {absolute path: content}, `rom` is the content of its ROM file system. `journal_kb`: KiB of the journal, which the
    board makes; 0: those of the board. ValueError, one line, if something does not fit together."""

    suffix = ".uf2"

    def __init__(self, variant, firmware, files, rom=b"", journal_kb=0):
        self.journal_kb = journal_kb or variant.journal_kb
        self._blocks = list(_parse(firmware))
        self.variant = variant
        self._firmware = _memory(variant, self._blocks)
        areas = _areas(self._firmware)
        self.start, self.size = areas[_FILES]
        self._rom = areas.get(_ROM)
        if self._firmware.end > (self._rom or areas[_FILES])[0]:
            raise ValueError("the firmware reaches into its own file system")
        check_release(self._firmware.all())
        self._files = _pages(self.start, build(files, self.size, _PAGE))
        if self._rom:  # blank, if there is none: what is there from earlier would be mounted
            blocks = max(1, -(-len(rom) // BLOCK))
            self._files |= _pages(self._rom[0], [(0, rom.ljust(blocks * BLOCK, b"\xff"))])

    def file(self):
        """The UF2 file. Blocks of other families, for example the block against a fault of the RP2350's boot program,
        stay first and as they are; the boot program counts the blocks of the chip's own family."""
        family = self.variant.family
        others = [_block(head, data) for head, data in self._blocks if head[7] != family]
        mine = {head[3]: data for head, data in self._blocks if head[7] == family} | self._files
        for number, (address, data) in enumerate(mine.items()):
            head = (*_MAGIC, _HAS_FAMILY, address, len(data), number, len(mine), family)
            others.append(_block(head, data))
        return b"".join(others)

    def describe(self):
        """Lines that tell a person what is where."""
        areas = [("firmware", self._firmware.start, self._firmware.end), ("files", self.start, self.start + self.size)]
        if self._rom:
            areas.insert(1, ("romfs", self._rom[0], sum(self._rom)))
        for name, start, end in areas:
            yield f"{name:10} 0x{start:08x} {(end - start + 1023) // 1024:6} KiB"


def look(variant, firmware):
    """(what MicroPython's .uf2 for a board executes, bytes of its ROM file system: 0 if it has none). ValueError with
    one line."""
    memory = _memory(variant, list(_parse(firmware)))
    return memory.all(), _areas(memory).get(_ROM, (0, 0))[1]


class _Memory:
    """The firmware as the chip sees it, by address."""

    def __init__(self, pages):
        self._pages = pages
        self.start, self.end = min(pages), max(pages) + _PAGE

    def read(self, address, size):
        first = address - address % _PAGE
        pages = range(first, address + size, _PAGE)
        return b"".join(self._pages.get(page, b"\xff" * _PAGE) for page in pages)[address - first :][:size]

    def all(self):
        return self.read(self.start, self.end - self.start)

    def words(self, address, count):
        return struct.unpack(f"<{count}I", self.read(address, 4 * count))


def _parse(data):
    """Yields (head, payload) of each block of a UF2 file."""
    if data[:8] != struct.pack("<2I", *_MAGIC):
        raise ValueError("the firmware is no UF2: --firmware takes MicroPython's .uf2 file for the board")
    numbers = {}
    for at in range(0, len(data), _SIZE):
        block = data[at : at + _SIZE]
        if len(block) < _SIZE or block[-4:] != _END or block[:8] != data[:8]:
            raise ValueError("the firmware's UF2 file is damaged or cut short")
        head = _HEAD.unpack_from(block)
        if head[4] != _PAGE or not head[2] & _HAS_FAMILY:
            raise ValueError("the firmware's UF2 file is for another kind of chip")
        numbers.setdefault((head[7], head[6]), set()).add(head[5])
        yield head, block[_HEAD.size :][:_PAGE]
    for (family, total), got in numbers.items():
        if family in _FAMILIES and len(got) != total:
            raise ValueError(f"the firmware's UF2 file is cut short: {len(got)} of {total} blocks")


def _block(head, data):
    return (_HEAD.pack(*head) + data).ljust(_SIZE - 4, b"\0") + _END


def _memory(variant, blocks):
    pages = {head[3]: data for head, data in blocks if head[7] == variant.family}
    if not pages:
        found = {_FAMILIES[head[7]] for head, _ in blocks if head[7] in _FAMILIES}
        raise ValueError(
            f"the firmware is for {', '.join(found) or 'another chip'}, not for {_FAMILIES[variant.family]}"
        )
    return _Memory(pages)


def _pages(start, parts):
    """{address: page} of `parts`, [(offset from `start`, content)]."""
    return {start + offset + at: part[at : at + _PAGE] for offset, part in parts for at in range(0, len(part), _PAGE)}


def _areas(memory):
    """{name: (address, bytes)} of the file systems that the firmware itself declares for tools to find."""
    found = {}
    if (at := memory.read(memory.start, 4096).find(_INFO)) >= 0:
        first, last = memory.words(memory.start + at + 4, 2)
        if last - first < 4096 and memory.start <= first <= last <= memory.end:
            for entry in memory.words(first, (last - first) // 4):
                kind, name, address, size = memory.words(entry, 4)
                if kind & 0xFFFF == _BLOCK_DEVICE:
                    found[memory.read(name, 16).partition(b"\0")[0]] = address, size
    if _FILES not in found:
        raise ValueError("the firmware declares no file system: is it MicroPython?")
    return found
