"""Which boards are connected to this computer."""

import os
import string
from pathlib import Path

from serial.tools import list_ports

from inflight_tools.boards.device.files import identify
from inflight_tools.boards.images.variants import board as board_of
from inflight_tools.boards.images.variants import boards, names, variant, variants

INFO = "INFO_UF2.TXT"  # on every boot drive
_PICO = 0x2E8A  # of USB: a Pico that runs


def find(board, port):
    """(Variant, port) to flash: what `board` and `port` name, and if one is None what is connected; None for a port
    that nobody needs to name yet. ValueError with what to name."""
    chosen = variant(board) if board else None
    if not port:
        port = _only_port(chosen)
    return chosen or _variant_at(port), port


def _only_port(chosen):
    drives = [mounted(one.drive) for one in variants() if one.drive and chosen in (None, one)]
    serial = [] if chosen and chosen.image == "uf2" else _serial_ports(chosen)
    found = _only([str(drive) for drive in drives if drive] + serial)
    if not found and not chosen:
        raise ValueError(
            "no board: connect one, a Pico while you hold its BOOTSEL button; or name it with --board and --port"
        )
    return found


def running_port(board=None):
    """The serial port of the board that is connected and runs, one that `board` names or any. ValueError with what to
    name."""
    found = _only(_serial_ports(board_of(board) if board else None))
    if not found:
        raise ValueError("no board on a port of USB: connect it, or name its port with --port")
    return found


def running_board(link):
    """What --board says of the board at the other end of `link`, a Link. ValueError if there is no such board."""
    told = identify(link)
    machine = _plain(told.machine)
    fitting = [one for one in variants() if boards()[one.folder].platform == told.platform]
    named = [one for one in fitting if _plain(one.title) in machine]
    if named:  # "ESP32" is in the names of all its successors
        return max(named, key=lambda one: len(one.title)).name
    if folders := [folder for folder, one in boards().items() if one.platform == told.platform]:
        return folders[0]
    raise ValueError(f"the board is {told.machine}, with {told.platform}: --board takes {', '.join(names())}")


def _plain(text):
    return "".join(filter(str.isalnum, text.lower()))


def _serial_ports(chosen):
    """Those of USB that may be of a board: of `chosen`, a Board or Variant; None: of any."""
    return [
        found.device
        for found in list_ports.comports()
        if found.vid is not None and (not chosen or chosen.image == ("uf2" if found.vid == _PICO else "esp32"))
    ]


def _only(found):
    if len(found) > 1:
        raise ValueError(f"which board? There are {', '.join(found)}: name one with --port")
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
    info = drive / INFO
    if not info.is_file():
        raise ValueError(f"{drive} is no boot drive: it has no {INFO}")
    lines = info.read_text(errors="replace").splitlines()
    return next((line[9:].strip() for line in lines if line.startswith("Board-ID:")), "unknown")


def mounted(label):
    """The path at which the drive `label` is mounted, or None."""
    if os.name == "nt":  # a drive letter says nothing: identify the drive by its files
        drives = [Path(f"{letter}:/") for letter in string.ascii_uppercase[3:]]
        return next((drive for drive in drives if (drive / INFO).is_file()), None)
    for place in ("/media", "/run/media", "/Volumes"):
        for found in (*Path(place).glob(label), *Path(place).glob(f"*/{label}")):
            return found
    return None
