"""Writes what can be frozen into a firmware: there the code is executed in flash, and needs no heap."""

from pathlib import Path
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.boards import frozen
from inflight_tools.boards.build import bundle, native
from inflight_tools.boards.build.loading import PACKAGE
from inflight_tools.boards.images import variants
from inflight_tools.output import failing, show

_MODULES = "modules"  # the folder of the sources, beside the manifest
_HEAD = "# MicroPython's build takes it: make FROZEN_MANIFEST=<this file>\n"
_HEAD_LIBRARY = (
    "# Beside what the port freezes itself: include() this from a manifest of yours, or freeze for a board.\n"
)


def main(
    folder: Annotated[Path, typer.Argument(help="is made if it is missing; its files are replaced")] = Path(
        "build/frozen"
    ),
    board: options.AnyBoardOrNone = None,
    application: Annotated[bool, typer.Option("--application", help="the firmware's application as well")] = False,
    bytecode: options.Bytecode = False,
):
    """Writes modules and a manifest for a firmware of your own: the library, or the whole application. With --board the
    manifest freezes all of the stock firmware of that board, too, and byte loops become machine code: MicroPython's
    build knows for which processor."""
    with failing():
        stock = board and variants.board(board).folder
        if application and not stock:
            raise ValueError("the application is that of a board: name it with --board")
        loops = bool(board and not bytecode and variants.processor(board))
        show(f"{write(folder, stock, application, loops)}")


def write(folder, board=None, application=False, loops=False):
    """Writes the library, for board folder `board` also the manifest of its stock firmware, and the whole application
    if asked, into `folder`. loops: as viper functions. Returns the path of the manifest."""
    found = bundle.modules(board or "unix")
    stamp = frozen.of(found, board if application else "")
    if application:
        found["built"] = bundle.built()
    else:
        found = {place: text for place, text in found.items() if place.startswith(f"{PACKAGE}/")}
    found[frozen.MODULE] = f'FROZEN = "{stamp}"\n'
    for place, text in found.items():
        path = folder / _MODULES / f"{place}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((loops and native.viper(text)) or text, "utf-8")
    manifest = folder / "manifest.py"
    manifest.write_text(_manifest(found, board), "utf-8")
    return manifest


def _manifest(found, board):
    # Each file by its name: the folder may have files of an earlier release.
    lines = "".join(f'    "{place}.py",\n' for place in sorted(found))
    own = f'\nfor name in (\n{lines}):\n    module(name, base_path="{_MODULES}", opt=3)\n'
    return _HEAD + "\n" + variants.board(board).manifest + own if board else _HEAD_LIBRARY + own
