"""Which boards are connected to this computer."""

import os
import string
from pathlib import Path

from serial.tools import list_ports

from inflight_tools.boards.images.variants import names, variant, variants

_INFO = "INFO_UF2.TXT"  # on every boot drive
_PICO = 0x2E8A  # of USB: a Pico that runs


def find(board, port):
    """(Variant, port): what `board` and `port` name, and if one is None what is connected; None for a port that nobody
    needs to name yet. ValueError with what to name."""
    chosen = variant(board) if board else None
    if not port:
        port = _only_port(chosen)
    return chosen or _variant_at(port), port


def _only_port(chosen):
    drives = [mounted(one.drive) for one in variants() if one.drive and chosen in (None, one)]
    serial = [
        found.device
        for found in list_ports.comports()
        if found.vid is not None and (not chosen or (chosen.image == "esp32" and found.vid != _PICO))
    ]
    found = [str(drive) for drive in drives if drive] + serial
    if len(found) > 1:
        raise ValueError(f"which board? There are {', '.join(found)}: name one with --port")
    if not found and not chosen:
        raise ValueError(
            "no board: connect one, a Pico while you hold its BOOTSEL button; or name it with --board and --port"
        )
    return found[0] if found else None


def _variant_at(port):
    if Path(port).is_dir():
        name = board_id(Path(port))
        known = {one.drive: one for one in variants() if one.drive}
        if name not in known:
            raise ValueError(f"the board on {port} is an {name}: --board takes {', '.join(names())}")
        return known[name]
    if any(found.device == port and found.vid == _PICO for found in list_ports.comports()):
        raise ValueError(f"the board on {port} is a Pico: --board pico_w, or another one of {', '.join(names())}")
    from inflight_tools.boards.images.esp32_port import chip_on

    name = chip_on(port)
    found = next((one for one in variants() if one.image == "esp32" and one.title == name), None)
    if not found:
        raise ValueError(f"the board on {port} is an {name}: --board takes {', '.join(names())}")
    return found


def board_id(drive):
    """What the board of a boot drive calls itself. ValueError if it is none."""
    info = drive / _INFO
    if not info.is_file():
        raise ValueError(f"{drive} is no boot drive: it has no {_INFO}")
    lines = info.read_text(errors="replace").splitlines()
    return next((line[9:].strip() for line in lines if line.startswith("Board-ID:")), "unknown")


def mounted(label):
    """The path at which the drive `label` is mounted, or None."""
    if os.name == "nt":  # a drive letter says nothing: identify the drive by its files
        drives = [Path(f"{letter}:/") for letter in string.ascii_uppercase[3:]]
        return next((drive for drive in drives if (drive / _INFO).is_file()), None)
    for place in ("/media", "/run/media", "/Volumes"):
        for found in (*Path(place).glob(label), *Path(place).glob(f"*/{label}")):
            return found
    return None
