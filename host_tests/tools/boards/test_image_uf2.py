"""Images for a Pico W and a Pico 2 W: what the ROM bootloader writes, and what MicroPython finds afterwards."""

import pytest

from host_tests.tools.boards.made_firmware import OLD_BANNER, pico_firmware, uf2, uf2_errata_block
from host_tests.tools.boards.mounted import FLASH, blocks, booted, file_system, mounted
from inflight_tools.boards.images.board_image import make
from inflight_tools.boards.images.filesystem import build
from inflight_tools.boards.images.uf2 import Uf2Image
from inflight_tools.boards.images.variants import variant

PICO_W, PICO2_W = variant("pico_w"), variant("pico2_w")
RP2350 = {"family": 0xE48BFF59, "fs": (0x1018_0000, 0x28_0000), "before": uf2_errata_block()}
FILES = {"/main.py": b"import app", "/lib/inflight/journal.mpy": bytes(range(256)) * 60, "/ca.der": b"\xff" * 900}


@pytest.mark.parametrize(
    ("board", "firmware"), [(PICO_W, pico_firmware()), (PICO2_W, pico_firmware(**RP2350))], ids=["pico_w", "pico2_w"]
)
def test_firmware_and_files_arrive(board, firmware):
    image = Uf2Image(board, firmware, FILES)
    flash = booted(image, bytearray(b"\xff") * (4 << 20), board.family)
    assert flash[0x800:0x2000] == bytes(range(256)) * 24  # the firmware's own pages
    assert mounted(file_system(image, flash), 256, write={"/more": b"m" * 9000}) == FILES | {"/more": b"m" * 9000}


def test_blocks_are_numbered():
    """Those of a Pico 2 behind the errata block, which stays first."""
    image = Uf2Image(PICO2_W, pico_firmware(**RP2350), FILES)
    assert image.file()[:512] == uf2_errata_block()
    mine = [block for block in blocks(image) if block[3] == RP2350["family"]]
    for found in (list(blocks(Uf2Image(PICO_W, pico_firmware(), FILES))), mine):
        assert [number for _, number, *_ in found] == list(range(len(found)))
        assert {total for _, _, total, *_ in found} == {len(found)}
        assert len({address for address, *_ in found}) == len(found) < 400  # of 3392 pages: unused ones are left out


def test_an_older_file_system_is_overwritten():
    """Also under blank halves of directories: old content there could be taken for the newer half."""
    image = Uf2Image(PICO_W, pico_firmware(), FILES)
    flash = bytearray(b"\xff") * (2 << 20)
    at = image.start - FLASH
    old = {f"/lib/inflight/old{i}.mpy": b"old" * 400 for i in range(120)} | {"/main.py": b"old"}
    # Used blocks everywhere, and each block at its address.
    parts = [part[i : i + 4096] for _, part in build(old, image.size, 256) for i in range(0, len(part), 4096)]
    used = [part for part in parts if part.strip(b"\xff")]
    for block in range(image.size // 4096):
        flash[at + block * 4096 : at + block * 4096 + 4096] = used[block % len(used)]
    for offset, part in build(old, image.size, 256):
        flash[at + offset : at + offset + len(part)] = part
    assert mounted(file_system(image, booted(image, flash, PICO_W.family)), 256) == FILES


SMALL = "the application, 16 KiB, does not fit the file system, 16 KiB"
REFUSED = {
    "empty": (b"", "the firmware is no UF2"),
    "other": (b"\xe9" * 512, "the firmware is no UF2: --firmware takes MicroPython's .uf2 file"),
    "truncated": (pico_firmware()[:-512], "the firmware's UF2 file is cut short: 31 of 32 blocks"),
    "torn": (pico_firmware()[:-100], "the firmware's UF2 file is damaged or cut short"),
    "chip": (pico_firmware(**RP2350), "the firmware is for RP2350, not for RP2040"),
    "overlap": (pico_firmware(fs=(0x1000_1000, 0xD_4000)), "the firmware reaches into its own file system"),
    "old": (pico_firmware(banner=OLD_BANNER), "the firmware is MicroPython 1.20: --firmware takes 1.22"),
    "silent": (pico_firmware(banner=b"\0"), "the firmware does not tell its release"),
    "romfs": (pico_firmware(name=b"ROMFS\0"), "the firmware declares no file system: is it MicroPython"),
    "stranger": (uf2({FLASH: b"\0" * 256}, 0xE48BFF56), "the firmware declares no file system"),
    "small": (pico_firmware(fs=(0x1012_C000, 4 * 4096)), SMALL),
}


@pytest.mark.parametrize("firmware, problem", REFUSED.values(), ids=REFUSED)
def test_wrong_firmware_is_refused(firmware, problem):
    with pytest.raises(ValueError, match="^" + problem) as e:
        Uf2Image(PICO_W, firmware, FILES)
    assert "\n" not in str(e.value)


def test_two_partitions_for_firmware_are_for_an_esp32(tmp_path):
    (tmp_path / "firmware").write_bytes(pico_firmware())
    with pytest.raises(ValueError, match="^--ota is for an ESP32: the firmware of a Raspberry Pi Pico W comes by"):
        make("pico_w", tmp_path / "firmware", None, None, ota=True)
