"""The image of a bare board as a file: MicroPython, space for the journal, and the application with its settings."""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from inflight_tools.boards import bundle, slots
from inflight_tools.boards.device.files import RECORD, sha
from inflight_tools.boards.frozen import in_firmware
from inflight_tools.boards.images.firmware import obtain
from inflight_tools.boards.images.variants import NAMES, variant
from inflight_tools.boards.settings import settings
from inflight_tools.cache import write_private
from inflight_tools.failure import reason
from inflight_tools.visible import visible

Board = Annotated[str, typer.Option(help=f"one of {', '.join(NAMES)}")]
Firmware = Annotated[Path | None, typer.Option(help="MicroPython's file for the board; default: the pinned one")]
Sha256 = Annotated[str | None, typer.Option(help="what the firmware's SHA-256 has to be")]
Config = Annotated[Path, typer.Option(help="the device's configuration")]
Ca = Annotated[Path | None, typer.Option(help="certificate of the authority that tls_ca names, PEM or DER")]
Cert = Annotated[Path | None, typer.Option(help="the certificate that tls_cert names")]
Key = Annotated[Path | None, typer.Option(help="the private key that tls_key names")]
FlashMb = Annotated[int | None, typer.Option(help="ESP32: MB of flash, if not what the firmware says")]
Ota = Annotated[bool, typer.Option("--ota", help="ESP32: space for a second firmware, for updates over MQTT")]
Romfs = Annotated[bool, typer.Option("--romfs", help="modules go to the ROM file system of the firmware")]
console = Console()


@contextlib.contextmanager
def one_line():
    """Turns an error into one line and exit status 1."""
    try:
        yield
    except (ValueError, RuntimeError, OSError) as e:
        typer.echo(f"error: {visible(reason(e))}", err=True)  # it may name devices
        raise typer.Exit(1) from None


def make(board, firmware, sha256, config, ca=None, cert=None, key=None, flash_mb=None, ota=False, romfs=False):
    """The image for the board `board`. The configuration is checked first. ValueError with one line for any error."""
    chosen = variant(board)
    own = settings(config, ca, cert, key)
    return _composed(chosen, obtain(chosen, firmware, sha256), own, config, flash_mb, ota, romfs)


def make_bare(board, firmware, advice):
    """The image for Variant `board`, without a configuration. advice: how to name its firmware where it cannot be
    downloaded. ValueError with one line."""
    return _composed(board, obtain(board, firmware, advice=advice), {})


def _composed(chosen, content, own, config=None, flash_mb=None, ota=False, romfs=False):
    options = {}
    if chosen.family:
        from inflight_tools.boards.images.uf2 import Uf2Image as Image
        from inflight_tools.boards.images.uf2 import look

        if ota:
            raise ValueError(f"--ota is for an ESP32: the firmware of a {chosen.title} comes by cable only")
    else:
        from inflight_tools.boards.images.esp32 import FLASH_MB, look
        from inflight_tools.boards.images.esp32 import Esp32Image as Image

        if flash_mb not in (None, *FLASH_MB):
            raise ValueError(f"--flash-mb {flash_mb}: use one of {', '.join(map(str, FLASH_MB))}")
        options = {"flash_mb": flash_mb, "ota": ota}
    code, rom_size = look(chosen, content)
    files, slot, frozen = bundle.files(chosen.folder), {}, in_firmware(code)
    if ota and not frozen:  # as files it would fill the flash that two partitions for firmware leave
        files, slot = slots.divided(files)
    files, rom = placed(files, frozen, chosen.folder, rom_size if romfs else None)
    files |= slot
    if taken := own.keys() & files.keys():
        raise ValueError(f"{config}: {min(taken)} belongs to the application: write another path")
    return Image(chosen, content, files | own, rom=rom, **options)


def placed(files, frozen, folder, rom_size):
    """(those of the application's `files` that go to the file system, with their list for `make deploy`; the content of
    the ROM file system). frozen: what the firmware has. rom_size: bytes of the ROM file system; None: not used."""
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
    if files:
        files[RECORD] = json.dumps({path: sha(content) for path, content in files.items()}).encode()
    return files, rom


def say(text):
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def main(
    board: Board,
    firmware: Firmware = None,
    sha256: Sha256 = None,
    config: Config = Path("config.json"),
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    flash_mb: FlashMb = None,
    ota: Ota = False,
    romfs: Romfs = False,
    out: Annotated[Path | None, typer.Option(help="default: build/inflight-<board>.bin or .uf2")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print path, size and SHA-256 as JSON instead")] = False,
):
    """Writes the image of a bare board to a file. It contains the secrets of the configuration: only its owner may
    read it."""
    with one_line():
        made = make(board, firmware, sha256, config, ca, cert, key, flash_mb, ota, romfs)
        target = out or Path("build") / f"inflight-{board}{made.suffix}"
        content = made.file()
        write_private(target, content)
    if as_json:
        found = {
            "board": board,
            "path": str(target),
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        print(json.dumps(found))
        return
    for line in made.describe():
        say(line)
    say(f"{target}: {len(content):,} bytes")
