"""Firmware that a person built for a Pico W, with modules of Inflight frozen in: PICOW_UF2 names the files, separated
as in PATH. Its hash is not known beforehand, so whoever runs it says what it is."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from dev.pico_w import sensor
from inflight_tools.boards.bundle import files
from inflight_tools.boards.frozen import Frozen, in_firmware
from inflight_tools.boards.images.uf2 import look
from inflight_tools.boards.images.variants import variant

NONE = "PICOW_UF2 names no firmware of your own: build one with what `make freeze BOARD=pico_w` writes"


@dataclass(frozen=True)
class Own:
    """The firmware in the file `path`, with the modules `frozen` in it."""

    path: Path
    sha256: str
    frozen: Frozen

    def __str__(self):
        return f"{self.path.name}, {self.frozen.what} frozen, SHA-256 {self.sha256}"

    def files(self):
        """{absolute path: content} of the application that it has not frozen in."""
        return self.frozen.left(files(sensor.BOARD), sensor.BOARD)


def firmware():
    """A list of the Own that PICOW_UF2 names. ValueError, one line, if one of them is of no use."""
    return [_own(Path(name)) for name in os.environ.get("PICOW_UF2", "").split(os.pathsep) if name]


def _own(path):
    if not path.is_file():
        raise ValueError(f"PICOW_UF2: no file {path}")
    content = path.read_bytes()
    try:
        code, _ = look(variant("pico_w"), content)
        frozen = in_firmware(code)
        if not frozen:
            raise ValueError("it has no modules of Inflight frozen in")
        frozen.left({}, sensor.BOARD)
    except ValueError as e:
        raise ValueError(f"PICOW_UF2: {path}: {e}") from None
    return Own(path, hashlib.sha256(content).hexdigest(), frozen)
