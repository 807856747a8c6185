"""From a bare board to a publishing sensor: writes the image of a board through its port."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.boards.connected import INFO, board_id, find, mounted
from inflight_tools.boards.deploy import Birth
from inflight_tools.boards.images.board_image import WITHOUT, make
from inflight_tools.broker import broker_of_settings
from inflight_tools.output import failing, show
from inflight_tools.settings import CONFIG
from inflight_tools.visible import visible

_DRIVE_S = 20  # until a boot drive is mounted
_LOST = "undelivered messages in the board's journal"


def main(
    image: options.FlashOptions,
    port: options.PortOrDrive = None,
    erase: Annotated[bool, typer.Option("--erase", help=f"erase all of the flash first, {_LOST} too")] = False,
    broker: options.BrokerHere = None,
    wait: options.Wait = options.WAIT_S,
):
    """Writes firmware, application and settings to a board on a port or boot drive: the pinned MicroPython, unless
    --firmware names another. Without --board and --port it finds the connected board. Without a configuration the board
    opens its set-up; with one, the command succeeds when the broker has received its birth message."""
    with failing(), contextlib.ExitStack() as stack:
        chosen, port = find(image.board, port)
        made = make(**image.given(board=chosen.name))
        birth = None
        if not image.configuration:
            show(WITHOUT)
        elif wait:
            at = broker_of_settings({CONFIG: image.configuration.read_bytes()}, broker, image.tls)
            console = port if chosen.image == "esp32" else None
            birth = stack.enter_context(Birth(at, console, wait))
        {"esp32": _esp32, "uf2": uf2}[chosen.image](made, port, erase, birth.expect if birth else lambda identity: None)
        if birth:
            show("waiting for its birth message")
            device, fields = birth.wait()
            show(
                f"{visible(device)} is {visible(str(fields['state']))}, firmware {visible(str(fields.get('firmware')))}"
            )


# --- ESP32: all partitions but the journal ---


def _esp32(image, device, erase, expect):
    from inflight_tools.boards.images.esp32_port import Esp32Port

    if not device:
        raise ValueError("which port? --port /dev/ttyUSB0, for one; `mpremote devs` lists them")
    with Esp32Port(device, image.variant.name) as port:
        expect(port.identity)
        write(image, port, erase)


def write(image, port, erase):
    """Writes Esp32Image `image` through `port`. A journal on the board is kept, unless `erase`."""
    if (size := port.flash_size()) and size < image.flash_size:
        raise ValueError(
            f"the board has {size >> 20} MB of flash, the image is for {image.flash_size >> 20}: "
            f"--flash-mb {size >> 20}"
        )
    kept = 0 if erase else _journal_size(image, port)
    if erase:
        show("erasing all of the flash")
        port.erase()
    elif kept < image.journal.size:
        port.write(image.journal.offset, b"\xff" * (image.journal.size - kept))
    for what, address, content in image.pieces():
        show(f"writing {what}, {len(content) // 1024} KiB at 0x{address:06x}")
        port.write(address, content)
    port.restart()
    journal = f"its journal as it was, {kept // 1024} KiB" if kept else "an empty journal"
    show(f"done: the board starts, with {journal}")


def _journal_size(image, port):
    """Bytes of the board's journal if it is at the same place as in the image, or smaller and ends there: then it
    keeps its size; 0 if it has none. ValueError if it is elsewhere, or may be."""
    from inflight_tools.boards.images.esp32 import TABLE, TABLE_SIZE, files_hold_journal, read_table

    advice = f"--erase erases everything, {_LOST} too"
    try:
        table = read_table(port.read(TABLE, TABLE_SIZE), None)
    except ValueError as e:
        raise ValueError(f"on the board, {e}; {advice}") from None
    journal = table and table.find(image.journal.name)
    if table and not journal and files_hold_journal(table, port.read):
        raise ValueError(f"the board keeps its journal among its files: `inflight board deploy` keeps it; {advice}")
    if not journal:
        return 0
    mine = image.journal
    if journal.size > mine.size or journal.offset + journal.size != mine.offset + mine.size:
        raise ValueError(
            f"the board's journal is {journal.size // 1024} KiB at 0x{journal.offset:06x}, the image has "
            f"{mine.size // 1024} KiB at 0x{mine.offset:06x}: choose --flash-mb and journal_kb as they were; {advice}"
        )
    return journal.size


# --- RP2040, RP2350: a file for the boot drive ---


def uf2(image, port, erase, expect=lambda identity: None):
    drive = image.variant.drive
    if port and not Path(port).is_dir():
        if not erase:
            raise ValueError(
                f"a UF2 file replaces the board's file system, with {_LOST}: `inflight board deploy` keeps them, "
                "--erase goes ahead"
            )
        _into_boot_program(port)
        port = _wait_for(drive)
    port = port or mounted(drive)
    if not port:
        raise ValueError(
            f"no boot drive: hold the board's BOOTSEL button while you connect it, mount the drive {drive}, "
            "and name it with --port"
        )
    if (found := board_id(Path(port))) != drive:
        raise ValueError(f"the board on {Path(port)} is an {found}, not an {drive}: name the right one with --board")
    if not erase:
        show(f"note: this replaces the board's file system, with {_LOST}; `inflight board deploy` keeps them")
    expect(lambda: None)
    content = image.file()
    show(f"writing {len(content) // 1024} KiB to {port}")
    _copy(content, Path(port))
    show("done: the board starts, with an empty journal")


def _into_boot_program(port):
    if port.startswith("/") and not os.path.exists(port):
        raise ValueError(f"no port {port}: is the board connected? `mpremote devs` lists the ports")
    command = [sys.executable, "-m", "mpremote", "connect", port, "bootloader"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["no answer"]
        raise ValueError(f"{port}: {reason[0]}: hold BOOTSEL while you connect the board, and name its drive")


def _wait_for(label):
    end = time.monotonic() + _DRIVE_S
    while time.monotonic() < end:
        if found := mounted(label):
            return found
        time.sleep(0.2)
    raise ValueError(f"the board is in its boot program: mount the drive {label}, and name it with --port")


def _copy(content, drive):
    with open(drive / "inflight.uf2", "wb") as file:
        file.write(content)
        file.flush()
        try:
            os.fsync(file.fileno())
        except OSError:
            # The board restarts after the last block, so its drive disappears before the system has finished writing.
            if drive.is_dir() and (drive / INFO).exists():
                raise
