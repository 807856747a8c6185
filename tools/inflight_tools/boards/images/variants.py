"""The boards, as the file board.toml of each folder below boards/ tells, and what images are made for."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inflight_tools import toml
from inflight_tools.boards.build.native import PROCESSORS
from inflight_tools.sources import device_sources

_READERS = (("digital", "pin"), ("counter", "pin"), ("adc", "pin"), ("hx711", "data"))  # driver, field
_JOURNAL_KB = re.compile(r"^JOURNAL_KB = (\d+)", re.MULTILINE)
_READING = re.compile(r'\("(\w+)", "[^"]+", _')
KINDS = ("esp32", "uf2")  # of images; board_image makes them


@dataclass(frozen=True)
class Board:
    folder: str
    platform: str  # what sys.platform says there
    manifest: str  # what the stock firmware freezes
    port: str = ""  # MicroPython's
    image: str = ""  # one of KINDS
    variants: tuple["Variant", ...] = ()
    journal_kb: int = 0  # where no configuration tells another size, as board.py has it

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
    journal_kb: int  # of the Board
    firmware: str  # the pinned one, as MicroPython's download page names it
    sha256: str  # of that file
    bootloader: int = 0  # ESP32: where it lies in flash, and where firmware files begin
    family: int = 0  # UF2: which chip a block is for
    drive: str = ""  # UF2: the boot drive's label, and what its INFO_UF2.TXT calls the board
    title: str = ""  # what people, and esp-web-tools, call the chip or board
    processor: str = ""  # one of PROCESSORS; "": it gets bytecode alone
    pins: str = ""  # "0-22, 26-28": those that are free for sensors and actuators; "": nobody knows
    inputs: str = ""  # those of them that read, and cannot be set
    analog: str = ""  # those of them that measure a voltage
    analog_with_wifi: str = ""  # those of `analog` that measure while Wi-Fi is on; "": all
    wake: str = ""  # those of them that end a deep sleep; "": MicroPython has none
    readings: tuple[str, ...] = ()  # of the board itself

    def check_entry(self, entry: dict[str, Any], config: Any) -> None:
        """ValueError unless an entry of `sensors`, whose pins are right, works beside what else there is."""
        number = _number(entry.get("pin"))
        free = entry["driver"] == "adc" and config.wifi_ssid and self.analog_with_wifi
        if free and number is not None and number not in pin_numbers(free):
            raise ValueError(f"pin {number}: with Wi-Fi {self.title} measures at {free} alone")
        if entry.get("pull") and number in pin_numbers(self.inputs):
            raise ValueError(f"pull: the pins {self.inputs} of {self.title} have none: leave it out, add a resistor")

    def check_pin(self, number: Any, driver: str, field: str) -> None:
        """ValueError unless `field` of an entry with that driver, or the field wake_on_pin, may be the pin `number`, or
        its name."""
        if not self.pins:
            return
        if field == "wake_on_pin":
            if not self.wake:
                raise ValueError(f"MicroPython cannot wake {self.title} by a pin: leave it out")
            if number not in pin_numbers(self.wake):
                raise ValueError(f"the pins that wake {self.title} are {self.wake}, not {number}")
            return
        if isinstance(number, str):
            number = _number(number)
            if number is None:
                return  # a name that this board has
        if type(number) is not int or number not in pin_numbers(self.pins):
            raise ValueError(f"{field} {number}: the pins of {self.title} are {self.pins}")
        if driver == "adc" and number not in pin_numbers(self.analog):
            raise ValueError(f"{field} {number}: the analogue pins of {self.title} are {self.analog}")
        if number in pin_numbers(self.inputs) and (driver, field) not in _READERS:
            why = "have no pull-up resistor" if driver == "setup" else "can only be read"
            raise ValueError(f"{field} {number}: the pins {self.inputs} of {self.title} {why}")


def _number(pin: Any) -> int | None:
    """The number of a pin, or in its name; None: it has none."""
    digits = str(pin).upper().removeprefix("GP").removeprefix("IO")
    return int(digits) if digits.isdecimal() else None


def pin_numbers(text: str) -> set[int]:
    """The numbers in "0-5, 9"."""
    found: set[int] = set()
    for part in filter(None, text.split(", ")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _read(path: Path) -> Board:
    # ValueError, one line, if the file is wrong.
    folder = path.parent.name
    try:
        given = toml.read(path)
        image = given.get("image", "")
        code = path.with_name("board.py").read_text("utf-8")
        if not (kb := _JOURNAL_KB.search(code)):
            raise ValueError("board.py has no line JOURNAL_KB = 64, or another number")
        own: dict[str, Any] = {"folder": folder, "journal_kb": int(kb[1])}
        readings = tuple(_READING.findall(code))
        variants = tuple(Variant(**own, image=image, readings=readings, **one) for one in given.pop("variants", ()))
        board = Board(**own, variants=variants, **given)
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


def without_image() -> tuple[str, ...]:
    """The folders whose names are those of no variant: what is no image is made for them, too."""
    return tuple(folder for folder in boards() if folder not in names())


def variant(name: str) -> Variant:
    """The Variant `name`; ValueError with the names that there are."""
    if found := known(name):
        return found
    raise ValueError(f"no board {name}: --board takes {', '.join(names())}")


def processor(name: str) -> str:
    """The processor of the Variant of that name; "" of a folder, whose processor nobody knows."""
    return getattr(known(name), "processor", "")


def known(name: str) -> Variant | None:
    """The Variant of that name; None of a folder, whose boards differ."""
    return next((found for found in variants() if found.name == name), None)


def board(name: str) -> Board:
    """The Board of that folder, or of the Variant of that name. ValueError with the names that there are."""
    return boards().get(name) or boards()[variant(name).folder]
