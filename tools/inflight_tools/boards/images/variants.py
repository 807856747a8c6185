"""The boards, as the file board.toml of each folder below boards/ tells, and what images are made for."""

import functools
from dataclasses import dataclass
from pathlib import Path

from inflight_tools import toml
from inflight_tools.boards.native import PROCESSORS
from inflight_tools.sources import device_sources

KINDS = ("esp32", "uf2")  # of images; board_image makes them


@dataclass(frozen=True)
class Board:
    folder: str
    platform: str  # what sys.platform says there
    manifest: str  # what the stock firmware freezes
    port: str = ""  # MicroPython's
    image: str = ""  # one of KINDS
    variants: tuple["Variant", ...] = ()

    @property
    def processors(self) -> tuple[str, ...]:
        """Those of its variants, each once."""
        return tuple(dict.fromkeys(one.processor for one in self.variants))


@dataclass(frozen=True)
class Variant:
    """A chip or board that images are made for. It decides firmware and addresses."""

    name: str  # what --board says; of an ESP32 also how its chip is called
    folder: str
    image: str
    firmware: str  # the pinned one, as MicroPython's download page names it
    sha256: str  # of that file
    bootloader: int = 0  # ESP32: where it lies in flash, and where firmware files begin
    family: int = 0  # UF2: which chip a block is for
    drive: str = ""  # UF2: the boot drive's label, and what its INFO_UF2.TXT calls the board
    title: str = ""  # what people, and esp-web-tools, call the chip or board
    processor: str = ""  # one of PROCESSORS; "": it gets bytecode alone


def _read(path: Path) -> Board:
    # ValueError, one line, if the file is wrong.
    folder = path.parent.name
    try:
        given = toml.read(path)
        image = given.get("image", "")
        variants = tuple(Variant(folder=folder, image=image, **one) for one in given.pop("variants", ()))
        board = Board(folder=folder, variants=variants, **given)
    except (ValueError, TypeError) as e:
        raise ValueError(f"{path}: {e}: see boards/esp32/board.toml") from None
    if bool(image) != bool(variants) or image not in ("", *KINDS):
        raise ValueError(f"{path}: image: write one of {', '.join(KINDS)} for its variants, or neither")
    if unknown := {*board.processors} - {*PROCESSORS}:
        wanted = ", ".join(PROCESSORS[1:])
        raise ValueError(f"{path}: processor {unknown.pop()!r}: write one of {wanted}, or leave the line out")
    return board


@functools.cache
def boards() -> dict[str, Board]:
    """{folder: Board} of all boards. ValueError, one line, if a file is wrong."""
    found = map(_read, sorted(device_sources().boards.glob("*/board.toml")))
    return {board.folder: board for board in found}


def variants() -> tuple[Variant, ...]:
    """All that images are made for."""
    return tuple(variant for board in boards().values() for variant in board.variants)


def names() -> tuple[str, ...]:
    return tuple(variant.name for variant in variants())


def variant(name: str) -> Variant:
    """The Variant `name`; ValueError with the names that there are."""
    for found in variants():
        if found.name == name:
            return found
    raise ValueError(f"no board {name}: --board takes {', '.join(names())}")


def processor(name: str) -> str:
    """The processor of the Variant of that name; "" of a folder, whose processor nobody knows."""
    return next((found.processor for found in variants() if found.name == name), "")


def board(name: str) -> Board:
    """The Board of that folder, or of the Variant of that name. ValueError with the names that there are."""
    return boards().get(name) or boards()[variant(name).folder]
