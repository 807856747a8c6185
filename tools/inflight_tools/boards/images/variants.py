"""The boards that images are made for. A variant decides chip, firmware and addresses; its folder is below boards/."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    name: str  # what --board says; of an ESP32 also how its chip is called
    folder: str
    firmware: str  # the pinned one, as MicroPython's download page names it
    sha256: str  # of that file
    bootloader: int = 0  # ESP32: where it lies in flash, and where firmware files begin
    family: int = 0  # RP2: which chip a UF2 block is for
    drive: str = ""  # RP2: the boot drive's label, and what its INFO_UF2.TXT calls the board
    title: str = ""  # what people, and esp-web-tools, call the chip or board


BOARDS = (
    Variant(
        "esp32",
        "esp32",
        "ESP32_GENERIC-20250911-v1.26.1.bin",
        "6b5272b6edd15fc4d1627ec559a27a5d5a7b86e5ea7f8013941eb10c877edd4e",
        bootloader=0x1000,
        title="ESP32",
    ),
    Variant(
        "esp32s2",
        "esp32",
        "ESP32_GENERIC_S2-20251209-v1.27.0.bin",
        "c3fc7922a28014345b5105ad125bd54a63007c17070c64c8c8caa00bec8cf141",
        bootloader=0x1000,
        title="ESP32-S2",
    ),
    Variant(
        "esp32s3",
        "esp32",
        "ESP32_GENERIC_S3-20250911-v1.26.1.bin",
        "d6c48687f684cc7c002a0a4acd258f881c4b391f3ef121726a3b7cd285dcdbbc",
        title="ESP32-S3",
    ),
    Variant(
        "esp32c3",
        "esp32",
        "ESP32_GENERIC_C3-20250415-v1.25.0.bin",
        "4dd82c4bc8b90d4a8f303eedc1bf2b87ace1827daad3a855c6ce3209482f46f3",
        title="ESP32-C3",
    ),
    Variant(
        "esp32c6",
        "esp32",
        "ESP32_GENERIC_C6-20251209-v1.27.0.bin",
        "111ca6322520f56ca44c41b6993d56ff75d7c1c0c3939991e53463024bb0e183",
        title="ESP32-C6",
    ),
    Variant(
        "pico_w",
        "rp2040",
        "RPI_PICO_W-20250911-v1.26.1.uf2",
        "710eac1ba5dc10e2cbdf9e070d5b7c662962a57b0ebc4bb0202c87b40413ed85",
        family=0xE48BFF56,
        drive="RPI-RP2",
        title="Raspberry Pi Pico W",
    ),
    Variant(
        "pico2_w",
        "rp2040",
        "RPI_PICO2_W-20250415-v1.25.0.uf2",
        "ef23b3c59341eb7407964ea7d2951c74eea1f53258f6962ad052397371455e5c",
        family=0xE48BFF59,
        drive="RP2350",
        title="Raspberry Pi Pico 2 W",
    ),
)
NAMES = tuple(variant.name for variant in BOARDS)


def variant(name):
    """The Variant `name`; ValueError with the names that there are."""
    for found in BOARDS:
        if found.name == name:
            return found
    raise ValueError(f"no board {name}: --board takes {', '.join(NAMES)}")
