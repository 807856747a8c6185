"""The chips that QEMU knows: what it calls their parts, and the firmware that runs on them."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from inflight_tools.boards.images.variants import variant
from tools.emulators.firmware_image import FirmwareImage

MAC = bytes.fromhex("240ac4000001")


def _crc8(data):
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0x8C if crc & 1 else crc >> 1
    return crc


def _esp32_fuses(mac):
    content = bytearray(124)
    content[4:10] = mac[::-1]
    content[10] = _crc8(mac)
    return bytes(content)


def _esp32c3_fuses(mac):
    content = bytearray(1024)
    content[24:30] = mac[::-1]
    content[38] = 3 << 2  # a chip of revision 0.3, the oldest that MicroPython runs on
    return bytes(content)


@dataclass(frozen=True)
class Chip:
    name: str  # as BOARD= and the names of its parts in the emulator have it
    program: str  # the emulator
    machine: str  # what the emulator calls the board
    download: str  # the level of its pins with the BOOT button held
    fuses: Callable  # (Wi-Fi address) -> the content of the eFuses: its identity
    firmware: dict  # {version of MicroPython: FirmwareImage}; the first is taken where none is named
    silent: str = ""  # what else than the board may be at fault where it says nothing

    @property
    def wifi(self):
        return f"{self.name}_wifi"

    @property
    def efuse(self):
        return f"nvram.{self.name}.efuse"

    @property
    def bootloader(self):
        """Its address in the flash, at which images begin."""
        return variant(self.name).bootloader


# Chip, file of micropython.org, SHA-256.
_IMAGES = """
ESP32 ESP32_GENERIC-20250911-v1.26.1.bin 6b5272b6edd15fc4d1627ec559a27a5d5a7b86e5ea7f8013941eb10c877edd4e
ESP32 ESP32_GENERIC-20240602-v1.23.0.bin 5e442176c7e90347aa102915077dda59f795af190f907f3919ee1e4e57984716
ESP32-C3 ESP32_GENERIC_C3-20241129-v1.24.1.bin 8e081c262c90b1f6bf296e2493bb7dab6bde17e659b542365bf6d23223df313c
"""


def _images(chip):
    rows = [row.split() for row in _IMAGES.splitlines() if row.startswith(chip + " ")]
    return {file[:-4].rpartition("-v")[2]: FirmwareImage(chip, file, sha256) for _, file, sha256 in rows}


CHIPS = {
    "esp32": Chip("esp32", "qemu-system-xtensa", "esp32", "0x0f", _esp32_fuses, _images("ESP32")),
    "esp32c3": Chip(
        "esp32c3",
        "qemu-system-riscv32",
        "esp32c3-picsimlab",
        "0x02",
        _esp32c3_fuses,
        _images("ESP32-C3"),
        "; an emulator that loses an interrupt of its clock stops it as well, see docs/proof.md",
    ),
}
CHIP = CHIPS[os.environ.get("INFLIGHT_ESP32_CHIP", "esp32")]
FIRMWARE = CHIP.firmware[os.environ.get("INFLIGHT_ESP32_MICROPYTHON", next(iter(CHIP.firmware)))]
