"""Firmware that a person built for a Pico W, with modules of Inflight frozen in or with a ROM file system for them:
PICOW_UF2 names the files, separated as in PATH. Its hash is not known beforehand, so whoever runs it says which it is.
"""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from inflight_tools.boards.build.bundle import files
from inflight_tools.boards.device.files import RECORD
from inflight_tools.boards.frozen import Frozen, in_firmware
from inflight_tools.boards.images.board_image import make, placed
from inflight_tools.boards.images.uf2 import look
from inflight_tools.boards.images.variants import variant
from tools.emulators.pico_w import sensor
from tools.emulators.pico_w.board import Board

NONE = "PICOW_UF2 names no firmware of your own: docs/boards.md tells how to build one"
_VARIANT = "pico_w"


@dataclass(frozen=True)
class Own:
    """The firmware in the file `path`, with the modules `frozen` in it, or else a ROM file system of `rom` bytes."""

    path: Path
    sha256: str
    frozen: Frozen | None
    rom: int | None

    @property
    def what(self):
        """What it has of the application."""
        return f"{self.frozen.what} frozen" if self.frozen else "modules in ROM"

    def __str__(self):
        return f"{self.path.name}, {self.what}, SHA-256 {self.sha256}"

    def files(self):
        """{absolute path: content} of the application that lies in the file system."""
        found, _ = placed(files(sensor.BOARD), self.frozen, sensor.BOARD, self.rom)
        found.pop(RECORD, None)
        return found

    def image(self, config):
        """The bytes of what `inflight board image` makes of it, with `config` (bytes)."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "config.json")
            path.write_bytes(config)
            return make(_VARIANT, self.path, self.sha256, path, romfs=self.rom is not None).file()

    def board(self, config):
        """A Board with that image."""
        with tempfile.NamedTemporaryFile(suffix=".uf2") as image:
            image.write(self.image(config))
            image.flush()
            return Board(uf2=Path(image.name))


def firmware():
    """A list of the Own that PICOW_UF2 names. ValueError, one line, if one of them is of no use."""
    return [_own(Path(name)) for name in os.environ.get("PICOW_UF2", "").split(os.pathsep) if name]


def _own(path):
    if not path.is_file():
        raise ValueError(f"PICOW_UF2: no file {path}")
    content = path.read_bytes()
    try:
        code, rom = look(variant(_VARIANT), content)
        if frozen := in_firmware(code):
            frozen.left({}, sensor.BOARD)
        elif not rom:
            raise ValueError("it has neither modules of Inflight frozen in nor a ROM file system")
    except ValueError as e:
        raise ValueError(f"PICOW_UF2: {path}: {e}") from None
    return Own(path, hashlib.sha256(content).hexdigest(), frozen, None if frozen else rom)
