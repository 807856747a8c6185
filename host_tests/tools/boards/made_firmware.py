"""Synthetic firmware files: valid, but without code that runs."""

import hashlib
import struct

from mp_image_tool_esp32.partition_table import PART_MAGIC, PartitionEntry, PartitionTable

CHIP_IDS = {"esp32": 0, "esp32s2": 2, "esp32c3": 5, "esp32s3": 9, "esp32c6": 13}
MB = 1 << 20
BANNER, OLD_BANNER = b"MicroPython v1.26.1 on 2025-09-11", b"MicroPython v1.20.0 on 2023-04-26"


def esp_application(chip, size, flash_mb=4, fill=b"\x12\x34\x56\x78", banner=b""):
    """An application or a bootloader of about `size` bytes: one segment, checksum, SHA-256."""
    flash = (flash_mb.bit_length() - 1) << 4
    head = struct.pack("<BBBBI", 0xE9, 1, 2, flash, 0x4008_0000)
    head += struct.pack("<B3xHBHH4xB", 0xEE, CHIP_IDS[chip], 0, 0, 0xFFFF, 1)
    content = (banner + fill * (size // 4 + 1))[: size // 4 * 4]
    check = 0xEF
    for byte in content:
        check ^= byte
    image = head + struct.pack("<II", 0x3FFF_0030, len(content)) + content
    image += b"\0" * (15 - len(image) % 16) + bytes([check])
    return image + hashlib.sha256(image).digest()


def esp_firmware(chip="esp32", base=0x1000, size=100_000, flash_mb=4, layout=None, banner=BANNER):
    """A file like MicroPython's .bin. `layout`: [(partition, subtype, size)]; default: that of MicroPython."""
    table = PartitionTable(flash_mb * MB)
    for name, subtype, length in layout or stock_layout(flash_mb):
        if isinstance(subtype, int):  # data, of a subtype without a name
            place = table.next_part_offset()
            table.append(PartitionEntry(PART_MAGIC, 1, subtype, place, length, name.encode().ljust(16, b"\0"), 0))
        else:
            table.add_part(name, subtype, length)
    whole = bytearray(b"\xff") * (table.app_part.offset - base)
    bootloader = esp_application(chip, 12_000, flash_mb)
    whole[: len(bootloader)] = bootloader
    whole[0x8000 - base : 0x9000 - base] = table.to_bytes()
    return bytes(whole) + esp_application(chip, size, flash_mb, banner=banner)


def stock_layout(flash_mb):
    return [("nvs", "nvs", 0x6000), ("phy_init", "phy", 0x1000), ("factory", "factory", 0x1F0000)] + (
        [("vfs", "fat", (flash_mb - 2) * MB)] if flash_mb > 2 else []
    )


def uf2(pages, family, before=b""):
    """A UF2 file of {address: 256 bytes}."""
    blocks = [
        struct.pack("<8I", 0x0A324655, 0x9E5D5157, 0x2000, address, 256, number, len(pages), family)
        + data.ljust(476, b"\0")
        + struct.pack("<I", 0x0AB16F30)
        for number, (address, data) in enumerate(pages.items())
    ]
    return before + b"".join(blocks)


def uf2_errata_block():
    """The first block of RP2350 firmware. It has the family of absolute addresses, and the number 0 of 2."""
    head = struct.pack("<8I", 0x0A324655, 0x9E5D5157, 0xA000, 0x10FFFF00, 256, 0, 2, 0xE48BFF57)
    return head + b"\xef" * 256 + b"\0" * 220 + struct.pack("<I", 0x0AB16F30)


def pico_firmware(
    family=0xE48BFF56, fs=(0x1012_C000, 0xD_4000), size=8192, before=b"", name=b"MicroPython\0", banner=BANNER, rom=None
):
    """A file like MicroPython's .uf2, which declares its file system, and its ROM file system `rom`."""
    start = 0x1000_0000
    memory = bytearray(range(256)) * (size // 256)
    memory[0x1D4:0x1E4] = struct.pack("<4I", 0x7188EBF2, start + 0x400, start + (0x40C if rom else 0x408), 0)
    memory[0x400:0x40C] = struct.pack("<3I", start + 0x500, start + 0x520, start + 0x540)
    memory[0x500:0x50C] = struct.pack("<HHII", 6, 0x504D, 1, 2)
    memory[0x520:0x530] = struct.pack("<HHIII", 7, 0x504D, start + 0x600, *fs)
    memory[0x540:0x550] = struct.pack("<HHIII", 7, 0x504D, start + 0x620, *(rom or (0, 0)))
    memory[0x600 : 0x600 + len(name)] = name
    memory[0x620:0x626] = b"ROMFS\0"
    memory[0x6F0 : 0x6F0 + len(banner)] = banner
    return uf2({start + at: bytes(memory[at : at + 256]) for at in range(0, size, 256)}, family, before)
