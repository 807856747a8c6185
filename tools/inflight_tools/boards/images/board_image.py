"""The image of a bare board: MicroPython, space for the journal, and the application with its settings."""

import json

from inflight_tools.boards import own, slots
from inflight_tools.boards.build import bundle, native
from inflight_tools.boards.device.files import RECORD, sha
from inflight_tools.boards.frozen import in_firmware
from inflight_tools.boards.images.firmware import obtain
from inflight_tools.boards.images.variants import variant
from inflight_tools.settings import CONFIG, NO_TLS, configured, settings

WITHOUT = "there is no configuration: the board opens its set-up, docs/setup.md tells how; --config names one"


def make(board, firmware, sha256, config, tls=NO_TLS, flash_mb=None, ota=False, romfs=False, app=None):
    """The image for the board `board`. The configuration, if there is one, and the modules of one's own in folder `app`
    are checked first. ValueError with one line for any error."""
    chosen = variant(board)
    folder = own.folder_of(app, config)
    given = settings(config, tls, chosen, folder)
    more = own.files(folder, chosen.folder)
    return _composed(chosen, obtain(chosen, firmware, sha256), given, more, config, flash_mb, ota, romfs)


def make_bare(board, firmware, advice, app=None):
    """The image for Variant `board`, without a configuration, with the modules of one's own in folder `app`. advice:
    how to name its firmware where it cannot be downloaded. ValueError with one line."""
    more = own.files(app, board.folder)
    return _composed(board, obtain(board, firmware, advice=advice), {}, more)


def _composed(chosen, content, given, more, config=None, flash_mb=None, ota=False, romfs=False):
    image: type
    options = {"journal_kb": configured(given.get(CONFIG)).journal_kb}
    if chosen.image == "uf2":
        from inflight_tools.boards.images import uf2

        image, look = uf2.Uf2Image, uf2.look

        if ota:
            raise ValueError(f"--ota is for an ESP32: the firmware of a {chosen.title} comes by cable only")
    else:
        from inflight_tools.boards.images import esp32

        image, look = esp32.Esp32Image, esp32.look
        if flash_mb not in (None, *esp32.FLASH_MB):
            raise ValueError(f"--flash-mb {flash_mb}: use one of {', '.join(map(str, esp32.FLASH_MB))}")
        options |= {"flash_mb": flash_mb, "ota": ota}
    code, rom_size = look(chosen, content)
    processor = native.of_firmware(code, chosen.processor)
    files, slot, frozen = bundle.files(chosen.folder, processor=processor) | more, {}, in_firmware(code)
    if ota and not frozen:  # as files it would fill the flash that two partitions for firmware leave
        files, slot = slots.divided(files)
    files, rom = placed(files, frozen, chosen.folder, rom_size if romfs else None)
    files |= slot
    if taken := given.keys() & files.keys():
        raise ValueError(f"{config}: {min(taken)} belongs to the application: write another path")
    return image(chosen, content, files | given, rom=rom, **options)


def placed(files, frozen, folder, rom_size):
    """(the application's `files` for the file system, with their list for `inflight board deploy`; the content of the
    ROM file system). frozen: what the firmware has. rom_size: bytes of the ROM file system; None: not used."""
    if frozen:
        files = frozen.left(files, folder)
    rom = b""
    if rom_size is not None:
        from inflight_tools.boards.device import rom as romfs

        modules = {path: code for path, code in files.items() if path.endswith(".mpy")}
        if frozen and not modules:
            raise ValueError("the firmware has the application frozen in: leave --romfs out")
        if not rom_size:
            raise ValueError(f"the firmware has no ROM file system: {romfs.NO_ROM}")
        modules = romfs.fitting(modules, rom_size)
        rom = romfs.image(modules)
        files = {path: content for path, content in files.items() if path not in modules}
    files = slots.packed(files, folder)
    if files:
        files[RECORD] = json.dumps({path: sha(content) for path, content in files.items()}).encode()
    return files, rom
